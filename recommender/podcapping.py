"""The recommendations of a pod's containers together, within what the whole pod may have.

Owns the pod's bounds (its own resources, the namespace's LimitRange for pods, what a ResourceQuota leaves, the largest
node) and how containers share one that is too narrow: each gives way by the same fraction of what it has above its own
minimum, after limits that are apart have given way. Where that is not enough, nothing is recommended, by name.
While a rollout renames a container, pods of two shapes live: each is within its bounds, and pays for its own only.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from elastipod.pods import Container, Pod
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from recommender.capping import Surroundings, limit_ratio, narrowest
from recommender.ranges import Cap, Capped, Resource


@dataclass(frozen=True, slots=True)
class _PodBound:
    """The most that a pod's containers may ask together, or may have as limits."""

    most: int
    reason: Reason
    by: str
    is_of_limits: bool = False


class Shape(NamedTuple):
    """The containers of pods that have the same."""

    names: frozenset[str]
    shown: tuple[Container, ...]
    pod: Pod | None = None
    """The newest."""

    def change(self, containers: list[Capped], to: Callable[[list[Capped]], list[Capped]]) -> None:
        """Put in place what its own among all containers are to be."""
        places = [place for place, one in enumerate(containers) if one.container in self.names]
        for place, changed in zip(places, to([containers[place] for place in places]), strict=True):
            containers[place] = changed


def shapes_of(pods: Iterable[Pod], shown: Mapping[str, Container | None]) -> list[Shape]:
    """The shapes of living pods, newest first; what none of them has, as where none lives, is one more."""
    newest: dict[frozenset[str], Pod | None] = {}
    for pod in pods:
        newest.setdefault(frozenset(one.name for one in pod.sized_containers), pod)
    if rest := frozenset(shown).difference(*newest):
        newest[rest] = None
    return [
        Shape(names, tuple(one for name, one in shown.items() if one is not None and name in names), pod)
        for names, pod in newest.items()
    ]


def cap_pod(
    containers: Sequence[Capped], shown: Sequence[Container], around: Surroundings, pods: Sequence[Pod] = ()
) -> tuple[Capped, ...]:
    """The containers of a pod together within what holds for the pod. `pods` are those that live, newest first."""
    names = frozenset(one.container for one in containers)
    return cap_shapes(containers, [Shape(names, tuple(shown), pods[0] if pods else None)], around, pods)


def cap_shapes(
    containers: Sequence[Capped], shapes: Sequence[Shape], around: Surroundings, pods: Sequence[Pod] = ()
) -> tuple[Capped, ...]:
    """The containers of pods together within what holds for a pod of each shape. `pods` are all that live."""
    capped = list(containers)
    for resource in Resource:
        least, _, by = narrowest(around.limit_ranges, "Pod", resource)
        quotas = tuple(_quota_bounds(resource, around, pods))
        if least is not None:
            for shape in shapes:
                shape.change(capped, partial(_raised, resource, shown=shape.shown, least=least, by=by))
        for shape in shapes:
            for bound in _bounds(resource, around, shape.pod, quotas):
                shape.change(capped, partial(_lowered, resource, shown=shape.shown, bound=bound))
        if least is not None:
            for shape in shapes:
                shape.change(capped, partial(_proven, resource, shown=shape.shown, least=least, by=by))
    return tuple(capped)


def _bounds(
    resource: Resource, around: Surroundings, pod: Pod | None, quotas: Iterable[_PodBound]
) -> Iterator[_PodBound]:
    most = None if pod is None else resource.of(pod.pod_requests)
    if most is not None:
        yield _PodBound(most, Reason.CAPPED_BY_POD, "the pod's resources")
    _, most, by = narrowest(around.limit_ranges, "Pod", resource)
    if most is not None:
        yield _PodBound(most, Reason.CAPPED_BY_LIMIT_RANGE, by, is_of_limits=True)
    yield from quotas
    most = resource.of(around.largest_node)
    if most is not None:
        overhead = 0 if pod is None else resource.of(pod.overhead) or 0
        yield _PodBound(max(most - overhead, 0), Reason.CAPPED_BY_NODE, "the largest node")


def _quota_bounds(resource: Resource, around: Surroundings, pods: Sequence[Pod]) -> Iterator[_PodBound]:
    """An equal share of what these pods hold of a quota and of what it has left. No quota asks them to shrink."""
    if not pods or not around.quotas:
        return
    for kind, amount_of in (("requests", _requests), ("limits", _limits)):
        key = f"{kind}.{resource}"
        held = [sum(resource.of(amount_of(one)) or 0 for one in pod.sized_containers) for pod in pods]
        for quota in around.quotas:
            if key in quota.hard and not quota.is_scoped:
                left = max(quota.hard[key] - quota.used.get(key, 0), 0)
                share = max((sum(held) + left) // len(pods), *held)
                yield _PodBound(share, Reason.CAPPED_BY_QUOTA, f"ResourceQuota {quota.name}", kind == "limits")


def _lowered(
    resource: Resource, containers: list[Capped], shown: Sequence[Container], bound: _PodBound
) -> list[Capped]:
    wanted = _sum(resource, containers, shown, is_of_limits=bound.is_of_limits)
    if wanted > bound.most and bound.is_of_limits:
        containers = _limits_lowered(resource, containers, shown, wanted - bound.most)
        wanted = _sum(resource, containers, shown, is_of_limits=True)
    if wanted <= bound.most:
        return containers
    by_name = {one.name: one for one in shown}
    spans = {place: span for place, one in enumerate(containers) if (span := one.of(resource)) is not None}
    moving = {
        place: span
        for place, span in spans.items()
        if not bound.is_of_limits or _moves(resource, containers[place], by_name.get(containers[place].container))
    }
    ratios = {
        place: Fraction(*limit_ratio(resource, by_name.get(containers[place].container)))
        if bound.is_of_limits
        else Fraction(1)
        for place in moving
    }
    leasts = {place: min(resource.of(containers[place].least) or 0, span.target) for place, span in moving.items()}
    above = sum((moving[place].target - leasts[place]) * ratios[place] for place in moving)
    # A fraction of what is above the minimum, rounded down for each: together they are within the bound.
    room = above - (wanted - bound.most)
    if not moving or room < 0:
        return _withheld(resource, containers, bound.by) if moving else containers
    result = list(containers)
    for place, span in moving.items():
        kept = math.floor((span.target - leasts[place]) * room / above) if above else 0
        share = leasts[place] + kept
        why = Cap(resource, bound.reason, share, bound.by)
        result[place] = containers[place].changed(span.between(0, share), why)
    return result


def _limits_lowered(
    resource: Resource, containers: list[Capped], shown: Sequence[Container], excess: Fraction | int
) -> list[Capped]:
    """Limits that are apart give way first, each by the same fraction of what it is above its request."""
    limited = {one.name for one in shown if resource.of(one.limits)}
    spans = {
        place: (limit, span)
        for place, one in enumerate(containers)
        if one.container in limited
        and (limit := one.limit_apart(resource)) is not None
        and (span := one.of(resource)) is not None
    }
    above = sum(limit - span.target for limit, span in spans.values())
    result = list(containers)
    for place, (limit, span) in spans.items():
        kept = math.floor((limit - span.target) * max(above - excess, 0) / above) if above else 0
        result[place] = containers[place].with_span(resource, replace(span, upper=span.target + kept))
    return result


def _raised(
    resource: Resource, containers: list[Capped], shown: Sequence[Container], least: int, by: str
) -> list[Capped]:
    """All by the same fraction, each as far as it may grow by itself."""
    wanted = _sum(resource, containers, shown, is_of_limits=False)
    sized = sum(span.target for one in containers if (span := one.of(resource)) is not None)
    if wanted >= least or not sized:
        return containers
    result = list(containers)
    for place, one in enumerate(containers):
        span = one.of(resource)
        if span is None:
            continue
        share = math.ceil(span.target * (sized + least - wanted) / sized)
        most = resource.of(one.most)
        share = share if most is None else max(min(share, most), span.target)
        result[place] = one.changed(span.between(share, None), Cap(resource, Reason.CAPPED_BY_LIMIT_RANGE, share, by))
    return result


def _proven(
    resource: Resource, containers: list[Capped], shown: Sequence[Container], least: int, by: str
) -> list[Capped]:
    """Nothing where all together are still too little."""
    is_enough = _sum(resource, containers, shown, is_of_limits=False) >= least
    return containers if is_enough else _withheld(resource, containers, by)


def _sum(
    resource: Resource, containers: Sequence[Capped], shown: Sequence[Container], *, is_of_limits: bool
) -> Fraction | int:
    """What the containers ask together, or would have as limits; those that are not sized as they are."""
    spans = {one.container: (one, span) for one in containers if (span := one.of(resource)) is not None}
    by_name = {one.name: one for one in shown}
    total: Fraction | int = 0
    for name in {*spans, *by_name}:
        container = by_name.get(name)
        request = 0 if container is None else resource.of(container.requests) or 0
        limit = request if container is None else resource.of(container.limits) or 0
        if name not in spans:
            total += max(limit, request) if is_of_limits else request
            continue
        one, span = spans[name]
        if not is_of_limits:
            total += span.target
        elif _moves(resource, one, container):
            total += span.target * Fraction(*limit_ratio(resource, container))
        else:
            total += max(one.limit_apart(resource) or limit, span.target)
    return total


def _moves(resource: Resource, capped: Capped, shown: Container | None) -> bool:
    """Whether the limit follows the request; where there is none, the request counts in its place."""
    return capped.limit_follows(resource) or shown is None or not resource.of(shown.limits)


def _withheld(resource: Resource, containers: Sequence[Capped], by: str) -> list[Capped]:
    def without(one: Capped) -> Capped:
        span = one.of(resource)
        if span is None:
            return one
        return one.withheld(Cap(resource, Reason.CONTRADICTION, span.target, by))

    return [without(one) for one in containers]


def _requests(container: Container) -> Resources:
    return container.requests


def _limits(container: Container) -> Resources:
    return container.limits
