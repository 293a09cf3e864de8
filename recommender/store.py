"""Histories saved in the cluster: VerticalPodAutoscalerCheckpoint objects.

Owns reading, writing and clearing away. What stands in them is checkpoints.py's matter.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from elastipod.api import Checkpoint, ObjectMeta
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.errors import Conflict, Invalid, NotFound
from elastipod.kube.listing import list_raw
from elastipod.kube.resources import AUTOSCALERS, CHECKPOINTS
from elastipod.pods import Workload
from elastipod.telemetry import get_logger
from recommender.checkpoints import HISTORY_ANNOTATION, OtherWorkload, UnusableHistory, checkpoint_name, from_checkpoint
from recommender.claims import Claim
from recommender.history import ContainerHistory
from recommender.settings import RecommenderSettings

log = get_logger(__name__)

_MOST_DELETED: Final = 10
_checkpoints: Final = msgspec.json.Decoder(Checkpoint)


class _Named(msgspec.Struct):
    metadata: ObjectMeta


class _About(msgspec.Struct):
    spec: "_AboutSpec"


class _AboutSpec(msgspec.Struct, rename="camel"):
    vpa_object_name: str = ""


_named: Final = msgspec.json.Decoder(_Named)
_about: Final = msgspec.json.Decoder(_About)


@dataclass(slots=True)
class Saved:
    """What was found for one claim."""

    histories: dict[str, ContainerHistory] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)
    is_of_other_workload: bool = False
    """The autoscaler was turned to another workload since."""


class CheckpointStore:
    """Saved histories of our claims' containers."""

    def __init__(self, connection: Connection, settings: RecommenderSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._has_annotations: dict[tuple[str, str], bool] = {}
        """Checkpoints known to exist, and whether they have any annotation (a JSON patch adds to what is there)."""
        self._orphans: set[tuple[str, str, str]] = set()

    async def load(self, claims: list[Claim], now: float) -> dict[str, Saved]:
        """The saved histories of claims, by the claims' keys. Raises KubeError: nothing is known then."""
        namespaces = {claim.namespace for claim in claims}
        one = next(iter(namespaces)) if len(namespaces) == 1 else self._settings.namespace
        try:
            found = await list_raw(self._connection, CHECKPOINTS, namespace=one or None)
        except NotFound:
            log.warning("the cluster has no checkpoints, so history is kept in memory only")
            return {claim.key: Saved() for claim in claims}
        saved = {claim.key: Saved() for claim in claims}
        targets = {claim.key: claim.target for claim in claims}
        for raw in found.items:
            self._read(raw, saved, targets, now)
        return saved

    def _read(self, raw: msgspec.Raw, saved: dict[str, Saved], targets: dict[str, Workload | None], now: float) -> None:
        try:
            meta = _named.decode(raw).metadata
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        self._has_annotations[meta.namespace, meta.name] = meta.annotations is not None
        try:
            checkpoint = _checkpoints.decode(raw)
            key = f"{meta.namespace}/{checkpoint.spec.vpa_object_name}"
            into = saved.get(key)
            if into is not None:
                container = checkpoint.spec.container_name
                try:
                    into.histories[container] = from_checkpoint(checkpoint, self._settings, now, targets[key])
                except OtherWorkload:
                    into.is_of_other_workload = True
        except (ValueError, UnicodeDecodeError, RecursionError) as error:
            # A wrong object is told to the claim it is named for; what is in it may be anybody's.
            for key, one in saved.items():
                namespace, _, name = key.partition("/")
                if namespace == meta.namespace and meta.name.startswith(f"{name}-"):
                    one.unusable[meta.name.removeprefix(f"{name}-")] = f"checkpoint {meta.name}: {error}"
            kind = "unusable" if isinstance(error, UnusableHistory) else "unreadable"
            log.warning("checkpoint set aside", namespace=meta.namespace, name=meta.name, kind=kind, error=str(error))

    async def save(self, checkpoint: Checkpoint) -> None:
        """Write one. Raises KubeError."""
        meta = checkpoint.metadata
        where = (meta.namespace, meta.name)
        if where not in self._has_annotations:
            try:
                await self._create(checkpoint)
                self._has_annotations[where] = True
                return
            except Conflict:
                self._has_annotations[where] = True
        try:
            await self._patch(checkpoint, has_annotations=self._has_annotations[where])
        except NotFound:
            del self._has_annotations[where]
            await self._create(checkpoint)
        except Invalid:
            await self._patch(checkpoint, has_annotations=not self._has_annotations[where])
        self._has_annotations[where] = True

    async def _create(self, checkpoint: Checkpoint) -> None:
        body = {"apiVersion": CHECKPOINTS.api_version, "kind": CHECKPOINTS.kind} | msgspec.to_builtins(checkpoint)
        await self._connection.create(CHECKPOINTS, checkpoint.metadata.namespace, msgspec.json.encode(body))

    async def _patch(self, checkpoint: Checkpoint, *, has_annotations: bool) -> None:
        """Set status and our annotation as a whole; a merge would keep buckets that are empty by now."""
        meta = checkpoint.metadata
        annotations = meta.annotations or {}
        body: list[dict[str, Any]] = [
            {"op": "add", "path": "/spec", "value": msgspec.to_builtins(checkpoint.spec)},
            {"op": "add", "path": "/status", "value": msgspec.to_builtins(checkpoint.status)},
        ]
        if has_annotations:
            path = f"/metadata/annotations/{HISTORY_ANNOTATION.replace('/', '~1')}"
            body.append({"op": "add", "path": path, "value": annotations[HISTORY_ANNOTATION]})
        else:
            body.append({"op": "add", "path": "/metadata/annotations", "value": annotations})
        await self._connection.patch(
            CHECKPOINTS, meta.namespace, meta.name, msgspec.json.encode(body), patch_type=PatchType.JSON
        )

    async def collect(self, forgotten: Iterable[tuple[str, str, str]]) -> int:
        """Delete checkpoints whose autoscaler is gone, and those of containers that were forgotten. How many.

        Careful, since a deletion can not be taken back: both lists are read anew, an orphan must be one in two
        collections, none is touched while no autoscaler is left at all, and few go at a time.
        """
        namespace = self._settings.namespace or None
        try:
            checkpoints = await list_raw(self._connection, CHECKPOINTS, namespace=namespace)
            autoscalers = await list_raw(self._connection, AUTOSCALERS, namespace=namespace)
        except NotFound:
            return 0
        alive = {(meta.namespace, meta.name) for meta in _metas(autoscalers.items)}
        if not alive:
            return 0
        names = {(space, checkpoint_name(autoscaler, container)) for space, autoscaler, container in forgotten}
        orphans: set[tuple[str, str, str]] = set()
        doomed: list[tuple[str, str, str]] = []
        for raw in checkpoints.items:
            meta = next(iter(_metas([raw])), None)
            try:
                owner = _about.decode(raw).spec.vpa_object_name
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            if meta is None or not owner:
                continue
            one = (meta.namespace, meta.name, meta.uid)
            if (meta.namespace, owner) not in alive:
                orphans.add(one)
            elif (meta.namespace, meta.name) in names:
                doomed.append(one)
        doomed += sorted(orphans & self._orphans)
        self._orphans = orphans
        most = max(_MOST_DELETED, len(checkpoints.items) // 10)
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
                self._has_annotations.pop((space, name), None)
        return deleted


def _metas(items: Iterable[msgspec.Raw]) -> list[ObjectMeta]:
    found = []
    for raw in items:
        try:
            found.append(_named.decode(raw).metadata)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return found
