"""An embedded API server, a recommender on it, and usage as the test says."""

import asyncio
import json
import random
from typing import Any

import msgspec

from elastipod.api import Autoscaler, Checkpoint
from elastipod.clock import ManualClock
from elastipod.kube.connection import PatchType
from elastipod.kube.errors import NotServed, Unreachable
from elastipod.kube.resources import AUTOSCALERS, CHECKPOINTS, DEPLOYMENTS, NODES, PODS, REPLICA_SETS, ResourceType
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.store import Store
from elastipod.quantities import parse_memory
from elastipod.telemetry import Metrics
from recommender.samples import UsageSample
from recommender.service import Recommender
from recommender.settings import RecommenderSettings
from recommender.sources.metrics_api import UsageReading
from recommender.sources.past import HistorySource
from tests import build

Json = dict[str, Any]
MI = 1024**2
GI = 1024 * MI


class Usage:
    """A usage source that tells what it was given."""

    def __init__(self) -> None:
        self.samples: list[UsageSample] = []
        self.is_down = False

    async def read(self) -> UsageReading:
        if self.is_down:
            raise Unreachable("metrics are down")
        return UsageReading(list(self.samples))


class Counting(DirectConnection):
    """Counts writes, by verb and kind, and fails where it is told to."""

    def __init__(self, api: ApiServer, clock: ManualClock) -> None:
        super().__init__(api, clock)
        self.writes: list[str] = []
        self.failing: set[str] = set()
        self.unlistable: set[str] = set()
        self.unserved: set[str] = set()

    async def list(self, resource: ResourceType, **more: Any) -> bytes:
        self._serve(resource)
        if resource.plural in self.unlistable:
            raise Unreachable("no answer")
        return await super().list(resource, **more)

    async def patch(self, resource: ResourceType, *args: Any, **more: Any) -> bytes:
        self._serve(resource)
        if resource.plural in self.failing:
            raise Unreachable("no answer")
        self.writes.append(f"patch {resource.plural}")
        return await super().patch(resource, *args, **more)

    def _serve(self, resource: ResourceType) -> None:
        if resource.plural in self.unserved:
            raise NotServed(404, "NotFound", "the server could not find the requested resource")

    async def create(self, resource: ResourceType, *args: Any, **more: Any) -> bytes:
        self._serve(resource)
        self.writes.append(f"create {resource.plural}")
        return await super().create(resource, *args, **more)


class World:
    """A cluster without a kubelet: pods are what the test says."""

    def __init__(self, *, in_thread: bool = False, past: HistorySource | None = None, **settings: Any) -> None:
        self.in_thread = in_thread
        self.past = past
        self.clock = ManualClock(1_800_000_000.0)
        self.api = ApiServer(self.clock, Store(), spread=random.Random(0), checks_node_capacity=False)
        self.connection = Counting(self.api, self.clock)
        self.settings = RecommenderSettings(**settings)
        self.usage = Usage()
        self.recommender = self._new()
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "World":
        self._watching = asyncio.create_task(self.recommender.watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def restart(self) -> None:
        """A new recommender takes over; what the old one had not saved is lost."""
        await self._stop()
        self.recommender = self._new()
        self._watching = asyncio.create_task(self.recommender.watch())

    async def create(self, resource: ResourceType, body: Json) -> Json:
        made = await self.connection.create(resource, body["metadata"].get("namespace"), json.dumps(body).encode())
        body_made: Json = json.loads(made)
        return body_made

    async def deployment(self, name: str = "web", **container: Any) -> str:
        """A Deployment with its ReplicaSet; the ReplicaSet's UID."""
        made = await self.create(
            DEPLOYMENTS, build.deployment_json(name, containers=[build.container_json(**container)])
        )
        owner = build.owner_json("Deployment", name, made["metadata"]["uid"])
        labels = {"app": name}
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": build.metadata_json(f"{name}-1", labels=labels, owner=owner),
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": build.template_json(labels)},
        }
        return str((await self.create(REPLICA_SETS, body))["metadata"]["uid"])

    async def pod(self, pod_name: str, replica_set_uid: str, *, workload: str = "web", **container: Any) -> None:
        """A running pod of a Deployment."""
        owner = build.owner_json("ReplicaSet", f"{workload}-1", replica_set_uid)
        pod = build.pod_json(pod_name, containers=[build.container_json(**container)], node="n1", owner=owner)
        await self.create(PODS, pod)
        await self.set_status(pod_name, build.running_status(pod))

    async def set_status(self, pod: str, status: Json) -> None:
        body = json.dumps({"status": status}).encode()
        await self.connection.patch(PODS, "default", pod, body, patch_type=PatchType.MERGE, subresource="status")

    async def autoscaler(self, name: str = "vpa", target: str = "web", **spec: Any) -> None:
        await self.create(AUTOSCALERS, autoscaler_json(name, target, **spec))

    async def change(self, name: str = "vpa", **parts: Any) -> None:
        """Change an autoscaler, as a merge patch does."""
        body = json.dumps(parts).encode()
        await self.connection.patch(AUTOSCALERS, "default", name, body, patch_type=PatchType.MERGE)

    async def memory(self) -> int:
        """The memory recommended for the container."""
        return parse_memory(str((await self.target())["memory"]))

    async def node(self, **amounts: Any) -> None:
        await self.create(NODES, build.node_json(**amounts))

    async def settle(self) -> None:
        """Let the watches hear everything."""
        for _ in range(60):
            await asyncio.sleep(0)

    async def run(
        self, cpu: float | None = None, memory: float | None = None, pods: tuple[str, ...] = ("web-a",)
    ) -> None:
        """One interval with this usage."""
        await self.settle()
        self.clock.advance(self.settings.interval_seconds)
        at = self.clock.now()
        self.usage.samples = [
            UsageSample("default", pod, "app", at, cpu, memory) for pod in pods if cpu is not None or memory is not None
        ]
        await self.recommender.run_once()
        await self.settle()

    async def read(self, name: str = "vpa") -> Autoscaler:
        return msgspec.json.decode(await self.connection.get(AUTOSCALERS, "default", name), type=Autoscaler)

    async def target(self, name: str = "vpa") -> dict[str, Any]:
        """The only container's target."""
        status = (await self.read(name)).status
        assert status is not None
        assert status.recommendation is not None
        [container] = status.recommendation.container_recommendations or []
        return container.target or {}

    async def conditions(self, name: str = "vpa") -> dict[str, str]:
        """Reasons of the conditions that are True, and of RecommendationProvided as it is."""
        status = (await self.read(name)).status
        assert status is not None
        return {
            one.type: f"{one.status} {one.reason}".strip() if one.type == "RecommendationProvided" else one.reason
            for one in status.conditions or []
        }

    def measured(self, name: str) -> float | None:
        """A metric without labels."""
        return self.metrics.registry.get_sample_value(f"elastipod_recommender_{name}")

    async def checkpoint(self, name: str = "vpa-app") -> Checkpoint:
        return msgspec.json.decode(await self.connection.get(CHECKPOINTS, "default", name), type=Checkpoint)

    def _new(self) -> Recommender:
        self.metrics = Metrics()
        return Recommender(
            self.connection,
            self.clock,
            self.settings,
            source=self.usage,
            past=self.past,
            metrics=self.metrics,
            in_thread=self.in_thread,
        )

    async def _stop(self) -> None:
        assert self._watching is not None
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)


def autoscaler_json(name: str = "vpa", target: str = "web", **spec: Any) -> Json:
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "recommenders": [{"name": "elastipod"}],
            **spec,
        },
    }


def killed_status(pod: Json, *, container_id: str = "containerd://1", restarts: int = 0, name: str = "app") -> Json:
    """A pod whose only container was killed for memory and is not running again."""
    return {
        "phase": "Running",
        "containerStatuses": [
            {
                "name": name,
                "image": "registry.local/app:1",
                "imageID": "",
                "ready": False,
                "restartCount": restarts,
                "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137, "containerID": container_id}},
                "resources": pod["spec"]["containers"][0].get("resources") or {},
            }
        ],
    }


async def started(cpu: str = "500m", memory: str = "512Mi", memory_limit: str = "512Mi", **settings: Any) -> World:
    """A world with one running pod of Deployment web and an autoscaler for it."""
    world = World(**settings)
    await world.node(cpu="8", memory="32Gi")
    uid = await world.deployment()
    await world.pod("web-a", uid, cpu=cpu, memory=memory, memory_limit=memory_limit)
    await world.autoscaler()
    return world
