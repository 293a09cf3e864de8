"""Work for each component, so that it makes use of each right it has: what a cluster in use would give it to do.

Owns the objects, and a container that grows. Where a metrics API would be, its kind is served as a custom one.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from actuator.paths import Driver, container_path
from elastipod.clock import SystemClock, to_rfc3339
from elastipod.pods import QosClass
from tests.actuator.trees import MIB, use, v2_tree
from tests.build import container_json, deployment_json, metadata_json, owner_json, pod_json
from tests.kubernetes.calls import Calls, Json
from tests.kubernetes.fakenodes import run_pod
from tests.kubernetes.processes import wait_for
from tests.localcluster.served import MERGE
from tests.localcluster.test_validation import autoscaler

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
METRICS: Final = "pods.metrics.k8s.io"
_SCALING: Final = "/apis/autoscaling.k8s.io/v1/namespaces/{}"
_PODS: Final = 10
"""More than the updater asks about one by one."""
SETTINGS: Final[Json] = {
    "recommender": {
        "intervalSeconds": 1,
        "statusIntervalSeconds": 1,
        "checkpointIntervalSeconds": 1,
        "checkpointGcSeconds": 1,
    },
    "updater": {"coolDownSeconds": 1, "stepSeconds": 1, "usageFreshSeconds": 600},
    "admission": {"canarySeconds": 1},
    "actuator": {"intervalSeconds": 1},
}
"""In seconds what takes minutes."""


def serve_metrics(calls: Calls) -> None:
    """Have the API server answer for `metrics.k8s.io`, with what is put there."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    body = {
        "metadata": {"name": METRICS, "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}},
        "spec": {
            "group": "metrics.k8s.io",
            "names": {"plural": "pods", "kind": "PodMetrics"},
            "scope": "Namespaced",
            "versions": [{"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}],
        },
    }
    calls.post(DEFINITIONS, body)
    wait_for(
        lambda: calls.call("GET", "/apis/metrics.k8s.io/v1beta1/pods")[0],
        30,
        "metrics are served",
        lambda one: one == 200,
    )


def give_work(calls: Calls, namespace: str, node: str) -> None:
    """A Deployment that has far more memory than it uses, told so by an autoscaler; and a saved history of nobody's.

    Another autoscaler is for what is not there, which is to be told.
    """
    apps = f"/apis/apps/v1/namespaces/{namespace}"
    deployment = calls.post(f"{apps}/deployments", deployment_json("web", namespace, replicas=_PODS))
    owner = owner_json("Deployment", "web", deployment["metadata"]["uid"])
    body = deployment_json("web-1", namespace, replicas=_PODS) | {"kind": "ReplicaSet"}
    body["metadata"] |= {"ownerReferences": [owner]}
    replicas = calls.post(f"{apps}/replicasets", body)
    owner = owner_json("ReplicaSet", "web-1", replicas["metadata"]["uid"])
    for index in range(_PODS):
        container = container_json(cpu="100m", memory="512Mi", cpu_limit="200m", memory_limit="1Gi")
        run_pod(
            calls, pod_json(f"web-{index}", namespace, owner=owner, labels={"app": "web"}, containers=[container]), node
        )
        # One of them is not measured yet.
        if index:
            _measure(calls, namespace, f"web-{index}")
    advise(calls, namespace)
    absent = autoscaler(targetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "absent"})
    calls.post(f"{_SCALING.format(namespace)}/verticalpodautoscalers", absent | {"metadata": {"name": "absent"}})
    calls.post(
        f"{_SCALING.format(namespace)}/verticalpodautoscalercheckpoints",
        {
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscalerCheckpoint",
            "metadata": metadata_json("gone-app", namespace),
            "spec": {"vpaObjectName": "gone", "containerName": "app"},
        },
    )


def advise(calls: Calls, namespace: str) -> None:
    """An autoscaler for the Deployment, with less memory recommended than it has, on nodes of a class that none is of
    too: for that the webhook reads nodes."""
    path = f"{_SCALING.format(namespace)}/verticalpodautoscalers"
    calls.post(path, autoscaler(updatePolicy={"updateMode": "InPlaceOrRecreate"}))
    sizes = {"cpu": "100m", "memory": "128Mi"}
    advice = {
        "containerName": "app",
        "target": sizes,
        "lowerBound": sizes,
        "upperBound": sizes,
        "uncappedTarget": sizes,
    }
    both = [advice, advice | {"containerName": "app.1000-cpus"}]
    status = {"status": {"recommendation": {"containerRecommendations": both}}}
    calls.patch(f"{path}/web/status", status, MERGE)


def take_work(calls: Calls, namespace: str) -> None:
    """No autoscaler and no pod of it is left for others to act on."""
    calls.delete(f"{_SCALING.format(namespace)}/verticalpodautoscalers")
    calls.delete(f"/api/v1/namespaces/{namespace}/pods", gracePeriodSeconds="0")


def _measure(calls: Calls, namespace: str, pod: str) -> None:
    usage = {"cpu": "50m", "memory": "64Mi"}
    calls.post(
        f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods",
        {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "PodMetrics",
            "metadata": metadata_json(pod, namespace),
            "timestamp": to_rfc3339(SystemClock().now()),
            "window": "15s",
            "containers": [{"name": "app", "usage": usage}],
        },
    )


@contextmanager
def measured_on(calls: Calls) -> Iterator[None]:
    """One pod of each namespace that has work is measured again every second."""
    metrics = "/apis/metrics.k8s.io/v1beta1"
    own, is_over = calls.another(), threading.Event()

    def measure() -> None:
        while not is_over.wait(1.0):
            # They may be gone for a while, as a test wants it.
            for one in own.call("GET", f"{metrics}/pods")[1].get("items", ()):
                if one["metadata"]["name"] == "web-1":
                    path = f"{metrics}/namespaces/{one['metadata']['namespace']}/pods/web-1"
                    own.call("PATCH", path, {"timestamp": to_rfc3339(SystemClock().now())}, MERGE)
        own.close()

    thread = threading.Thread(target=measure, name="metrics")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def growing_pod(calls: Calls, namespace: str, node: str, root: Path) -> Path:
    """A pod that runs on that node: its container's group, where its usage is written."""
    pod = run_pod(calls, pod_json("leaping", namespace, memory="64Mi", memory_limit="100Mi"), node)
    container = pod["status"]["containerStatuses"][0]["containerID"]
    group = container_path(Driver.SYSTEMD, QosClass.BURSTABLE, pod["metadata"]["uid"], container)
    v2_tree(root, group)
    return root / group


def leap(group: Path) -> None:
    """It uses nearly all that it may."""
    use(group, 95 * MIB)
