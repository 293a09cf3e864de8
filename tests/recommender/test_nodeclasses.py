"""One size for nodes of all sizes: that it does not suit is told, once it is sure, and no longer than it is so."""

from collections.abc import Mapping

import pytest

from elastipod.pods import Container, ContainerKey, Node, OwnerReference, Pod, Workload
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from recommender.claims import Claim
from recommender.recommending import Recommendations
from recommender.samples import UsageSample
from recommender.settings import RecommenderSettings
from tests.recommender.world import MI

AGENT = Workload("ns", "DaemonSet", "agent")
CORES = {"2 CPUs amd64": 0.1, "96 CPUs amd64": 1.0}
"""What the agent uses on a node of each class."""


class Fleet:
    """Nodes that each live for twenty minutes, four of 2 CPUs and one of 96 at a time, and an agent on each."""

    def __init__(self, target: Workload = AGENT) -> None:
        self.known = Recommendations(RecommenderSettings())
        claim = Claim("ns", "vpa", "u", 1, "elastipod", target)
        self.known.set_claim(claim.key, claim)
        self.known.loaded(claim.key, {}, {})
        self.target = target
        self.minute = 0
        self.writes = 0
        self.pods: list[str] = []

    def run(self, minutes: int, cores: Mapping[str, float], memory: float = 100.0) -> "Fleet":
        """So many minutes, in which the agents use so much by class of their node."""
        known = self.known
        for _ in range(minutes):
            self.minute += 1
            now, nodes = 1.8e9 + 60 * self.minute, self.nodes()
            known.set_nodes(nodes, Resources(96_000, 256 * 1024 * MI))
            for gone in set(self.pods) - set(nodes):
                known.members.set_pod(f"ns/{gone}", None)
            self.pods = list(nodes)
            for name in nodes:
                owner = OwnerReference(self.target.kind, "agent", "d")
                shown = (Container("app", requests=Resources(200, 128 * MI), is_running=True, started_at=now),)
                known.members.set_pod(
                    f"ns/{name}", Pod("ns", name, name, phase="Running", node_name=name, owner=owner, containers=shown)
                )
            known.learn(
                [UsageSample("ns", name, "app", now, cores[_class(node)], memory * MI) for name, node in nodes.items()],
                now,
            )
            for key in known.decide(now):
                status = known.status(key, now)
                if known.is_worth_writing(key, status, is_first=False):
                    self.writes += 1
                    known.wrote(key, status)
                known.settled(key)
        return self

    def nodes(self) -> dict[str, Node]:
        """Those that live now; a pod is called as its node."""
        found = {}
        for place, cpus in enumerate((2, 2, 2, 2, 96)):
            name = f"n{place}-{(self.minute + 4 * place) // 20}"
            size = Resources(cpus * 1000, cpus * 4096 * MI)
            found[name] = Node(name, capacity=size, allocatable=size, labels={"kubernetes.io/arch": "amd64"})
        return found

    @property
    def target_cores(self) -> float:
        estimates = self.known.judgement.estimates
        assert estimates is not None
        return float(estimates.cpu.target[0])

    @property
    def told(self) -> str:
        claim = self.known.claim("ns/vpa")
        assert claim is not None
        [provided] = [one for one in claim.status.conditions or () if one.type == "RecommendationProvided"]
        return provided.message


def _class(node: Node) -> str:
    return f"{node.capacity.cpu // 1000} CPUs amd64"


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
    assert known.node_classes.told(row) == {}
    for name in fleet.pods:
        known.members.set_pod(f"ns/{name}", None)
    known.expire(now + 30 * 86_400)
    assert known.history.row(ContainerKey(AGENT, "app")) is None
