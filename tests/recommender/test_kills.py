"""A kill for want of memory raises memory at once, is counted once, and is known after a restart."""

import json
import math

from elastipod.kube.resources import EVENTS, PODS
from tests.build import container_json, pod_json
from tests.recommender.world import MI, World, killed_status, started


async def kill(world: World, container_id: str = "containerd://aaa") -> None:
    pod = json.loads(await world.connection.get(PODS, "default", "web-a"))
    await world.set_status("web-a", killed_status(pod, container_id=container_id))
    await world.settle()


async def test_a_kill_wakes_the_recommender_and_raises_memory_at_once_r03() -> None:
    async with await started() as world:
        await world.run()
        world.recommender.wake.clear()
        await kill(world)
        assert world.recommender.wake.is_set()
        await world.recommender.run_once()
        assert await world.target() == {"memory": str(math.ceil(512 * MI * 1.2))}
        assert (await world.conditions())["LowConfidence"] == "LowConfidence"
        assert (await world.checkpoint()).spec.container_name == "app"


async def test_a_counted_kill_is_not_counted_again_after_a_restart_r05() -> None:
    async with await started() as world:
        await world.run(cpu=0.1, memory=100 * MI)
        await kill(world)
        await world.recommender.run_once()
        before = await world.memory()
        await world.restart()
        await world.run(cpu=0.1, memory=100 * MI)
        assert await world.memory() == before
        row = world.recommender.recommendations.history.rows()[0][1]
        assert world.recommender.recommendations.history.oom(row).kills == 1
        assert counted_kills(world) is None


async def test_a_kill_is_counted_for_its_workload() -> None:
    async with await started() as world:
        await world.run(cpu=0.1, memory=100 * MI)
        await kill(world)
        await world.recommender.run_once()
        assert counted_kills(world) == 1.0


def counted_kills(world: World) -> float | None:
    """What the metrics tell of kills of the app."""
    of = {"namespace": "default", "workload_kind": "Deployment", "workload": "web", "container": "app"}
    return world.metrics.registry.get_sample_value("elastipod_workload_oom_kills_total", of)


async def test_one_pod_of_ten_that_needs_six_times_as_much_is_helped_in_three_kills_and_not_called_well_r04() -> None:
    """Nine pods at 100Mi, one that needs 600Mi, a limit of 130Mi: the percentile over all of them hides it."""
    world = World()
    await world.node(cpu="64", memory="256Gi")
    uid = await world.deployment()
    names = tuple(f"web-{number}" for number in range(10))
    for name in names:
        await world.pod(name, uid, memory="100Mi", memory_limit="130Mi")
    await world.autoscaler()
    async with world:
        limit, count = 130 * MI, 0
        while limit < 600 * MI and count < 3:
            for _ in range(30):
                await world.run(cpu=0.1, memory=100 * MI, pods=names[:9])
            count += 1
            shown = pod_json(names[9], containers=[container_json(memory="100Mi", memory_limit=str(limit))])
            await world.set_status(names[9], killed_status(shown, container_id=f"containerd://{count}"))
            await world.run(cpu=0.1, memory=100 * MI, pods=names[:9])
            limit = max(limit, await world.memory())
        assert limit >= 600 * MI
        known = world.recommender.recommendations.history
        assert (known.memory.percentile(0, 0.95) or 0) < 130 * MI
        [app] = (world.recommender.explain(f"default/{names[0]}") or {})["containers"]
        assert (app["oom_kills"], app["oom_floor_bytes"] >= 600 * MI) == (count, True)
        events = json.loads(await world.connection.list(EVENTS, namespace="default"))["items"]
        assert {(one["type"], one["reason"]) for one in events} == {("Warning", "OomKilled")}


async def test_a_kill_while_the_recommender_was_down_counts_r05() -> None:
    async with await started() as world:
        await world.run(cpu=0.1, memory=100 * MI)
        await world.restart()
        await kill(world)
        await world.run()
        assert await world.memory() >= 612 * MI
