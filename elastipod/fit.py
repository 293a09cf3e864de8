"""What is free on a node, and what would fit.

Owns the arithmetic of room in the scheduler's view (what is desired counts) and in the kubelet's view (what is
allocated counts). Rules: component-helpers' resource.PodRequests of 1.37, and the kubelet's fit of a resize.
"""

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from elastipod.pods import Container, ContainerKind, Node, PendingReason, Pod
from elastipod.quantities import NOTHING, Resources

_ZERO: Final = Resources(0, 0)


def desired(container: Container) -> Resources:
    """Requests in the spec."""
    return container.requests


def allocated(container: Container) -> Resources:
    """Requests the kubelet admitted; the spec's where it has not said."""
    return container.requests if container.allocated is None else container.allocated


def actual(container: Container) -> Resources:
    """Requests the container runs with; the allocated ones where the runtime does not say."""
    return allocated(container) if container.actual_requests is None else container.actual_requests


def pod_sum(pod: Pod, requests_of: Callable[[Container], Resources]) -> Resources:
    """What a pod requests in all: what it says of itself as a whole, or else what its containers come to; and overhead.

    Unset amounts count as zero.
    """
    together = containers_sum(pod, requests_of)
    if pod.pod_requests != NOTHING:
        together = pod.pod_requests.or_else(together)
    return together if pod.overhead == NOTHING else together + pod.overhead


def containers_sum(pod: Pod, amount_of: Callable[[Container], Resources]) -> Resources:
    """What containers come to: apps and sidecars together, or the peak of an init step if larger.

    An init step counts with the sidecars started before it. Unset amounts count as zero.
    """
    if len(pod.containers) == 1:
        # Most pods, and all that is left of the below for them.
        amount = amount_of(pod.containers[0])
        return _ZERO + amount if amount.cpu_millicores is None or amount.memory_bytes is None else amount
    together = sidecars = init_peak = _ZERO
    for container in pod.containers:
        amount = amount_of(container)
        if container.kind is ContainerKind.INIT:
            init_peak = init_peak.largest(sidecars + amount)
            continue
        together += amount
        if container.kind is ContainerKind.SIDECAR:
            sidecars += amount
            init_peak = init_peak.largest(sidecars)
    return together if init_peak is _ZERO else together.largest(init_peak)


def reserved(pod: Pod) -> Resources:
    """What the scheduler counts for a pod: max(desired unless infeasible, allocated, actual) of the pod's sums."""
    if pod.is_terminal:
        return _ZERO
    held = pod_sum(pod, allocated).largest(pod_sum(pod, actual))
    if pod.resize_pending is not None and pod.resize_pending.reason == PendingReason.INFEASIBLE:
        return held
    return held.largest(pod_sum(pod, desired))


class NodeRoom(Struct, frozen=True, gc=False):
    """A node's free amounts in both views, in millicores and bytes; negative when overcommitted."""

    node: str
    allocatable: Resources
    free_for_scheduler: Resources
    free_for_kubelet: Resources

    @property
    def free(self) -> Resources:
        """What both views have free."""
        return Resources(
            min(self.free_for_scheduler.cpu, self.free_for_kubelet.cpu),
            min(self.free_for_scheduler.memory, self.free_for_kubelet.memory),
        )

    def fits(self, more: Resources) -> bool:
        """Whether a pod of that difference would fit, as a scheduler asks; a part that does not grow always fits."""
        free = self.free
        return (more.cpu <= 0 or more.cpu <= free.cpu) and (more.memory <= 0 or more.memory <= free.memory)


def node_room(node: Node, pods: Iterable[Pod], granted: Resources = NOTHING) -> NodeRoom:
    """The room on a node that runs these pods; `granted` is what was promised and does not show yet."""
    for_scheduler = for_kubelet = _ZERO + granted
    for pod in pods:
        if pod.node_name != node.name or pod.is_terminal:
            continue
        for_scheduler += reserved(pod)
        for_kubelet += pod_sum(pod, allocated)
    return NodeRoom(node.name, node.allocatable, node.allocatable - for_scheduler, node.allocatable - for_kubelet)
