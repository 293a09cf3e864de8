"""What a Prometheus reads is what the accounts say, to the last digit."""

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from elastipod.pods import Container, ContainerKey, Node, Pod, Workload
from elastipod.quantities import NOTHING, Resources
from recommender.exposition import FAMILIES, accounts_text, realisable_text
from recommender.podexposition import nodes_text, pods_text, prices_text
from recommender.prices import PriceTable, read_prices
from recommender.ranges import Resource
from recommender.realisable import Realisable
from recommender.savings import Account, Snapshot, dearest
from recommender.sums import Cost

KEY = ContainerKey(Workload("shop", "Deployment", "web"), "app")


def exposition(those: list[Account], spare: Realisable, currency: str, *, most: int) -> bytes:
    told = dearest(those, most)
    return accounts_text(told, len(those) - len(told), currency) + realisable_text(spare, currency)


def account(key: ContainerKey = KEY, resource: Resource = Resource.CPU, **more: Any) -> Account:
    stated = {"pods": 3, "requested": Cost(0.1 + 0.2, 1 / 3), "before": Cost(2.0, 4.0), "limit": None, **more}
    return Account(key, resource, **stated)


def read(body: bytes) -> dict[str, list[tuple[dict[str, str], float]]]:
    families = text_string_to_metric_families(body.decode())
    return {one.name: [(sample.labels, sample.value) for sample in one.samples] for one in families}


def test_every_number_is_told_to_the_last_digit() -> None:
    found = read(exposition([account()], Realisable(("n1",), 4.0, 8.0, 0.7), "EUR", most=10))
    labels = {
        "namespace": "shop",
        "workload_kind": "Deployment",
        "workload": "web",
        "container": "app",
        "resource": "cpu",
    }
    assert found["elastipod_workload_requests"] == [(labels, 0.1 + 0.2)]
    assert found["elastipod_workload_requests_cost_per_hour"] == [({**labels, "currency": "EUR"}, 1 / 3)]
    assert found["elastipod_workload_applied"] == [(labels, 2.0 - (0.1 + 0.2))]
    assert found["elastipod_realisable_nodes"] == [({}, 1.0)]
    assert found["elastipod_realisable_cost_per_hour"] == [({"currency": "EUR"}, 0.7)]
    assert found["elastipod_workload_series_left_out"] == [({}, 0.0)]


def test_what_is_not_known_has_no_series_and_is_not_nought() -> None:
    found = read(exposition([account()], Realisable(), "USD", most=10))
    assert found["elastipod_workload_limits"] == []
    assert found["elastipod_workload_recommended"] == []
    assert found["elastipod_workload_confidence_days"] == []
    known = read(exposition([account(limit=Cost(), recommended=Cost())], Realisable(), "USD", most=10))
    assert [value for _, value in known["elastipod_workload_limits"]] == [0.0]
    assert [value for _, value in known["elastipod_workload_confidence_days"]] == [0.0]


def test_every_series_stands_there_once_and_every_family_says_what_it_is() -> None:
    body = exposition([account(), account(resource=Resource.MEMORY)], Realisable(), "USD", most=10)
    lines = body.decode().splitlines()
    series = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(series) == len(set(series))
    for family in FAMILIES:
        assert lines.count(f"# TYPE {family.name} gauge") == 1
        assert family.what.endswith(".")


def test_of_too_many_the_dearest_are_told_and_how_many_are_not() -> None:
    those = [
        account(
            ContainerKey(Workload("shop", "Deployment", f"w{number}"), "app"), requested=Cost(1.0, float(number % 3))
        )
        for number in range(6)
    ]
    found = read(exposition(those, Realisable(), "USD", most=4))
    told = [labels["workload"] for labels, _ in found["elastipod_workload_pods"]]
    assert told == ["w1", "w2", "w4", "w5"]
    assert found["elastipod_workload_series_left_out"] == [({}, 2.0)]


def test_a_node_uses_what_its_measured_pods_use_and_is_not_told_of_where_none_is() -> None:
    pods = [
        (Pod("shop", name, name, node_name=node, containers=(Container("app"), Container("log"))), KEY.workload)
        for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2"))
    ]
    used = {("shop", "a", "app"): (0.5, 100.0), ("shop", "a", "log"): (0.25, None), ("shop", "b", "app"): (1.0, 7.0)}
    found = read(nodes_text(Snapshot(pods, {}, {}, used, {}, {})))
    assert found["elastipod_node_usage"] == [
        ({"node": "n1", "resource": "cpu"}, 1.75),
        ({"node": "n1", "resource": "memory"}, 107.0),
    ]


def test_a_kind_with_odd_letters_forges_no_series() -> None:
    odd = account(ContainerKey(Workload("shop", 'A"}\n\\', "web"), "app"))
    [(labels, _)] = read(exposition([odd], Realisable(), "USD", most=1))["elastipod_workload_pods"]
    assert labels["workload_kind"] == 'A"}\n\\'


def running(name: str, *, limits: Resources = NOTHING, **more: Any) -> Pod:
    container = Container("app", requests=Resources(250, None), limits=limits)
    return Pod("shop", name, name, **{"node_name": "n1", "phase": "Running", "containers": (container,), **more})


def test_pods_are_told_of_one_by_one_only_where_that_is_wanted_and_as_many_as_are() -> None:
    pods = [running("c"), running("a", limits=Resources(500, 7)), running("b", phase="Failed"), running("d")]
    used = {("shop", "a", "app"): (0.1, None), ("shop", "b", "app"): (9.0, 9.0)}
    snapshot = Snapshot([(one, KEY.workload) for one in pods], {}, {}, used, {}, {})
    assert pods_text(snapshot, 0) == b""
    found = read(pods_text(snapshot, 2))
    labels = {"namespace": "shop", "pod": "a", "node": "n1", "container": "app", "resource": "cpu"}
    assert found["elastipod_pod_requests"] == [(labels, 0.25), ({**labels, "pod": "c"}, 0.25)]
    assert found["elastipod_pod_limits"] == [(labels, 0.5), ({**labels, "resource": "memory"}, 7.0)]
    assert found["elastipod_pod_usage"] == [(labels, 0.1)]
    assert found["elastipod_pod_series_left_out"] == [({}, 1.0)]


def test_a_pod_that_is_limited_as_a_whole_limits_its_containers() -> None:
    one = running("a", pod_limits=Resources(2000, 9), limits=Resources(None, 7))
    found = read(pods_text(Snapshot([(one, KEY.workload)], {}, {}, {}, {}, {}), 1))["elastipod_pod_limits"]
    assert [(labels["resource"], value) for labels, value in found] == [("cpu", 2.0), ("memory", 7.0)]


def test_a_pod_that_has_ended_uses_nothing_of_its_node() -> None:
    used = {("shop", "a", "app"): (0.1, 5.0)}
    ended = Snapshot([(running("a", phase="Succeeded"), KEY.workload)], {}, {}, used, {}, {})
    assert read(nodes_text(ended))["elastipod_node_usage"] == []


def test_prices_are_told_once_for_each_kind_of_node() -> None:
    table = read_prices("instance_type,core_hour,gib_hour,currency\nm5,2,0.5,EUR\n,1,0.25,EUR\n")
    large = {"node.kubernetes.io/instance-type": "m5"}
    found = read(prices_text([Node("a", labels=large), Node("b", labels=large), Node("c")], table))
    labels = {"instance_type": "m5", "capacity_type": "on-demand", "region": "", "currency": "EUR"}
    assert found["elastipod_price_core_hour"] == [(labels, 2.0), ({**labels, "instance_type": ""}, 1.0)]
    assert found["elastipod_price_gib_hour"] == [(labels, 0.5), ({**labels, "instance_type": ""}, 0.25)]
    [(unknown, price)] = read(prices_text([], PriceTable()))["elastipod_price_core_hour"]
    assert (unknown["currency"], price) == ("USD", 0.031611)
