"""A release with the project's own images on a real node; tests/kubernetes/proofs_v2 has one on cgroup v2."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from elastipod.quantities import parse_cpu
from tests.build import deployment_json, job_json
from tests.charts.pages import CHART
from tests.charts.rendering import NAMESPACE, RELEASE, needs_helm
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.images import BUSYBOX
from tests.kubernetes.pods import busybox_pod, running
from tests.kubernetes.processes import wait_for
from tests.localcluster.served import AUTOSCALERS, DEPLOYMENTS, MERGE, PODS

Json = dict[str, Any]

JOBS: Final = "/apis/batch/v1/namespaces/default/jobs"
IMAGES: Final = Path(__file__).parents[2] / "build" / "images"
BUSY: Final = "timeout 40 sh -c 'while :; do :; done' || true"
LEAP: Final = "sleep 5; dd if=/dev/zero of=/dev/null bs=200M count=1"
NOT_MADE: Final = [name for name in ("elastipod", "elastipod-node") if not (IMAGES / f"{name}.tar").exists()]
needs_images: Final = pytest.mark.skipif(bool(NOT_MADE), reason=f"no image {NOT_MADE}: make images")
pytestmark = [needs_helm, needs_images]


def install(cluster: Cluster, *settings: str, images: tuple[str, ...]) -> None:
    """Into a namespace that is held to `restricted`, until every pod is ready."""
    for image in images:
        cluster.import_image(IMAGES / f"{image}.tar")
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    given = ",".join((*settings, "images.pullPolicy=Never", "actuator.cgroup.driver=cgroupfs"))
    cluster.helm("install", RELEASE, str(CHART), "--namespace", NAMESPACE, "--set", given)
    wait_for(lambda: not_ready(cluster), 600, "every pod is ready", lambda found: found == [])


def not_ready(cluster: Cluster) -> list[str]:
    """The workloads with fewer ready pods than they want."""
    found = json.loads(
        cluster.kubectl(
            "get", "deployments,daemonsets", "-A", "-l", "app.kubernetes.io/part-of=elastipod", "-o", "json"
        )
    )
    wanted = {
        one["metadata"]["name"]: (one["spec"].get("replicas") or one["status"].get("desiredNumberScheduled") or 1)
        - (one["status"].get("readyReplicas") or one["status"].get("numberReady") or 0)
        for one in found["items"]
    }
    return [name for name, missing in wanted.items() if missing]


def leaps_and_lives(cluster: Cluster, name: str) -> None:
    """200 MiB against a limit of 100 MiB."""
    body = busybox_pod(name, LEAP, memory="100Mi", memory_limit="100Mi")
    with running(cluster.calls, body, "Succeeded") as read:
        (status,) = read()["status"]["containerStatuses"]
        assert (status["state"]["terminated"]["exitCode"], status["restartCount"]) == (0, 0)
        assert read()["spec"]["containers"][0]["resources"]["limits"]["memory"] != "100Mi"


@pytest.fixture(scope="module")
def released(cluster: Cluster) -> Iterator[Cluster]:
    settings = (
        "actuator.cgroup.version=v1",
        "admission.settings.canarySeconds=1",
        "recommender.settings.usageSource=actuators",
        "recommender.settings.intervalSeconds=5",
    )
    install(cluster, *settings, images=("elastipod", "elastipod-node"))
    yield cluster
    cluster.helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found")


@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_helm_test_proves_a_resize(released: Cluster) -> None:
    said = released.helm("test", RELEASE, "--namespace", NAMESPACE, "--logs", "--timeout", "100s")
    assert "resized in place: the container has 20m of CPU and was not restarted" in said


@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_a_container_outlives_a_leap_of_its_memory_on_cgroup_v1(released: Cluster) -> None:
    assert released.calls.get("/apis/elastipod.io/v1alpha1/elasticnodes/n1")["status"]["cgroupVersion"] == "cgroup v1"
    leaps_and_lives(released, "leaping")


@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_a_new_pod_gets_its_size_from_the_webhook(released: Cluster) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "sized"}
    spec = {"targetRef": target, "updatePolicy": {"updateMode": "Initial"}}
    kind = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler"}
    # What the recommender would say in a while is said by the test.
    released.kubectl("scale", "--namespace", NAMESPACE, "deployment/elastipod-recommender", "--replicas=0")
    theirs = ("get", "pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=recommender", "-o", "name")
    wait_for(lambda: released.kubectl(*theirs), 60, "the recommender is gone", lambda found: not found)
    released.calls.post(AUTOSCALERS, kind | {"metadata": {"name": "sized"}, "spec": spec})
    amounts = {"cpu": "123m", "memory": "77Mi"}
    advice = {"containerName": "app", "target": amounts, "lowerBound": amounts, "upperBound": amounts}
    status = {"recommendation": {"containerRecommendations": [advice]}}
    released.calls.patch(f"{AUTOSCALERS}/sized/status", {"status": status}, MERGE)
    app = {"name": "app", "image": BUSYBOX, "imagePullPolicy": "Never", "resources": {"requests": {"cpu": "10m"}}}

    def requests() -> list[Any]:
        listed = released.calls.get(PODS, labelSelector="app=sized")["items"]
        return [one["spec"]["containers"][0]["resources"]["requests"] for one in listed]

    released.calls.post(DEPLOYMENTS, deployment_json("sized", containers=[app]))
    try:
        assert wait_for(requests, 60, "its pod is there") == [amounts]
    finally:
        released.calls.delete(f"{DEPLOYMENTS}/sized")
        released.calls.delete(f"{AUTOSCALERS}/sized")


@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_a_run_of_forty_seconds_is_advised_from_what_its_node_tells(released: Cluster) -> None:
    """There is no metrics API in this cluster."""
    released.kubectl("scale", "--namespace", NAMESPACE, "deployment/elastipod-recommender", "--replicas=1")
    container = {"name": "app", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", BUSY]}
    job = job_json("quick", containers=[container | {"resources": {"requests": {"cpu": "10m"}}}], backoffLimit=0)
    target = {"apiVersion": "batch/v1", "kind": "Job", "name": "quick"}
    kind = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler"}
    spec = {"targetRef": target, "updatePolicy": {"updateMode": "Off"}}
    released.calls.post(JOBS, job)
    released.calls.post(AUTOSCALERS, kind | {"metadata": {"name": "quick"}, "spec": spec})

    def target_cpu() -> str:
        found = released.calls.get(f"{AUTOSCALERS}/quick").get("status", {}).get("recommendation") or {}
        return str([one["target"]["cpu"] for one in found.get("containerRecommendations", ())][:1])

    try:
        advised = wait_for(target_cpu, 240, "it is advised", lambda found: found != "[]")
        assert parse_cpu(advised.strip("[']")) >= 200
    finally:
        released.calls.delete(f"{AUTOSCALERS}/quick")
        released.kubectl("delete", "job", "quick")


@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_each_webhook_sees_by_way_of_its_service_that_it_has_effect(released: Cluster) -> None:
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    found = released.calls.get(pods, labelSelector="app.kubernetes.io/component=admission")["items"]

    def effects() -> list[str]:
        shown = [
            released.kubectl("get", "--raw", f"{pods}/{one['metadata']['name']}:8080/proxy/metrics") for one in found
        ]
        return [
            line for text in shown for line in text.splitlines() if line.startswith("elastipod_admission_effective")
        ]

    wanted = ["elastipod_admission_effective 1.0"] * 2
    wait_for(effects, 60, "both say so", lambda lines: lines == wanted)
