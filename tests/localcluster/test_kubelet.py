"""What a kubelet admits, in which order it tries again, and what it remembers."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from elastipod.localcluster.node import checkpoint as checkpoints
from elastipod.localcluster.node.checkpoint import Allocations, BadCheckpoint, FileCheckpoint
from elastipod.localcluster.node.kubelet import Kubelet
from elastipod.localcluster.node.sizes import Size, desired_sizes
from elastipod.pods import Container, PendingReason, Pod, QosClass
from elastipod.quantities import Resources

MIB = 1024 * 1024


def pod(name: str, cpu: int = 100, memory: int = 64, **more: Any) -> Pod:
    container = Container("app", requests=Resources(cpu, memory * MIB))
    return Pod("default", name, f"uid-{name}", generation=1, phase="Running", containers=(container,), **more)


def resized(old: Pod, cpu: int = 100, memory: int = 64) -> Pod:
    container = replace(old.containers[0], requests=Resources(cpu, memory * MIB))
    return replace(old, containers=(container,), generation=old.generation + 1)


def kubelet_with(*pods: Pod, cpu: int = 1000, memory: int = 1024) -> Kubelet:
    found = Kubelet(Resources(cpu, memory * MIB))
    for one in pods:
        assert found.admit(one) is None
        found.actuated(one.uid, desired_sizes(one))
    return found


def ask(kubelet: Kubelet, wanted: Pod, now: float = 0.0) -> bool:
    kubelet.observe(wanted)
    return kubelet.resize(wanted.uid, now)


def test_a_waiting_resize_reserves_nothing() -> None:
    web, other = pod("web", 400), pod("other", 500)
    kubelet = kubelet_with(web, other)
    assert not ask(kubelet, resized(web, 600))
    assert kubelet.admit(pod("new", 100)) is None


def test_only_requests_count_for_the_fit() -> None:
    web = pod("web", 400)
    kubelet = kubelet_with(web, pod("other", 500))
    bigger = replace(web.containers[0], limits=Resources(5000, 5000 * MIB))
    assert ask(kubelet, replace(web, containers=(bigger,), generation=2))


def test_all_containers_of_a_pod_are_admitted_together_or_not_at_all() -> None:
    two = pod("two")
    two = replace(two, containers=(*two.containers, Container("side", requests=Resources(100, 0))))
    kubelet = kubelet_with(two, pod("other", 500))
    smaller = replace(two.containers[0], requests=Resources(50, 64 * MIB))
    larger = replace(two.containers[1], requests=Resources(900, 0))
    assert not ask(kubelet, replace(two, containers=(smaller, larger), generation=2))
    assert kubelet.admitted[two.uid].allocated == desired_sizes(two)


def test_quick_changes_end_at_the_latest() -> None:
    web = pod("web", 100)
    kubelet = kubelet_with(web)
    up = resized(web, 300)
    assert ask(kubelet, up)
    assert ask(kubelet, resized(up, 100))
    entry = kubelet.admitted[web.uid]
    assert entry.allocated == desired_sizes(web)
    assert entry.pending is None


def test_a_spec_put_back_waits_for_nothing() -> None:
    web = pod("web", 400)
    kubelet = kubelet_with(web, pod("other", 500))
    ask(kubelet, resized(web, 600))
    ask(kubelet, replace(web, generation=3))
    assert kubelet.admitted[web.uid].pending is None
    assert kubelet.admitted[web.uid].progress is None


def test_memory_is_named_before_cpu_where_a_node_is_too_small() -> None:
    web = pod("web")
    kubelet = kubelet_with(web)
    ask(kubelet, resized(web, 2000, 2048))
    pending = kubelet.admitted[web.uid].pending
    assert pending is not None
    assert pending.reason is PendingReason.INFEASIBLE
    assert pending.message == (
        f"Node didn't have enough capacity: memory, requested: {2048 * MIB}, capacity: {1024 * MIB}"
    )


def test_the_infeasible_is_looked_at_again_after_a_restart_or_for_a_new_generation() -> None:
    web = pod("web")
    kubelet = kubelet_with(web)
    wanted = resized(web, 2000)
    ask(kubelet, wanted)
    kubelet.allocatable = Resources(4000, 1024 * MIB)
    assert not kubelet.resize(web.uid, 1.0)
    entry = kubelet.admitted[web.uid]
    kubelet.readmit(wanted, entry.allocated, entry.actuated)
    assert kubelet.resize(web.uid, 1.0)


def test_static_pods_are_never_resized() -> None:
    static = pod("static", is_mirror=True)
    kubelet = kubelet_with(static)
    ask(kubelet, resized(static, 200))
    pending = kubelet.admitted[static.uid].pending
    assert pending is not None
    assert (pending.reason, "static" in pending.message) == (PendingReason.INFEASIBLE, True)


def test_waiting_resizes_are_tried_by_growth_priority_class_and_age() -> None:
    full = pod("full", 500, 10)
    ones = [
        pod("young", 100, 10),
        pod("old", 100, 10),
        pod("guaranteed", 100, 10, qos_class=QosClass.GUARANTEED),
        pod("important", 100, 10, priority=5),
    ]
    kubelet = kubelet_with(full, *ones)
    for now, name in ((9.0, "young"), (1.0, "old"), (5.0, "guaranteed"), (7.0, "important")):
        ask(kubelet, resized(next(one for one in ones if one.name == name), 300, 10), now)
    assert kubelet.waiting() == ["uid-important", "uid-guaranteed", "uid-old", "uid-young"]


def test_equal_ages_keep_the_order_in_which_they_came() -> None:
    names = [f"p{number}" for number in range(9)]
    for order in itertools.islice(itertools.permutations(names), 0, 300_000, 3_001):
        ones = {name: pod(name, 100, 10) for name in names}
        kubelet = kubelet_with(*ones.values())
        for name in order:
            ask(kubelet, resized(ones[name], 900, 10), 1.0)
        assert kubelet.waiting() == [f"uid-{name}" for name in order]


def test_resizes_that_are_alike_keep_the_order_in_which_they_are_named() -> None:
    names = [f"uid-{number}" for number in range(20)]
    kubelet = kubelet_with(*(pod(name.removeprefix("uid-"), 10, 10) for name in names))
    assert [kubelet.in_order(some) for some in (names, names[::-1])] == [names, names[::-1]]


def test_a_decision_that_can_not_be_stored_is_taken_back() -> None:
    web = pod("web", 100)
    kubelet = kubelet_with(web)
    before = kubelet.admitted[web.uid].allocated
    assert ask(kubelet, resized(web, 300))
    kubelet.take_back(web.uid, before, "no space left", 1.0)
    entry = kubelet.admitted[web.uid]
    assert entry.allocated == before
    assert entry.progress is None
    assert entry.pending is not None
    assert entry.pending.message == "no space left"


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.integers(0, 1500), st.integers(0, 1500), st.booleans()), max_size=40
    )
)
def test_what_is_allocated_never_exceeds_the_node(steps: list[tuple[str, int, int, bool]]) -> None:
    kubelet = Kubelet(Resources(1000, 1000 * MIB))
    known: dict[str, Pod] = {}
    stored: dict[int, dict[str, dict[str, Size]]] = {}
    for now, (name, cpu, memory, leaves) in enumerate(steps):
        if leaves:
            kubelet.forget(f"uid-{name}")
            known.pop(name, None)
        elif name in known:
            known[name] = resized(known[name], cpu, memory)
            ask(kubelet, known[name], float(now))
        elif kubelet.admit(pod(name, cpu, memory)) is None:
            known[name] = pod(name, cpu, memory)
        for uid in kubelet.waiting():
            kubelet.resize(uid, float(now))
        given_away = kubelet.allocated_sum()
        assert given_away.cpu <= 1000
        assert given_away.memory <= 1000 * MIB
        allocated = {uid: entry.allocated for uid, entry in kubelet.admitted.items()}
        sizes = [size for of_pod in allocated.values() for size in of_pod.values()]
        assert given_away.cpu == sum(size.requests.cpu for size in sizes)
        assert stored.setdefault(kubelet.revision, allocated) == allocated


ALLOCATIONS = Allocations(
    {"uid-a": {"app": Size(Resources(500, 3), Resources(None, 2**40))}, "uid-b": {}}, {"uid-a": {"app": Size()}}
)


def test_a_checkpoint_comes_back_the_same(tmp_path: Path) -> None:
    FileCheckpoint(tmp_path).save(ALLOCATIONS)
    assert FileCheckpoint(tmp_path).load() == ALLOCATIONS
    assert [path.name for path in tmp_path.iterdir()] == ["allocations.json"]
    assert (tmp_path / "allocations.json").stat().st_mode & 0o777 == 0o600


def test_a_checkpoint_cut_or_changed_at_any_byte_is_not_believed() -> None:
    whole = checkpoints.encode(ALLOCATIONS)
    for at in range(len(whole)):
        for broken in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], whole + whole[:at]):
            if broken == whole:
                continue
            with pytest.raises(BadCheckpoint):
                checkpoints.decode(broken)


def test_a_bad_checkpoint_is_set_aside_by_name_and_a_new_one_kept(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / "allocations.json").write_bytes(b'{"version": 1}"x"')
        found = FileCheckpoint(tmp_path)
        assert found.load() is None
        assert found.set_aside == tmp_path / f"allocations.json.bad-{number}"
    found.save(ALLOCATIONS)
    assert FileCheckpoint(tmp_path).load() == ALLOCATIONS


def test_a_checkpoint_that_can_not_be_written_says_so_and_keeps_the_last(tmp_path: Path) -> None:
    found = FileCheckpoint(tmp_path)
    found.save(ALLOCATIONS)
    (tmp_path / "allocations.tmp").mkdir()
    with pytest.raises(OSError, match="directory"):
        found.save(Allocations())
    assert FileCheckpoint(tmp_path).load() == ALLOCATIONS
