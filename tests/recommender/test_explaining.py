"""What is told of a recommendation: of every kind of workload, all that led to it and what would change it."""

from typing import Any

import numpy as np
import pytest

from elastipod.api import ElasticPolicy, ElasticPolicySpec, ObjectMeta, WorkloadSelector
from elastipod.eligible import GROUP_KIND
from elastipod.owners import Owned
from elastipod.pods import Container, OwnerReference, Pod, Workload
from elastipod.quantities import Resources
from recommender.claims import Claim
from recommender.dropping import Dropped, Dropping
from recommender.policies import SizePolicy
from recommender.recommending import Recommendations
from recommender.samples import OomKill, UsageSample
from recommender.settings import RecommenderSettings
from tests.recommender.world import MI

START = 1.8e9
KINDS = {
    "Deployment": "ReplicaSet",
    "StatefulSet": "",
    "DaemonSet": "",
    "ReplicaSet": "",
    "ReplicationController": "",
    "Job": "",
    "CronJob": "Job",
    "Kafka": "",
    "Pod": None,
    GROUP_KIND: None,
}
"""How each kind has its pods: by a controller of another kind in between, itself, or by none."""


def learned(kind: str) -> tuple[Recommendations, Workload]:
    """What is known of a workload whose pod used CPU and memory for a day and was killed once."""
    known = Recommendations(RecommenderSettings())
    name = "it-x" if kind == "Pod" else "it"
    target = Workload("ns", kind, name)
    policy = SizePolicy(min_allowed=Resources(700, None))
    claim = Claim("ns", "vpa", "u", 1, "elastipod", target, policies={"*": policy})
    known.set_claim(claim.key, claim)
    known.loaded(claim.key, {}, {})
    known.set_nodes({}, Resources(8000, 64 * 1024 * MI))
    between, owner = KINDS[kind], None
    if between:
        owned = Owned(between, "ns", "it-1", "between", owner=OwnerReference(kind, "it", "top"))
        known.members.set_owned(None, owned)
        owner = OwnerReference(between, "it-1", "between")
    elif between is not None:
        owner = OwnerReference(kind, "it", "top")
    if kind == GROUP_KIND:
        selecting = ElasticPolicySpec(selector=WorkloadSelector(match_labels={"app": "it"}))
        known.set_policies({"ns": (ElasticPolicy(metadata=ObjectMeta(name="it", namespace="ns"), spec=selecting),)})
    shown = (Container("app", requests=Resources(100, 64 * MI), is_running=True),)
    labels = {"app": "it"}
    pod = Pod("ns", "it-x", "u-x", phase="Running", owner=owner, created_at=START, containers=shown, labels=labels)
    known.members.set_pod(pod.key, pod)
    assert known.members.resolve(pod) == target
    return known, target


def tell(
    known: Recommendations, at: float, cpu: float | None = 0.5, memory: float = 200.0, measured: float = 0
) -> None:
    known.learn([UsageSample("ns", "it-x", "app", measured or at, cpu, memory * MI)], at)


@pytest.mark.parametrize("kind", KINDS)
def test_all_that_led_to_a_recommendation_is_told_of_every_kind_of_workload(kind: str) -> None:
    known, target = learned(kind)
    at = START
    for minute in range(1500):
        at = START + minute * 60
        tell(known, at, cpu=0.9 if minute == 700 else 0.5)
    tell(known, at + 60, measured=at)
    tell(known, at + 120, cpu=900.0)
    tell(known, at + 180, cpu=None)
    assert known.learn_kill(OomKill(target, "app", "u-x", "one", at + 180, 256 * MI, 256 * MI))
    known.decide(at + 240)
    known.status("ns/vpa", at + 240)
    [told] = known.explain(target, at + 240)["containers"]
    assert told["cpu_samples"] == 1500
    assert told["dropped_samples"] == {"duplicate": 1, "implausible": 1, "bad_value": 2}
    assert 900 <= told["highest"]["cpu_millicores"] <= 945
    assert 200 * MI <= told["highest"]["memory_bytes"] <= 211 * MI
    assert (told["oom_kills"], told["oom_proven_bytes"]) == (1, 256 * MI)
    assert told["oom_floor_bytes"] >= 307 * MI
    assert told["confidence"] > 1
    assert 500 <= told["cpu_millicores"]["target"] < 700
    assert told["recommended"][0]["cpu_millicores"] == 700
    [cap] = [one for one in told["caps"] if one["resource"] == "cpu"]
    assert all(cap[name] for name in ("reason", "why", "by", "amount"))
    for resource in ("cpu", "memory"):
        estimator: dict[str, Any] = told["estimators"][resource]
        assert estimator["speaks"] == "histogram"
        assert all(estimator[name] for name in ("reason", "why", "changes_with", "moves_with"))
    assert "OOM" in told["estimators"]["memory"]["moves_with"]


def test_what_was_dropped_is_counted_by_container_and_forgotten_with_it() -> None:
    dropping = Dropping()
    dropping.count(Dropped.DUPLICATE, np.array([3, 3, 200]))
    assert dropping.of(3)["duplicate"] == 2
    dropping.clear(3)
    assert dropping.of(3)["duplicate"] == 0
    assert (dropping.of(200)["duplicate"], dropping.of(10_000)["duplicate"]) == (1, 0)
