"""An embedded API server with an updater on it, and a kubelet that acts when told to."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Iterable
from typing import Any

from elastipod.api import RESOURCES_ANNOTATION
from elastipod.clock import ManualClock, to_rfc3339
from elastipod.kube.connection import PatchType
from elastipod.kube.errors import KubeError
from elastipod.kube.lacks import LacksConnection
from elastipod.kube.resources import AUTOSCALERS, DEPLOYMENTS, EVENTS, NODES, PODS, REPLICA_SETS, ResourceType
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.store import Store
from elastipod.quantities import parse_cpu, parse_memory
from elastipod.telemetry import Metrics
from tests import build
from updater.service import Updater
from updater.settings import UpdaterSettings

Json = dict[str, Any]


class Recording(DirectConnection):
    """Remembers the resizes asked for; fails the next ones as told."""

    resizes: list[tuple[str, Json]]
    failures: list[KubeError]
    before_resize: list[Any]
    before_answer: list[Any]
    lost_events: int
    """So many of the next changes of pods are not told."""

    async def watch(self, resource: ResourceType, **more: Any) -> AsyncGenerator[bytes, None]:
        async for line in super().watch(resource, **more):
            if resource is PODS and self.lost_events:
                self.lost_events -= 1
            else:
                yield line

    async def patch(self, resource: ResourceType, namespace: str | None, name: str, body: bytes, **more: Any) -> bytes:
        if more.get("subresource") == "resize":
            for act in self.before_resize:
                await act()
            self.before_resize = []
            self.resizes.append((name, json.loads(body)))
            if self.failures:
                raise self.failures.pop(0)
        answer = await super().patch(resource, namespace, name, body, **more)
        if more.get("subresource") == "resize":
            for act in self.before_answer:
                await act()
            self.before_answer = []
        return answer


class Used:
    """The usage source of metrics.k8s.io: what the test says, as of now."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.by_pod: dict[str, tuple[str, str]] = {}
        self.age_seconds = 1.0

    def pod_metrics(self) -> Iterable[Json]:
        for name, (cpu, memory) in self.by_pod.items():
            yield {
                "apiVersion": "metrics.k8s.io/v1beta1",
                "kind": "PodMetrics",
                "metadata": {"name": name, "namespace": "default"},
                "timestamp": to_rfc3339(self._clock.now() - self.age_seconds),
                "window": "15s",
                "containers": [{"name": "app", "usage": {"cpu": cpu, "memory": memory}}],
            }

    def node_metrics(self) -> Iterable[Json]:
        return ()


class World:
    """A cluster of the test's making; nothing happens in it by itself."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock(1_800_000_000.0)
        self.used = Used(self.clock)
        self.api = ApiServer(self.clock, Store(), usage=self.used, spread=random.Random(0), checks_node_capacity=False)
        self.connection = Recording(self.api, self.clock)
        self.connection.resizes = []
        self.connection.failures = []
        self.connection.before_resize = []
        self.connection.before_answer = []
        self.connection.lost_events = 0
        self.lacking = LacksConnection(self.connection, self.clock)
        # No time passes for a watch here, so none says anything without a change.
        self.settings = UpdaterSettings(**{"stale_seconds": 1e9, **settings})
        self.updater = self._new()
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "World":
        self._watching = asyncio.create_task(self.updater.watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def restart(self) -> None:
        """A new updater, which knows nothing but the cluster."""
        await self._stop()
        self.updater = self._new()
        self._watching = asyncio.create_task(self.updater.watch())

    async def create(self, resource: ResourceType, body: Json) -> Json:
        made = await self.connection.create(resource, body["metadata"].get("namespace"), json.dumps(body).encode())
        found: Json = json.loads(made)
        return found

    async def node(self, name: str = "n1", **amounts: Any) -> None:
        await self.create(NODES, build.node_json(name, **amounts))

    async def deployment(
        self,
        name: str = "web",
        annotations: dict[str, str] | None = None,
        cpu: str = "100m",
        owner: Json | None = None,
    ) -> Json:
        """A Deployment and its ReplicaSet; the owner that its pods name."""
        deployment = build.deployment_json(name, annotations=annotations)
        if owner is not None:
            deployment["metadata"]["ownerReferences"] = [owner]
        made = await self.create(DEPLOYMENTS, deployment)
        labels, above = {"app": name}, build.owner_json("Deployment", name, made["metadata"]["uid"])
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": build.metadata_json(f"{name}-1", labels=labels, owner=above),
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": build.template_json(labels, [build.container_json(cpu=cpu)]),
            },
        }
        replica_set = await self.create(REPLICA_SETS, body)
        return build.owner_json("ReplicaSet", f"{name}-1", replica_set["metadata"]["uid"])

    async def pod(self, name: str, owner: Json | None = None, *, node: str | None = "n1", **more: Any) -> Json:
        """A pod that runs with what it asks for, or one that no node takes."""
        pod = build.pod_json(name, owner=owner, node=node, labels={"app": "web"}, **more)
        made = await self.create(PODS, pod)
        if node is None:
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            await self.status(name, {"phase": "Pending", "conditions": [condition]})
        else:
            started = to_rfc3339(self.clock.now() - 86_400)
            status = build.running_status(made, started_at=started)
            await self.status(name, {**status, "observedGeneration": made["metadata"].get("generation", 1)})
        return made

    async def autoscaler(self, target: str = "web", cpu: str = "1", memory: str | None = None, **spec: Any) -> None:
        """An autoscaler in mode InPlace that recommends just this."""
        body = {
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscaler",
            "metadata": {"name": target, "namespace": "default"},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
                "recommenders": [{"name": "elastipod"}],
                "updatePolicy": {"updateMode": "InPlace"},
                **spec,
            },
        }
        await self.create(AUTOSCALERS, body)
        await self.recommend(target, cpu, memory)

    async def recommend(
        self,
        name: str = "web",
        cpu: str | None = "1",
        memory: str | None = None,
        on_classes: dict[str, str] | None = None,
    ) -> None:
        """Of the container `app`; CPU on classes of nodes by name."""
        advice = []
        for container, asked in {"app": cpu, **(on_classes or {})}.items():
            amounts = {key: text for key, text in (("cpu", asked), ("memory", memory)) if text is not None}
            advice.append({"containerName": container, "target": amounts, "lowerBound": amounts, "upperBound": amounts})
        body = {"status": {"recommendation": {"containerRecommendations": advice}}}
        await self._merge(AUTOSCALERS, name, body, subresource="status")

    async def state(self, deployment: str, text: str | None) -> None:
        """State a size on a Deployment."""
        await self._merge(DEPLOYMENTS, deployment, {"metadata": {"annotations": {RESOURCES_ANNOTATION: text}}})

    async def status(self, pod: str, status: Json) -> None:
        await self._merge(PODS, pod, {"status": status}, subresource="status")

    async def resize(self, pod: str, requests: Json, limits: Json | None = None) -> None:
        """Somebody else's resize."""
        resources = {"requests": requests, **({"limits": limits} if limits else {})}
        body = {"spec": {"containers": [{"name": "app", "resources": resources}]}}
        await DirectConnection.patch(
            self.connection, PODS, "default", pod, json.dumps(body).encode(), subresource="resize"
        )

    async def delete(self, pod: str) -> None:
        await self.connection.delete(PODS, "default", pod, body=b'{"gracePeriodSeconds":0}')

    async def get(self, pod: str) -> Json:
        found: Json = json.loads(await self.connection.get(PODS, "default", pod))
        return found

    async def requests(self, pod: str) -> Json:
        found: Json = (await self.get(pod))["spec"]["containers"][0]["resources"].get("requests", {})
        return found

    async def limits(self, pod: str) -> Json:
        found: Json = (await self.get(pod))["spec"]["containers"][0]["resources"].get("limits", {})
        return found

    async def events(self) -> list[str]:
        found = json.loads(await self.connection.list(EVENTS, namespace="default"))
        return [one["reason"] for one in found["items"]]

    def explained(self, pod: str = "web-a") -> Json:
        """What the updater says of a pod; nothing where it knows none."""
        return self.updater.explain(f"default/{pod}") or {}

    def outcome(self, pod: str = "web-a") -> str:
        """State and reason of a pod's attempt."""
        attempt = self.explained(pod).get("attempt", {})
        return f"{attempt.get('state')} {attempt.get('reason')}"

    def decided(self, pod: str = "web-a") -> str:
        """Why a pod is, or is not, to be resized."""
        return str(self.explained(pod).get("decision", {}).get("reason"))

    async def settle(self) -> None:
        """Let the watches hear everything."""
        for _ in range(80):
            await asyncio.sleep(0)

    async def run(self, times: int = 1, *, kubelet: bool = True, seconds: float = 0.0) -> None:
        """Runs of the updater, the kubelet acting after each."""
        for _ in range(times):
            await self.settle()
            await self.updater.run_once()
            await self.settle()
            if kubelet:
                await self.kubelet()
                await self.settle()
            self.clock.advance(seconds)

    async def kubelet(self) -> None:
        """Admit what fits, defer or call infeasible what does not, and put in force what is admitted."""
        nodes = {one["metadata"]["name"]: one["status"]["allocatable"] for one in await self._items(NODES)}
        pods = [one for one in await self._items(PODS) if one["spec"].get("nodeName") in nodes]
        for pod in pods:
            generation = pod["metadata"].get("generation", 1)
            status = pod["status"]
            wanted, now = _sum(pod), _sum(pod, allocated=True)
            if status.get("phase") != "Running" or (wanted == now and status.get("observedGeneration") == generation):
                continue
            most = nodes[pod["spec"]["nodeName"]]
            allocatable = (parse_cpu(most["cpu"]), parse_memory(most["memory"]))
            others = [
                _sum(one, allocated=True)
                for one in await self._items(PODS)
                if one["spec"].get("nodeName") == pod["spec"]["nodeName"]
                and one["metadata"]["name"] != pod["metadata"]["name"]
                and one["status"].get("phase") == "Running"
            ]
            used = (sum(one[0] for one in others), sum(one[1] for one in others))
            pending = ""
            if wanted[0] > allocatable[0] or wanted[1] > allocatable[1]:
                pending = "Infeasible"
            elif wanted[0] + used[0] > allocatable[0] or wanted[1] + used[1] > allocatable[1]:
                pending = "Deferred"
            await self._answer(pod, pending, generation)

    async def _answer(self, pod: Json, pending: str, generation: int) -> None:
        status = pod["status"]
        conditions = [one for one in status.get("conditions", []) if one["type"] != "PodResizePending"]
        if pending:
            conditions.append(
                {
                    "type": "PodResizePending",
                    "status": "True",
                    "reason": pending,
                    "message": "Node didn't have enough resource",
                    "observedGeneration": generation,
                    "lastTransitionTime": to_rfc3339(self.clock.now()),
                }
            )
        else:
            for spec, one in zip(pod["spec"]["containers"], status["containerStatuses"], strict=True):
                one["allocatedResources"] = spec["resources"].get("requests", {})
                one["resources"] = spec["resources"]
        new = {**status, "conditions": conditions, "observedGeneration": generation}
        await self.status(pod["metadata"]["name"], new)

    async def _items(self, resource: ResourceType) -> list[Json]:
        found: list[Json] = json.loads(await self.connection.list(resource))["items"]
        return found

    async def _merge(self, resource: ResourceType, name: str, body: Json, **more: Any) -> None:
        await self.connection.patch(
            resource, "default", name, json.dumps(body).encode(), patch_type=PatchType.MERGE, **more
        )

    def _new(self) -> Updater:
        self.metrics = Metrics()
        return Updater(self.lacking, self.clock, self.settings, self.metrics, spread=random.Random(1))

    async def _stop(self) -> None:
        assert self._watching is not None
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)


def _sum(pod: Json, *, allocated: bool = False) -> tuple[int, int]:
    if allocated:
        amounts = [one.get("allocatedResources", {}) for one in pod["status"].get("containerStatuses", [])]
    else:
        amounts = [one["resources"].get("requests", {}) for one in pod["spec"]["containers"]]
    return (
        sum(parse_cpu(str(one.get("cpu", "0"))) for one in amounts),
        sum(parse_memory(str(one.get("memory", "0"))) for one in amounts),
    )
