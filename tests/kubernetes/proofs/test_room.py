"""On a full node a resize waits and happens when room frees; a pending pod gets what others do not use."""

import json
from collections.abc import Callable
from functools import partial

import pytest

from elastipod.clock import SystemClock
from elastipod.quantities import parse_cpu
from tests.kubernetes.calls import Json
from tests.kubernetes.pods import actual
from tests.kubernetes.processes import wait_for
from tests.kubernetes.proofs.installation import Elastipod
from tests.kubernetes.proofs.spikes import identities, wait_running
from tests.kubernetes.proofs.workloads import container, controlled, created, pod, tell
from tests.localcluster.served import PODS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

IDLE = ["sleep", "100000"]


def free_millicores(elastipod: Elastipod) -> int:
    """What of the node's CPU no pod has requested."""
    [node] = elastipod.status()["nodes"]
    return parse_cpu(node["cpu_free"])


def cpu_of(elastipod: Elastipod, name: str) -> int:
    """What a pod has in force."""
    return parse_cpu(actual(elastipod.cluster.calls.get(f"{PODS}/{name}"))["requests"]["cpu"])


def phase(elastipod: Elastipod, name: str) -> str:
    found: str = elastipod.cluster.calls.get(f"{PODS}/{name}")["status"]["phase"]
    return found


def test_a_resize_waits_for_room_and_happens_within_5_s_of_a_pods_end(
    elastipod: Elastipod, record_property: Callable[[str, object], None]
) -> None:
    cluster, clock = elastipod.cluster, SystemClock()
    taken = f"{free_millicores(elastipod) - 100}m"
    until = container(["sh", "-c", "until [ -e /go/over ]; do sleep 0.1; done"], cpu=taken)
    with created(
        cluster, pod("taking", until, labels={"app": "full"}), pod("waiting", container(IDLE), labels={"app": "full"})
    ):
        wait_running(cluster.calls, 2, "app=full")
        stated = {"app": {"requests": {"cpu": "500m"}}}
        cluster.kubectl("annotate", "pod", "waiting", f"elastipod.io/resources={json.dumps(stated)}")
        told = wait_for(lambda: elastipod.explain("waiting"), 60, "it waits for room", _waits_for_room)
        # The recommender has not seen a pod that is so young.
        assert "error" not in told["parts"]["updater"]
        assert "error" not in told["parts"]["actuator"]
        assert "does not answer" not in str(told["parts"]["recommender"])
        assert cpu_of(elastipod, "waiting") == 10
        tell(cluster, over="")
        since = clock.monotonic()
        wait_for(lambda: cpu_of(elastipod, "waiting"), 60, "it has its room", lambda found: found == 500)
        seconds = clock.monotonic() - since
        assert phase(elastipod, "taking") == "Succeeded"
    assert seconds < 5
    record_property(
        "figure", f"real Kubernetes cluster: a waiting resize was in force {seconds:.1f} s after a pod was told to end"
    )


@pytest.mark.usefixtures("metrics")
def test_a_pending_pod_gets_room_from_donors_within_60_s(
    elastipod: Elastipod, record_property: Callable[[str, object], None]
) -> None:
    cluster, clock = elastipod.cluster, SystemClock()
    each = (free_millicores(elastipod) - 20) // 2
    donors = [
        controlled("Deployment", f"donor-{number}", container(IDLE, cpu=f"{each}m"), donate="true") for number in (1, 2)
    ]
    with created(cluster, *donors):
        before = [pod for one in (1, 2) for pod in wait_running(cluster.calls, 1, f"app=donor-{one}")]
        for one in before:
            wait_for(partial(elastipod.usage, one), 120, "its use is known")
        since = clock.monotonic()
        with created(cluster, pod("report", container(IDLE, cpu=f"{each}m"), labels={"app": "report"})):
            wait_running(cluster.calls, 1, "app=report")
            seconds = clock.monotonic() - since
            after = [pod for one in (1, 2) for pod in wait_running(cluster.calls, 1, f"app=donor-{one}")]
            assert sum(cpu_of(elastipod, one["metadata"]["name"]) for one in after) < 2 * each
    assert identities(after) == identities(before)
    assert seconds < 60
    record_property(
        "figure", f"real Kubernetes cluster: a pending pod ran after {seconds:.1f} s, in room that others gave"
    )


def _waits_for_room(facts: Json) -> bool:
    return "NoRoom" in json.dumps(facts) or "Deferred" in json.dumps(facts)
