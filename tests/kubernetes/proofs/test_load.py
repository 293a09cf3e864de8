"""A Deployment follows its load in place, by metrics-server's figures, and the report tells of it."""

from collections.abc import Callable

import pytest

from elastipod.clock import SystemClock
from elastipod.quantities import parse_memory
from tests.kubernetes.calls import Json
from tests.kubernetes.pods import actual
from tests.kubernetes.processes import wait_for
from tests.kubernetes.proofs.installation import Elastipod
from tests.kubernetes.proofs.spikes import identities, wait_running
from tests.kubernetes.proofs.workloads import LOADED, MIB, autoscaler, container, controlled, created, tell
from tests.localcluster.served import PODS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900), pytest.mark.usefixtures("metrics")]

SECONDS = 300.0


def test_a_deployment_grows_and_shrinks_with_its_load_in_place(
    elastipod: Elastipod, record_property: Callable[[str, object], None]
) -> None:
    cluster, clock = elastipod.cluster, SystemClock()
    tell(cluster, load=20)
    one = container(["python", "-c", LOADED], cpu="50m", memory="64Mi", memory_limit="256Mi")
    with created(cluster, controlled("Deployment", "web", one, replicas=2), autoscaler("web")):
        began = wait_running(cluster.calls, 2, "app=web")

        def requests() -> list[int]:
            pods = cluster.calls.get(PODS, labelSelector="app=web")["items"]
            return [parse_memory(actual(pod)["requests"]["memory"]) for pod in pods]

        tell(cluster, load=120)
        since = clock.monotonic()
        wait_for(requests, SECONDS, "it grows", lambda found: min(found) >= 120 * MIB)
        grew, since = clock.monotonic() - since, clock.monotonic()
        tell(cluster, load=20)
        wait_for(requests, SECONDS, "it shrinks", lambda found: max(found) <= 64 * MIB)
        shrank = clock.monotonic() - since
        assert identities(wait_running(cluster.calls, 2, "app=web")) == identities(began)

        def accounts() -> list[Json]:
            found = elastipod.run("report")["accounts"]
            return [one for one in found if (one["workload"], one["resource"]) == ("web", "memory")]

        def is_up_to_date(found: list[Json]) -> bool:
            return [one["requested"]["amount"] for one in found] == [sum(requests())]

        [account] = wait_for(accounts, SECONDS, "the report tells of it", is_up_to_date)
        assert (account["pods"], account["container"]) == (2, "app")
        assert account["applied"]["amount"] == account["before"]["amount"] - account["requested"]["amount"]
    record_property(
        "figure",
        f"real Kubernetes cluster: a Deployment was resized {grew:.0f} s after its load rose, "
        f"{shrank:.0f} s after it fell (a half-life of 20 s)",
    )
