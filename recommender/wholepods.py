"""Pods that request as a whole: what they hold beyond what their containers request, and what they should request.

Owns also what a limit of the whole means for its containers, and the split, so that accounts by container come to what
the pod reserves. What accounts are is savings.py's matter.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from elastipod.fit import containers_sum
from elastipod.pods import Container, Pod
from elastipod.quantities import NOTHING, Resources
from recommender.ranges import Resource


def beyond(whole: Resources, requests: Sequence[Resources], needed: Sequence[Resources]) -> list[tuple[int, ...]]:
    """By container: millicores and bytes of what the pod has beyond its containers, in whole ones.

    Each has a share by what it would need more, so that no container seems to lack what the pod has; where none needs
    more, all have the same.
    """
    return list(zip(*(_shares(resource, whole, requests, needed) for resource in Resource), strict=True))


def container_limits(pod: Pod, container: Container) -> Resources:
    """What a container may use at most: its own limit, or what all of its pod may."""
    return container.limits if pod.pod_limits is NOTHING else container.limits.or_else(pod.pod_limits)


def pod_target(pod: Pod, targets: Mapping[str, Resources]) -> Resources:
    """What a pod would request as a whole if its containers requested so much; nothing of what it does not now.

    Where it is not known what one of them needs, no less than it does now.
    """
    together = containers_sum(pod, lambda one: targets.get(one.name, NOTHING).or_else(one.requests))

    def amount(resource: Resource) -> int | None:
        now, then = resource.of(pod.pod_requests), resource.of(together) or 0
        known = (resource.of(targets.get(one.name, NOTHING)) for one in pod.sized_containers)
        return now if now is None else then if None not in known else max(now, then)

    return Resources(*map(amount, Resource))


def _shares(
    resource: Resource, whole: Resources, requests: Sequence[Resources], needed: Sequence[Resources]
) -> list[int]:
    own = [resource.of(one) or 0 for one in requests]
    rest = max((resource.of(whole) or 0) - sum(own), 0)
    needs = [max((resource.of(one) or 0) - has, 0) for one, has in zip(needed, own, strict=True)]
    if not any(needs):
        needs = [1] * len(own)
    # Where each begins, rounded down: together they are what there is.
    begins = [rest * before // sum(needs) for before in accumulate(needs, initial=0)]
    return [end - begin for begin, end in pairwise(begins)]
