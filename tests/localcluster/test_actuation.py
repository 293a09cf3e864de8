"""In which order sizes are put in force, and what is told of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.localcluster.node import actuation
from elastipod.localcluster.node.actuation import Step, read_back
from elastipod.localcluster.node.hands import GroupLimits
from elastipod.localcluster.node.sizes import Size, pod_group_limits
from elastipod.pods import Container, Pod
from elastipod.quantities import NOTHING, Resources

NAMES = ("a", "b", "c")
POD = Pod("default", "web", "uid", containers=tuple(Container(name) for name in NAMES))


def size(cpu: int, memory: int) -> Size:
    return Size(Resources(cpu, memory), Resources(cpu, memory))


def test_growing_begins_with_the_pod_and_shrinking_ends_with_it() -> None:
    one = Pod("default", "web", "uid", containers=(Container("a"),))
    small, large = {"a": size(100, 10)}, {"a": size(200, 20)}
    assert actuation.steps(one, small, large) == [
        Step("", GroupLimits(100, 100, 20)),
        Step("a", GroupLimits(100, 100, 20)),
        Step("", GroupLimits(200, 200, 20)),
        Step("a", GroupLimits(200, 200, 20)),
    ]
    assert [step.container for step in actuation.steps(one, large, small)] == ["a", "", "a", ""]


sizes = st.fixed_dictionaries({name: st.builds(size, st.integers(1, 9), st.integers(1, 9)) for name in NAMES})


@given(sizes, sizes)
def test_containers_never_sum_to_more_than_their_pod(before: dict[str, Size], after: dict[str, Size]) -> None:
    pod = pod_group_limits(POD, before)
    now = {name: before[name].group_limits for name in NAMES}
    for step in actuation.steps(POD, before, after):
        if step.container:
            now[step.container] = step.limits
        else:
            pod = step.limits
        for kind in ("cpu_limit_millicores", "memory_limit_bytes"):
            assert sum(getattr(one, kind) for one in now.values()) <= getattr(pod, kind)
    assert now == {name: after[name].group_limits for name in NAMES}
    assert pod == pod_group_limits(POD, after)


@given(sizes)
def test_nothing_changed_is_nothing_to_do(same: dict[str, Size]) -> None:
    assert actuation.steps(POD, same, same) == []


def test_a_pods_limit_is_not_taken_away_when_a_container_loses_its_own() -> None:
    after = {name: size(1, 1) for name in NAMES} | {"b": Size(Resources(1, 1), NOTHING)}
    steps = actuation.steps(POD, {name: size(1, 1) for name in NAMES}, after)
    assert all(step.container for step in steps)


@pytest.mark.parametrize(
    ("used", "told"),
    [
        (80, 'container "a" memory limit (60) below current usage (80)'),
        (None, 'missing container "a" memory usage'),
        (59, ""),
    ],
)
def test_memory_is_lowered_only_above_what_is_used(used: int | None, told: str) -> None:
    before, after = {"a": size(1, 100)}, {"a": size(1, 60)}
    one = Pod("default", "web", "uid", containers=(Container("a"),))
    assert told in actuation.refused_shrink(one, before, after, {"a": used}, used or 0)
    assert bool(actuation.refused_shrink(one, before, after, {"a": used}, used or 0)) == bool(told)


@pytest.mark.parametrize(
    ("allocated", "in_force", "told"),
    [
        (5, GroupLimits(5, 10, 7), 5),
        (10, GroupLimits(10, 10, 7), 10),
        (417, GroupLimits(417, 420, 7), 420),
    ],
)
def test_limits_under_the_kernels_floor_are_told_as_allocated(allocated: int, in_force: GroupLimits, told: int) -> None:
    found = read_back(Size(Resources(allocated, 3), Resources(allocated, 7)), in_force)
    assert found.limits == Resources(told, 7)
    assert found.requests.memory_bytes == 3


def test_requests_under_the_kernels_floor_are_told_as_allocated() -> None:
    assert read_back(Size(Resources(1, 0)), GroupLimits(2, None, None)).requests.cpu_millicores == 1
