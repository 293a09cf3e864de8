"""What the actuator counts of spikes."""

import json

from prometheus_client import generate_latest

from actuator.spikewords import Tell
from actuator.telling import Numbers
from elastipod.kube.podrows import decode_pod
from elastipod.reasons import Reason
from elastipod.telemetry import Metrics
from tests import build


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_every_result_is_there_from_the_start_so_that_the_first_shows_as_growth() -> None:
    metrics = Metrics()
    Numbers(metrics)
    results = ("raised", "relaxed", "cache", "expired", "denied")
    assert [value(metrics, "elastipod_holds_total", result=one) for one in results] == [0.0] * 5


def test_a_spike_counts_for_its_workload_by_what_became_of_it() -> None:
    metrics = Metrics()
    numbers = Numbers(metrics)
    owner = build.owner_json("ReplicaSet", "web-5d4f8c7b9d", "u")
    pod = build.pod_json("web-5d4f8c7b9d-abcde", labels={"pod-template-hash": "5d4f8c7b9d"}, owner=owner, uid="p")
    found = decode_pod(json.dumps(pod).encode())
    for reason in (Reason.RAISED, Reason.RAISED, Reason.NODE_BUDGET_EMPTY):
        numbers.spike(Tell(reason), (found, found.containers[0]))
    of = {"namespace": "default", "workload_kind": "Deployment", "workload": "web", "container": "app"}
    assert value(metrics, "elastipod_workload_holds_total", **of, result="raised") == 2.0
    assert value(metrics, "elastipod_workload_holds_total", **of, result="denied") == 1.0
    assert value(metrics, "elastipod_holds_total", result="raised") == 2.0


def test_a_spike_of_a_container_that_is_gone_counts_for_the_node_alone() -> None:
    metrics = Metrics()
    Numbers(metrics).spike(Tell(Reason.EXPIRED), None)
    assert value(metrics, "elastipod_holds_total", result="expired") == 1.0
    assert b"elastipod_workload_holds_total{" not in generate_latest(metrics.registry)
