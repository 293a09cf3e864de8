"""How quick it is, and what it takes: figures of the whole system, from one end to the other."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from elastipod.clock import SystemClock
from elastipod.quantities import parse_cpu, parse_memory
from tests.kubernetes.pods import cgroup_of
from tests.kubernetes.processes import wait_for
from tests.kubernetes.proofs.figures import told
from tests.kubernetes.proofs.installation import Elastipod
from tests.kubernetes.proofs.spikes import wait_running
from tests.kubernetes.proofs.workloads import MIB, autoscaler, container, controlled, created
from tests.localcluster.served import MERGE

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

AUTOSCALER = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers/paced"
REPLICAS = 5


def test_a_recommendation_is_in_force_on_the_node_in_seconds(
    elastipod: Elastipod, record_property: Callable[[str, object], None]
) -> None:
    cluster, seconds = elastipod.cluster, list[float]()
    paced = controlled("Deployment", "paced", container(["sleep", "100000"]), replicas=REPLICAS)
    with created(cluster, paced, autoscaler("paced")):
        pods = wait_running(cluster.calls, REPLICAS, "app=paced")
        files = [cluster.cgroup("memory", cgroup_of(pod)) / "memory.limit_in_bytes" for pod in pods]
        for mib in (60, 70, 80, 90, 100, 110, 120, 130):
            amounts = {"cpu": "10m", "memory": f"{mib}Mi"}
            bounds = dict.fromkeys(("target", "lowerBound", "upperBound", "uncappedTarget"), amounts)
            status = {"recommendation": {"containerRecommendations": [{"containerName": "app"} | bounds]}}
            cluster.calls.patch(f"{AUTOSCALER}/status", {"status": status}, MERGE)
            # A limit keeps its proportion to the request.
            seconds += _seconds_until(files, 2 * mib * MIB)
        after = wait_running(cluster.calls, REPLICAS, "app=paced")
    assert all(one["status"]["containerStatuses"][0]["restartCount"] == 0 for one in after)
    record_property("figure", told("from a VPA's status to the limit in force on the node", "s", seconds))


def _seconds_until(files: list[Path], limit_bytes: int) -> list[float]:
    """How long from now until each file says so."""
    clock = SystemClock()
    since = clock.monotonic()
    found: dict[Path, float] = {}

    def look() -> int:
        for file in files:
            if file not in found and int(file.read_text()) == limit_bytes:
                found[file] = clock.monotonic() - since
        return len(files) - len(found)

    wait_for(look, 60, f"limits of {limit_bytes} are in force", lambda left: left == 0)
    return list(found.values())


@pytest.mark.usefixtures("metrics")
def test_at_rest_it_takes_little(elastipod: Elastipod, record_property: Callable[[str, object], None]) -> None:
    for component in ("recommender", "updater", "admission", "actuator"):
        for pod in elastipod.pods(component):
            told_of = wait_for(partial(elastipod.usage, pod), 120, f"the use of a {component} is told")
            assert told_of is not None
            for one in told_of["containers"]:
                cpu, memory = parse_cpu(one["usage"]["cpu"]), parse_memory(one["usage"]["memory"])
                record_property(
                    "figure",
                    f"real Kubernetes cluster: at rest, {component}/{one['name']}: {cpu}m, {memory // MIB} MiB",
                )
                assert cpu < 100
                assert memory < 256 * MIB
