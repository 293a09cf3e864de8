"""In which order a resize is put in force.

Owns the steps from what is actuated to what is allocated, and the check before memory shrinks. Rules: kuberuntime's
doPodResizeAction of 1.37: memory, then CPU; the pod up first, shrinking containers before growing ones, the pod down
last.
Invariant: no container's limit above its pod's, at any step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from elastipod.localcluster.node.hands import GroupLimits
from elastipod.localcluster.node.sizes import Size, Sizes, pod_group_limits, resizable
from elastipod.pods import Container, Pod
from elastipod.quantities import Resources

_LEAST_CPU_LIMIT: Final = 10
_LEAST_CPU_REQUEST: Final = 2


@dataclass(frozen=True, slots=True)
class Step:
    """One write: all limits of one group; `container` is empty for the pod as a whole."""

    container: str
    limits: GroupLimits


def needs_restart(container: Container, before: Size, after: Size) -> bool:
    """Whether a change is one that the container's resizePolicy wants a restart for."""
    cpu = (before.requests.cpu_millicores, before.limits.cpu_millicores) != (
        after.requests.cpu_millicores,
        after.limits.cpu_millicores,
    )
    memory = (before.requests.memory_bytes, before.limits.memory_bytes) != (
        after.requests.memory_bytes,
        after.limits.memory_bytes,
    )
    return (cpu and container.cpu_restart) or (memory and container.memory_restart)


def steps(pod: Pod, before: Sizes, after: Sizes) -> list[Step]:
    """The writes that lead from one set of sizes to the other."""
    found: list[Step] = []
    now = {one.name: before[one.name].group_limits for one in resizable(pod) if one.name in before}
    goal = {name: after[name].group_limits for name in now if name in after}
    pod_now, pod_goal = pod_group_limits(pod, before), pod_group_limits(pod, after)
    # A pod's limit that becomes absent stays where it is.
    pod_goal = replace(
        pod_goal,
        cpu_limit_millicores=pod_goal.cpu_limit_millicores or pod_now.cpu_limit_millicores,
        memory_limit_bytes=pod_goal.memory_limit_bytes or pod_now.memory_limit_bytes,
    )
    for resource in ("memory", "cpu"):
        raised = _taken(pod_now, _highest(pod_now, pod_goal), resource)
        if raised != pod_now:
            found.append(Step("", raised))
            pod_now = raised
        for name in sorted(goal, key=lambda one: (_is_growing(now[one], goal[one], resource), one)):
            moved = _taken(now[name], goal[name], resource)
            if moved != now[name]:
                found.append(Step(name, moved))
                now[name] = moved
        lowered = _taken(pod_now, pod_goal, resource)
        if lowered != pod_now:
            found.append(Step("", lowered))
            pod_now = lowered
    return found


def refused_shrink(
    pod: Pod, before: Sizes, after: Sizes, memory_usage: Mapping[str, int | None], used_by_pod: int
) -> str:
    """Why memory must not shrink now; empty where it may. `memory_usage` is by container, None where unknown."""
    why: list[str] = []
    was, will = pod_group_limits(pod, before).memory_limit_bytes, pod_group_limits(pod, after).memory_limit_bytes
    if _shrinks(was, will) and used_by_pod >= (will or 0):
        why.append(f"attempting to set pod memory limit ({will}) below current usage ({used_by_pod})")
    for one in resizable(pod):
        if one.name not in before or one.name not in after or one.name not in memory_usage:
            continue
        was, will = before[one.name].limits.memory_bytes, after[one.name].limits.memory_bytes
        used = memory_usage[one.name]
        if not _shrinks(was, will):
            continue
        if used is None:
            why.append(f'missing container "{one.name}" memory usage')
        elif used >= (will or 0):
            # The kubelet tells of the pod's usage here too.
            text = f'attempting to set container "{one.name}" memory limit ({will}) below current usage ({used_by_pod})'
            why.append(text)
    if not why:
        return ""
    told = why[0] if len(why) == 1 else f"[{', '.join(why)}]"
    return f"cannot decrease memory limits: {told}"


def _shrinks(was: int | None, will: int | None) -> bool:
    """Whether a limit is lowered, or set where there was none."""
    return bool(will) and (not was or (will or 0) < was)


def read_back(allocated: Size, in_force: GroupLimits) -> Size:
    """A running container's size as its status tells it: what the kernel has, but for values under its floors.

    A memory request is in no cgroup; the allocated one is told.
    """
    requests, limits = allocated.requests, allocated.limits
    cpu_request, cpu_limit = in_force.cpu_request_millicores, in_force.cpu_limit_millicores
    if requests.cpu_millicores is not None and cpu_request is not None:
        both_least = requests.cpu_millicores <= _LEAST_CPU_REQUEST and cpu_request <= _LEAST_CPU_REQUEST
        if not both_least:
            requests = Resources(cpu_request, requests.memory_bytes)
    if limits.cpu <= _LEAST_CPU_LIMIT and (cpu_limit or 0) <= _LEAST_CPU_LIMIT and limits.cpu_millicores:
        cpu_limit = limits.cpu_millicores
    return Size(requests, Resources(cpu_limit, in_force.memory_limit_bytes))


def _highest(now: GroupLimits, goal: GroupLimits) -> GroupLimits:
    """Per value the higher of the two; no limit is higher than any."""
    return GroupLimits(
        max(now.cpu_request_millicores or 0, goal.cpu_request_millicores or 0),
        _higher(now.cpu_limit_millicores, goal.cpu_limit_millicores),
        _higher(now.memory_limit_bytes, goal.memory_limit_bytes),
    )


def _higher(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


def _taken(now: GroupLimits, goal: GroupLimits, resource: str) -> GroupLimits:
    """The limits now, with one resource's as wanted."""
    if resource == "memory":
        return replace(now, memory_limit_bytes=goal.memory_limit_bytes)
    return replace(goal, memory_limit_bytes=now.memory_limit_bytes)


def _is_growing(now: GroupLimits, goal: GroupLimits, resource: str) -> bool:
    was, will = (
        (now.memory_limit_bytes, goal.memory_limit_bytes)
        if resource == "memory"
        else (now.cpu_limit_millicores, goal.cpu_limit_millicores)
    )
    return _higher(was, will) == will
