"""How a wanted request becomes a request and a limit.

Owns the rules by which a limit follows its request or stands apart from it, the bounds of policy and LimitRange, and
the QoS class, which a resize never changes. Whether the memory may be lowered now is steps.py's matter.
"""

import math
from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import Final

from msgspec import Struct

from elastipod.limitmodes import LimitMode, LimitModes, independent_limit
from elastipod.limits import LimitRange
from elastipod.pods import Container, Pod, QosClass
from elastipod.quantities import MAX_QUANTITY, Resources
from elastipod.reasons import Reason
from updater.sizes import ContainerAdvice, Size, size_of


class LimitRule(Enum):
    """What becomes of a limit when its request moves."""

    PROPORTIONAL = auto()
    """It keeps its proportion to the request; equal stays equal."""
    FIXED = auto()
    """It stays, and the request stays below it."""
    FOLLOW = auto()
    """It stays unless the request passes it; equal stays equal."""
    NONE = auto()
    """There is none."""
    APART = auto()
    """It is the recommendation's upper bound."""
    STANDING = auto()
    """It stays unless the request passes it, as none can be taken from a running pod."""


class Bound(Struct, frozen=True, gc=False):
    """The least and the most of one resource, and the largest limit as a multiple of the request."""

    least: int = 0
    most: int = MAX_QUANTITY
    ratio: float = 0.0
    demands_limit: bool = False
    """Whether a container has to have a limit, or would be given one."""


class Bounds(Struct, frozen=True, gc=False):
    """The bounds of a namespace's LimitRanges on a container."""

    cpu: Bound = Bound()
    memory: Bound = Bound()


FREE: Final = Bounds()
PROPORTIONAL: Final = LimitModes()
_RULES: Final = {
    LimitMode.PROPORTIONAL: LimitRule.PROPORTIONAL,
    LimitMode.INDEPENDENT: LimitRule.APART,
    LimitMode.UNSET: LimitRule.STANDING,
}


def container_bounds(limit_ranges: tuple[LimitRange, ...]) -> Bounds:
    """The narrowest bounds that all LimitRanges together leave a container."""
    every = [item for one in limit_ranges for item in one.items]
    if not every:
        return FREE
    items = [item for item in every if item.type == "Container"]
    return Bounds(
        _bound(
            [(item.min.cpu_millicores, item.max.cpu_millicores, item.max_ratio_cpu) for item in items],
            any(item.max.cpu_millicores or item.default.cpu_millicores or item.max_ratio_cpu for item in every),
        ),
        _bound(
            [(item.min.memory_bytes, item.max.memory_bytes, item.max_ratio_memory) for item in items],
            any(item.max.memory_bytes or item.default.memory_bytes or item.max_ratio_memory for item in every),
        ),
    )


def advised_size(
    container: Container,
    advice: ContainerAdvice,
    wanted: Resources,
    bounds: Bounds,
    reasons: list[Reason],
    modes: LimitModes = PROPORTIONAL,
    *,
    is_new: bool = False,
) -> Size:
    """The size for wanted requests under a policy; amounts that are not wanted stay. Adds to `reasons` what cut it.

    Only of a new pod can a limit be taken.
    """
    size, upper = size_of(container), advice.upper
    cpu = memory = None
    if wanted.cpu_millicores is not None:
        policy = Bound(advice.min_allowed.cpu, _most(advice.max_allowed.cpu_millicores))
        before = (size.requests.cpu_millicores, size.limits.cpu_millicores)
        rule = _rule(advice, modes.cpu, takes=is_new and not bounds.cpu.demands_limit)
        cpu = _moved(before, wanted.cpu_millicores, upper.cpu_millicores, rule, (policy, bounds.cpu), reasons)
    if wanted.memory_bytes is not None:
        policy = Bound(advice.min_allowed.memory, _most(advice.max_allowed.memory_bytes))
        before = (size.requests.memory_bytes, size.limits.memory_bytes)
        rule = _rule(advice, modes.memory, takes=is_new and not bounds.memory.demands_limit)
        memory = _moved(before, wanted.memory_bytes, upper.memory_bytes, rule, (policy, bounds.memory), reasons)
    return _with(size, cpu, memory)


def modes_of(pod: Pod, modes: LimitModes) -> LimitModes:
    """The modes that can hold for a pod: a Guaranteed one keeps limit and request the same."""
    return PROPORTIONAL if pod.qos_class is QosClass.GUARANTEED else modes


def stated_size(container: Container, stated: Size) -> Size:
    """The whole size for one that names some amounts: what is not named stays, or follows where it must."""
    size = size_of(container)
    return _with(
        size,
        _followed(
            (size.requests.cpu_millicores, size.limits.cpu_millicores),
            stated.requests.cpu_millicores,
            stated.limits.cpu_millicores,
        ),
        _followed(
            (size.requests.memory_bytes, size.limits.memory_bytes),
            stated.requests.memory_bytes,
            stated.limits.memory_bytes,
        ),
    )


def qos_class(containers: Mapping[str, Size]) -> QosClass:
    """The class of a pod with these containers (all kinds); a zero amount counts as unset (qos.ComputePodQOS)."""
    is_empty, is_guaranteed = True, True
    for size in containers.values():
        requests, limits = size.requests, size.limits
        if requests.cpu or requests.memory or limits.cpu or limits.memory:
            is_empty = False
        asked = (requests.cpu or limits.cpu, requests.memory or limits.memory)
        if not limits.cpu or not limits.memory or asked != (limits.cpu, limits.memory):
            is_guaranteed = False
    if is_empty:
        return QosClass.BEST_EFFORT
    return QosClass.GUARANTEED if is_guaranteed else QosClass.BURSTABLE


def with_sizes(pod: Pod, sizes: Mapping[str, Size]) -> dict[str, Size]:
    """All containers of the pod as they would be."""
    return {one.name: sizes.get(one.name) or size_of(one) for one in pod.containers}


def kept_apart(pod: Pod, sizes: Mapping[str, Size], stated: Collection[str] = ()) -> dict[str, Size] | None:
    """The sizes with one unit of gap where all requests of a Burstable pod would meet their limits.

    The request gives way, so that no bound is passed; a request that somebody stated stays, and its limit gives way.
    None where the QoS class would change whatever is done.
    """
    if pod.qos_class is QosClass.BEST_EFFORT:
        return None
    found = qos_class(with_sizes(pod, sizes))
    if found is pod.qos_class:
        return dict(sizes)
    if pod.qos_class is QosClass.GUARANTEED or found is QosClass.BEST_EFFORT:
        return None
    for name, size in sizes.items():
        requests, limits = size.requests, size.limits
        if name in stated and limits.cpu_millicores is not None:
            return {**sizes, name: Size(requests, Resources(limits.cpu_millicores + 1, limits.memory_bytes))}
        if requests.cpu > 1:
            return {**sizes, name: Size(Resources(requests.cpu - 1, requests.memory_bytes), size.limits)}
        if requests.memory > 1:
            return {**sizes, name: Size(Resources(requests.cpu_millicores, requests.memory - 1), size.limits)}
    return None


def _moved(
    before: tuple[int | None, int | None],
    wanted: int,
    upper: int | None,
    rule: LimitRule,
    bounds: tuple[Bound, Bound],
    reasons: list[Reason],
) -> tuple[int, int | None]:
    """Request and limit of one resource after its request moves to `wanted`, within policy and LimitRange."""
    policy, limit_range = bounds
    request = min(max(wanted, policy.least), policy.most)
    if request != wanted:
        reasons.append(Reason.CAPPED_BY_MAX if request < wanted else Reason.RAISED_TO_MIN)
    if rule is LimitRule.FIXED and before[1] is not None and before[1] < request:
        request = before[1]
        reasons.append(Reason.CAPPED_BY_LIMIT)
    bounded = min(max(request, limit_range.least), limit_range.most)
    # In proportion to what is set in the end, so that it stays so when it is looked at again.
    limit = _limit(before, bounded, rule, upper)
    if limit is None:
        bounded_limit = None
    elif rule is LimitRule.FIXED:
        bounded, bounded_limit = min(bounded, limit), limit
    else:
        if limit > policy.most and rule is not LimitRule.STANDING:
            limit = max(policy.most, bounded)
            reasons.append(Reason.CAPPED_BY_MAX)
        bounded_limit = max(min(limit, limit_range.most), bounded)
        if limit_range.ratio:
            if rule in (LimitRule.APART, LimitRule.STANDING):
                # A limit that is an answer of its own is not cut for a request that may as well be higher.
                bounded = max(bounded, min(math.ceil(bounded_limit / limit_range.ratio), policy.most))
            bounded_limit = max(min(bounded_limit, int(bounded * limit_range.ratio)), bounded)
    if bounded != request or bounded_limit != limit:
        reasons.append(Reason.CAPPED_BY_LIMIT_RANGE)
    if rule is LimitRule.STANDING and bounded_limit is not None:
        reasons.append(Reason.KEPT_LIMIT)
    return bounded, bounded_limit


def _rule(advice: ContainerAdvice, mode: LimitMode, *, takes: bool) -> LimitRule:
    if not advice.moves_limits:
        return LimitRule.FIXED
    return LimitRule.NONE if mode is LimitMode.UNSET and takes else _RULES[mode]


def _limit(
    before: tuple[int | None, int | None], request: int, rule: LimitRule, upper: int | None = None
) -> int | None:
    old_request, old_limit = before
    if old_limit is None or rule is LimitRule.FIXED:
        return old_limit
    if rule is LimitRule.NONE:
        return None
    if rule in (LimitRule.APART, LimitRule.STANDING):
        return independent_limit(request, old_limit, upper if rule is LimitRule.APART else None)
    if not old_request or old_limit == old_request:
        return request
    if rule is LimitRule.FOLLOW:
        return max(old_limit, request)
    return min(max(old_limit * request // old_request, request), MAX_QUANTITY)


def _followed(
    before: tuple[int | None, int | None], request: int | None, limit: int | None
) -> tuple[int | None, int | None] | None:
    if request is None and limit is None:
        return None
    if limit is None:
        return request, _limit(before, request or 0, LimitRule.FOLLOW)
    if request is None:
        old_request, old_limit = before
        request = limit if old_request is None or old_request == old_limit else min(old_request, limit)
    return request, limit


def _with(size: Size, cpu: tuple[int | None, int | None] | None, memory: tuple[int | None, int | None] | None) -> Size:
    cpus = (size.requests.cpu_millicores, size.limits.cpu_millicores) if cpu is None else cpu
    memories = (size.requests.memory_bytes, size.limits.memory_bytes) if memory is None else memory
    return Size(Resources(cpus[0], memories[0]), Resources(cpus[1], memories[1]))


def _bound(found: list[tuple[int | None, int | None, float | None]], demands_limit: bool) -> Bound:
    least = max((low for low, _, _ in found if low is not None), default=0)
    most = min((high for _, high, _ in found if high is not None), default=MAX_QUANTITY)
    ratio = min((one for _, _, one in found if one), default=0.0)
    return Bound(least, most, ratio, demands_limit)


def _most(amount: int | None) -> int:
    return MAX_QUANTITY if amount is None else amount
