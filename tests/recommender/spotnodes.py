"""Nodes of two sizes that are replaced all the time, and an agent on each."""

from collections.abc import Mapping
from typing import Any

from elastipod.api import AutoscalerStatus, ElasticPolicy, ElasticPolicySpec, ObjectMeta
from elastipod.nodeclass import node_class
from elastipod.pods import Container, Node, OwnerReference, Pod, Workload
from elastipod.quantities import Resources
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

    def __init__(self, target: Workload = AGENT, sizes: str | None = None, **claimed: Any) -> None:
        self.known = Recommendations(RecommenderSettings())
        self.claimed = Claim("ns", "vpa", "u", 1, "elastipod", target, **claimed)
        self.known.set_claim(self.claimed.key, self.claimed)
        self.known.loaded(self.claimed.key, {}, {})
        self.set_sizes(sizes)
        self.target = target
        self.classes: tuple[int, ...] = (2, 2, 2, 2, 96)
        """How many CPUs those nodes have that live at a time."""
        self.minute = 0
        self.step = 1
        """Minutes from one look to the next."""
        self.writes = 0
        self.pods: list[str] = []

    def set_sizes(self, sizes: str | None) -> None:
        """The namespace's only policy says this of where a size holds; there is none where it says nothing."""
        policy = ElasticPolicy(metadata=ObjectMeta(name="p", namespace="ns"), spec=ElasticPolicySpec(sizes=sizes))
        self.known.set_policies({"ns": (policy,) if sizes else ()})

    def run(self, minutes: int, cores: Mapping[str, float], memory: float = 100.0) -> "Fleet":
        """So many minutes, in which the agents use so much by class of their node."""
        known = self.known
        for _ in range(0, minutes, self.step):
            self.minute += self.step
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
                [
                    UsageSample("ns", name, "app", now, cores[node_class(node)], memory * MI)
                    for name, node in nodes.items()
                ],
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
        for place, cpus in enumerate(self.classes):
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
    def now(self) -> float:
        return 1.8e9 + 60 * self.minute

    @property
    def targets(self) -> dict[str, dict[str, Any]]:
        """What the status recommends, by name."""
        found = self.status.recommendation
        return {one.container_name: dict(one.target or {}) for one in (found and found.container_recommendations) or []}

    @property
    def status(self) -> AutoscalerStatus:
        claim = self.known.claim("ns/vpa")
        assert claim is not None
        return claim.status

    @property
    def told(self) -> str:
        [provided] = [one for one in self.status.conditions or () if one.type == "RecommendationProvided"]
        return provided.message
