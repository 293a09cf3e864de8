"""Waste, applied and realisable, kept apart and never counted twice."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from elastipod.pods import Container, ContainerKey, ContainerKind, Node, OwnerReference, Pod, Workload
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from recommender.prices import Prices, PriceTable, read_prices
from recommender.ranges import Cap, Resource
from recommender.realisable import realisable
from recommender.report.told import Paid, told
from recommender.savings import Account, Advised, Direction, Snapshot, Usage, accounts, totals
from recommender.sums import Cost, sum_of

MI, GI = 1024**2, 1024**3
WEB = Workload("ns", "Deployment", "web")
APP = ContainerKey(WEB, "app")
TABLE = read_prices("instance_type,core_hour,gib_hour\ndear,2,0.5\n,1,0.25\n")
NODES = {
    "cheap": Node("cheap", allocatable=Resources(4000, 8 * GI)),
    "dear": Node("dear", allocatable=Resources(4000, 8 * GI), labels={"node.kubernetes.io/instance-type": "dear"}),
}


def pod(name: str, cpu: int | None = 1000, memory: int | None = GI, *, at: str = "cheap", **more: Any) -> Pod:
    limits = more.pop("limits", Resources())
    allocated = more.pop("allocated", None)
    sized = Container("app", requests=Resources(cpu, memory), limits=limits, allocated=allocated)
    init = Container("init", ContainerKind.INIT, requests=Resources(500, GI))
    owner = OwnerReference("ReplicaSet", "web-1", "u")
    stated = {"phase": "Running", "node_name": at, "owner": owner, "containers": (init, sized), **more}
    return Pod("ns", name, name, **stated)


def snapshot(*pods: Pod, target: Resources | None = None, **more: Any) -> Snapshot:
    advised = {} if target is None else {APP: Advised(target, 3.5, "Capped")}
    known: Mapping[str, Any] = {"used": {}, "before": {}, "usage": {}, **more}
    return Snapshot([(one, WEB) for one in pods], NODES, advised, **known)


def of(found: list[Account], resource: Resource) -> Account:
    [account] = [one for one in found if one.resource is resource]
    return account


def test_waste_is_what_is_reserved_above_the_recommendation_and_need_is_no_waste() -> None:
    found = accounts(snapshot(pod("a"), pod("b", at="dear"), target=Resources(250, 2 * GI)), TABLE)
    cpu, memory = of(found, Resource.CPU), of(found, Resource.MEMORY)
    assert (cpu.pods, cpu.direction, memory.direction) == (2, Direction.LESS, Direction.MORE)
    assert cpu.requested == Cost(2.0, 1.0 + 2.0)
    assert cpu.waste == Cost(1.5, 0.75 + 1.5)
    assert cpu.lacking == Cost()
    assert memory.waste == Cost()
    assert memory.lacking == Cost(2.0 * GI, 0.25 + 0.5)
    assert (cpu.confidence_days, cpu.reason) == (3.5, "Capped")


@pytest.mark.parametrize(("requested", "waste", "lacking"), [(900, 0.0, 0.1), (1500, 0.5, 0.0), (300, 0.0, 0.7)])
def test_what_is_needed_and_only_capped_is_no_waste_and_is_lacking(
    requested: int, waste: float, lacking: float
) -> None:
    taken = Snapshot(
        [(pod("a", requested), WEB)],
        NODES,
        {APP: Advised(Resources(500, None), uncapped=Resources(1000, GI))},
        {},
        {},
        {},
    )
    cpu, memory = accounts(taken, TABLE)
    assert (cpu.waste.amount, cpu.lacking.amount) == (waste, lacking)
    assert (memory.waste, memory.recommended) == (Cost(), None)


@pytest.mark.parametrize(
    ("requested", "direction", "change"),
    [(900, Direction.MORE, 0.1), (1000, Direction.KEEP, 0.0), (1500, Direction.LESS, -0.5)],
)
def test_what_needs_more_than_a_cap_allows_is_told_to_need_more_and_saves_nothing(
    requested: int, direction: Direction, change: float
) -> None:
    cap = Cap(Resource.CPU, Reason.CAPPED_BY_MAX, 500, "policy")
    advised = {APP: Advised(Resources(500, None), uncapped=Resources(1000, None), caps=(cap,))}
    found = accounts(Snapshot([(pod("a", requested), WEB)], NODES, advised, {}, {}, {}), TABLE)
    one = told(0.0, "USD", "", found, None).accounts[0]
    assert (one.direction, one.reason) == (direction, "CappedByMax")
    assert one.change == Paid(change, change)


def test_what_adds_up_to_nothing_is_nothing_in_amount_direction_and_money() -> None:
    those = [pod(f"p{requested}", requested) for requested in (100, 200, 600)]
    keep = of(accounts(snapshot(*those, target=Resources(300, GI)), PriceTable()), Resource.CPU)
    assert keep.direction is Direction.KEEP
    assert told(0.0, "USD", "", [keep], None).accounts[0].change == Paid(0.0, 0.0)
    changed = [(100, 400), (200, 100), (300, 100)]
    found = [
        of(accounts(snapshot(pod("a", now), before={APP: Resources(before, GI)}), PriceTable()), Resource.CPU)
        for now, before in changed
    ]
    assert totals(found)[Resource.CPU].applied == Cost(0.0, 0.0)
    assert told(0.0, "USD", "", found, None).totals[Resource.CPU].applied == Paid(0.0, 0.0)


def test_no_node_is_promised_for_what_a_cap_takes_from_pods_that_need_it() -> None:
    pods = [(pod(name, 3000, GI, at=at), WEB) for name, at in (("a", "cheap"), ("b", "dear"))]
    for needed, spared in ((3500, ()), (500, ("dear",))):
        advised = {APP: Advised(Resources(500, GI), uncapped=Resources(needed, GI))}
        taken = Snapshot(pods, NODES, advised, {}, {}, {})
        assert realisable(taken, TABLE, is_protected=lambda _: False).nodes == spared


def test_growth_counts_against_what_is_applied() -> None:
    found = accounts(snapshot(pod("a", 500, 2 * GI), before={APP: Resources(2000, GI)}), TABLE)
    assert of(found, Resource.CPU).applied == Cost(1.5, 1.5)
    assert of(found, Resource.MEMORY).applied == Cost(-1.0 * GI, -0.25)


def test_a_pod_that_is_dearer_where_it_runs_now_saves_nothing() -> None:
    before = {APP: Resources(1000, GI)}
    assert of(accounts(snapshot(pod("a", at="dear"), before=before), TABLE), Resource.CPU).applied == Cost()


@pytest.mark.parametrize(
    "gone", [{"phase": "Succeeded"}, {"phase": "Failed"}, {"deletion_at": 5.0}, {"node_name": "", "phase": "Pending"}]
)
def test_a_pod_that_is_replaced_does_not_count_beside_its_successor(gone: dict[str, Any]) -> None:
    [cpu, _] = accounts(snapshot(pod("old", **gone), pod("new"), target=Resources(250, GI)), TABLE)
    assert (cpu.pods, cpu.requested.amount, cpu.waste.amount) == (1, 1.0, 0.75)


def test_without_a_recommendation_nothing_is_promised() -> None:
    found = of(accounts(snapshot(pod("a")), TABLE), Resource.CPU)
    assert (found.recommended, found.waste, found.direction) == (None, Cost(), Direction.UNKNOWN)
    only_cpu = accounts(snapshot(pod("a"), target=Resources(250, None)), TABLE)
    assert of(only_cpu, Resource.MEMORY).direction is Direction.UNKNOWN
    assert of(accounts(snapshot(pod("a"), target=Resources(1000, GI)), TABLE), Resource.CPU).direction is Direction.KEEP


def test_a_reason_is_of_the_resource_that_it_is_told_of() -> None:
    def reasons(advised: Advised) -> list[str]:
        return [one.reason for one in accounts(Snapshot([(pod("a"), WEB)], NODES, {APP: advised}, {}, {}, {}), TABLE)]

    withheld = Cap(Resource.MEMORY, Reason.CAPPED_BY_LIMIT_RANGE, 0, "LimitRange small")
    assert reasons(Advised(Resources(250, None), 1.0, "OutsideBounds")) == ["OutsideBounds", "NoRecommendation"]
    assert reasons(Advised(Resources(250, None), 1.0, "", caps=(withheld,))) == ["", "CappedByLimitRange"]
    assert reasons(Advised(Resources(), reason="BadValue")) == ["BadValue", "BadValue"]
    assert reasons(Advised(Resources())) == ["NoRecommendation", "NoRecommendation"]


def test_a_native_sidecar_is_told_as_such() -> None:
    containers = (Container("proxy", ContainerKind.SIDECAR), Container("app"))
    found = accounts(snapshot(pod("a", containers=containers)), TABLE)
    assert [(one.key.container, one.is_sidecar) for one in found][::2] == [("app", False), ("proxy", True)]


def test_a_limit_is_no_request_and_what_is_not_set_is_nothing() -> None:
    limited = pod("a", None, None, limits=Resources(2000, None), allocated=Resources(100, None))
    cpu, memory = accounts(snapshot(limited, used={("ns", "a", "app"): (0.1, 5.0)}), TABLE)
    assert (cpu.requested, cpu.limit, cpu.allocated) == (Cost(), Cost(2.0, 2.0), Cost(0.1, 0.1))
    assert (memory.requested, memory.limit, memory.used and memory.used.amount) == (Cost(), None, 5.0)
    assert of(accounts(snapshot(limited, pod("b")), TABLE), Resource.CPU).limit is None


@pytest.mark.parametrize("whole", [Resources(2000, 2 * GI), Resources(2000, None)])
def test_what_a_pod_requests_as_a_whole_is_reserved_for_its_containers_by_what_they_need(whole: Resources) -> None:
    log = ContainerKey(WEB, "log")
    containers = (Container("app", requests=Resources(1000, GI)), Container("log"))
    found = accounts(
        Snapshot(
            [(pod("a", containers=containers, pod_requests=whole), WEB)],
            NODES,
            {APP: Advised(Resources(1200, GI)), log: Advised(Resources(200, None))},
            used={},
            before={APP: Resources(1000, GI), log: Resources()},
            usage={},
        ),
        TABLE,
    )
    cpu = [one for one in found if one.resource is Resource.CPU]
    assert [one.requested.amount for one in cpu] == [1.5, 0.5]
    assert [one.waste.amount for one in cpu] == pytest.approx([0.3, 0.3])
    assert [one.allocated for one in cpu] == [one.requested for one in cpu]
    assert all((one.applied, one.lacking) == (Cost(), Cost()) for one in found)
    memory = [one.requested.amount for one in found if one.resource is Resource.MEMORY]
    assert memory == ([1.5 * GI, 0.5 * GI] if whole.memory else [GI, 0.0])


def test_a_limit_of_a_pod_as_a_whole_is_that_of_each_container_without_one() -> None:
    containers = (Container("app", limits=Resources(500, None)), Container("log"))
    whole = pod("a", containers=containers, pod_limits=Resources(2000, GI))
    found = accounts(snapshot(whole, structs.replace(whole, name="b", uid="b")), TABLE)
    assert [(one.key.container, one.limit and one.limit.amount, one.pod_limit) for one in found] == [
        ("app", 1.0, 2.0), ("app", 2.0 * GI, GI), ("log", 4.0, 2.0), ("log", 2.0 * GI, GI),
    ]  # fmt: skip
    assert all(one.requested == Cost() and one.pod_target is None for one in found)


def test_what_was_used_over_a_window_stands_beside_what_is_used_now() -> None:
    usage = {(APP, Resource.CPU): Usage(0.2, 0.4, 0.9, 600.0)}
    found = accounts(snapshot(pod("a"), usage=usage), TABLE)
    assert of(found, Resource.CPU).usage == usage[APP, Resource.CPU]
    assert of(found, Resource.MEMORY).usage is None


def test_no_node_is_promised_that_a_pod_waits_for() -> None:
    pods = [pod("a", 3000), pod("b", 3000, at="dear")]
    smaller = Resources(1900, GI)
    assert realisable(snapshot(*pods, target=smaller), TABLE, is_protected=lambda _: False).nodes == ("dear",)
    waiting = snapshot(*pods, pod("c", 3000, at="", phase="Pending"), target=smaller)
    assert realisable(waiting, TABLE, is_protected=lambda _: False).nodes == ()
    ended = snapshot(*pods, pod("c", 3000, at="", phase="Failed"), target=smaller)
    assert realisable(ended, TABLE, is_protected=lambda _: False).nodes == ("dear",)


def test_only_whole_nodes_are_realisable() -> None:
    pods = [pod("a", 3000, 6 * GI), pod("b", 3000, 6 * GI, at="dear")]
    as_it_is = realisable(snapshot(*pods), TABLE, is_protected=lambda _: False)
    assert (as_it_is.nodes, as_it_is.per_hour) == ((), 0.0)
    smaller = snapshot(*pods, target=Resources(500, GI))
    found = realisable(smaller, TABLE, is_protected=lambda _: False)
    assert found.nodes == ("dear",)
    assert (found.cores, found.memory_bytes, found.per_hour) == (4.0, 8.0 * GI, 4 * 2 + 8 * 0.5)
    assert realisable(smaller, TABLE, is_protected=lambda _: True).nodes == ()


sizes = st.integers(0, 4000)


@given(st.lists(st.tuples(sizes, sizes, st.sampled_from(["cheap", "dear"])), max_size=6), sizes, sizes)
def test_the_numbers_add_up_in_amounts_and_in_money(pods: list[tuple[int, int, str]], target: int, before: int) -> None:
    those = [pod(f"p{number}", cpu, now, at=at) for number, (cpu, now, at) in enumerate(pods)]
    taken = snapshot(*those, target=Resources(target, target), before={APP: Resources(before, before)})
    found = accounts(taken, TABLE)
    for resource, sums in totals(found).items():
        of_one = [one for one in found if one.resource is resource]
        assert sums.used is None
        for what in ("requested", "waste", "lacking", "applied"):
            assert getattr(sums, what) == sum_of(resource, [getattr(one, what) for one in of_one])
    for one in found:
        assert one.recommended is not None
        for part in ("amount", "per_hour"):
            change = getattr(one.requested, part) - getattr(one.recommended, part)
            assert getattr(one.waste, part) - getattr(one.lacking, part) == pytest.approx(change)
            assert min(getattr(one.waste, part), getattr(one.lacking, part)) >= 0


def test_prices_are_for_an_hour_whatever_a_window_is() -> None:
    [cpu, _] = accounts(snapshot(pod("a"), target=Resources(0, GI)), PriceTable())
    assert cpu.waste.per_hour == pytest.approx(Prices(0.031611, 0.0).per_hour(1.0, 0.0))
