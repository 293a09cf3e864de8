"""What the API server would refuse, found before it is asked.

Owns the check of a resize against LimitRanges (all containers are checked again on a resize, and the pod's sums) and
against ResourceQuotas. Kubernetes: plugin/pkg/admission/limitranger, pkg/quota/v1/evaluator/core/pods.go.
"""

from collections.abc import Iterable, Iterator, Mapping

from elastipod.fit import actual, allocated, containers_sum, desired, pod_sum, reserved
from elastipod.limits import LimitRange, LimitRangeItem, Quota
from elastipod.pods import Container, ContainerKind, Node, Pod
from elastipod.quantities import Resources, format_cpu, show_memory
from elastipod.reasons import Reason
from updater.sizes import Size, Sizes, size_of


def requests_with(pod: Pod, sizes: Sizes) -> Resources:
    """The pod's sum of requests in the spec, with these sizes."""

    def request(container: Container) -> Resources:
        size = sizes.get(container.name)
        return container.requests if size is None else size.requests

    return pod_sum(pod, request)


def limits_with(pod: Pod, sizes: Sizes) -> Resources:
    """The pod's sum of limits in the spec, with these sizes."""

    def limit(container: Container) -> Resources:
        size = sizes.get(container.name)
        return container.limits if size is None else size.limits

    return containers_sum(pod, limit) + pod.overhead


def growth(pod: Pod, sizes: Sizes) -> tuple[Resources, Resources]:
    """How much more of a node a pod would hold with these sizes, in the scheduler's and in the kubelet's view."""
    wanted, held = requests_with(pod, sizes), pod_sum(pod, allocated)
    return wanted.largest(held).largest(pod_sum(pod, actual)) - reserved(pod), wanted - held


def limit_range_problem(pod: Pod, sizes: Sizes, limit_ranges: Iterable[LimitRange]) -> str:
    """What a LimitRange of the namespace forbids, or nothing."""
    for limit_range in limit_ranges:
        for item in limit_range.items:
            for what, size in _checked(pod, sizes, item):
                problem = _problem(item, size)
                if problem:
                    return f"LimitRange {limit_range.name}: {problem} {what}"
    return ""


def quota_need(pod: Pod, sizes: Sizes) -> dict[str, int]:
    """How much more of a namespace's quota the resize uses."""
    more, _ = growth(pod, sizes)
    more_limits = limits_with(pod, sizes) - limits_with(pod, {})
    return {
        "requests.cpu": more.cpu,
        "requests.memory": more.memory,
        "limits.cpu": more_limits.cpu,
        "limits.memory": more_limits.memory,
    }


def quota_problem(need: Mapping[str, int], quotas: Iterable[Quota], granted: Mapping[str, int]) -> str:
    """The quota without room for it, besides what was granted from it and does not show yet; or nothing."""
    with_granted = {key: amount + granted.get(key, 0) for key, amount in need.items() if amount > 0}
    for quota in quotas:
        key = quota.lacking(with_granted)
        if key:
            left = max(quota.hard[key] - quota.used.get(key, 0) - granted.get(key, 0), 0)
            show = format_cpu if key.endswith("cpu") else show_memory
            return f"ResourceQuota {quota.name}: {show(need[key])} more of {key} asked, {show(left)} left"
    return ""


def obstacle(
    pod: Pod,
    sizes: Sizes,
    node: Node | None,
    need: Mapping[str, int],
    quotas: Iterable[Quota],
    granted: Mapping[str, int],
) -> tuple[Reason, str] | None:
    """What besides free room stands against a resize now: its node, or a quota that has less than `need`."""
    if node is None or not node.is_ready:
        return Reason.NODE_NOT_READY, f"node {pod.node_name} is not ready"
    wanted, held = requests_with(pod, sizes), pod_sum(pod, desired)
    if wanted.cpu > max(node.allocatable.cpu, held.cpu):
        has, asks = format_cpu(node.allocatable.cpu), format_cpu(wanted.cpu)
        return Reason.INFEASIBLE, f"node {node.name} has cpu {has} in all, the pod would request {asks}"
    if wanted.memory > max(node.allocatable.memory, held.memory):
        has, asks = show_memory(node.allocatable.memory), show_memory(wanted.memory)
        return Reason.INFEASIBLE, f"node {node.name} has memory {has} in all, the pod would request {asks}"
    problem = quota_problem(need, quotas, granted)
    return (Reason.QUOTA_EXCEEDED, problem) if problem else None


def _checked(pod: Pod, sizes: Sizes, item: LimitRangeItem) -> Iterator[tuple[str, Size]]:
    if item.type == "Container":
        for container in pod.containers:
            kind = "init container" if container.kind is ContainerKind.INIT else "container"
            yield f"for {kind} {container.name}", sizes.get(container.name) or size_of(container)
    elif item.type == "Pod":
        requests, limits = requests_with(pod, sizes), limits_with(pod, sizes)
        yield "for the pod", Size(requests - pod.overhead, limits - pod.overhead)


def _problem(item: LimitRangeItem, size: Size) -> str:
    for name, least, most, ratio, request, limit in (
        (
            "cpu",
            item.min.cpu_millicores,
            item.max.cpu_millicores,
            item.max_ratio_cpu,
            size.requests.cpu_millicores,
            size.limits.cpu_millicores,
        ),
        (
            "memory",
            item.min.memory_bytes,
            item.max.memory_bytes,
            item.max_ratio_memory,
            size.requests.memory_bytes,
            size.limits.memory_bytes,
        ),
    ):
        show = format_cpu if name == "cpu" else show_memory
        if least is not None and (request is None or request < least):
            return f"its {name} request must be at least {show(least)}"
        if most is not None and (limit is None or limit > most):
            return f"its {name} limit must be at most {show(most)}"
        if ratio and (limit is None or not request or limit > ratio * request):
            return f"its {name} limit must be at most {ratio:g} times its request"
    return ""
