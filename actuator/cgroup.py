"""What to write into cgroups, and in which order.

Owns the conversions (shares, weights, quotas and their floors) and the two orders that are safe: within a group (v1's
memory+swap limit) and between a pod and its containers. Opens nothing. Sources: kubelet's cm helpers of 1.37,
runc's ConvertCPUSharesToCgroupV2Value of both ages, Linux' cgroup-v1 and cgroup-v2 documents.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from elastipod.localcluster.node.hands import GroupLimits

PERIOD_MICROSECONDS: Final = 100_000
_LEAST_SHARES: Final = 2
_MOST_SHARES: Final = 262_144
# The kernel refuses a quota under 1 ms.
_LEAST_QUOTA: Final = 1_000
V1_UNLIMITED: Final = 9_223_372_036_854_771_712
"""What cgroup v1 shows where no memory limit is set: the largest whole page."""


@dataclass(frozen=True, slots=True)
class CgroupWrite:
    """One value for one file of one group; `may_lack` where a kernel may be built without the file."""

    group: str
    file: str
    value: str
    may_lack: bool = False


def limit_told(number: int | None) -> int | None:
    """The memory limit that a group's file tells of; None where it sets none, on either version."""
    return None if number is None or number >= V1_UNLIMITED else number


def cpu_shares(request_millicores: int | None) -> int:
    """A request as v1 shares; none is the smallest."""
    return min(max((request_millicores or 0) * 1024 // 1000, _LEAST_SHARES), _MOST_SHARES)


def cpu_weight(shares: int, *, linear: bool = False) -> int:
    """Shares as a v2 weight; `linear` as runc before 1.3.2 and kubelets before 1.35 had it."""
    if linear:
        return 1 + (shares - _LEAST_SHARES) * 9999 // (_MOST_SHARES - _LEAST_SHARES)
    if shares <= _LEAST_SHARES:
        return 1
    if shares >= _MOST_SHARES:
        return 10_000
    log = math.log2(shares)
    return math.ceil(10 ** ((log * log + 125 * log) / 612 - 7 / 34))


def shares_of_weight(weight: int, *, linear: bool = False) -> int:
    """The smallest shares of that weight."""
    low, high = _LEAST_SHARES, _MOST_SHARES
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if cpu_weight(middle, linear=linear) >= weight else (middle + 1, high)
    return low


def cpu_quota(limit_millicores: int | None, period_microseconds: int = PERIOD_MICROSECONDS) -> int | None:
    """A limit as microseconds in each period; None is no quota."""
    if not limit_millicores:
        return None
    return max(limit_millicores * period_microseconds // 1000, _LEAST_QUOTA)


def millicores_of_shares(shares: int) -> int:
    """As the kubelet reads them back."""
    return -(-shares * 1000 // 1024)


def limit_writes(version: int, group: str, now: GroupLimits, goal: GroupLimits) -> list[CgroupWrite]:
    """The writes that put a group's limits in force, memory first; what is in force already is left out."""
    writes: list[CgroupWrite] = []
    if now.memory_limit_bytes != goal.memory_limit_bytes:
        writes += memory_writes(version, group, now.memory_limit_bytes, goal.memory_limit_bytes)
    shares = cpu_shares(goal.cpu_request_millicores)
    if shares != cpu_shares(now.cpu_request_millicores) or now.cpu_request_millicores is None:
        if version == 1:
            writes.append(CgroupWrite(group, "cpu.shares", str(shares)))
        else:
            writes.append(CgroupWrite(group, "cpu.weight", str(cpu_weight(shares))))
    quota = cpu_quota(goal.cpu_limit_millicores)
    if quota != cpu_quota(now.cpu_limit_millicores):
        writes += quota_writes(version, group, quota)
    return writes


def memory_writes(version: int, group: str, now: int | None, goal: int | None) -> list[CgroupWrite]:
    """A memory limit's writes. On v1 memory+swap stays at or above memory at each step, or the kernel refuses."""
    if version == 2:
        return [CgroupWrite(group, "memory.max", "max" if goal is None else str(goal))]
    text = "-1" if goal is None else str(goal)
    both = [
        CgroupWrite(group, "memory.memsw.limit_in_bytes", text, may_lack=True),
        CgroupWrite(group, "memory.limit_in_bytes", text),
    ]
    return both if is_raise(now, goal) else both[::-1]


def quota_writes(version: int, group: str, quota: int | None) -> list[CgroupWrite]:
    """A quota's writes, the period always beside it: sent alone it would reset the quota."""
    if version == 2:
        return [CgroupWrite(group, "cpu.max", f"{'max' if quota is None else quota} {PERIOD_MICROSECONDS}")]
    return [
        CgroupWrite(group, "cpu.cfs_period_us", str(PERIOD_MICROSECONDS)),
        CgroupWrite(group, "cpu.cfs_quota_us", str(-1 if quota is None else quota)),
    ]


def is_raise(now: int | None, goal: int | None) -> bool:
    """Whether a limit is loosened; no limit is above any."""
    return now is not None and (goal is None or goal > now)


@dataclass(frozen=True, slots=True)
class Step:
    """One group's limits, next; the group is a path."""

    group: str
    limits: GroupLimits


def safe_order(
    pod: str,
    now: Mapping[str, GroupLimits],
    goal: Mapping[str, GroupLimits],
) -> list[Step]:
    """From the limits of a pod and its containers to others: memory, then CPU; the pod up, the shrinking containers,
    the growing ones, the pod down.

    Both mappings are by group, the pod's own included. No step is tighter than both ends, none has a container above
    its pod where the ends have not.
    """
    steps: list[Step] = []
    current = dict(now)

    def move(group: str, limits: GroupLimits) -> None:
        if limits != current[group]:
            current[group] = limits
            steps.append(Step(group, limits))

    children = [group for group in goal if group != pod]
    for field in ("memory_limit_bytes", "cpu_limit_millicores"):
        was, will = getattr(now[pod], field), getattr(goal[pod], field)
        if is_raise(was, will):
            move(pod, _with(current[pod], field, will))
        rising = {group: is_raise(getattr(now[group], field), getattr(goal[group], field)) for group in children}
        for group in sorted(children, key=lambda one: (rising[one], one)):
            move(group, _with(current[group], field, getattr(goal[group], field)))
        if was != will and not is_raise(was, will):
            move(pod, _with(current[pod], field, will))
    for group in (pod, *sorted(children)):
        move(group, replace(current[group], cpu_request_millicores=goal[group].cpu_request_millicores))
    return steps


def step_writes(version: int, now: Mapping[str, GroupLimits], steps: Iterable[Step]) -> list[CgroupWrite]:
    """The files' writes for steps in their order."""
    current = dict(now)
    writes: list[CgroupWrite] = []
    for step in steps:
        writes += limit_writes(version, step.group, current[step.group], step.limits)
        current[step.group] = step.limits
    return writes


def _with(limits: GroupLimits, field: str, value: int | None) -> GroupLimits:
    if field == "memory_limit_bytes":
        return replace(limits, memory_limit_bytes=value)
    return replace(limits, cpu_limit_millicores=value)
