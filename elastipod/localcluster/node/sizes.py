"""A container's size and a pod's, from what is desired, allocated or actuated.

Owns the sums that a kubelet enforces on a pod. Rules: cm.ResourceConfigForPod and resource.PodRequests of 1.37.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from elastipod.fit import containers_sum, pod_sum
from elastipod.localcluster.node.hands import GroupLimits
from elastipod.pods import Container, ContainerKind, Pod
from elastipod.quantities import NOTHING, Resources


@dataclass(frozen=True, slots=True)
class Size:
    """What one container may count on, and what it may not pass."""

    requests: Resources = NOTHING
    limits: Resources = NOTHING

    @property
    def group_limits(self) -> GroupLimits:
        return GroupLimits(
            self.requests.cpu_millicores, self.limits.cpu_millicores or None, self.limits.memory_bytes or None
        )


Sizes = Mapping[str, Size]
"""By container."""


def desired_sizes(pod: Pod) -> dict[str, Size]:
    """What the spec asks for."""
    return {one.name: Size(one.requests, one.limits) for one in pod.containers}


def reported_sizes(pod: Pod) -> dict[str, Size]:
    """What an earlier kubelet wrote into the status; the spec's where it said nothing."""
    return {one.name: _reported(one) for one in pod.containers}


def _reported(container: Container) -> Size:
    if container.allocated is None:
        return Size(container.requests, container.limits)
    limits = container.limits if container.actual_limits is None else container.actual_limits
    return Size(container.allocated, limits)


def was_admitted(pod: Pod) -> bool:
    """Whether some kubelet has taken the pod in."""
    return pod.started_at is not None or any(one.allocated is not None or one.container_id for one in pod.containers)


def pod_requests(pod: Pod, sizes: Sizes) -> Resources:
    """What the pod counts for when it is admitted."""
    return pod_sum(pod, lambda one: _size_of(one, sizes).requests)


def pod_group_limits(pod: Pod, sizes: Sizes) -> GroupLimits:
    """What is enforced on the pod as a whole; a limit only where every container has one."""
    running = [_size_of(one, sizes) for one in pod.containers]
    limits = containers_sum(pod, lambda one: _size_of(one, sizes).limits) + pod.overhead
    has_cpu = all(size.limits.cpu_millicores for size in running)
    has_memory = all(size.limits.memory_bytes for size in running)
    return GroupLimits(
        pod_requests(pod, sizes).cpu,
        limits.cpu if has_cpu and running else None,
        limits.memory if has_memory and running else None,
    )


def resizable(pod: Pod) -> tuple[Container, ...]:
    """Containers whose size can be put in force while they run."""
    return tuple(one for one in pod.containers if one.kind is not ContainerKind.INIT)


def _size_of(container: Container, sizes: Sizes) -> Size:
    return sizes.get(container.name) or Size(container.requests, container.limits)
