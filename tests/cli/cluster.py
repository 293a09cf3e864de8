"""An API server on loopback for the verbs, in a thread of its own, since each verb runs a loop of its own."""

import asyncio
import base64
import random
import threading
from collections.abc import Collection, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import yaml
from typer.testing import CliRunner, Result

from elastipod.cli.verbs import command
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.failures import ApiFailure
from elastipod.localcluster.api.http import HttpServer
from elastipod.localcluster.api.requests import Request, Response, failure_response
from tests.build import deployment_json, metadata_json, node_json, owner_json, pod_json, running_status
from tests.localcluster.served import AUTOSCALERS, DEPLOYMENTS, MERGE, NODES, Json, Served

T = TypeVar("T")


class Guarded(ApiServer):
    """Lets no one list what is forbidden."""

    forbidden: Collection[str] = ()
    """Plurals."""

    def handle(self, request: Request) -> Response:
        plural = request.path.rpartition("/")[2]
        if request.method == "GET" and plural in self.forbidden:
            message = f'{plural} is forbidden: User "u" cannot list resource "{plural}" at the cluster scope'
            return failure_response(ApiFailure(403, message))
        return super().handle(request)


class Cluster(Served):
    """A served API with a kubeconfig that leads to it."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.api = self.guarded = Guarded(self.clock, self.store, spread=random.Random(7))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.http = HttpServer(self.guarded)
        self.on_loop(self.http.start("127.0.0.1", 0))
        self.kubeconfig = folder / "kubeconfig"
        write_kubeconfig(self.kubeconfig, self.http.url, token=self.http.token, certificate=self.http.certificate)

    def on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def close(self) -> None:
        self.on_loop(self.http.close())
        # Closed sockets are let go in the loop's next turns.
        self.on_loop(asyncio.sleep(0.01))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, *words: str, **environment: str) -> Result:
        return CliRunner().invoke(command(), words, env={"KUBECONFIG": str(self.kubeconfig), **environment})

    def add_web(self, namespace: str = "default", name: str = "web", **pod: Any) -> Json:
        """A Deployment of one running pod, and its autoscaler, which has a recommendation."""
        meta = self.post(_in(DEPLOYMENTS, namespace), deployment_json(name, namespace))["metadata"]
        replicas = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
        made = self.post(
            replicas,
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": metadata_json(f"{name}-1", namespace, owner=owner_json("Deployment", name, meta["uid"])),
                "spec": {"replicas": 0, "selector": {"matchLabels": {"app": name}}, "template": _template(name)},
            },
        )["metadata"]
        owner = owner_json("ReplicaSet", f"{name}-1", made["uid"])
        body = pod_json(f"{name}-1-a", namespace, node="n1", labels={"app": name}, owner=owner, **pod)
        self.put_pod(body, running_status(body))
        self.post(_in(AUTOSCALERS, namespace), autoscaler_json(name, namespace))
        status = {"recommendation": {"containerRecommendations": [RECOMMENDED]}, "conditions": [LOW_CONFIDENCE]}
        self.patch(f"{_in(AUTOSCALERS, namespace)}/{name}/status", {"status": status}, MERGE)
        return body

    def add_node(self) -> None:
        self.post(NODES, node_json())


RECOMMENDED: Json = {
    "containerName": "app",
    "target": {"cpu": "250m", "memory": "200Mi"},
    "lowerBound": {"cpu": "100m", "memory": "100Mi"},
    "upperBound": {"cpu": "1", "memory": "1Gi"},
    "uncappedTarget": {"cpu": "250m", "memory": "200Mi"},
}
LOW_CONFIDENCE: Json = {
    "type": "LowConfidence",
    "status": "True",
    "reason": "LowConfidence",
    "message": "there is too little history to act on",
    "lastTransitionTime": "2026-11-29T12:00:00Z",
}


def autoscaler_json(name: str, namespace: str = "default") -> Json:
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": metadata_json(name, namespace),
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "updatePolicy": {"updateMode": "InPlace"},
        },
    }


def write_kubeconfig(
    path: Path, url: str, namespace: str = "default", context: str = "test", token: str = "", certificate: str = ""
) -> Path:
    trust = {"certificate-authority-data": base64.b64encode(certificate.encode()).decode()}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": "c", "cluster": {"server": url, **trust}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [
            {"name": context, "context": {"cluster": "c", "user": "u", "namespace": namespace}},
            {"name": "other", "context": {"cluster": "c", "user": "u", "namespace": "other"}},
        ],
    }
    path.write_text(yaml.safe_dump(content), "utf-8")
    return path


def _template(name: str) -> Json:
    template: Json = deployment_json(name)["spec"]["template"]
    return template


def _in(path: str, namespace: str) -> str:
    return path.replace("/default/", f"/{namespace}/")
