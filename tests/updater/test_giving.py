"""Neighbours give what they do not use, and get it back."""

from elastipod.kube.resources import ELASTIC_POLICIES
from tests.updater.world import World


async def test_a_waiting_resize_gets_room_from_a_neighbour_that_gets_its_own_back_when_it_needs_it() -> None:
    async with World() as world:
        await world.node(cpu="4", memory="8Gi")
        await world.pod("web-a", await world.deployment("web"), cpu="500m", memory="128Mi")
        await world.pod("idle-a", await world.deployment("idle"), cpu="3", memory="256Mi")
        await world.autoscaler("idle", cpu="3")
        await world.autoscaler("web", cpu="2")
        world.used.by_pod = {"idle-a": ("100m", "100Mi"), "web-a": ("490m", "100Mi")}
        await world.run(5, seconds=2)
        assert (await world.requests("web-a"))["cpu"] == "2"
        assert (await world.requests("idle-a"))["cpu"] == "2"
        assert world.explained("idle-a")["gave"]["had"]["app"]["requests"]["cpu"] == "3"
        world.used.by_pod["idle-a"] = ("1900m", "100Mi")
        await world.recommend("web", cpu="500m")
        await world.run(40, seconds=4)
        assert (await world.requests("idle-a"))["cpu"] == "3"
        assert "gave" not in world.explained("idle-a")


async def test_a_pending_pod_gets_room_from_neighbours() -> None:
    async with World() as world:
        await world.node(cpu="4100m", memory="8Gi")
        owner = await world.deployment("idle")
        await world.pod("idle-a", owner, cpu="2", memory="256Mi")
        await world.pod("idle-b", owner, cpu="2", memory="256Mi")
        await world.autoscaler("idle", cpu="2")
        world.used.by_pod = {"idle-a": ("100m", "100Mi"), "idle-b": ("1800m", "100Mi")}
        await world.run()
        await world.pod("new", node=None, cpu="1", memory="64Mi")
        await world.run(3, seconds=2)
        # 0.1 were free, and idle-b uses what it has.
        assert await world.requests("idle-a") == {"cpu": "1100m", "memory": "256Mi"}
        assert (await world.requests("idle-b"))["cpu"] == "2"


async def test_a_donor_gets_its_own_back_even_after_a_restart_of_ours() -> None:
    async with World() as world:
        await world.node(cpu="4", memory="8Gi")
        policy = {
            "apiVersion": "elastipod.io/v1alpha1",
            "kind": "ElasticPolicy",
            "metadata": {"name": "share", "namespace": "default"},
            "spec": {"selector": {"name": "idle"}, "donate": True},
        }
        await world.create(ELASTIC_POLICIES, policy)
        await world.pod("idle-a", await world.deployment("idle", cpu="3"), cpu="3")
        world.used.by_pod = {"idle-a": ("100m", "100Mi")}
        await world.run()
        await world.pod("new", node=None, cpu="2", memory="64Mi")
        await world.run(3, seconds=2)
        assert (await world.requests("idle-a"))["cpu"] == "2"
        await world.delete("new")
        await world.restart()
        await world.run(3, seconds=6)
        assert (await world.requests("idle-a"))["cpu"] == "2"
        world.used.by_pod["idle-a"] = ("1900m", "100Mi")
        await world.run(12, seconds=6)
        assert (await world.requests("idle-a"))["cpu"] == "3"


async def test_pods_that_nobody_gave_to_us_give_nothing() -> None:
    async with World() as world:
        await world.node(cpu="4")
        await world.pod("idle-a", await world.deployment("idle"), cpu="3800m")
        world.used.by_pod = {"idle-a": ("100m", "100Mi")}
        await world.pod("new", node=None, cpu="1")
        await world.run(3, seconds=5)
        assert world.connection.resizes == []
