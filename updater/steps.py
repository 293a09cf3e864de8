"""How far memory may be lowered now.

Owns the rules that keep a shrink from killing: never below fresh usage plus a margin, never from an old sample, a limit
only by a share of itself at a time, and never below what the container really runs with when something else raised it.
"""

from dataclasses import dataclass

from msgspec import Struct

from elastipod.pods import Container
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from updater.sizes import Size


class Usage(Struct, frozen=True, gc=False):
    """What a container used at a time, and the most memory lately."""

    at: float
    cpu_millicores: int
    memory_bytes: int
    memory_peak_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ShrinkRules:
    """The shrink part of the settings."""

    shrink_fraction: float = 0.2
    margin_fraction: float = 0.1
    fresh_seconds: float = 15.0
    settled_seconds: float = 60.0


def held_memory_limit(container: Container) -> int | None:
    """The memory limit the container has to be thought to run with: the larger of what is stated and what is real."""
    stated = container.limits.memory_bytes
    actual = container.actual_limits.memory_bytes if container.actual_limits is not None else None
    if stated is None or actual is None:
        return stated
    return max(stated, actual)


def lowers_memory(container: Container, size: Size) -> bool:
    """Whether this size takes memory from the container."""
    limit = held_memory_limit(container)
    return size.requests.memory < container.requests.memory or (
        size.limits.memory_bytes is not None and limit is not None and size.limits.memory_bytes < limit
    )


def lowers_memory_limit(container: Container, size: Size) -> bool:
    """Whether this size can kill: its memory limit is below the one in force."""
    limit = held_memory_limit(container)
    return size.limits.memory_bytes is not None and limit is not None and size.limits.memory_bytes < limit


def stepped(
    container: Container, size: Size, usage: Usage | None, now: float, rules: ShrinkRules
) -> tuple[Size, Reason | None]:
    """The size to ask for now on the way to `size`, and what holds it back where something does."""
    if not lowers_memory(container, size):
        return size, None
    if usage is None or now - usage.at > rules.fresh_seconds:
        return _keep_memory(container, size), Reason.STALE_DATA
    if container.started_at is not None and now - container.started_at < rules.settled_seconds:
        return _keep_memory(container, size), Reason.COOLING_DOWN
    floor = _ceil(usage.memory_bytes * (1 + rules.margin_fraction))
    held, wanted = held_memory_limit(container), size.limits.memory_bytes
    request, limit = size.requests.memory_bytes, wanted
    reason: Reason | None = None
    if held is not None and wanted is not None and wanted < held:
        limit = min(max(wanted, floor, _ceil(held * (1 - rules.shrink_fraction))), held)
        if limit > wanted and floor > wanted:
            reason = Reason.KEPT_ABOVE_USAGE
        if request is not None and limit > wanted:
            # On the way the request keeps its proportion to the limit; equal stays equal.
            request = limit if request == wanted else max(request, request * limit // max(wanted, 1))
    if request is not None and request < container.requests.memory:
        kept = min(max(request, floor), container.requests.memory)
        if kept != request:
            reason, request = Reason.KEPT_ABOVE_USAGE, kept
    if request is not None and limit is not None:
        request = min(request, limit)
    return _with_memory(size, request, limit), reason


def with_held_memory(container: Container, size: Size) -> Size:
    """The size with the memory the container was given beyond its spec, where the size would leave memory as it is.

    The kubelet writes all of a container's values on any resize, so one that is stated too low would kill.
    """
    held = held_memory_limit(container)
    if held is None or size.limits.memory_bytes != container.limits.memory_bytes or held == size.limits.memory_bytes:
        return size
    request = held if size.requests.memory_bytes == size.limits.memory_bytes else size.requests.memory_bytes
    return _with_memory(size, request, held)


def _keep_memory(container: Container, size: Size) -> Size:
    """The size with memory no lower than it is."""
    request, limit = container.requests.memory_bytes, held_memory_limit(container)
    if request is not None and request == container.limits.memory_bytes:
        request = limit
    if size.limits.memory_bytes is not None and limit is not None and size.limits.memory_bytes > limit:
        limit = size.limits.memory_bytes
    return _with_memory(size, request, limit)


def _with_memory(size: Size, request: int | None, limit: int | None) -> Size:
    return Size(Resources(size.requests.cpu_millicores, request), Resources(size.limits.cpu_millicores, limit))


def _ceil(amount: float) -> int:
    return int(-(-amount // 1))
