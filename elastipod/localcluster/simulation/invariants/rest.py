"""I9: once the wishes and the faults have ended, the world is as wished and stays so.

Owns telling a write that should not be from one that a late wish brings about. A recommendation is a wish: one that
still moves, as its history grows, may still be followed, and a pod that came late takes its size late.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from elastipod.clock import from_rfc3339
from elastipod.kube.resources import AUTOSCALERS, CHECKPOINTS, ELASTIC_NODES, EVENTS, LEASES, PODS
from elastipod.localcluster.api.store import Entry, Store
from elastipod.localcluster.simulation.invariants import OURS, Violation
from elastipod.localcluster.simulation.invariants.writes import speaks_of
from elastipod.localcluster.simulation.trace import Write

_KEPT_UP: Final = (LEASES, CHECKPOINTS, EVENTS, ELASTIC_NODES)
"""Leases, saved histories and heartbeats are kept up while nothing moves."""
_FOLLOWED_WITHIN_SECONDS: Final = 300.0
"""The updater stands off for up to 300 s where memory was raised on a spike, and then shrinks in steps."""


def restless_writes(store: Store, writes: Sequence[Write], quiet_from: float, epoch: float) -> Iterable[Violation]:
    """What was written although nothing called for it; `epoch` is the Unix time at which the run began."""
    ours = [write for write in writes if write.part in OURS and write.call.resource not in _KEPT_UP]
    for write in ours:
        if write.at >= quiet_from and not _is_called_for(store, write, ours, epoch):
            thing = f"{write.call.resource.plural} {write.call.namespace}/{write.call.name}"
            yield Violation("I9", write.at, thing, f"{write.actor} still writes: {write.call.body[:300]!r}")


def _is_called_for(store: Store, write: Write, ours: Sequence[Write], epoch: float) -> bool:
    if write.call.resource is AUTOSCALERS:
        return bool(_recommended(write.before) != _recommended(write.after))
    if write.call.resource is not PODS or write.before is None:
        return False
    pod = write.before
    born_at = from_rfc3339(pod.json["metadata"]["creationTimestamp"]) - epoch
    return write.at - born_at < _FOLLOWED_WITHIN_SECONDS or any(
        speaks_of(store, wish.json, pod) for wish in _wishes(ours, write.at) if wish.namespace == pod.namespace
    )


def _wishes(ours: Sequence[Write], at: float) -> Iterator[Entry]:
    """Autoscalers whose recommendation moved a short while before."""
    for write in ours:
        is_wish = write.call.resource is AUTOSCALERS and at - _FOLLOWED_WITHIN_SECONDS <= write.at <= at
        if is_wish and write.after is not None and _recommended(write.before) != _recommended(write.after):
            yield write.after


def _recommended(entry: Entry | None) -> Any:
    return None if entry is None else (entry.json.get("status") or {}).get("recommendation")
