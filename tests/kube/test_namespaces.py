"""Some namespaces look like a whole cluster to a part that may see no others."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from elastipod.clock import LoopClock
from elastipod.kube.connection import Connection
from elastipod.kube.errors import Forbidden, Gone
from elastipod.kube.namespaces import NamespacesConnection
from elastipod.kube.podrows import decode_pod
from elastipod.kube.reflector import Reflector
from elastipod.kube.resources import NAMESPACES, NODES, PODS, ResourceType
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.store import Store
from elastipod.localcluster.simulation.virtualtime import run_virtually
from elastipod.pods import Pod
from tests.build import node_json, pod_json


class Guarded(DirectConnection):
    """What a service account reaches that has Roles in some namespaces only."""

    def __init__(self, api: ApiServer, clock: LoopClock, allowed: set[str]) -> None:
        super().__init__(api, clock)
        self.allowed = allowed
        self.watched_from: list[tuple[str | None, str]] = []
        self.broken: set[str] = set()

    async def list(self, resource: ResourceType, *, namespace: str | None = None, **query: Any) -> bytes:
        self._check(resource, namespace)
        return await super().list(resource, namespace=namespace, **query)

    async def watch(
        self, resource: ResourceType, *, resource_version: str, namespace: str | None = None, **query: Any
    ) -> AsyncGenerator[bytes, None]:
        self._check(resource, namespace)
        self.watched_from.append((namespace, resource_version))
        async for line in super().watch(resource, resource_version=resource_version, namespace=namespace, **query):
            if namespace in self.broken:
                self.broken.discard(namespace)
                raise Gone(410, "Expired", "compacted")
            yield line

    def _check(self, resource: ResourceType, namespace: str | None) -> None:
        if resource.namespaced and namespace not in self.allowed:
            raise Forbidden(403, "Forbidden", f"{resource.plural} in {namespace}")


class World:
    """Three namespaces, of which two may be read."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.api = ApiServer(self.clock, Store(), spread=random.Random(1))
        self.admin = DirectConnection(self.api, self.clock)
        self.guarded = Guarded(self.api, self.clock, {"a", "b"})
        self.seen: Connection = NamespacesConnection(self.guarded, ("a", "b"))

    async def fill(self) -> None:
        for name in ("a", "b", "c"):
            await self.admin.create(NAMESPACES, None, json.dumps({"metadata": {"name": name}}).encode())

    async def put(self, namespace: str, name: str) -> None:
        await self.admin.create(PODS, namespace, json.dumps(pod_json(name, namespace)).encode())

    def reflector(self) -> Reflector[Pod]:
        return Reflector(self.seen, PODS, decode_pod, self.clock)


def _run(work: Callable[[World], Any]) -> None:
    async def within() -> None:
        world = World()
        await world.fill()
        await work(world)

    run_virtually(within())


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


def test_a_list_of_all_is_that_of_each() -> None:
    async def work(world: World) -> None:
        for namespace in ("a", "b", "c"):
            await world.put(namespace, f"in-{namespace}")
        found = json.loads(await world.seen.list(PODS, limit=1))
        assert [one["metadata"]["name"] for one in found["items"]] == ["in-a", "in-b"]
        assert not found["metadata"].get("continue")

    _run(work)


def test_a_copy_follows_every_namespace_and_no_other() -> None:
    async def work(world: World) -> None:
        reflector = world.reflector()
        running = asyncio.create_task(reflector.run())
        await reflector.wait_synced()
        for number in range(3):
            for namespace in ("a", "b", "c"):
                await world.put(namespace, f"pod-{number}")
        await _until(lambda: len(reflector.items) == 6)
        await world.admin.delete(PODS, "b", "pod-0", body=b'{"gracePeriodSeconds": 0}')
        await _until(lambda: "b/pod-0" not in reflector.items)
        assert reflector.relists == 1
        running.cancel()

    _run(work)


def test_a_watch_that_ends_goes_on_where_that_namespace_was_and_not_where_another_is() -> None:
    async def work(world: World) -> None:
        await world.seen.list(PODS)
        before = await world.admin.list(PODS)
        await world.put("a", "late")
        stream = world.seen.watch(PODS, resource_version="0", timeout_seconds=5)
        first = json.loads(await anext(stream))
        assert first["object"]["metadata"]["name"] == "late"
        await stream.aclose()
        # The reader has heard a's event, and nothing of b's: b is watched from its list on.
        again = world.seen.watch(PODS, resource_version=first["object"]["metadata"]["resourceVersion"])
        waiting = asyncio.create_task(anext(again))
        await asyncio.sleep(0.1)
        waiting.cancel()
        starts = dict(world.guarded.watched_from[-2:])
        assert starts["b"] == json.loads(before)["metadata"]["resourceVersion"]

    _run(work)


def test_when_one_has_to_be_listed_again_all_are() -> None:
    async def work(world: World) -> None:
        reflector = world.reflector()
        running = asyncio.create_task(reflector.run())
        await reflector.wait_synced()
        world.guarded.broken.add("b")
        await world.put("b", "one")
        await _until(lambda: "b/one" in reflector.items)
        assert reflector.relists == 2
        running.cancel()

    _run(work)


def test_what_has_no_namespace_and_what_names_one_is_asked_for_as_it_is() -> None:
    async def work(world: World) -> None:
        await world.admin.create(NODES, None, json.dumps(node_json()).encode())
        assert json.loads(await world.seen.list(NODES))["items"]
        with pytest.raises(Forbidden):
            await world.seen.list(PODS, namespace="c")

    _run(work)
