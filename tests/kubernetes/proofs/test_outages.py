"""A Job that needs more than its limit ends well, whatever is away meanwhile."""

import signal
from collections.abc import Iterator

import pytest

from elastipod.clock import SystemClock
from tests.kubernetes.processes import wait_for
from tests.kubernetes.proofs.installation import NODE_NAMESPACE, Elastipod
from tests.kubernetes.proofs.spikes import Growth, growing_job

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

AWAY_SECONDS = 60.0
"""How long the API server is."""


@pytest.fixture(autouse=True)
def _well(elastipod: Elastipod) -> Iterator[None]:
    """What a test took away is back before the next."""
    yield
    elastipod.wait_ready()


def ends_well(growth: Growth) -> None:
    outcome = growth.outcome()
    assert (outcome.reason, outcome.exit_code, outcome.restarts) == ("Completed", 0, 0)
    assert outcome.same_container


def test_while_the_kubelet_is_away(elastipod: Elastipod) -> None:
    cluster = elastipod.cluster
    with growing_job(cluster, "no-kubelet", "180@100", "240@100") as growth:
        elastipod.wait_protected([growth.began["metadata"]["name"]])
        with cluster.without_kubelet():
            growth.step()
            growth.wait_used(180)
        growth.wait_agreed()
        growth.step()
        ends_well(growth)


def test_while_the_api_server_is_away(elastipod: Elastipod) -> None:
    cluster, clock = elastipod.cluster, SystemClock()
    with growing_job(cluster, "no-api", "180@100", "240@100") as growth:
        elastipod.wait_protected([growth.began["metadata"]["name"]])
        cluster.control_plane.processes.signal("kube-apiserver", signal.SIGSTOP)
        back_at = clock.monotonic() + AWAY_SECONDS
        try:
            growth.step()
            growth.wait_used(180)
            wait_for(lambda: clock.monotonic() >= back_at, AWAY_SECONDS + 5, "its time is over")
        finally:
            cluster.control_plane.processes.signal("kube-apiserver", signal.SIGCONT)
        growth.wait_agreed()
        growth.step()
        ends_well(growth)


@pytest.mark.parametrize("component", ["recommender", "updater", "admission", "actuator"])
def test_while_all_pods_of_a_component_are_killed(elastipod: Elastipod, component: str) -> None:
    with growing_job(elastipod.cluster, f"no-{component}", "80@100", "150@5", "220@100") as growth:
        elastipod.wait_protected([growth.began["metadata"]["name"]])
        growth.step()
        growth.wait_raised(101)
        growth.step()
        for pod in elastipod.pods(component):
            elastipod.cluster.kubectl(
                "--namespace", pod["metadata"]["namespace"], "delete", "pod", pod["metadata"]["name"],
                "--force", "--grace-period=0",
            )  # fmt: skip
        growth.wait_used(150)
        elastipod.wait_ready()
        elastipod.wait_protected([growth.began["metadata"]["name"]])
        growth.wait_agreed()
        growth.step()
        ends_well(growth)


def test_while_the_actuator_alone_is_killed_its_guard_stands_in(elastipod: Elastipod) -> None:
    cluster = elastipod.cluster
    with growing_job(cluster, "guarded", "80@100", "220@20") as growth:
        elastipod.wait_protected([growth.began["metadata"]["name"]])
        growth.step()
        growth.wait_raised(101)
        growth.step()
        [before] = elastipod.pods("actuator")
        [container] = before["status"]["containerStatuses"]
        identity = container["containerID"].removeprefix("containerd://")
        cluster.in_node(f"ctr --namespace k8s.io task kill --signal SIGKILL {identity}")
        ends_well(growth)
        [after] = elastipod.pods("actuator")
    assert after["status"]["containerStatuses"][0]["restartCount"] == container["restartCount"] + 1
    assert after["metadata"]["namespace"] == NODE_NAMESPACE
