"""What a Prometheus reads is what the accounts say, to the last digit."""

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from elastipod.pods import Container, ContainerKey, Pod, Workload
from recommender.exposition import FAMILIES, accounts_text, nodes_text, realisable_text
from recommender.ranges import Resource
from recommender.savings import Account, Cost, Realisable, Snapshot, dearest

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
