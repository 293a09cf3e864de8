"""How far memory may be lowered now.

Owns the rules that keep a shrink from killing: never below fresh usage plus a margin, never from an old sample, a limit
only by a share of itself at a time, never to where the actuator would raise it again, and never below what the
container really runs with when something else raised it.
"""

from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from elastipod.headroom import least_limit
from elastipod.pods import Container
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from updater.sizes import Size

_LEAST_STEP: Final = 0.05
"""A share of memory too small to ask for on the way."""


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
    container: Container,
    size: Size,
    usage: Usage | None,
    now: float,
    rules: ShrinkRules,
    *,
    is_apart: bool = False,
) -> tuple[Size, Reason | None]:
    """The size to ask for now on the way to `size`, and what holds it back where something does.

    `is_apart` where the limit does not follow the request.
    """
    if not lowers_memory(container, size):
        return size, None
    if usage is None or now - usage.at > rules.fresh_seconds:
        return _keep_memory(container, size), Reason.STALE_DATA
    if container.started_at is not None and now - container.started_at < rules.settled_seconds:
        return _keep_memory(container, size), Reason.COOLING_DOWN
    floor = _ceil(usage.memory_bytes * (1 + rules.margin_fraction))
    has, held = container.requests.memory, held_memory_limit(container)
    request, limit = size.requests.memory_bytes, size.limits.memory_bytes
    reason: Reason | None = None
    if request is not None and request < min(floor, has):
        # A limit that moves with its request stays where a request that can not move leaves it.
        kept = min(floor, has)
        if limit is not None:
            limit = max(limit, kept) if is_apart else _in_proportion(limit, request, kept, held)
        request, reason = kept, Reason.KEPT_ABOVE_USAGE
    if held is not None and limit is not None and limit < held:
        # What leapt lately may leap again.
        clear = max(floor, least_limit(max(usage.memory_bytes, usage.memory_peak_bytes)))
        step = min(max(limit, clear, _ceil(held * (1 - rules.shrink_fraction))), held)
        if clear > limit:
            reason = Reason.KEPT_ABOVE_USAGE
        if request is not None and not is_apart:
            request = _in_proportion(request, limit, step, max(request, has))
        limit = step
    lower, lower_limit = has - (request or 0), (held or 0) - (limit or 0)
    if reason is not None and lower <= _LEAST_STEP * has and lower_limit <= _LEAST_STEP * (held or 0):
        # Usage that wavers must not become a stream of requests.
        return _keep_memory(container, size), reason
    return _with_memory(size, request, limit), reason


def _in_proportion(amount: int, old: int, new: int, most: int | None) -> int:
    """The amount moved as another one moves from old to new, which is up; equal stays equal."""
    moved = new if amount == old else max(amount, amount * new // max(old, 1))
    return moved if most is None else min(moved, most)


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
