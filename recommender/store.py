"""Histories saved in the cluster: VerticalPodAutoscalerCheckpoint objects.

Owns reading, writing and clearing away. What stands in them is checkpoints.py's matter, which name one has seen.py's.
Invariant: nothing is written over that was not read, that is another's, or that lies ahead of a clock that may be
wrong. A backup may be restored at any time.
"""

from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import structs

from elastipod.api import Checkpoint, CheckpointSpec, ObjectMeta
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.decoding import whole
from elastipod.kube.errors import Conflict, NotFound
from elastipod.kube.listing import list_pages, list_raw, list_rows
from elastipod.kube.resources import AUTOSCALERS, CHECKPOINTS
from elastipod.telemetry import get_logger
from recommender.annotation import HISTORY_ANNOTATION
from recommender.checkpoints import (
    LiesAhead,
    OtherWorkload,
    UnusableHistory,
    checkpoint_name,
    from_checkpoint,
    is_named_for,
    second_name,
)
from recommender.claims import Claim
from recommender.history import ContainerHistory
from recommender.seen import Head, Seen, SeenCheckpoints, head_of
from recommender.settings import RecommenderSettings
from recommender.stamps import is_clock_right

log = get_logger(__name__)

_MOST_DELETED: Final = 10
_checkpoints: Final = msgspec.json.Decoder(Checkpoint)


class _Slim(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Own(msgspec.Struct, gc=False):
    metadata: _Slim


class _Owner(msgspec.Struct, rename="camel", gc=False):
    vpa_object_name: str = ""
    container_name: str = ""


class _Owned(msgspec.Struct, gc=False):
    metadata: _Slim
    spec: _Owner


_own: Final = whole(_Own)
_owned: Final = whole(_Owned)


@dataclass(slots=True)
class Saved:
    """What was found for one claim."""

    histories: dict[str, ContainerHistory] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)
    left_alone: set[str] = field(default_factory=set)
    """Containers whose checkpoint is not to be written over."""
    is_of_other_workload: bool = False
    """The autoscaler was turned to another workload since."""

    def take(self, container: str, found: ContainerHistory) -> None:
        """Of two that are saved of one container, the one that was heard of last."""
        known = self.histories.get(container)
        if known is None or (known.last_sample_at or 0.0) <= (found.last_sample_at or 0.0):
            self.histories[container] = found
        self.unusable.pop(container, None)


class CheckpointStore:
    """Saved histories of our claims' containers."""

    def __init__(self, connection: Connection, settings: RecommenderSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._seen = SeenCheckpoints()
        self._orphans: set[tuple[str, str, str]] = set()

    async def load(self, claims: list[Claim], now: float) -> AsyncGenerator[tuple[Claim, Saved], None]:
        """The saved histories of claims, a namespace's as soon as the list has gone past it: all at once are too many.

        Raises KubeError: nothing is known of those that were not given yet. What a list tells of a namespace after it
        left it is found when it is about to be written over.
        """
        of_namespace: dict[str, list[Claim]] = {}
        for claim in claims:
            of_namespace.setdefault(claim.namespace, []).append(claim)
        one = next(iter(of_namespace)) if len(of_namespace) == 1 else self._settings.namespace
        saved = {claim.key: Saved() for claim in claims}
        by_key = {claim.key: claim for claim in claims}
        at = ""
        try:
            async for page in list_pages(self._connection, CHECKPOINTS, namespace=one or None):
                for raw in page.items:
                    before, at = at, self._read(raw, saved, by_key, now) or at
                    if at != before:
                        for claim in of_namespace.pop(before, ()):
                            yield claim, saved.pop(claim.key)
        except NotFound:
            log.warning("the cluster has no checkpoints, so history is kept in memory only")
        for rest in of_namespace.values():
            for claim in rest:
                yield claim, saved.pop(claim.key)

    async def read(self, claim: Claim, container: str, now: float) -> Saved:
        """What is saved of one container now. Raises KubeError."""
        saved = Saved()
        spec = CheckpointSpec(claim.name, container)
        for name in (checkpoint_name(claim.name, container), second_name(claim.name, container)):
            found = await list_raw(
                self._connection, CHECKPOINTS, namespace=claim.namespace, field_selector=f"metadata.name={name}"
            )
            for raw in found.items:
                self._seen.note(head_of(raw))
                self._read(raw, {claim.key: saved}, {claim.key: claim}, now)
            if self._seen.name(claim.namespace, spec) == name:
                break
        return saved

    def _read(self, raw: msgspec.Raw, saved: dict[str, Saved], claims: dict[str, Claim], now: float) -> str:
        """Take a checkpoint to those it is for; its namespace."""
        head = head_of(raw)
        if head is None:
            return ""
        meta = head.metadata
        try:
            checkpoint = _checkpoints.decode(raw)
        except (ValueError, UnicodeDecodeError, RecursionError) as error:
            self._set_aside(head, saved, error)
            return meta.namespace
        if not is_named_for(meta.name, checkpoint.spec):
            # It is told to the claim that it is named for; what is in it may be anybody's.
            self._set_aside(head, saved, "spec: vpaObjectName and containerName do not belong to metadata.name")
            return meta.namespace
        key, container = f"{meta.namespace}/{checkpoint.spec.vpa_object_name}", checkpoint.spec.container_name
        into = saved.get(key)
        if into is None:
            return meta.namespace
        self._seen.note(head)
        claim = claims[key]
        interval = claim.policy(container).memory_interval_seconds
        try:
            found = from_checkpoint(checkpoint, self._settings, now, claim.target, interval)
        except OtherWorkload:
            into.is_of_other_workload = True
        except LiesAhead as error:
            told = str(error)
            if not is_clock_right(raw, now):
                told += ", so our clock may be wrong, and it is not written over: correct the clock, or delete it"
                self._seen.forget(meta.namespace, meta.name)
                into.left_alone.add(container)
            self._tell(meta, into, container, told)
        except UnusableHistory as error:
            self._tell(meta, into, container, error)
        else:
            into.take(container, found)
            if found.set_aside:
                self._tell(meta, into, container, f"{found.set_aside}; the rest is used")
        return meta.namespace

    def _set_aside(self, head: Head, saved: dict[str, Saved], why: object) -> None:
        """Tell whoever a checkpoint may be for by its name."""
        meta = head.metadata
        for key, one in saved.items():
            namespace, _, name = key.partition("/")
            if namespace == meta.namespace and meta.name.startswith(f"{name}-"):
                self._seen.note(head)
                self._tell(meta, one, meta.name.removeprefix(f"{name}-"), why)

    def _tell(self, meta: ObjectMeta, into: Saved, container: str, why: object) -> None:
        into.unusable[container] = f"checkpoint {meta.name}: {why}"
        log.warning("checkpoint set aside", namespace=meta.namespace, name=meta.name, error=str(why))

    async def save(self, checkpoint: Checkpoint) -> None:
        """Write one. Raises KubeError: Conflict or Invalid where another stands there than was read or written last."""
        spec, meta = checkpoint.spec, checkpoint.metadata
        meta = structs.replace(meta, name=self._seen.name(meta.namespace, spec))
        checkpoint = structs.replace(checkpoint, metadata=meta)
        seen = self._seen.get(meta.namespace, meta.name)
        try:
            answer = await (self._create(checkpoint) if seen is None else self._patch(checkpoint, seen))
        except NotFound:
            # It is gone, or its kind is.
            if seen is None:
                raise
            self._seen.forget(meta.namespace, meta.name)
            answer = await self._create(checkpoint)
        self._seen.note(head_of(answer))

    async def _create(self, checkpoint: Checkpoint) -> bytes:
        body = {"apiVersion": CHECKPOINTS.api_version, "kind": CHECKPOINTS.kind} | msgspec.to_builtins(checkpoint)
        return await self._connection.create(CHECKPOINTS, checkpoint.metadata.namespace, msgspec.json.encode(body))

    async def _patch(self, checkpoint: Checkpoint, seen: Seen) -> bytes:
        """Set status and our annotation as a whole; a merge would keep buckets that are empty by now."""
        meta = checkpoint.metadata
        annotations = meta.annotations or {}
        body: list[dict[str, Any]] = [
            {"op": "add", "path": "/metadata/resourceVersion", "value": seen.version},
            {"op": "add", "path": "/spec", "value": msgspec.to_builtins(checkpoint.spec)},
            {"op": "add", "path": "/status", "value": msgspec.to_builtins(checkpoint.status)},
        ]
        if seen.has_annotations:
            path = f"/metadata/annotations/{HISTORY_ANNOTATION.replace('/', '~1')}"
            body.append({"op": "add", "path": path, "value": annotations[HISTORY_ANNOTATION]})
        else:
            body.append({"op": "add", "path": "/metadata/annotations", "value": annotations})
        return await self._connection.patch(
            CHECKPOINTS, meta.namespace, meta.name, msgspec.json.encode(body), patch_type=PatchType.JSON
        )

    async def collect(self, forgotten: Iterable[tuple[str, str, str]]) -> int:
        """Delete checkpoints whose autoscaler is gone, and those of containers that were forgotten. How many.

        Careful, since a deletion can not be taken back: both lists are read anew, an orphan must be one in two
        collections, none is touched while no autoscaler is left at all, and few go at a time.
        """
        namespace = self._settings.namespace or None
        try:
            checkpoints = await list_rows(self._connection, CHECKPOINTS, _owned, namespace=namespace)
            autoscalers = await list_rows(self._connection, AUTOSCALERS, _own, namespace=namespace)
        except NotFound:
            return 0
        alive = {(one.metadata.namespace, one.metadata.name) for one in autoscalers}
        if not alive:
            return 0
        over = set(forgotten)
        orphans: set[tuple[str, str, str]] = set()
        doomed: list[tuple[str, str, str]] = []
        for checkpoint in checkpoints:
            meta, owner = checkpoint.metadata, checkpoint.spec.vpa_object_name
            one = (meta.namespace, meta.name, meta.uid)
            if not owner:
                continue
            if (meta.namespace, owner) not in alive:
                orphans.add(one)
            elif (meta.namespace, owner, checkpoint.spec.container_name) in over:
                doomed.append(one)
        doomed += sorted(orphans & self._orphans)
        self._orphans = orphans
        most = max(_MOST_DELETED, len(checkpoints) // 10)
        deleted = 0
        for space, name, uid in doomed[:most]:
            body = msgspec.json.encode(
                {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}} if uid else {}
            )
            try:
                await self._connection.delete(CHECKPOINTS, space, name, body=body)
                deleted += 1
            except (NotFound, Conflict):
                continue
            finally:
                self._seen.forget(space, name)
        return deleted
