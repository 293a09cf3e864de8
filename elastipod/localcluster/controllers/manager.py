"""The controllers at work: what changed is looked at, what is decided is done.

Owns the watches, the queue and the writes. What is to be done about an object is decided by its kind's module.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from elastipod.backoff import Backoff
from elastipod.clock import Clock, to_rfc3339
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.decoding import BadObject
from elastipod.kube.errors import Conflict, KubeError, NotFound
from elastipod.kube.events import Subject
from elastipod.kube.reflector import Reflector
from elastipod.kube.resources import (
    DEPLOYMENTS,
    JOBS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ResourceType,
)
from elastipod.localcluster.controllers import budgets, deployments, jobs, replicasets, statefulsets
from elastipod.localcluster.controllers.actions import (
    Action,
    Create,
    Decision,
    Delete,
    Json,
    Patch,
    controller_uid,
    is_ending,
    name_of,
)
from elastipod.localcluster.node.recorder import Recorder
from elastipod.localcluster.waking import wait_for_wake
from elastipod.telemetry import get_logger

log = get_logger(__name__)

_KINDS: Final = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, JOBS, POD_DISRUPTION_BUDGETS)
_AFTER_FAILURE: Final = Backoff(first_seconds=0.5, most_seconds=60.0)
_PERIODIC_SECONDS: Final = 300.0

Key = tuple[str, str]
"""Plural and `namespace/name`."""


class Controllers:
    """All controllers of a local cluster. `run()` for ever, or `step()` by step."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self.wake = asyncio.Event()
        self._connection = connection
        self._clock = clock
        self._recorder = Recorder(connection, clock, "controllers")
        self._dirty: dict[Key, None] = {}
        self._due: dict[Key, float] = {}
        self._failures: dict[Key, int] = {}
        self._made: dict[Key, Json] = {}
        """What was created and is not seen yet."""
        self._gone: set[str] = set()
        """UIDs of what was deleted and is still seen."""
        self._owned: dict[tuple[str, str], dict[str, None]] = {}
        """Names of what is seen, by kind and the UID of its controller."""
        self._reflectors = {
            kind.plural: Reflector(connection, kind, decode_json, clock, on_change=self._seer(kind))
            for kind in (*_KINDS, PODS)
        }

    async def run(self) -> None:
        """Keep every workload as it states, for ever."""
        watches = [asyncio.create_task(one.run(), name="controllers watch") for one in self._reflectors.values()]
        try:
            while True:
                self.wake.clear()
                await self.step()
                now = self._clock.now()
                due = min(self._due.values(), default=now + _PERIODIC_SECONDS)
                if self._dirty:
                    continue
                await wait_for_wake(self.wake, self._clock, min(max(due - now, 0.01), _PERIODIC_SECONDS))
        finally:
            for task in watches:
                task.cancel()
            await asyncio.gather(*watches, return_exceptions=True)

    async def step(self) -> None:
        """Look at everything that changed or is due."""
        if not all(one.synced for one in self._reflectors.values()):
            return
        now = self._clock.now()
        for key, at in list(self._due.items()):
            if at <= now:
                del self._due[key]
                self._dirty[key] = None
        keys, self._dirty = list(self._dirty), {}
        for key in keys:
            try:
                await self._reconcile(key)
                self._failures.pop(key, None)
            except KubeError as error:
                failures = self._failures[key] = self._failures.get(key, 0) + 1
                self._due[key] = self._clock.now() + _AFTER_FAILURE.delay_seconds(failures)
                log.warning("workload not brought on", kind=key[0], name=key[1], error=str(error))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                # An odd object costs itself only.
                log.warning("workload not understood", kind=key[0], name=key[1], error=repr(error))

    async def _reconcile(self, key: Key) -> None:
        plural, name = key
        json = self._reflectors[plural].items.get(name)
        if json is None:
            return
        decision = self._decide(plural, json)
        if decision.look_again_at is not None:
            self._due[key] = decision.look_again_at
        for action in decision.actions:
            await self._act(action, plural, json)

    def _decide(self, plural: str, json: Json) -> Decision:
        now = self._clock.now()
        if plural == DEPLOYMENTS.plural:
            return deployments.decide(json, self._owned_by(REPLICA_SETS, json), to_rfc3339(now))
        if plural == POD_DISRUPTION_BUDGETS.plural:
            return budgets.decide(json, self._in(PODS, json["metadata"]["namespace"]), self._expected_of, now)
        pods = self._owned_by(PODS, json)
        if plural == REPLICA_SETS.plural:
            return replicasets.decide(json, pods)
        if plural == STATEFUL_SETS.plural:
            return statefulsets.decide(json, pods)
        return jobs.decide(json, pods, now)

    async def _act(self, action: Action, plural: str, owner: Json) -> None:
        match action:
            case Create(resource, body):
                await self._create(resource, body, plural, owner)
            case Delete(resource, json):
                meta = json["metadata"]
                if meta["uid"] in self._gone or is_ending(json):
                    return
                options = msgspec.json.encode({"preconditions": {"uid": meta["uid"]}})
                self._gone.add(meta["uid"])
                try:
                    await self._connection.delete(resource, meta["namespace"], meta["name"], body=options)
                except (NotFound, Conflict):
                    return
                except KubeError:
                    self._gone.discard(meta["uid"])
                    raise
                text = f"Deleted {resource.kind.lower()}: {meta['name']}"
                await self._recorder.normal(_subject(owner, plural), "SuccessfulDelete", text)
            case Patch(resource, json, body, subresource):
                meta = json["metadata"]
                patch = msgspec.json.encode({**body, "metadata": {**body.get("metadata", {}), "uid": meta["uid"]}})
                try:
                    await self._connection.patch(
                        resource,
                        meta["namespace"],
                        meta["name"],
                        patch,
                        patch_type=PatchType.MERGE,
                        subresource=subresource,
                    )
                except NotFound:
                    return

    async def _create(self, resource: ResourceType, body: Json, plural: str, owner: Json) -> None:
        meta = body["metadata"]
        try:
            raw = await self._connection.create(resource, meta["namespace"], msgspec.json.encode(body))
        except Conflict:
            # Made already by a request whose answer was lost, or its name is still held by one that goes.
            raise
        except KubeError as error:
            text = f"Error creating: {error}"
            await self._recorder.warning(_subject(owner, plural), "FailedCreate", text)
            raise
        key = (resource.plural, f"{meta['namespace']}/{meta['name']}")
        if key[1] not in self._reflectors[resource.plural].items:
            self._made[key] = decode_json(raw)
        text = f"Created {resource.kind.lower()}: {meta['name']}"
        await self._recorder.normal(_subject(owner, plural), "SuccessfulCreate", text)

    def _in(self, resource: ResourceType, namespace: str) -> Iterable[Json]:
        """All objects of a kind in a namespace, less what was just deleted, plus what was just made."""
        seen = self._reflectors[resource.plural].items
        return self._as_is(resource, [one for one in seen.values() if one["metadata"]["namespace"] == namespace])

    def _owned_by(self, resource: ResourceType, owner: Json) -> Iterable[Json]:
        """What an object controls, as `_in`; and what was just made, whoever controls it."""
        seen = self._reflectors[resource.plural].items
        names = self._owned.get((resource.plural, owner["metadata"]["uid"]), {})
        return self._as_is(resource, [seen[name] for name in names])

    def _as_is(self, resource: ResourceType, found: Iterable[Json]) -> Iterable[Json]:
        seen = self._reflectors[resource.plural].items
        for json in found:
            ended = json["metadata"]["uid"] in self._gone and not is_ending(json)
            yield {**json, "metadata": {**json["metadata"], "deletionTimestamp": "pending"}} if ended else json
        for (plural, name), json in self._made.items():
            if plural == resource.plural and name not in seen:
                yield json

    def _expected_of(self, pod: Json) -> int:
        """How many pods the controller of a pod means to have."""
        uid = controller_uid(pod)
        for kind in (REPLICA_SETS, STATEFUL_SETS, JOBS):
            for json in self._reflectors[kind.plural].items.values():
                if json["metadata"]["uid"] == uid:
                    return int(json["spec"].get("replicas", json["spec"].get("parallelism", 1)))
        return 1

    def _seer(self, kind: ResourceType) -> Callable[[str, Json | None, Json | None], None]:
        def see(name: str, old: Json | None, new: Json | None) -> None:
            self._made.pop((kind.plural, name), None)
            if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
                self._gone.discard(old["metadata"]["uid"])
            if kind is not PODS:
                self._dirty[kind.plural, name] = None
            self._note_owner(kind, name, old, new)
            for json in (old, new):
                if json is not None:
                    self._touch_owner(json)
            if kind is PODS or kind in (REPLICA_SETS, STATEFUL_SETS):
                self._touch_budgets((new or old or {})["metadata"]["namespace"])
            self.wake.set()

        return see

    def _note_owner(self, kind: ResourceType, name: str, old: Json | None, new: Json | None) -> None:
        before, after = (None if json is None else controller_uid(json) for json in (old, new))
        if before is not None and before != after:
            names = self._owned.get((kind.plural, before), {})
            names.pop(name, None)
            if not names:
                self._owned.pop((kind.plural, before), None)
        if after is not None:
            self._owned.setdefault((kind.plural, after), {})[name] = None

    def _touch_owner(self, json: Json) -> None:
        for reference in json["metadata"].get("ownerReferences") or ():
            for kind in _KINDS:
                if reference.get("controller") and reference.get("kind") == kind.kind:
                    self._dirty[kind.plural, f"{json['metadata']['namespace']}/{reference['name']}"] = None

    def _touch_budgets(self, namespace: str) -> None:
        for name, json in self._reflectors[POD_DISRUPTION_BUDGETS.plural].items.items():
            if json["metadata"]["namespace"] == namespace:
                self._dirty[POD_DISRUPTION_BUDGETS.plural, name] = None


def decode_json(raw: bytes | msgspec.Raw) -> Json:
    """An object as it came. Raises BadObject."""
    try:
        json: Json = msgspec.json.decode(raw, type=dict)
        if not json["metadata"]["uid"] or not json["metadata"]["name"]:
            raise BadObject("an object without a name or UID")
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise BadObject(str(error)) from None
    return json


def _subject(owner: Json, plural: str) -> Subject:
    kind = next(one for one in _KINDS if one.plural == plural)
    meta = owner["metadata"]
    return Subject(kind.kind, meta["namespace"], name_of(owner), meta["uid"], kind.api_version)
