"""The updater: a plan over 50,000 pods on 1,000 nodes, the run after one change, and how soon a request is sent.

The plan's floor is one pass that only compares each container's requests with its bounds. The floor of the delays is
the API server's own time for such a patch. Exit 1 where a promise is missed.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from typing import Any

import msgspec

from bench.figures import Figures
from elastipod.api import UpdateMode
from elastipod.clock import SystemClock
from elastipod.kube.connection import PatchType
from elastipod.kube.resources import AUTOSCALERS, NODES, PODS, ResourceType
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.store import Store
from elastipod.loop import clock_ticker, run_part
from elastipod.owners import Owned
from elastipod.pods import Container, Node, OwnerReference, Pod, QosClass, Workload
from elastipod.quantities import Resources
from elastipod.telemetry import configure_logging
from tests import build
from updater.service import Updater
from updater.sizes import Advice, ContainerAdvice

GOAL_PLAN_SECONDS = 3.0
GOAL_CHANGE_SECONDS = 0.010
GOAL_SENT_SECONDS = 0.100
GOAL_RETRY_SECONDS = 1.0
MI = 1024**2
NAMESPACES = 50


class Silent(DirectConnection):
    """Takes requests and never answers, so that only our own work is measured."""

    async def patch(self, *_: Any, **__: Any) -> bytes:
        await asyncio.Event().wait()
        return b""

    async def create(self, *_: Any, **__: Any) -> bytes:
        await asyncio.Event().wait()
        return b""


class Noting(DirectConnection):
    """Notes when a resize of a pod is asked for."""

    sent_at: dict[str, float]

    async def patch(self, resource: ResourceType, namespace: str | None, name: str, body: bytes, **more: Any) -> bytes:
        if more.get("subresource") == "resize":
            self.sent_at.setdefault(name, time.perf_counter())
        return await super().patch(resource, namespace, name, body, **more)


def api_server() -> ApiServer:
    return ApiServer(SystemClock(), Store(), spread=random.Random(0), checks_node_capacity=False)


def pod_of(number: int, nodes: int, now: float, *, generation: int = 1) -> Pod:
    workload = number // 10
    namespace = f"ns{workload % NAMESPACES}"
    requests, limits = Resources(100, 128 * MI), Resources(200, 256 * MI)
    return Pod(
        namespace,
        f"w{workload}-{number % 10}",
        f"pod-{number}",
        resource_version=str(number + generation),
        generation=generation,
        observed_generation=generation,
        node_name=f"node-{number % nodes}",
        phase="Running",
        qos_class=QosClass.BURSTABLE,
        owner=OwnerReference("ReplicaSet", f"w{workload}-1", f"rs-{workload}"),
        started_at=now - 86_400,
        is_ready=True,
        containers=(
            Container(
                "app",
                requests=requests,
                limits=limits,
                allocated=requests,
                actual_requests=requests,
                actual_limits=limits,
                is_running=True,
                is_ready=True,
                started_at=now - 86_400,
            ),
        ),
    )


def advice_of(target: int) -> Advice:
    bounds = Resources(target, 128 * MI)
    one = ContainerAdvice(bounds, Resources(target * 9 // 10, 100 * MI), Resources(target * 12 // 10, 200 * MI))
    return Advice("vpa", UpdateMode.IN_PLACE, "elastipod", {"app": one})


def fill(updater: Updater, pods: int, nodes: int, now: float) -> None:
    """Deployments of ten pods with an autoscaler each; one in ten is off its bounds."""
    fleet = updater.fleet
    for number in range(nodes):
        room = Resources(16_000, 32_768 * MI)
        fleet.put_node(f"node-{number}", Node(f"node-{number}", allocatable=room, capacity=room))
    owned: set[str] = set()
    for number in range(pods):
        pod = pod_of(number, nodes, now)
        if pod.owner is not None and pod.owner.uid not in owned:
            owned.add(pod.owner.uid)
            name = f"w{number // 10}"
            deployment = OwnerReference("Deployment", name, f"dep-{pod.owner.uid}")
            fleet.put_owned(None, Owned("ReplicaSet", pod.namespace, pod.owner.name, pod.owner.uid, owner=deployment))
            advice = advice_of(200 if number % 100 < 10 else 100)
            fleet.put_advice(f"{pod.namespace}/{name}", Workload(pod.namespace, "Deployment", name), advice)
        updater.watching.pod_changed(pod.key, None, pod)


async def plan_figures(figures: Figures, pods: int, nodes: int) -> None:
    clock = SystemClock()
    updater = Updater(Silent(api_server(), clock), clock)
    fill(updater, pods, nodes, clock.now())
    floors = []
    for _ in range(3):
        started = time.perf_counter()
        compare_all(list(updater.fleet.pods.values()))
        floors.append(time.perf_counter() - started)
    started = time.perf_counter()
    decisions = updater.plan(clock.now())
    updater.ask_for(decisions, clock.now())
    whole = time.perf_counter() - started
    figures.show(
        f"plan of {pods} pods on {nodes} nodes, {len(decisions)} resizes asked",
        whole,
        "s",
        GOAL_PLAN_SECONDS,
        floor=min(floors),
        of="comparing requests with bounds once",
    )
    updater.stop()
    spans = []
    for number in range(200):
        key = pod_of(number * 97 % pods, nodes, clock.now()).key
        old = updater.fleet.pods[key]
        new = msgspec.structs.replace(old, resource_version=str(10**9 + number), is_ready=not old.is_ready)
        started = time.perf_counter()
        updater.watching.pod_changed(key, old, new)
        await updater.act()
        spans.append(time.perf_counter() - started)
    figures.show("a run after one pod changed, median", statistics.median(spans), "s", GOAL_CHANGE_SECONDS)
    spans = []
    for number in range(100):
        name = f"w{number * 11 % (pods // 10)}"
        pod = updater.fleet.pods[f"ns{int(name[1:]) % NAMESPACES}/{name}-0"]
        started = time.perf_counter()
        updater.fleet.put_advice(f"{pod.namespace}/{name}", Workload(pod.namespace, "Deployment", name), advice_of(300))
        updater.ask_for(updater.plan(clock.now()), clock.now())
        spans.append(time.perf_counter() - started)
        updater.stop()
    figures.show("a plan after one autoscaler changed, median", statistics.median(spans), "s", GOAL_CHANGE_SECONDS)


def compare_all(pods: list[Pod]) -> int:
    found = 0
    for pod in pods:
        for container in pod.containers:
            requests = container.requests
            if not (90 <= requests.cpu <= 120 and 100 * MI <= requests.memory <= 200 * MI):
                found += 1
    return found


class Cluster:
    """An API server in process, with an updater at work on it."""

    def __init__(self) -> None:
        self.api = api_server()
        self.connection = Noting(self.api, SystemClock())
        self.connection.sent_at = {}

    async def create(self, resource: ResourceType, body: Any) -> Any:
        raw = json.dumps(body).encode()
        return json.loads(await self.connection.create(resource, body["metadata"].get("namespace"), raw))

    async def merge(self, resource: ResourceType, name: str, body: Any, **more: Any) -> None:
        raw = json.dumps(body).encode()
        await self.connection.patch(resource, "default", name, raw, patch_type=PatchType.MERGE, **more)

    async def stateful_pod(self, name: str, node: str, cpu: str) -> None:
        """A running pod of a StatefulSet of its own, with an autoscaler that has nothing to say yet."""
        pod = build.pod_json(
            f"{name}-0", cpu=cpu, node=node, owner=build.owner_json("StatefulSet", name, f"uid-{name}")
        )
        made = await self.create(PODS, pod)
        status = build.running_status(made, started_at="2026-01-01T00:00:00Z")
        await self.merge(PODS, f"{name}-0", {"status": {**status, "observedGeneration": 1}}, subresource="status")

    async def autoscaler(self, name: str) -> None:
        spec = {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name},
            "recommenders": [{"name": "elastipod"}],
            "updatePolicy": {"updateMode": "InPlace"},
        }
        meta = {"name": name, "namespace": "default"}
        body = {
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscaler",
            "metadata": meta,
            "spec": spec,
        }
        await self.create(AUTOSCALERS, body)

    async def recommend(self, name: str, cpu: str) -> None:
        amounts = {"cpu": cpu}
        one = {"containerName": "app", "target": amounts, "lowerBound": amounts, "upperBound": amounts}
        body = {"status": {"recommendation": {"containerRecommendations": [one]}}}
        await self.merge(AUTOSCALERS, name, body, subresource="status")

    async def sent(self, pod: str, patience_seconds: float = 5.0) -> float:
        """When the pod's resize was asked for."""
        until = time.perf_counter() + patience_seconds
        while pod not in self.connection.sent_at:
            if time.perf_counter() > until:
                return float("inf")
            await asyncio.sleep(0.001)
        return self.connection.sent_at[pod]


async def delay_figures(figures: Figures, changes: int) -> None:
    cluster, clock = Cluster(), SystemClock()
    await cluster.create(NODES, build.node_json("n1", cpu="4000", memory="4000Gi", pods="5000"))
    for number in range(changes):
        await cluster.stateful_pod(f"s{number}", "n1", "100m")
        await cluster.autoscaler(f"s{number}")
    rooms = 20
    for number in range(rooms):
        await cluster.create(NODES, build.node_json(f"r{number}", cpu="2", memory="8Gi"))
        await cluster.stateful_pod(f"big{number}", f"r{number}", "1500m")
        await cluster.stateful_pod(f"small{number}", f"r{number}", "100m")
        await cluster.autoscaler(f"small{number}")
        await cluster.recommend(f"small{number}", "1")
    updater = Updater(cluster.connection, clock)
    working = asyncio.create_task(run_part(updater, clock, clock_ticker(clock)))
    while not updater.watching.is_ready():
        await asyncio.sleep(0.01)
    await asyncio.sleep(1.0)
    spans, floors = [], []
    for number in range(changes):
        started = time.perf_counter()
        await cluster.recommend(f"s{number}", "200m")
        floors.append(time.perf_counter() - started)
        spans.append(await cluster.sent(f"s{number}-0") - started)
    figures.show(
        f"from a recommendation to the request sent, p99 of {changes}",
        sorted(spans)[int(0.99 * (len(spans) - 1))],
        "s",
        GOAL_SENT_SECONDS,
        floor=statistics.median(floors),
        of="the API server's own patch",
    )
    spans = []
    for number in range(rooms):
        assert f"small{number}-0" not in cluster.connection.sent_at
        started = time.perf_counter()
        await cluster.connection.delete(PODS, "default", f"big{number}-0", body=b'{"gracePeriodSeconds":0}')
        spans.append(await cluster.sent(f"small{number}-0") - started)
    figures.show(
        f"from freed room to the retry, worst of {rooms}",
        max(spans),
        "s",
        GOAL_RETRY_SECONDS,
        floor=statistics.median(floors),
        of="the API server's own patch",
    )
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--changes", type=int, default=200)
    arguments = parser.parse_args()
    configure_logging("error")
    figures = Figures()
    asyncio.run(plan_figures(figures, arguments.pods, arguments.nodes))
    asyncio.run(delay_figures(figures, arguments.changes))
    return figures.exit_code


if __name__ == "__main__":
    sys.exit(main())
