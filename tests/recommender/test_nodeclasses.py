"""One size for nodes of all sizes: that it does not suit is told, once it is sure, and no longer than it is so."""

import pytest

from elastipod.pods import ContainerKey, Workload
from elastipod.reasons import Reason
from tests.recommender.spotnodes import AGENT, CORES, Fleet


def test_an_agent_that_needs_more_on_larger_nodes_is_told_with_what_it_uses_on_each_r75() -> None:
    fleet = Fleet().run(90, CORES)
    assert fleet.told == "app: cpu DiffersByNodeClass (nodes of 2 CPUs amd64 and 96 CPUs amd64)"
    [container] = fleet.known.explain(AGENT, 1.8e9 + 60 * fleet.minute)["containers"]
    used = container["used_by_node_class"]
    assert {name: one["cpu_millicores"] for name, one in used.items()} == {"2 CPUs amd64": 100, "96 CPUs amd64": 1000}
    assert [one["reason"] for one in container["caps"]] == [Reason.DIFFERS_BY_NODE_CLASS]


def test_a_new_node_begins_with_what_all_before_it_have_shown_and_writes_nothing_r75() -> None:
    fleet = Fleet().run(240, CORES)
    fleet.writes = 0
    target = fleet.target_cores
    fleet.run(60, CORES)
    assert fleet.target_cores == target > 1.0
    assert fleet.writes <= 3
    assert fleet.known.history.open_instances == 5


def test_use_that_has_become_alike_is_told_no_more_and_near_the_line_it_is_not_told_again_and_again() -> None:
    fleet = Fleet().run(90, CORES)
    fleet.run(300, {"2 CPUs amd64": 0.1, "96 CPUs amd64": 0.12})
    assert "DiffersByNodeClass" not in fleet.told
    fleet.run(300, {"2 CPUs amd64": 0.1, "96 CPUs amd64": 0.18})
    assert "DiffersByNodeClass" not in fleet.told
    fleet.run(300, {"2 CPUs amd64": 0.1, "96 CPUs amd64": 0.25})
    assert "DiffersByNodeClass" in fleet.told
    fleet.run(300, {"2 CPUs amd64": 0.1, "96 CPUs amd64": 0.18})
    assert "DiffersByNodeClass" in fleet.told


@pytest.mark.parametrize(
    ("minutes", "cores"),
    [
        (20, CORES),
        (90, {"2 CPUs amd64": 0.1, "96 CPUs amd64": 0.15}),
        (90, {"2 CPUs amd64": 0.001, "96 CPUs amd64": 0.004}),
    ],
)
def test_what_is_hardly_known_or_nearly_alike_or_next_to_nothing_is_not_told(
    minutes: int, cores: dict[str, float]
) -> None:
    assert "DiffersByNodeClass" not in Fleet().run(minutes, cores).told


def test_only_what_runs_on_every_node_is_compared() -> None:
    fleet = Fleet(Workload("ns", "StatefulSet", "agent")).run(90, CORES)
    assert "DiffersByNodeClass" not in fleet.told


def test_classes_that_are_gone_for_a_day_are_forgotten_and_so_is_a_container_r75() -> None:
    fleet = Fleet().run(90, CORES)
    known, now = fleet.known, 1.8e9 + 60 * fleet.minute + 90_000
    row = known.history.row(ContainerKey(AGENT, "app"))
    assert row is not None
    known.decide(now)
    assert known.learning.node_classes.told(row) == {}
    for name in fleet.pods:
        known.members.set_pod(f"ns/{name}", None)
    known.expire(now + 30 * 86_400)
    assert known.history.row(ContainerKey(AGENT, "app")) is None
