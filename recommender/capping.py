"""One container's recommendation within what policy, LimitRange and nodes allow.

Owns the order of caps and their names. Keeps lower bound <= target <= upper bound after every one of them.
Order: floor, what a process was told when it started, minAllowed and maxAllowed, the cluster's maximum, the container's
limit, LimitRange, largest node. What Kubernetes would refuse comes last, so that it wins. Where statements leave
nothing between them, none is followed. What a pod's containers may have together is podcapping.py's matter.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from elastipod.limitmodes import LimitMode, LimitModes
from elastipod.limits import LimitRange, Quota
from elastipod.pods import Container
from elastipod.quantities import NOTHING, Resources
from elastipod.reasons import Reason
from recommender.policies import SizePolicy
from recommender.ranges import Cap, Capped, Range, Resource


@dataclass(frozen=True, slots=True)
class Hold:
    """A resource that is left alone, since something else acts on it, or somebody says so."""

    resource: Resource
    by: str
    container: str | None = None
    """The only container it holds for; None for all."""
    reason: Reason = Reason.SCALED_HORIZONTALLY


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What holds for every container of a workload."""

    floor: Resources = NOTHING
    most: Resources = NOTHING
    """The cluster's maximum."""
    largest_node: Resources = NOTHING
    limit_ranges: tuple[LimitRange, ...] = ()
    quotas: tuple[Quota, ...] = ()
    holds: tuple[Hold, ...] = ()
    limit_modes: LimitModes = field(default_factory=LimitModes)
    in_place: bool = False
    """Whether sizes move while processes run."""
    short_runs: str = ""
    """What runs so shortly that its usage is hardly seen; nothing where usage is seen well."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """What one of those who have a say allows."""

    by: str
    least: int | None
    most: int | None
    raised: Reason
    capped: Reason
    is_firm: bool = False
    """Whether less than its least is refused, or kills."""


def cap(wanted: Capped, policy: SizePolicy, shown: Container | None, around: Surroundings) -> Capped:
    """One container's recommendation within what is allowed. `shown` is the container as a live pod has it."""
    found = replace(wanted, moves_limits=not policy.requests_only, limit_modes=around.limit_modes)
    least, most = {}, {}
    for resource in Resource:
        span = found.of(resource)
        controlled = policy.controls_cpu if resource is Resource.CPU else policy.controls_memory
        if span is None:
            continue
        if not controlled or policy.is_off:
            found = found.with_span(resource, None)
            continue
        why = _withheld(resource, wanted.container, span, policy, shown, around)
        if why is not None:
            found = found.withheld(why)
            continue
        caps: list[Cap] = []
        if found.limit_apart(resource) is not None:
            told = max((limit for limit, _ in _limits_at_start(resource, shown, around)), default=0)
            span = replace(span, upper=max(span.upper or 0, told))
        bounds = list(_bounds(resource, policy, shown, around))
        span = _within(resource, span, bounds, caps)
        too_low = next((one for one in bounds if one.capped is Reason.CAPPED_BY_LIMIT_RANGE), None)
        if too_low is not None and span.target < (too_low.least or 0):
            by = f"{too_low.by} and the largest node"
            found = found.withheld(Cap(resource, Reason.CONTRADICTION, span.target, by))
            continue
        caps += _told_at_start(resource, span, shown)
        if caps or span is not found.of(resource):
            found = replace(found.with_span(resource, span), caps=(*found.caps, *caps))
        # Nothing is cut to next to nothing for the rest of its pod.
        least[resource] = max(resource.of(around.floor) or 0, *(one.least or 0 for one in bounds if one.is_firm), 0)
        most[resource] = min((one.most for one in bounds if one.most is not None), default=None)
    return replace(
        found,
        least=Resources(least.get(Resource.CPU), least.get(Resource.MEMORY)),
        most=Resources(most.get(Resource.CPU), most.get(Resource.MEMORY)),
    )


def limit_ratio(resource: Resource, shown: Container | None) -> tuple[int, int]:
    """A container's limit over its request as two whole numbers; 1 over 1 where either is not set."""
    if shown is None:
        return 1, 1
    limit, request = resource.of(shown.limits), resource.of(shown.requests)
    return (limit, request) if limit and request and limit > request else (1, 1)


def narrowest(ranges: Collection[LimitRange], kind: str, resource: Resource) -> tuple[int | None, int | None, str]:
    """The highest minimum and the lowest maximum of all LimitRanges for one kind, and whose they are."""
    if not ranges:
        return None, None, ""
    items = [(item, one.name) for one in ranges for item in one.items if item.type == kind]
    lows = [(amount, name) for item, name in items if (amount := resource.of(item.min)) is not None]
    highs = [(amount, name) for item, name in items if (amount := resource.of(item.max)) is not None]
    low, high = max(lows, default=(None, "")), min(highs, default=(None, ""))
    return low[0], high[0], f"LimitRange {', '.join(sorted({name for name in (low[1], high[1]) if name}))}"


def _withheld(
    resource: Resource,
    container: str,
    span: Range,
    policy: SizePolicy,
    shown: Container | None,
    around: Surroundings,
) -> Cap | None:
    """Why no recommendation is made for a resource that there is an estimate for."""
    for hold in around.holds:
        if hold.resource is resource and hold.container in (None, container):
            return Cap(resource, hold.reason, span.target, hold.by)
    least, most = resource.of(policy.min_allowed), resource.of(policy.max_allowed)
    if least is not None and most is not None and least > most:
        return Cap(resource, Reason.CONTRADICTION, span.target, "minAllowed is above maxAllowed")
    low, high, by = narrowest(around.limit_ranges, "Container", resource)
    if low is not None and high is not None and low > high:
        return Cap(resource, Reason.CONTRADICTION, span.target, by)
    if policy.requests_only and shown is not None:
        limit = resource.of(shown.limits)
        if limit == 0:
            # A request must not pass a limit of 0, and 0 is no size: the container stays as its owner wrote it.
            return Cap(resource, Reason.BEST_EFFORT, 0, "the container's limit")
        if limit is not None and low is not None and low > limit:
            return Cap(resource, Reason.CONTRADICTION, span.target, f"{by} and the container's limit")
    return None


def _bounds(resource: Resource, policy: SizePolicy, shown: Container | None, around: Surroundings) -> Iterator[_Bound]:
    """What each says who says something, in the order in which they are heard."""
    return (one for one in _said(resource, policy, shown, around) if one.least is not None or one.most is not None)


def _said(resource: Resource, policy: SizePolicy, shown: Container | None, around: Surroundings) -> Iterator[_Bound]:
    raised = Reason.RAISED_TO_MIN
    least, most = resource.of(policy.min_allowed), resource.of(policy.max_allowed)
    if least is None:
        floor = resource.of(around.floor)
        yield _Bound("the recommender's floor", floor, None, Reason.RAISED_TO_FLOOR, Reason.RAISED_TO_FLOOR)
    yield from _kept_at_start(resource, policy, shown, around)
    if around.short_runs and shown is not None:
        asked = resource.of(shown.requests)
        yield _Bound(around.short_runs, asked, None, Reason.TOO_SHORT_TO_SEE, Reason.TOO_SHORT_TO_SEE)
    yield _Bound("containerPolicies", least, most, raised, Reason.CAPPED_BY_MAX)
    cluster = resource.of(around.most)
    yield _Bound("the recommender's maximum", None, cluster, raised, Reason.CAPPED_BY_GLOBAL_MAX)
    if policy.requests_only and shown is not None:
        yield _Bound("the container's limit", None, resource.of(shown.limits), raised, Reason.CAPPED_BY_LIMIT)
    low, high, by = narrowest(around.limit_ranges, "Container", resource)
    limit, request = limit_ratio(resource, shown if _limit_follows(resource, policy, around) else None)
    if high is not None:
        # The limit follows in proportion, as far as it may; it is never below its request.
        high = max(high * request // limit, low or 0)
    narrower = Reason.CAPPED_BY_LIMIT_RANGE
    yield _Bound(by, low, high, narrower, narrower, is_firm=True)
    node = resource.of(around.largest_node)
    yield _Bound("the largest node", None, node, raised, Reason.CAPPED_BY_NODE)


def _kept_at_start(
    resource: Resource, policy: SizePolicy, shown: Container | None, around: Surroundings
) -> Iterator[_Bound]:
    """What keeps the memory limit above what a process was told when it started: it will not keep to less."""
    if shown is None or not _limit_follows(resource, policy, around):
        return
    for needed, by in _limits_at_start(resource, shown, around):
        limit = shown.limits.memory_bytes or 1
        least = -(-needed * (shown.requests.memory_bytes or limit) // limit)
        yield _Bound(by, least, None, Reason.KEPT_FOR_RUNTIME, Reason.KEPT_FOR_RUNTIME, is_firm=True)


def _limits_at_start(resource: Resource, shown: Container | None, around: Surroundings) -> Iterator[tuple[int, str]]:
    """The memory limits that a process needs for what it was told when it started, none above the one it has."""
    limit = None if shown is None else shown.limits.memory_bytes
    if shown is None or not limit or resource is not Resource.MEMORY:
        return
    for told in shown.start_sizes:
        if told.resource == resource.value:
            needed = told.amount if told.amount is not None else limit if around.in_place else 0
            yield min(needed, limit), told.by


def _limit_follows(resource: Resource, policy: SizePolicy, around: Surroundings) -> bool:
    return not policy.requests_only and around.limit_modes.of(resource) is LimitMode.PROPORTIONAL


def _told_at_start(resource: Resource, span: Range, shown: Container | None) -> list[Cap]:
    """That a change is not noticed by a process that reads its size once."""
    if shown is None or span.target == resource.of(shown.requests):
        return []
    told = [one.by for one in shown.start_sizes if one.resource == resource.value]
    return [Cap(resource, Reason.SIZED_AT_START, span.target, ", ".join(told))] if told else []


def _within(resource: Resource, span: Range, bounds: Iterable[_Bound], caps: list[Cap]) -> Range:
    for one in bounds:
        result = span.between(one.least or 0, one.most)
        if result.target != span.target:
            reason = one.raised if result.target > span.target else one.capped
            caps.append(Cap(resource, reason, result.target, one.by))
        span = result
        if one.capped is Reason.CAPPED_BY_NODE and one.most is not None and span.uncapped > one.most:
            span = replace(span, uncapped=one.most)
    return span
