"""New pods, reviews of them, and a webhook that knows a cluster of the test's making."""

import asyncio
import base64
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonpatch

from elastipod.clock import SystemClock
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.resources import (
    AUTOSCALERS,
    DEPLOYMENTS,
    LIMIT_RANGES,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    ResourceType,
)
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.store import Store
from elastipod.loop import NotReady
from elastipod.telemetry import Metrics
from tests import build
from updater.admission.service import Admission
from updater.admission.settings import AdmissionSettings

Json = dict[str, Any]

_PAIRS = Path(__file__).parent / "tls"
KUBE_PAIRS = Path(__file__).parent.parent.parent / "kube" / "tls"


def review_json(pod: Any, namespace: str = "default", **request: Any) -> Json:
    """What the API server posts when a pod is created."""
    asked = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        **request,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


def new_pod(owner: Json | None = None, **pod: Any) -> Json:
    """A pod as a ReplicaSet creates it: no name yet."""
    made = build.pod_json("", owner=owner, **pod)
    del made["metadata"]["name"], made["metadata"]["namespace"]
    made["metadata"]["generateName"] = "web-5d8f-"
    return made


def patched(pod: Json, response: Json) -> Json:
    """The pod after the patch of an answer, if it has one."""
    if "patch" not in response:
        return pod
    assert response["patchType"] == "JSONPatch"
    found: Json = jsonpatch.apply_patch(pod, json.loads(base64.b64decode(response["patch"])))
    return found


def use_pair(folder: Path, name: str) -> None:
    """Put a pair of certificate and key where the webhook looks, as a mounted Secret is swapped."""
    pairs = _PAIRS if (_PAIRS / f"{name}.crt").exists() else KUBE_PAIRS
    version = Path(folder, f"..{name}-{random.getrandbits(64):x}")
    version.mkdir()
    shutil.copy(pairs / f"{name}.crt", version / "tls.crt")
    shutil.copy(pairs / f"{name}.key", version / "tls.key")
    swap(folder, version)


def swap(folder: Path, version: Path) -> None:
    (folder / "..new").symlink_to(version.name)
    (folder / "..new").replace(folder / "..data")
    for file in ("tls.crt", "tls.key"):
        if not (folder / file).is_symlink():
            (folder / file).symlink_to(f"..data/{file}")


class ShiftedClock(SystemClock):
    """The machine's clock, with a date of the test's choice."""

    shift = 0.0

    def now(self) -> float:
        return super().now() + self.shift


class World:
    """An API server with objects, and a webhook that watches them."""

    def __init__(
        self, folder: Path, *, through: Callable[[Connection], Connection] = lambda to: to, **settings: Any
    ) -> None:
        """The webhook reaches it through that."""
        use_pair(folder, "server")
        self.folder = folder
        self.clock = ShiftedClock()
        self.api = ApiServer(self.clock, Store(), spread=random.Random(0), checks_node_capacity=False)
        self.connection = DirectConnection(self.api, self.clock)
        self.metrics = Metrics()
        self.admission = Admission(
            through(self.connection),
            self.clock,
            AdmissionSettings(certificate_folder=str(folder), webhook_port=0, **settings),
            self.metrics,
        )
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "World":
        self._watching = asyncio.create_task(self.admission.watch())
        await self.ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._watching is not None
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)

    async def ready(self) -> None:
        """Until a run meets no obstacle."""
        async with asyncio.timeout(10):
            while await self.obstacle():
                await asyncio.sleep(0)

    async def obstacle(self) -> str:
        """What a run meets."""
        try:
            await self.admission.run_once()
        except NotReady as why:
            return str(why)
        return ""

    async def settle(self) -> None:
        """Let news travel."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def create(self, resource: ResourceType, body: Json) -> Json:
        made = await self.connection.create(resource, body["metadata"].get("namespace"), json.dumps(body).encode())
        await self.settle()
        found: Json = json.loads(made)
        return found

    async def deployment(self, name: str = "web", **deployment: Any) -> Json:
        """A Deployment and its ReplicaSet; the owner that its pods name."""
        made = await self.create(DEPLOYMENTS, build.deployment_json(name, **deployment))
        owner = build.owner_json("Deployment", name, made["metadata"]["uid"])
        return await self.replica_set(f"{name}-1", owner)

    async def replica_set(self, name: str, owner: Json) -> Json:
        made = await self.create(
            REPLICA_SETS,
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": build.metadata_json(name, owner=owner),
                "spec": {
                    "replicas": 0,
                    "selector": {"matchLabels": {"a": "b"}},
                    "template": build.template_json({"a": "b"}),
                },
            },
        )
        return build.owner_json("ReplicaSet", name, made["metadata"]["uid"])

    async def autoscaler(
        self,
        cpu: str | None = "250m",
        memory: str | None = None,
        *,
        name: str = "web",
        target: str = "web",
        kind: str = "Deployment",
        containers: tuple[str, ...] = ("app",),
        on_classes: dict[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """A VerticalPodAutoscaler with the same recommendation for each of these containers; CPU on classes of nodes
        by name."""
        amounts = {key: text for key, text in (("cpu", cpu), ("memory", memory)) if text is not None}
        bounds = {"target": amounts, "lowerBound": amounts, "upperBound": amounts}
        found = [{"containerName": name, **bounds} for name in containers]
        for name_there, cpu_there in (on_classes or {}).items():
            there = {"cpu": cpu_there}
            found.append({"containerName": name_there, "target": there, "lowerBound": there, "upperBound": there})
        body = {
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscaler",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": target},
                "recommenders": [{"name": "elastipod"}],
                **spec,
            },
        }
        await self.create(AUTOSCALERS, body)
        status = {"status": {"recommendation": {"containerRecommendations": found}}}
        await self.connection.patch(
            AUTOSCALERS, "default", name, json.dumps(status).encode(), patch_type=PatchType.MERGE, subresource="status"
        )
        await self.settle()

    async def limit_range(self, **item: Any) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "bounds", "namespace": "default"},
            "spec": {"limits": [{"type": "Container", **item}]},
        }
        await self.create(LIMIT_RANGES, body)

    async def quota(self, **hard: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "share", "namespace": "default"},
            "spec": {"hard": {key.replace("_", "."): text for key, text in hard.items()}},
        }
        await self.create(RESOURCE_QUOTAS, body)

    async def ask(self, pod: Any, **request: Any) -> Json:
        """The response to a review of this pod."""
        told = json.loads(await self.admission.admit(json.dumps(review_json(pod, **request)).encode()))
        assert told["kind"] == "AdmissionReview"
        assert told["apiVersion"] == "admission.k8s.io/v1"
        response: Json = told["response"]
        assert response["allowed"] is True
        return response

    def count(self, name: str, **labels: str) -> float:
        """A metric's value."""
        return self.metrics.registry.get_sample_value(f"elastipod_{name}", labels) or 0.0
