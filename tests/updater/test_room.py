from hypothesis import given
from hypothesis import strategies as st

from elastipod.fit import reserved
from elastipod.placement import may_run
from elastipod.pods import Pod
from elastipod.quantities import Resources
from tests.updater.build import NOW, Mi, amounts, container, node, pod, size, usage
from updater.grants import Grant
from updater.ledger import Ledger, fits
from updater.precheck import growth, requests_with
from updater.room import DonorRules, make_room, needs_back
from updater.shape import qos_class, with_sizes
from updater.steps import Usage


def idle(name: str, cpu: str = "2", memory: str = "2Gi", *, priority: int = 0, guaranteed: bool = False) -> Pod:
    requests = amounts(cpu, memory)
    return pod(container(requests=requests, limits=requests if guaranteed else amounts()), name=name, priority=priority)


def used(*names: str, cpu: str = "100m", memory: str = "100Mi") -> dict[str, dict[str, Usage]]:
    return {f"shop/{name}": {"app": usage(memory, cpu=cpu)} for name in names}


def test_only_as_much_is_taken_as_is_needed() -> None:
    gifts = make_room(amounts("500m", "0"), [idle("a")], used("a"), NOW)
    assert gifts is not None
    assert [dict(one.sizes) for one in gifts] == [{"app": size(amounts("1500m", "2Gi"))}]


def test_nothing_is_taken_where_it_would_not_be_enough() -> None:
    assert make_room(amounts("5", "0"), [idle("a"), idle("b")], used("a", "b"), NOW) is None


def test_the_least_disturbed_give_first_then_lower_priority() -> None:
    donors = [idle("guaranteed", guaranteed=True), idle("high", priority=9), idle("low")]
    gifts = make_room(amounts("1", "0"), donors, used("guaranteed", "high", "low"), NOW)
    assert gifts is not None
    assert [one.key for one in gifts] == ["shop/low"]


def test_without_a_fresh_sample_nothing_is_given() -> None:
    known = {"shop/a": {"app": usage("100Mi", age=16)}}
    assert make_room(amounts("1", "0"), [idle("a")], known, NOW) is None


def test_a_recent_memory_peak_is_kept() -> None:
    known = {"shop/a": {"app": usage("100Mi", peak="1900Mi")}}
    assert make_room(amounts("0", "512Mi"), [idle("a")], known, NOW) is None


def test_a_container_that_would_restart_gives_nothing() -> None:
    donor = pod(container(requests=amounts("2", "2Gi"), cpu_restart=True), name="a")
    assert make_room(amounts("1", "0"), [donor], used("a"), NOW) is None


def test_a_donor_gets_back_what_it_gave_when_its_usage_comes_near() -> None:
    donor, had = idle("a", cpu="1"), {"app": size(amounts("2", "2Gi"))}
    assert needs_back(donor, had, {"app": usage("100Mi", cpu="800m")}) == {}
    assert needs_back(donor, had, {"app": usage("100Mi", cpu="950m")}) == had


def test_room_is_not_given_twice_and_comes_back_when_the_grant_is_void() -> None:
    ledger = Ledger()
    ledger.put_node(node(cpu="2"))
    first = pod(container(requests=amounts("500m", "1Gi")))
    ledger.put_pod(first.key, first)
    more = Resources(1000, 0)
    ledger.grants.give(first.uid, Grant("node-a", "shop", more, more, {}, first.generation))
    room = ledger.room("node-a")
    assert room is not None
    assert not fits(room, more, more)
    ledger.grants.void(first.uid)
    room = ledger.room("node-a")
    assert room is not None
    assert fits(room, more, more)


def test_a_pending_pod_is_helped_only_where_it_may_run() -> None:
    waiting = pod(node="", phase="Pending")
    assert may_run(waiting, node(), 3)
    assert not may_run(waiting, node(is_ready=False), 3)
    assert not may_run(waiting, node(), 110)


cpus = st.integers(1, 4000)
memories = st.integers(1, 8192).map(lambda mebibytes: mebibytes * Mi)


@st.composite
def donors(draw: st.DrawFn) -> tuple[list[Pod], dict[str, dict[str, Usage]]]:
    found, known = [], {}
    for index in range(draw(st.integers(1, 4))):
        requests = Resources(draw(cpus), draw(memories))
        limits = draw(st.sampled_from([Resources(), requests, Resources(None, requests.memory)]))
        found.append(
            pod(container(requests=requests, limits=limits), name=f"d{index}", priority=draw(st.integers(0, 2)))
        )
        sample = usage(f"{draw(st.integers(0, 8192))}Mi", cpu=f"{draw(cpus)}m", age=draw(st.sampled_from([1.0, 20.0])))
        known[f"shop/d{index}"] = {"app": sample}
    return found, known


@given(donors(), cpus, memories)
def test_donors_keep_usage_and_margin_and_together_give_enough(
    given_: tuple[list[Pod], dict[str, dict[str, Usage]]], cpu: int, memory: int
) -> None:
    pods, known = given_
    need, rules = Resources(cpu, memory), DonorRules()
    gifts = make_room(need, pods, known, NOW, rules)
    if gifts is None:
        return
    by_key = {one.key: one for one in pods}
    total = Resources(0, 0)
    for gift in gifts:
        donor, sample = by_key[gift.key], known[gift.key]["app"]
        assert NOW - sample.at <= 15
        [(name, new)] = gift.sizes.items()
        old = donor.container(name)
        assert old is not None
        if new.requests.cpu < old.requests.cpu:
            assert new.requests.cpu >= sample.cpu_millicores * 1.25
        if new.requests.memory < old.requests.memory:
            assert new.requests.memory >= sample.memory_bytes * 1.25
        if new.limits.memory_bytes is not None:
            assert new.limits.memory >= old.limits.memory * 0.8 - 1
        assert qos_class(with_sizes(donor, gift.sizes)) is donor.qos_class
        total += gift.room
    assert total.cpu >= need.cpu
    assert total.memory >= need.memory


@given(st.lists(st.tuples(cpus, memories, cpus, memories), min_size=1, max_size=8))
def test_what_is_granted_on_a_node_never_exceeds_what_it_has_free(found: list[tuple[int, int, int, int]]) -> None:
    ledger = Ledger()
    ledger.put_node(node(cpu="16", memory="32Gi"))
    pods = [
        pod(container(requests=Resources(cpu, memory)), name=f"p{index}")
        for index, (cpu, memory, _, _) in enumerate(found)
    ]
    for one in pods:
        ledger.put_pod(one.key, one)
    start = ledger.room("node-a")
    assert start is not None
    if start.free.cpu < 0 or start.free.memory < 0:
        return
    granted = []
    for one, (_, _, cpu, memory) in zip(pods, found, strict=True):
        sizes = {"app": size(Resources(cpu, memory))}
        more = growth(one, sizes)
        room = ledger.room("node-a")
        assert room is not None
        if fits(room, *more):
            ledger.grants.give(one.uid, Grant("node-a", "shop", *more, {}, one.generation))
            granted.append((one, sizes))
    total = sum((reserved(one) for one in pods), Resources(0, 0))
    for one, sizes in granted:
        total += requests_with(one, sizes).largest(reserved(one)) - reserved(one)
    allocatable = node(cpu="16", memory="32Gi").allocatable
    assert total.cpu <= allocatable.cpu
    assert total.memory <= allocatable.memory
