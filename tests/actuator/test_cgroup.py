from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actuator.cgroup import (
    CgroupWrite,
    cpu_quota,
    cpu_shares,
    cpu_weight,
    limit_writes,
    memory_writes,
    millicores_of_shares,
    quota_writes,
    safe_order,
    shares_of_weight,
    step_writes,
)
from elastipod.localcluster.node.hands import GroupLimits

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("millicores", "shares", "old", "new", "quota"),
    [
        (1, 2, 1, 1, 1000), (2, 2, 1, 1, 1000), (3, 3, 1, 2, 1000), (5, 5, 1, 2, 1000), (10, 10, 1, 4, 1000),
        (50, 51, 2, 11, 5000), (100, 102, 4, 17, 10000), (200, 204, 8, 29, 20000), (250, 256, 10, 35, 25000),
        (500, 512, 20, 59, 50000), (1000, 1024, 39, 100, 100000), (1500, 1536, 59, 138, 150000),
        (2000, 2048, 79, 174, 200000), (4000, 4096, 157, 303, 400000), (8000, 8192, 313, 532, 800000),
        (16000, 16384, 625, 942, 1600000), (32000, 32768, 1250, 1681, 3200000), (64000, 65536, 2500, 3023, 6400000),
        (100000, 102400, 3906, 4429, 10000000), (256000, 262144, 10000, 10000, 25600000),
    ],
)  # fmt: skip
def test_conversions_are_the_kubelets_and_no_quota_is_below_a_millisecond_r40(
    millicores: int, shares: int, old: int, new: int, quota: int
) -> None:
    assert cpu_shares(millicores) == shares
    assert cpu_weight(shares, linear=True) == old
    assert cpu_weight(shares) == new
    assert cpu_quota(millicores) == quota


def test_what_is_not_set_is_not_limited_r40() -> None:
    assert cpu_shares(None) == 2
    assert cpu_quota(None) is None
    assert cpu_quota(0) is None
    assert quota_writes(2, "g", None) == [CgroupWrite("g", "cpu.max", "max 100000")]
    assert quota_writes(1, "g", None)[-1] == CgroupWrite("g", "cpu.cfs_quota_us", "-1")
    assert memory_writes(2, "g", 5, None) == [CgroupWrite("g", "memory.max", "max")]


@given(st.integers(2, 262_144))
def test_a_weight_read_back_has_the_same_weight(shares: int) -> None:
    assert cpu_weight(shares_of_weight(cpu_weight(shares))) == cpu_weight(shares)
    assert shares_of_weight(cpu_weight(shares)) <= shares


@given(st.integers(2, 256_000))
def test_shares_read_back_are_the_request(millicores: int) -> None:
    assert millicores_of_shares(cpu_shares(millicores)) == millicores


def test_v1_raises_memory_and_swap_first_and_lowers_it_last() -> None:
    up = [write.file for write in memory_writes(1, "g", 64 * MIB, 128 * MIB)]
    assert up == ["memory.memsw.limit_in_bytes", "memory.limit_in_bytes"]
    assert [write.file for write in memory_writes(1, "g", 128 * MIB, 64 * MIB)] == up[::-1]
    assert [write.file for write in memory_writes(1, "g", 128 * MIB, None)] == up
    assert [write.file for write in memory_writes(1, "g", None, 64 * MIB)] == up[::-1]


amounts = st.none() | st.integers(1, 20).map(lambda number: number * 64)
container_limits = st.builds(GroupLimits, st.integers(2, 4000), amounts, amounts)


@given(st.sampled_from((1, 2)), container_limits, container_limits)
def test_of_cpusets_nothing_is_ever_written_r40(version: int, now: GroupLimits, goal: GroupLimits) -> None:
    assert not [one for one in limit_writes(version, "g", now, goal) if "cpuset" in one.file]


def test_what_is_in_force_is_not_written_again() -> None:
    limits = GroupLimits(100, 200, 64 * MIB)
    assert limit_writes(1, "g", limits, limits) == []
    assert limit_writes(2, "g", limits, limits) == []


def _sum(values: list[int | None]) -> int | None:
    return None if any(value is None for value in values) else sum(value or 0 for value in values)


def _pod(containers: list[GroupLimits]) -> GroupLimits:
    return GroupLimits(
        sum(one.cpu_request_millicores or 0 for one in containers),
        _sum([one.cpu_limit_millicores for one in containers]),
        _sum([one.memory_limit_bytes for one in containers]),
    )


def _height(value: int | None) -> float:
    return float("inf") if value is None else value


@given(st.lists(st.tuples(container_limits, container_limits), min_size=1, max_size=4))
def test_no_step_is_tighter_than_both_ends_and_no_child_above_its_pod(
    pairs: list[tuple[GroupLimits, GroupLimits]],
) -> None:
    now = {f"p/c{number}": pair[0] for number, pair in enumerate(pairs)}
    goal = {f"p/c{number}": pair[1] for number, pair in enumerate(pairs)}
    now["p"], goal["p"] = _pod(list(now.values())), _pod(list(goal.values()))
    current = dict(now)
    for step in safe_order("p", now, goal):
        current[step.group] = step.limits
        for group, limits in current.items():
            for field in ("memory_limit_bytes", "cpu_limit_millicores"):
                least = min(_height(getattr(now[group], field)), _height(getattr(goal[group], field)))
                assert _height(getattr(limits, field)) >= least
                if group != "p":
                    assert _height(getattr(limits, field)) <= _height(getattr(current["p"], field))
    assert current == goal


def test_growing_goes_pod_first_and_memory_before_cpu() -> None:
    now = {"p": GroupLimits(100, 100, 64 * MIB), "p/c": GroupLimits(100, 100, 64 * MIB)}
    goal = {group: replace(one, memory_limit_bytes=128 * MIB, cpu_limit_millicores=200) for group, one in now.items()}
    files = [(write.group, write.file) for write in step_writes(2, now, safe_order("p", now, goal))]
    assert files == [("p", "memory.max"), ("p/c", "memory.max"), ("p", "cpu.max"), ("p/c", "cpu.max")]
    files = [(write.group, write.file) for write in step_writes(2, goal, safe_order("p", goal, now))]
    assert files == [("p/c", "memory.max"), ("p", "memory.max"), ("p/c", "cpu.max"), ("p", "cpu.max")]
