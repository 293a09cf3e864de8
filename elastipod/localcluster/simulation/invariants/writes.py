"""Writes that say whom they mean, why, and come from one leader."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from elastipod.clock import from_rfc3339
from elastipod.kube.calls import Verb
from elastipod.kube.resources import AUTOSCALERS, DEPLOYMENTS, EVENTS, LEASES, PODS, REPLICA_SETS
from elastipod.localcluster.api.kinds import kind_of
from elastipod.localcluster.api.store import Entry, Store
from elastipod.localcluster.simulation.invariants import OURS, Invariant, Violation, World
from elastipod.localcluster.simulation.trace import Write
from elastipod.reasons import Reason

_EVICTING: Final = ("Recreate", "Auto", "InPlaceOrRecreate")
_LEASE_SECONDS: Final = 15.0
_REASONS: Final = frozenset(reason.value for reason in Reason)


class PodsAreMeantByUid(Invariant):
    """I5: what is written to a pod names its UID, so that it can not reach a namesake."""

    name = "I5"

    def after_write(self, world: World, write: Write, /) -> Iterable[Violation]:
        if write.part not in OURS or write.call.resource is not PODS or not write.is_accepted:
            return
        named = _named_uid(write)
        has = None if write.before is None else write.before.json["metadata"]["uid"]
        if named is None:
            yield self.broken(world, _thing(write), f"{write.actor} wrote to {has} without naming its UID")
        elif named != has:
            yield self.broken(world, _thing(write), f"{write.actor} meant {named} and reached {has}")


class EvictionsAreAllowed(Invariant):
    """I6: only a policy that names evictions brings them about; budgets are the API server's to hold."""

    name = "I6"

    def after_write(self, world: World, write: Write, /) -> Iterable[Violation]:
        is_eviction = write.call.subresource == "eviction" or (
            write.call.verb is Verb.DELETE and write.call.resource is PODS
        )
        if write.part not in OURS or not is_eviction or not write.is_accepted or write.before is None:
            return
        modes = [
            (entry.json["spec"].get("updatePolicy") or {}).get("updateMode", "Auto")
            for entry in world.store.of_kind(kind_of(AUTOSCALERS), write.before.namespace)
            if speaks_of(world.store, entry.json, write.before)
        ]
        if not any(mode in _EVICTING for mode in modes):
            yield self.broken(world, _thing(write), f"{write.actor} evicted it under modes {modes}")


class ReasonsAreNamed(Invariant):
    """I8: what a part tells people has a reason of the enum."""

    name = "I8"

    def after_write(self, world: World, write: Write, /) -> Iterable[Violation]:
        if write.part not in OURS or write.call.resource is not EVENTS or not write.is_accepted or not write.after:
            return
        reason = write.after.json.get("reason", "")
        if reason not in _REASONS:
            yield self.broken(world, _thing(write), f"{write.actor} gave the reason {reason!r}, which is none of ours")


class OneLeaderWrites(Invariant):
    """I12: whoever writes holds the part's Lease, and holds it still."""

    name = "I12"

    def __init__(self, elected: Iterable[str]) -> None:
        self._elected = frozenset(elected)

    def after_write(self, world: World, write: Write, /) -> Iterable[Violation]:
        if write.part not in self._elected or write.call.resource is LEASES or write.code:
            return
        leases = [entry for entry in world.store.of_kind(kind_of(LEASES)) if entry.name == f"elastipod-{write.part}"]
        holder, left = "", 0.0
        if leases:
            spec = leases[0].json["spec"]
            holder = spec.get("holderIdentity") or ""
            left = from_rfc3339(spec["renewTime"]) + _LEASE_SECONDS - world.unix_now()
        if holder != write.actor or left <= 0:
            told = f"{write.actor} wrote while {holder or 'nobody'} held the lease, {left:.1f} s left"
            yield self.broken(world, _thing(write), told)


def _named_uid(write: Write) -> str | None:
    try:
        body = msgspec.json.decode(write.call.body) if write.call.body else {}
    except msgspec.DecodeError:
        return None
    if isinstance(body, list):
        tests = [one.get("value") for one in body if one.get("op") == "test" and one.get("path") == "/metadata/uid"]
        return tests[0] if tests else None
    if write.call.verb is Verb.PATCH:
        return _text(body, "metadata", "uid")
    return _text(body, "deleteOptions", "preconditions", "uid") or _text(body, "preconditions", "uid")


def _text(body: Any, *path: str) -> str | None:
    for name in path:
        body = body.get(name) if isinstance(body, Mapping) else None
    return body if isinstance(body, str) else None


def speaks_of(store: Store, autoscaler: Mapping[str, Any], pod: Entry) -> bool:
    """Whether an autoscaler is about a pod."""
    target = autoscaler["spec"].get("targetRef") or {}
    owners = {(pod.json["metadata"].get("name"), "Pod")}
    for owner in pod.json["metadata"].get("ownerReferences") or ():
        owners.add((owner["name"], owner["kind"]))
        if owner["kind"] == REPLICA_SETS.kind:
            found = store.get(kind_of(REPLICA_SETS), pod.namespace, owner["name"])
            above = (found.json["metadata"].get("ownerReferences") or ()) if found is not None else ()
            owners |= {(one["name"], DEPLOYMENTS.kind) for one in above}
    return (target.get("name"), target.get("kind")) in owners


def _thing(write: Write) -> str:
    return f"{write.call.resource.plural} {write.call.namespace}/{write.call.name}"
