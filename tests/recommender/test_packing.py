"""Only nodes that could really be emptied are counted."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.fit import desired, pod_sum
from elastipod.placement import keep_apart, may_run
from elastipod.pods import Affinity, Apart, Container, Node, OwnerReference, Pod, Taint, Toleration
from elastipod.quantities import Resources
from elastipod.selectors import LabelSelector, Requirement
from recommender.packing import spare_nodes

GI = 1024**3
OWNER = OwnerReference("ReplicaSet", "web-1", "u")
DAEMON = OwnerReference("DaemonSet", "agent", "d")


def node(name: str, cpu: int = 4000, memory: int = 4 * GI, **more: Any) -> Node:
    return Node(name, allocatable=Resources(cpu, memory), **more)


def pod(name: str, at: str, cpu: int = 1000, memory: int = GI, **more: Any) -> Pod:
    sized = Container("app", requests=Resources(cpu, memory))
    return Pod(
        "ns", name, name, **{"phase": "Running", "node_name": at, "owner": OWNER, "containers": (sized,), **more}
    )


NODES = [node(name) for name in ("n1", "n2", "n3")]
LARGE = [pod(name, f"n{number}", memory=3 * GI) for number, name in enumerate("abc", 1)]


def test_pods_that_need_less_empty_nodes() -> None:
    assert spare_nodes(NODES, LARGE, {}) == []
    assert spare_nodes(NODES, LARGE, {one.key: Resources(1000, GI) for one in LARGE}) == ["n1", "n2"]


def test_both_resources_count() -> None:
    assert spare_nodes(NODES, [pod(name, f"n{number}", cpu=3000) for number, name in enumerate("abc", 1)], {}) == []


def test_a_node_that_must_grow_takes_nobody() -> None:
    pods = [pod("a", "n1"), pod("b", "n2")]
    assert spare_nodes(NODES[:2], pods, {"ns/a": Resources(4500, GI)}) == []


def test_what_has_no_room_on_its_node_has_its_place_before_a_node_is_spared() -> None:
    pods = [pod(name, "n1", 2000) for name in "ab"]
    assert spare_nodes(NODES[:2], pods, {}) == ["n2"]
    larger = {one.key: Resources(3000, GI) for one in pods}
    assert spare_nodes(NODES[:2], pods, larger) == []
    assert spare_nodes(NODES, pods, larger) == ["n3"]
    # Neither of two that remain has room for it, though both are nearly empty.
    small = [pod("c", "n2", 500), pod("d", "n3", 500)]
    assert spare_nodes(NODES, [*pods, *small], {one.key: Resources(4000, GI) for one in pods}) == []
    assert spare_nodes(NODES, pods, larger, is_protected=lambda _: True) == []


def test_one_small_pod_goes_where_that_is_enough() -> None:
    pods = [pod("a", "n1", 3500), pod("b", "n1", 600), pod("c", "n1", 50), pod("d", "n2", 3400)]
    assert spare_nodes(NODES, pods, {}) == ["n3"]


def test_what_a_closed_node_has_no_room_for_goes_elsewhere_too() -> None:
    closed = [node("n1", is_unschedulable=True), *NODES[1:]]
    pods = [pod(name, "n1", 3000) for name in "ab"]
    assert spare_nodes(closed, pods, {}) == ["n3"]
    assert spare_nodes(closed[:2], pods, {}) == []


@pytest.mark.parametrize("at", ["", "gone", "down"])
def test_a_pod_that_waits_for_a_node_has_its_place_before_one_is_spared(at: str) -> None:
    nodes = [*NODES[:2], node("down", is_ready=False)]
    bound = [pod("a", "n1", 2000), pod("b", "n2", 2000)]
    assert spare_nodes(nodes, bound, {}) == ["n1"]
    assert spare_nodes(nodes, [*bound, pod("c", at, 1000)], {}) == []
    assert spare_nodes(nodes, [*bound, pod("c", at, 3000)], {}) == []
    assert spare_nodes(nodes, [*bound, pod("c", at, 100, affinity=Affinity(has_more=True))], {}) == []
    assert spare_nodes([*nodes, node("n3")], [*bound, pod("c", at, 3000)], {}) == ["n1"]


def test_a_pod_that_no_node_would_take_keeps_none() -> None:
    bound = [pod("a", "n1", 2000), pod("b", "n2", 2000)]
    for never in (pod("c", "", 5000), pod("c", "", 100, node_selector={"disk": "ssd"}), pod("c", "", owner=DAEMON)):
        assert spare_nodes(NODES[:2], [*bound, never], {}) == ["n1"]


def test_daemons_end_with_their_node_and_take_room_on_every_other() -> None:
    daemons = [pod(f"agent-{name}", name, 100, 2 * GI, owner=DAEMON) for name in ("n1", "n2")]
    assert spare_nodes(NODES[:2], [*daemons, pod("a", "n1", 100, 2 * GI)], {}) == ["n2"]
    full = [pod(one, at, 100, 2 * GI) for one, at in (("a", "n1"), ("b", "n2"))]
    assert spare_nodes(NODES[:2], [*daemons, *full], {}) == []


SMALL = [pod("a", "n1", 100, GI), pod("b", "n2", 100, GI)]


@pytest.mark.parametrize(
    "moved",
    [
        {"owner": None},
        {"node_selector": {"disk": "ssd"}},
        {"affinity": Affinity(nodes=((Requirement("disk", "In", ("ssd",)),),))},
        {"affinity": Affinity(apart=(Apart(LabelSelector({"app": "b"})),))},
        {"affinity": Affinity(has_more=True)},
        {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
        {"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
    ],
)
def test_a_pod_that_may_not_go_keeps_its_node(moved: dict[str, Any]) -> None:
    bound = [pod("a", "n1", 100, GI, **moved), pod("b", "n2", 2000, GI, labels={"app": "b"}, owner=None)]
    assert spare_nodes(NODES[:2], [pod("a", "n1", 100, GI), bound[1]], {}) == ["n1"]
    assert spare_nodes(NODES[:2], bound, {}) == []


def test_a_pod_that_no_budget_lets_go_keeps_its_node() -> None:
    assert spare_nodes(NODES[:2], SMALL, {}, is_protected=lambda one: one.name == "a") == ["n2"]
    assert spare_nodes(NODES[:2], SMALL, {}, is_protected=lambda _: True) == []


def test_taints_counts_and_closed_nodes_are_heeded() -> None:
    tainted = [node("n1"), node("n2", taints=(Taint("gpu", "NoSchedule", "yes"),))]
    alone = [pod("a", "n1", 100, GI), pod("b", "n2", 100, GI, owner=None)]
    assert spare_nodes(tainted, alone, {}) == []
    willing = [pod("a", "n1", 100, GI, tolerations=(Toleration("gpu", "Exists"),)), alone[1]]
    assert spare_nodes(tainted, willing, {}) == ["n1"]
    assert spare_nodes([node("n1"), node("n2", allocatable_pods=1)], alone, {}) == []
    assert spare_nodes([node("n1"), node("n2", is_unschedulable=True)], SMALL, {}) == []
    assert spare_nodes([node("n1"), node("n2", is_ready=False)], SMALL, {}) == []


@pytest.mark.parametrize("role", ["control-plane", "master"])
def test_a_node_of_the_control_plane_is_filled_and_never_given_back(role: str) -> None:
    first = node("n1", labels={f"node-role.kubernetes.io/{role}": ""})
    assert spare_nodes([first, node("n2")], [pod("etcd", "n1", is_mirror=True, owner=None), SMALL[1]], {}) == ["n2"]
    assert spare_nodes([first, node("n2")], [SMALL[0], pod("b", "n2", owner=None)], {}) == []


def test_of_nodes_equally_full_the_dearest_is_emptied_first() -> None:
    assert spare_nodes(NODES[:2], SMALL, {}, worth=lambda one: {"n1": 1.0, "n2": 2.0}[one.name]) == ["n2"]


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(0, 14))
def test_what_is_moved_has_a_place(seed: int, nodes: int, pods: int) -> None:
    drawn = random.Random(seed)
    there = [
        node(
            f"n{number}", drawn.randint(1, 8) * 500, drawn.randint(1, 8) * GI // 2, allocatable_pods=drawn.randint(1, 9)
        )
        for number in range(nodes)
    ]
    apart = Affinity(apart=(Apart(LabelSelector({"app": "x"})),))
    running = [
        pod(
            f"p{number}",
            f"n{drawn.randrange(nodes)}",
            drawn.randint(0, 1000),
            drawn.randint(0, GI),
            labels={"app": drawn.choice("xy")},
            affinity=drawn.choice((apart, Affinity())),
        )
        for number in range(pods)
    ]
    spared = set(spare_nodes(there, running, {}))
    # What must go can not need more than is free on those that stay, and no pod is larger than all of them.
    stay = [one for one in there if one.name not in spared]
    going = [one for one in running if one.node_name in spared]
    for of in (lambda amount: amount.cpu, lambda amount: amount.memory):
        free = 0
        for one in stay:
            used = sum(of(pod_sum(each, desired)) for each in running if each.node_name == one.name)
            free += max(of(one.allocatable) - used, 0)
        assert sum(of(pod_sum(each, desired)) for each in going) <= free
    for each in going:
        assert any(may_run(each, one, 0) for one in stay)
    if len(stay) == 1:
        together = [*going, *(one for one in running if one.node_name == stay[0].name)]
        assert not any(keep_apart(one, [each for each in together if each is not one]) for one in going)
