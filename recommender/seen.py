"""Which checkpoints were read or written, as what, and under which name a history is saved.

Owns both. Two histories may have the same name as upstream names them: then the second has one of its own.
"""

from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw, Struct

from elastipod.api import CheckpointSpec, ObjectMeta
from elastipod.kube.decoding import UNREADABLE
from recommender.checkpoints import checkpoint_name, is_named_for, second_name

_NOBODYS: Final = -1


class Head(Struct):
    """As much of a checkpoint as tells whose it is."""

    metadata: ObjectMeta
    spec: Raw = Raw(b"{}")


_heads: Final = msgspec.json.Decoder(Head)
_specs: Final = msgspec.json.Decoder(CheckpointSpec)


@dataclass(frozen=True, slots=True)
class Seen:
    """A checkpoint as we last read or wrote it."""

    version: str
    has_annotations: bool
    """Any at all: a JSON patch adds to what is there."""
    whose: int
    """How much of its name is the autoscaler's; below 0 where its spec says nothing that makes sense."""


class SeenCheckpoints:
    """What was seen of checkpoints, by namespace and name."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], Seen] = {}

    def note(self, head: Head | None) -> None:
        """It was read or written now."""
        if head is not None:
            meta = head.metadata
            seen = Seen(meta.resource_version, meta.annotations is not None, _whose(meta.name, head.spec))
            self._seen[meta.namespace, meta.name] = seen

    def get(self, namespace: str, name: str) -> Seen | None:
        """As what it was seen last."""
        return self._seen.get((namespace, name))

    def forget(self, namespace: str, name: str) -> None:
        """It is gone, or nothing is to be written over it."""
        self._seen.pop((namespace, name), None)

    def name(self, namespace: str, spec: CheckpointSpec) -> str:
        """Where a history is saved: as upstream names it, unless another's was seen there."""
        autoscaler, container = spec.vpa_object_name, spec.container_name
        first, second = checkpoint_name(autoscaler, container), second_name(autoscaler, container)
        seen = self.get(namespace, first)
        is_anothers = seen is not None and seen.whose not in (_NOBODYS, len(autoscaler))
        return second if is_anothers or (namespace, second) in self._seen else first


def head_of(raw: bytes | Raw) -> Head | None:
    """None where not even its metadata can be read."""
    try:
        return _heads.decode(raw)
    except UNREADABLE:
        return None


def _whose(name: str, raw: Raw) -> int:
    try:
        spec = _specs.decode(raw)
    except UNREADABLE:
        return _NOBODYS
    return len(spec.vpa_object_name) if is_named_for(name, spec) else _NOBODYS
