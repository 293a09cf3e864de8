"""A cluster of one simulated node in process, under virtual time."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

from elastipod.clock import LoopClock
from elastipod.kube.connection import Connection
from elastipod.kube.podrows import decode_pod
from elastipod.kube.resources import EVENTS, PODS, ResourceType
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.store import Store
from elastipod.localcluster.node.checkpoint import MemoryCheckpoint
from elastipod.localcluster.node.node import LocalNode
from elastipod.localcluster.node.registration import NodeSettings
from elastipod.localcluster.node.simulated import SimulatedRuntime
from elastipod.localcluster.simulation.virtualtime import run_virtually
from elastipod.pods import Pod
from elastipod.quantities import Resources

Json = dict[str, Any]
MIB = 1024 * 1024


class AtNode:
    """A node and its API server, and short ways to ask them."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.node = self.new_node()
        self.tasks = [asyncio.create_task(self.live())]

    async def live(self) -> None:
        await self.node.run()

    def new_node(self) -> LocalNode:
        """The kubelet, as it begins."""
        raise NotImplementedError

    async def restart_node(self) -> None:
        """As after kill -9: what is on disk and in the kernel stays."""
        await self.close()
        self.node = self.new_node()
        self.tasks = [asyncio.create_task(self.live())]

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def create(self, resource: ResourceType, body: Json) -> Json:
        namespace = body["metadata"].get("namespace", "default") if resource.namespaced else None
        return json.loads(await self.connection.create(resource, namespace, json.dumps(body).encode()))

    async def run_pod(self, name: str, containers: list[Json], usage: Any = None, **spec: Any) -> None:
        annotations = {"elastipod.io/simulated-usage": json.dumps(usage)} if usage is not None else {}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": {"nodeName": "here", "containers": containers, **spec},
        }
        await self.create(PODS, body)

    async def resize(self, name: str, container: str = "app", **resources: Json) -> None:
        body = {"spec": {"containers": [{"name": container, "resources": resources}]}}
        await self.connection.patch(PODS, "default", name, json.dumps(body).encode(), subresource="resize")

    async def pod_json(self, name: str) -> Json:
        return json.loads(await self.connection.get(PODS, "default", name))

    async def pod(self, name: str) -> Pod:
        return decode_pod(await self.connection.get(PODS, "default", name))

    async def delete(self, name: str, grace: int | None = None) -> None:
        body = b"" if grace is None else json.dumps({"gracePeriodSeconds": grace}).encode()
        await self.connection.delete(PODS, "default", name, body=body)

    async def names(self) -> list[str]:
        listed = json.loads(await self.connection.list(PODS, namespace="default"))
        return [one["metadata"]["name"] for one in listed["items"]]

    async def events(self, name: str) -> list[str]:
        listed = json.loads(await self.connection.list(EVENTS, namespace="default"))
        return [one["reason"] for one in listed["items"] if one["involvedObject"]["name"] == name]


class OneNode(AtNode):
    """One whose containers run in thought."""

    def __init__(
        self,
        cpu: int = 1000,
        memory: int = 1024 * MIB,
        checkpoint: MemoryCheckpoint | None = None,
        runtime: SimulatedRuntime | None = None,
    ) -> None:
        self.clock = LoopClock()
        self.api = ApiServer(self.clock, Store(), spread=random.Random(1), checks_node_capacity=False)
        self.runtime = runtime or SimulatedRuntime(self.clock)
        self.checkpoint = checkpoint or MemoryCheckpoint()
        self.settings = NodeSettings("here", Resources(cpu, memory))
        super().__init__(DirectConnection(self.api, self.clock))

    def new_node(self) -> LocalNode:
        return LocalNode(self.connection, self.clock, self.runtime, self.settings, self.checkpoint)


def in_one_node(test: Callable[[OneNode], Awaitable[None]], **more: Any) -> None:
    """Run a test's body in virtual time."""

    async def main() -> None:
        here = OneNode(**more)
        await asyncio.sleep(1)
        try:
            await test(here)
        finally:
            await here.close()

    run_virtually(main())
