"""The CPU that a pod was given for its start, and until when.

Owns the pod's annotation, which tells all that is needed to take a boost off again, whoever asked for it and whatever
became of that object; and the end of a boost. How CPU and limit move is shape.py's matter.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from elastipod.api import BOOST_ANNOTATION, ResourceList, resource_list, resources
from elastipod.pods import Container, Pod
from elastipod.quantities import QuantityError, Resources
from updater.sizes import Size, size_of

MOST_SECONDS: Final = 900.0
"""A pod that is not ready after so long is starting no more."""
_MOST_KEPT: Final = 2_048


class Boosted(Struct, frozen=True, gc=False):
    """What a container was given: CPU only."""

    had: Size
    got: Size
    seconds: float

    def is_on(self, container: Container) -> bool:
        """Whether the container still has what it was given."""
        now = size_of(container)
        return (now.requests.cpu_millicores, now.limits.cpu_millicores) == (
            self.got.requests.cpu_millicores,
            self.got.limits.cpu_millicores,
        )

    def taken_off(self, size: Size) -> Size:
        """The size with the CPU that was there without it."""
        return Size(
            Resources(self.had.requests.cpu_millicores, size.requests.memory_bytes),
            Resources(self.had.limits.cpu_millicores, size.limits.memory_bytes),
        )

    def ends_at(self, pod: Pod) -> float:
        """So long after the pod is ready, or after it should have been."""
        latest = (pod.started_at or pod.created_at) + MOST_SECONDS
        return min(latest if pod.ready_at is None else pod.ready_at, latest) + self.seconds


def boosted(pod: Pod) -> Mapping[str, Boosted]:
    """What the containers of a pod were given; a text that can not be understood counts as nothing."""
    text = pod.annotations.get(BOOST_ANNOTATION)
    return {} if text is None else _read(text)


def boost_text(given: Mapping[str, Boosted]) -> str:
    """The annotation that tells it."""
    shapes = {name: _Shape(_shape(one.had), _shape(one.got), one.seconds) for name, one in given.items()}
    return msgspec.json.encode(shapes).decode()


class _SizeShape(Struct, forbid_unknown_fields=True):
    requests: ResourceList = {}
    limits: ResourceList = {}


class _Shape(Struct, forbid_unknown_fields=True):
    had: _SizeShape
    got: _SizeShape
    seconds: float = 0.0


_shapes: Final = msgspec.json.Decoder(dict[str, _Shape])


@lru_cache(maxsize=_MOST_KEPT)
def _read(text: str) -> Mapping[str, Boosted]:
    try:
        return {
            name: Boosted(_size(one.had), _size(one.got), max(one.seconds, 0.0))
            for name, one in _shapes.decode(text).items()
        }
    except (msgspec.DecodeError, UnicodeError, RecursionError, QuantityError):
        return {}


def _size(shape: _SizeShape) -> Size:
    return Size(resources(shape.requests), resources(shape.limits))


def _shape(size: Size) -> _SizeShape:
    return _SizeShape(
        resource_list(Resources(size.requests.cpu_millicores)), resource_list(Resources(size.limits.cpu_millicores))
    )
