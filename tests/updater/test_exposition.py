"""What the updater shows of nodes and of resizes that wait."""

import json

from prometheus_client.parser import text_string_to_metric_families

from elastipod.kube.rows import decode_node
from tests import build
from tests.updater.world import World
from updater.attempts import ResizeAttempts
from updater.exposition import fleet_text
from updater.fleet import Fleet

GI = 1024.0**3


def shown(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Amounts by metric and labels."""
    families = text_string_to_metric_families(text.decode())
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def of(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return f"elastipod_{name}", frozenset(labels.items())


async def test_a_node_is_told_with_what_it_has_and_what_of_it_is_taken() -> None:
    async with World() as world:
        await world.node(cpu="2", memory="4Gi")
        await world.pod("other", cpu="1500m", memory="1Gi")
        await world.settle()
        found = shown(world.updater.shown())
        for resource, has, taken in (("cpu", 2.0, 1.5), ("memory", 4 * GI, GI)):
            assert found[of("node_allocatable", node="n1", resource=resource)] == has
            assert found[of("node_reserved", node="n1", resource=resource)] == taken
            assert found[of("node_allocated", node="n1", resource=resource)] == taken
            assert found[of("node_granted", node="n1", resource=resource)] == 0.0


async def test_what_is_granted_is_told_apart_from_what_shows_already() -> None:
    async with World() as world:
        await world.node(cpu="2")
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.autoscaler(cpu="1")
        await world.settle()
        seen = {}

        async def look() -> None:
            found = shown(world.updater.shown())
            for name in ("granted", "reserved", "allocated"):
                seen[name] = round(found[of(f"node_{name}", node="n1", resource="cpu")], 3)

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
        web = {"namespace": "default", "workload_kind": "Deployment", "workload": "web"}
        waits = of("workload_resize_waiting_seconds", **web, node="n1", reason="NoRoom")
        assert shown(world.updater.shown())[waits] == 600.0
        await world.delete("other")
        await world.run()
        assert waits not in shown(world.updater.shown())


def test_a_node_that_is_gone_is_told_no_more() -> None:
    fleet = Fleet(["elastipod"])
    fleet.put_node("n1", decode_node(json.dumps(build.node_json("n1")).encode()))
    has = of("node_allocatable", node="n1", resource="cpu")
    assert shown(fleet_text(fleet, ResizeAttempts(), 0.0))[has] == 4.0
    fleet.put_node("n1", None)
    assert has not in shown(fleet_text(fleet, ResizeAttempts(), 0.0))
