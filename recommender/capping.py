"""A recommendation within what policy, LimitRange and nodes allow.

Owns the order of caps and their names. Keeps lower bound <= target <= upper bound after every one of them.
Order: floor, the container's limit, minAllowed, maxAllowed, the cluster's maximum, LimitRange, largest node. What
Kubernetes would refuse comes last, so that it wins.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from elastipod.limits import LimitRange, LimitRangeItem
from elastipod.pods import Container
from elastipod.quantities import NOTHING, Resources
from elastipod.reasons import Reason
from recommender.policies import SizePolicy


class Resource(StrEnum):
    """What a recommendation speaks of."""

    CPU = "cpu"
    MEMORY = "memory"

    def of(self, amounts: Resources) -> int | None:
        """Its amount."""
        return amounts.cpu_millicores if self is Resource.CPU else amounts.memory_bytes


@dataclass(frozen=True, slots=True)
class Range:
    """One resource's recommendation, in millicores or bytes; `upper` None where no upper bound is shown."""

    lower: int
    target: int
    upper: int | None
    uncapped: int

    def between(self, least: int, most: int | None) -> "Range":
        """Within limits; where they contradict each other, the upper one holds."""

        def clamp(amount: int) -> int:
            amount = max(amount, least)
            return amount if most is None else min(amount, most)

        return replace(
            self,
            lower=clamp(self.lower),
            target=clamp(self.target),
            upper=None if self.upper is None else clamp(self.upper),
        )


@dataclass(frozen=True, slots=True)
class Cap:
    """What changed a recommendation, and to how much."""

    resource: Resource
    reason: Reason
    amount: int


@dataclass(frozen=True, slots=True)
class Capped:
    """One container's recommendation; None for a resource that none is made for."""

    container: str
    cpu: Range | None
    memory: Range | None
    caps: tuple[Cap, ...] = ()

    def of(self, resource: Resource) -> Range | None:
        return self.cpu if resource is Resource.CPU else self.memory


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What holds for every container of a namespace."""

    floor: Resources = NOTHING
    most: Resources = NOTHING
    """The cluster's maximum."""
    largest_node: Resources = NOTHING
    limit_ranges: tuple[LimitRange, ...] = ()


def range_of(values: Sequence[float], unit: float) -> Range | None:
    """Lower bound, target and upper bound in whole units, rounded up; None where there is no data."""
    lower, target, upper = values
    if not math.isfinite(target):
        return None
    whole_target = max(math.ceil(target * unit), 0)
    whole_lower = min(math.ceil(lower * unit) if math.isfinite(lower) else 0, whole_target)
    whole_upper = max(math.ceil(upper * unit), whole_target) if math.isfinite(upper) else None
    return Range(whole_lower, whole_target, whole_upper, whole_target)


def cap(wanted: Capped, policy: SizePolicy, shown: Container | None, around: Surroundings) -> Capped:
    """One container's recommendation within what is allowed. `shown` is the container as a live pod has it."""
    caps = list(wanted.caps)
    found: dict[Resource, Range | None] = {}
    for resource in Resource:
        controlled = policy.controls_cpu if resource is Resource.CPU else policy.controls_memory
        span = wanted.of(resource)
        found[resource] = None
        if span is not None and controlled and not policy.is_off:
            found[resource] = _cap_resource(resource, span, policy, shown, around, caps)
    return replace(wanted, cpu=found[Resource.CPU], memory=found[Resource.MEMORY], caps=tuple(caps))


def cap_pod(containers: Sequence[Capped], shown: Sequence[Container], around: Surroundings) -> tuple[Capped, ...]:
    """The containers of a pod together within the namespace's LimitRange for pods, all cut by the same fraction."""
    capped = list(containers)
    by_name = {container.name: container for container in shown}
    for resource in Resource:
        most = _narrowest(_items(around, "Pod"), resource)[1]
        if most is None:
            continue
        spans = [(place, one.of(resource)) for place, one in enumerate(capped)]
        sized = {capped[place].container for place, span in spans if span is not None}
        others = sum(
            max(resource.of(one.limits) or 0, resource.of(one.requests) or 0) for one in shown if one.name not in sized
        )
        wanted = sum(
            math.ceil(span.target * _limit_ratio(resource, by_name.get(capped[place].container)))
            for place, span in spans
            if span is not None
        )
        room = max(most - others, 0)
        if wanted <= room:
            continue
        for place, span in spans:
            if span is not None:
                share = span.target * room // wanted
                lowered = span.between(0, share)
                capped[place] = _with(
                    capped[place], resource, lowered, Cap(resource, Reason.CAPPED_BY_LIMIT_RANGE, share)
                )
    return tuple(capped)


def _cap_resource(
    resource: Resource,
    span: Range,
    policy: SizePolicy,
    shown: Container | None,
    around: Surroundings,
    caps: list[Cap],
) -> Range | None:
    def within(span: Range, least: int | None, most: int | None, below: Reason, above: Reason) -> Range:
        result = span.between(least or 0, most)
        if result.target != span.target:
            caps.append(Cap(resource, below if result.target > span.target else above, result.target))
        return result

    least, most = resource.of(policy.min_allowed), resource.of(policy.max_allowed)
    if least is None:
        span = within(span, resource.of(around.floor), None, Reason.RAISED_TO_FLOOR, Reason.RAISED_TO_FLOOR)
    span = within(span, least, most, Reason.RAISED_TO_MIN, Reason.CAPPED_BY_MAX)
    span = within(span, None, resource.of(around.most), Reason.CAPPED_BY_GLOBAL_MAX, Reason.CAPPED_BY_GLOBAL_MAX)
    if shown is not None and policy.requests_only:
        limit = resource.of(shown.limits)
        if limit == 0:
            # A request must not pass a limit of 0, and 0 is no size: the container stays as its owner wrote it.
            caps.append(Cap(resource, Reason.BEST_EFFORT, 0))
            return None
        span = within(span, None, limit, Reason.CAPPED_BY_LIMIT, Reason.CAPPED_BY_LIMIT)
    low, high = _request_limits(resource, shown, policy, _items(around, "Container"))
    span = within(span, low, high, Reason.CAPPED_BY_LIMIT_RANGE, Reason.CAPPED_BY_LIMIT_RANGE)
    node = resource.of(around.largest_node)
    span = within(span, None, node, Reason.CAPPED_BY_NODE, Reason.CAPPED_BY_NODE)
    return span if node is None else replace(span, uncapped=min(span.uncapped, node))


def _request_limits(
    resource: Resource, shown: Container | None, policy: SizePolicy, items: Sequence[LimitRangeItem]
) -> tuple[int | None, int | None]:
    """What a LimitRange leaves a request, when the limit follows in proportion."""
    least, most = _narrowest(items, resource)
    ratio = 1.0 if policy.requests_only else _limit_ratio(resource, shown)
    if most is not None:
        most = int(most / ratio)
    limit = None if shown is None or not policy.requests_only else resource.of(shown.limits)
    if limit is not None:
        # A namespace's minimum lifts no request above a limit that stays.
        most = limit if most is None else min(most, limit)
    return least, most


def _limit_ratio(resource: Resource, shown: Container | None) -> float:
    """Limit over request; 1 where either is not set."""
    if shown is None:
        return 1.0
    limit, request = resource.of(shown.limits), resource.of(shown.requests)
    return max(limit / request, 1.0) if limit and request else 1.0


def _items(around: Surroundings, kind: str) -> list[LimitRangeItem]:
    return [item for one in around.limit_ranges for item in one.items if item.type == kind]


def _narrowest(items: Sequence[LimitRangeItem], resource: Resource) -> tuple[int | None, int | None]:
    lows = [amount for item in items if (amount := resource.of(item.min)) is not None]
    highs = [amount for item in items if (amount := resource.of(item.max)) is not None]
    return max(lows, default=None), min(highs, default=None)


def _with(capped: Capped, resource: Resource, span: Range, why: Cap) -> Capped:
    caps = (*capped.caps, why)
    if resource is Resource.CPU:
        return replace(capped, cpu=span, caps=caps)
    return replace(capped, memory=span, caps=caps)
