"""Direct mode: whether what is wanted fits the node, one decision at a time.

Owns the kubelet's question for nodes where no kubelet answers it: others count by what is allocated, the candidate by
what it wants. Writes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from elastipod.quantities import NOTHING, Resources
from elastipod.reasons import Reason


@dataclass(frozen=True, slots=True)
class Size:
    """A container's requests and limits."""

    requests: Resources = NOTHING
    limits: Resources = NOTHING


@dataclass(frozen=True, slots=True)
class Wanted:
    """A size wanted for a container; the key is `<pod uid>/<container>`."""

    key: str
    size: Size
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the wish."""

    key: str
    reason: Reason
    size: Size


def decide(wanted: Wanted, allocated: Mapping[str, Size], allocatable: Resources) -> Verdict:
    """Whether one wish is admitted, with what all containers of the node hold."""
    if wanted.key not in allocated:
        return Verdict(wanted.key, Reason.POD_GONE, wanted.size)
    now, want = allocated[wanted.key], wanted.size
    want = Size(want.requests.or_else(now.requests), want.limits.or_else(now.limits))
    if _is_above(want.requests, want.limits):
        return Verdict(wanted.key, Reason.BAD_VALUE, now)
    if want == now:
        return Verdict(wanted.key, Reason.DONE, now)
    if want.requests.cpu > allocatable.cpu or want.requests.memory > allocatable.memory:
        return Verdict(wanted.key, Reason.INFEASIBLE, now)
    others = Resources(0, 0)
    for key, size in allocated.items():
        if key != wanted.key:
            others += size.requests
    free = allocatable - others
    for resource in ("cpu", "memory"):
        grows = getattr(want.requests, resource) > getattr(now.requests, resource)
        if grows and getattr(want.requests, resource) > getattr(free, resource):
            return Verdict(wanted.key, Reason.DEFERRED, now)
    return Verdict(wanted.key, Reason.IN_PROGRESS, want)


def next_wish(wishes: list[Wanted]) -> Wanted | None:
    """Which wish is decided first: the most important, in the order they stand."""
    return max(wishes, key=lambda one: one.priority, default=None)


def _is_above(requests: Resources, limits: Resources) -> bool:
    pairs = ((requests.cpu, limits.cpu_millicores), (requests.memory, limits.memory_bytes))
    return any(limit is not None and request > limit for request, limit in pairs)
