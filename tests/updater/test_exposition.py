"""What the updater shows of nodes and of resizes that wait."""

import json

from prometheus_client import CollectorRegistry

from elastipod.clock import ManualClock
from elastipod.kube.rows import decode_node
from tests import build
from tests.updater.world import World
from updater.attempts import ResizeAttempts
from updater.exposition import Exposition
from updater.fleet import Fleet

GI = 1024.0**3


def shown(world: World) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(Exposition(world.updater.fleet, world.updater.attempts, world.clock))
    return registry


async def test_a_node_is_told_with_what_it_has_and_what_of_it_is_taken() -> None:
    async with World() as world:
        await world.node(cpu="2", memory="4Gi")
        await world.pod("other", cpu="1500m", memory="1Gi")
        await world.settle()
        registry = shown(world)
        for resource, has, taken in (("cpu", 2.0, 1.5), ("memory", 4 * GI, GI)):
            of = {"node": "n1", "resource": resource}
            assert registry.get_sample_value("elastipod_node_allocatable", of) == has
            assert registry.get_sample_value("elastipod_node_reserved", of) == taken
            assert registry.get_sample_value("elastipod_node_allocated", of) == taken
            assert registry.get_sample_value("elastipod_node_granted", of) == 0.0


async def test_what_is_granted_is_told_apart_from_what_shows_already() -> None:
    async with World() as world:
        await world.node(cpu="2")
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.autoscaler(cpu="1")
        await world.settle()
        seen = {}

        async def look() -> None:
            registry = shown(world)
            for name in ("granted", "reserved", "allocated"):
                of = {"node": "n1", "resource": "cpu"}
                seen[name] = round(registry.get_sample_value(f"elastipod_node_{name}", of) or 0.0, 3)

        world.connection.before_resize.append(look)
        await world.run()
        assert seen == {"granted": 0.9, "reserved": 0.1, "allocated": 0.1}


async def test_a_resize_that_waits_is_told_by_workload_node_and_reason_since_it_was_first_wanted() -> None:
    async with World() as world:
        await world.node(cpu="2")
        await world.pod("other", cpu="1500m")
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.autoscaler(cpu="1")
        await world.run()
        world.clock.advance(600)
        of = {"namespace": "default", "workload_kind": "Deployment", "workload": "web", "node": "n1"}
        name = "elastipod_workload_resize_waiting_seconds"
        assert shown(world).get_sample_value(name, {**of, "reason": "NoRoom"}) == 600.0
        await world.delete("other")
        await world.run()
        assert shown(world).get_sample_value(name, {**of, "reason": "NoRoom"}) is None


def test_a_node_that_is_gone_is_told_no_more() -> None:
    fleet = Fleet(["elastipod"])
    fleet.put_node("n1", decode_node(json.dumps(build.node_json("n1")).encode()))
    registry = CollectorRegistry()
    registry.register(Exposition(fleet, ResizeAttempts(), ManualClock(0.0)))
    of = {"node": "n1", "resource": "cpu"}
    assert registry.get_sample_value("elastipod_node_allocatable", of) == 4.0
    fleet.put_node("n1", None)
    assert registry.get_sample_value("elastipod_node_allocatable", of) is None
