"""Fields that objects of several kinds have, as rows hold them: amounts, instants, labels, annotations, owners.

A strange amount or time counts as not set.
"""

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from elastipod.api import ResourceList
from elastipod.clock import from_rfc3339
from elastipod.kube import shapes
from elastipod.pods import OWN_PREFIX, STAYING, OwnerReference
from elastipod.quantities import NOTHING, QuantityError, Resources, parse_cpu, parse_memory

NO_LABELS: Final[dict[str, str]] = {}
_KEPT_ANNOTATIONS: Final = frozenset({"vpaUpdates", "vpaObservedContainers", "vpaInPlaceUpdated", *STAYING})
_MOST_ANNOTATION: Final = 65_536
_SHOWN_OF_ANNOTATION: Final = 256
_MOST_KEPT: Final = 64
"""A longer quantity is not worth a place in a cache."""


def amounts(found: ResourceList | None) -> Resources:
    """CPU and memory of a list of resources."""
    if not found:
        return NOTHING
    cpu, memory = found.get("cpu"), found.get("memory")
    if (isinstance(cpu, str) and len(cpu) > _MOST_KEPT) or (isinstance(memory, str) and len(memory) > _MOST_KEPT):
        return _parsed_amounts(cpu, memory)
    return _shared_amounts(cpu, memory)


def _parsed_amounts(cpu: str | int | float | None, memory: str | int | float | None) -> Resources:
    return Resources(amount(parse_cpu, cpu), amount(parse_memory, memory))


_shared_amounts: Final = lru_cache(maxsize=65_536)(_parsed_amounts)
"""One value for all containers of the same size: most of a cluster's are."""


def amount(parse: Callable[[str], int], text: str | int | float | None) -> int | None:
    """One quantity."""
    if text is None:
        return None
    try:
        return parse(str(text))
    except QuantityError:
        return None


def instant(text: str | None) -> float | None:
    """Unix seconds of an RFC 3339 time."""
    if not text:
        return None
    try:
        return from_rfc3339(text)
    except ValueError:
        return None


def interned(labels: dict[str, str] | None) -> dict[str, str]:
    """Labels whose texts are held once for all that have them."""
    return {sys.intern(key): sys.intern(value) for key, value in labels.items()} if labels else NO_LABELS


def own_annotations(annotations: dict[str, str] | None) -> dict[str, str]:
    """Ours, VPA's and STAYING; of one that is absurdly long only the start is kept, to be refused by name."""
    if not annotations:
        return NO_LABELS
    kept = {
        key: value if len(value) <= _MOST_ANNOTATION else value[:_SHOWN_OF_ANNOTATION]
        for key, value in annotations.items()
        if key in _KEPT_ANNOTATIONS or key.startswith(OWN_PREFIX)
    }
    return kept or NO_LABELS


def controlling_owner(references: list[shapes.OwnerShape] | None) -> OwnerReference | None:
    """The owner that controls the object, if any does."""
    for one in references or ():
        if one.controller:
            return _shared_owner(one.kind, one.name, one.uid, one.api_version)
    return None


@lru_cache(maxsize=4096)
def _shared_owner(kind: str, name: str, uid: str, api_version: str) -> OwnerReference:
    """One value for all that an owner has: they stand together in a list."""
    return OwnerReference(sys.intern(kind), name, uid, sys.intern(api_version))
