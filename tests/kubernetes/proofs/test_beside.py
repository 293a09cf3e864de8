"""Beside an upstream Vertical Pod Autoscaler: its objects are left alone, and ours in mode Off only recommend."""

import pytest

from tests.kubernetes.calls import Json
from tests.kubernetes.pods import actual
from tests.kubernetes.processes import wait_for
from tests.kubernetes.proofs.installation import Elastipod
from tests.kubernetes.proofs.spikes import wait_running
from tests.kubernetes.proofs.workloads import autoscaler, container, controlled, created
from tests.localcluster.served import PODS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600), pytest.mark.usefixtures("metrics")]

AUTOSCALERS = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers"
OVERSIZED = {"cpu": "100m", "memory": "150Mi", "memory_limit": "300Mi"}


def test_upstreams_objects_are_left_alone_and_mode_off_only_recommends(elastipod: Elastipod) -> None:
    calls = elastipod.cluster.calls
    bodies: list[Json] = []
    for name, mode, recommender in (("theirs", "InPlaceOrRecreate", "default"), ("looked-at", "Off", "elastipod")):
        bodies.append(controlled("Deployment", name, container(["sleep", "100000"], **OVERSIZED)))
        bodies.append(autoscaler(name, mode=mode, recommender=recommender))
    ours = [controlled("Deployment", "ours", container(["sleep", "100000"], **OVERSIZED)), autoscaler("ours")]
    with created(elastipod.cluster, *bodies, *ours):
        [mine] = wait_running(calls, 1, "app=ours")
        path = f"{PODS}/{mine['metadata']['name']}"
        # By the time ours has shrunk, the others would have, too.
        wait_for(
            lambda: actual(calls.get(path))["requests"]["memory"], 240, "ours shrinks", lambda found: found != "150Mi"
        )
        [recommended] = calls.get(f"{AUTOSCALERS}/looked-at")["status"]["recommendation"]["containerRecommendations"]
        assert recommended["containerName"] == "app"
        assert not calls.get(f"{AUTOSCALERS}/theirs").get("status")
        for name in ("theirs", "looked-at"):
            [found] = wait_running(calls, 1, f"app={name}")
            assert found["metadata"]["generation"] == 1
            assert actual(found)["requests"] == {"cpu": "100m", "memory": "150Mi"}
