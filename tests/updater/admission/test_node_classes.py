"""A pod that is bound to a node at its creation, as a DaemonSet's, gets the size of the node's class at once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from elastipod.kube.calls import Call, InterceptedConnection
from elastipod.kube.resources import DAEMON_SETS, NODES
from elastipod.pods import Node
from elastipod.quantities import Resources
from tests import build
from tests.updater.admission.world import Json, World, new_pod, patched

BY_CLASS = {"app.2-cpus": "130m", "app.96-cpus": "1300m"}


def bound_to(*terms: Json) -> Json:
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def on_node(name: str, **more: Any) -> Json:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}], **more}


async def agent(world: World) -> Json:
    """The owner that the pods of a DaemonSet name."""
    template = build.template_json({"app": "agent"})
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": build.metadata_json("agent"), "spec": spec}
    made = await world.create(DAEMON_SETS, body)
    return build.owner_json("DaemonSet", "agent", made["metadata"]["uid"])


async def asked(world: World, owner: Json, affinity: Json) -> str:
    """The CPU that a pod with such an affinity is made with."""
    pod = new_pod(owner, affinity=affinity)
    return str(patched(pod, await world.ask(pod))["spec"]["containers"][0]["resources"]["requests"]["cpu"])


async def test_a_new_nodes_agent_starts_at_its_class_r75(world: World) -> None:
    await world.create(NODES, build.node_json("small", cpu="2"))
    await world.create(NODES, build.node_json("large", cpu="96"))
    await world.create(NODES, build.node_json("other", cpu="8"))
    owner = await agent(world)
    await world.autoscaler(cpu="500m", kind="DaemonSet", target="agent", on_classes=BY_CLASS)
    found = {name: await asked(world, owner, bound_to(on_node(name))) for name in ("small", "large", "other")}
    assert found == {"small": "130m", "large": "1300m", "other": "500m"}


@pytest.mark.parametrize(
    "affinity",
    [
        {},
        bound_to(on_node("small"), on_node("large")),
        bound_to(on_node("small"), {"matchExpressions": [{"key": "metadata.name", "operator": "Exists"}]}),
        bound_to({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["small"]}]}),
        bound_to({"matchFields": [{"key": "metadata.name", "operator": "In"}]}),
    ],
)
async def test_a_pod_that_may_run_on_several_nodes_gets_the_one_size(world: World, affinity: Json) -> None:
    await world.create(NODES, build.node_json("small", cpu="2"))
    await world.create(NODES, build.node_json("large", cpu="96"))
    owner = await agent(world)
    await world.autoscaler(cpu="500m", kind="DaemonSet", target="agent", on_classes=BY_CLASS)
    assert await asked(world, owner, affinity) == "500m"


async def test_a_pod_that_comes_before_the_news_of_its_node_waits_a_moment_for_it(tmp_path: Path) -> None:
    async with World(tmp_path, owner_wait_seconds=0.9) as world:
        owner = await agent(world)
        await world.create(NODES, build.node_json("first", cpu="2"))
        await world.autoscaler(cpu="500m", kind="DaemonSet", target="agent", on_classes=BY_CLASS)
        asking = asyncio.create_task(asked(world, owner, bound_to(on_node("late"))))
        await world.settle()
        assert not asking.done()
        world.admission._fleet.put_node("late", Node("late", capacity=Resources(2000)))
        assert await asking == "130m"


async def test_nodes_are_read_only_once_a_size_depends_on_them(tmp_path: Path) -> None:
    listed = []

    class Noting(InterceptedConnection):
        async def handle(self, call: Call) -> bytes:
            listed.append(call.resource)
            return await super().handle(call)

    async with World(tmp_path, through=Noting) as world:
        await world.autoscaler(cpu="500m", kind="DaemonSet", target="agent")
        assert NODES not in listed
        await world.autoscaler(name="more", kind="DaemonSet", target="more", on_classes=BY_CLASS)
        await world.settle()
        assert NODES in listed
