from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actuator.admitting import Size, Wanted, decide, next_wish
from actuator.direct import DirectMode, Report
from actuator.journal import Journal
from actuator.lowering import Lowering
from actuator.nodehands import NodeHands
from actuator.shrinking import Done, Lower, Reclaim, ShrinkRules, Usage, Wait, next_step
from elastipod.api import ElasticNode, ElasticNodeContainer, ElasticNodeSpec, ElasticNodeStatus
from elastipod.clock import ManualClock
from elastipod.pods import Container, Pod
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from tests.actuator.trees import GROUP, MIB, POD, v2_tree

SMALL = Size(Resources(100, 64 * MIB), Resources(None, 100 * MIB))


def size(cpu: int, memory: int, limit: int | None = None) -> Size:
    return Size(Resources(cpu, memory), Resources(None, limit))


def test_one_wish_is_decided_at_a_time_and_the_second_sees_the_first() -> None:
    allocated = {"a": size(100, 100), "b": size(100, 100)}
    first = decide(Wanted("a", size(100, 250)), allocated, Resources(1000, 400))
    assert first.reason is Reason.IN_PROGRESS
    allocated["a"] = first.size
    assert decide(Wanted("b", size(100, 250)), allocated, Resources(1000, 400)).reason is Reason.DEFERRED


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (size(100, 5000), Reason.INFEASIBLE),
        (size(100, 200, 150), Reason.BAD_VALUE),
        (size(100, 100), Reason.DONE),
        (size(50, 100), Reason.IN_PROGRESS),
    ],
)
def test_each_wish_has_an_answer(wanted: Size, reason: Reason) -> None:
    assert decide(Wanted("a", wanted), {"a": size(100, 100)}, Resources(1000, 1000)).reason is reason


def test_a_wish_for_a_container_that_is_gone_is_told() -> None:
    assert decide(Wanted("x", SMALL), {}, Resources(1000, 1000)).reason is Reason.POD_GONE
    assert next_wish([Wanted("a", SMALL, 1), Wanted("b", SMALL, 2)]) == Wanted("b", SMALL, 2)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 500), st.integers(1, 500)), max_size=12))
def test_what_is_allocated_never_exceeds_the_node(wishes: Iterable[tuple[str, int, int]]) -> None:
    allocated = {key: size(100, 100) for key in "abc"}
    node = Resources(600, 600)
    for key, cpu, memory in wishes:
        verdict = decide(Wanted(key, size(cpu, memory)), allocated, node)
        if verdict.reason is Reason.IN_PROGRESS:
            allocated[key] = verdict.size
        assert sum(one.requests.cpu for one in allocated.values()) <= 600
        assert sum(one.requests.memory for one in allocated.values()) <= 600


@given(st.integers(10**6, 10**12), st.integers(0, 10**12), st.integers(0, 10**12), st.integers(0, 10**12))
def test_a_step_down_is_small_and_never_below_usage_and_margin(limit: int, wanted: int, used: int, cache: int) -> None:
    step = next_step(limit, wanted, Usage(used, 0.0, reclaimable_bytes=cache), 1.0)
    if isinstance(step, Lower):
        assert wanted <= step.limit_bytes <= limit
        assert step.limit_bytes >= used * 1.1 - 1
        assert step.limit_bytes >= limit * 0.8 - 1
    if isinstance(step, Done):
        assert limit - wanted < 4096


def test_no_step_without_a_fresh_sample_or_under_pressure() -> None:
    assert next_step(200 * MIB, 100 * MIB, Usage(10, at=0.0), now=90.0) == Wait(Reason.STALE_DATA)
    assert next_step(200 * MIB, 100 * MIB, Usage(10, at=0.0, pressure=0.2), now=1.0) == Wait(Reason.STOPPED_BY_PRESSURE)


def test_cache_is_taken_back_before_memory_shrinks_onto_it() -> None:
    limit = 200 * MIB
    assert isinstance(next_step(limit, 100 * MIB, Usage(195 * MIB, 0.0, reclaimable_bytes=150 * MIB), 0.0), Reclaim)
    assert next_step(limit, 100 * MIB, Usage(195 * MIB, 0.0), 0.0, ShrinkRules()) == Wait(Reason.KEPT_ABOVE_USAGE)


def number(root: Path, group: str, file: str) -> int:
    return int((root / group / file).read_text().split()[0])


def test_a_shrink_goes_container_first_and_leaves_the_pod_above(tmp_path: Path) -> None:
    root = v2_tree(tmp_path / "cg")
    lowering = Lowering(NodeHands(root), ManualClock(), ShrinkRules(most_pressure=1.0))
    assert isinstance(lowering.step(POD, GROUP, 50 * MIB), Lower)
    assert number(root, GROUP, "memory.max") == 80 * MIB
    assert number(root, POD, "memory.max") == 80 * MIB
    assert number(root, GROUP, "memory.high") == 80 * MIB
    (root / GROUP / "memory.current").write_text(f"{79 * MIB}\n")
    assert lowering.step(POD, GROUP, 50 * MIB) == Wait(Reason.KEPT_ABOVE_USAGE)
    assert number(root, GROUP, "memory.max") == 80 * MIB


class Node:
    """Direct mode on a copied tree with one pod of one container."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = v2_tree(tmp_path / "cg")
        self.folder = tmp_path / "state"
        self.pod = Pod(
            "default", "p", "1", phase="Running",
            containers=(Container("c", requests=SMALL.requests, limits=SMALL.limits, is_running=True),),
        )  # fmt: skip

    def run(self, *wanted: ElasticNodeContainer, status: ElasticNodeStatus | None = None, off: str = "") -> Report:
        node = ElasticNode(spec=ElasticNodeSpec(list(wanted)), status=status)
        direct = DirectMode(NodeHands(self.root), Journal(self.folder, "b1"), ManualClock(), (off,))
        return direct.run([self.pod], node, Resources(1000, 1024 * MIB), lambda *_: (POD, GROUP))


def wish(memory: str, limit: str, cpu: str = "250m") -> ElasticNodeContainer:
    return ElasticNodeContainer("default", "p", "1", "c", {"cpu": cpu, "memory": memory}, {"memory": limit})


def test_a_wish_that_fits_is_recorded_put_in_force_and_reported(tmp_path: Path) -> None:
    node = Node(tmp_path)
    report = node.run(wish("128Mi", "200Mi"))
    assert number(node.root, GROUP, "memory.max") == 200 * MIB
    assert number(node.root, POD, "memory.max") == 200 * MIB
    assert Journal(node.folder, "b2").records["size/1/c"]["limits"] == [None, 200 * MIB]
    [allocated], [actual] = report.allocated, report.actual
    assert allocated.limits == {"memory": "200Mi"}
    assert allocated.reason == "InProgress"
    assert actual.limits == {"memory": "200Mi"}
    assert actual.requests == {"cpu": "250m", "memory": "128Mi"}
    assert node.run(wish("128Mi", "200Mi")).allocated[0].reason == "Done"


@pytest.mark.parametrize("group", [POD, GROUP])
def test_what_somebody_put_back_is_repaired_in_the_next_run_r41(tmp_path: Path, group: str) -> None:
    node = Node(tmp_path)
    wanted = msgspec.structs.replace(wish("128Mi", "200Mi"), limits={"cpu": "500m", "memory": "200Mi"})
    node.run(wanted)
    in_force = {file: (node.root / group / file).read_text() for file in ("cpu.max", "memory.max")}
    (node.root / group / "cpu.max").write_text("max 100000\n")
    (node.root / group / "memory.max").write_text(f"{100 * MIB}\n")
    report = node.run(wanted)
    assert {file: (node.root / group / file).read_text() for file in in_force} == in_force
    assert report.actual[0].limits == {"cpu": "500m", "memory": "200Mi"}


def test_a_wish_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert node.run(wish("2Gi", "2Gi")) == Report([], [])
    assert number(node.root, GROUP, "memory.max") == 100 * MIB


@pytest.mark.parametrize("bad", [wish("many", "1Gi"), wish("1e9999999", "1Gi"), wish("128Mi", "64Mi")])
def test_a_bad_wish_changes_nothing(tmp_path: Path, bad: ElasticNodeContainer) -> None:
    node = Node(tmp_path)
    node.run(bad)
    assert number(node.root, GROUP, "memory.max") == 100 * MIB


def test_in_a_namespace_that_is_off_nothing_is_put_in_force_of_what_was_or_is_wanted(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert node.run(wish("128Mi", "200Mi"), off="default") == Report([], [])
    assert number(node.root, GROUP, "memory.max") == 100 * MIB
    node.run(wish("128Mi", "200Mi"))
    (node.root / GROUP / "memory.max").write_text(f"{100 * MIB}\n")
    [allocated] = node.run(wish("128Mi", "300Mi"), off="default").allocated
    assert (allocated.limits, allocated.reason) == ({"memory": "200Mi"}, "NamespaceOff")
    assert number(node.root, GROUP, "memory.max") == 100 * MIB


def test_a_node_whose_disk_is_lost_is_rebuilt_from_its_status(tmp_path: Path) -> None:
    node = Node(tmp_path)
    held = wish("900Mi", "900Mi")
    report = node.run(wish("910Mi", "910Mi"), status=ElasticNodeStatus(allocated=[held]))
    assert [one.reason for one in report.allocated] == ["InProgress"]
    assert Journal(node.folder, "b1").records["size/1/c"]["requests"] == [250, 910 * MIB]
