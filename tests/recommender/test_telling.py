"""What a person is told of a VerticalPodAutoscaler in Events: what changed, once, and never in a run's way."""

import asyncio
import json
from typing import Any

from elastipod.kube.resources import EVENTS, LIMIT_RANGES, ResourceType
from elastipod.reasons import Reason
from elastipod.telemetry import Metrics
from recommender.claims import Claim
from recommender.news import News
from recommender.telling import COMPONENT, Teller
from tests.build import container_json, pod_json
from tests.recommender.world import MI, Json, World, killed_status, started

Told = tuple[str, str]
"""Type and reason."""


async def events(world: World, name: str = "") -> list[Json]:
    """Those about an object, or all, in their order."""
    listed: list[Json] = json.loads(await world.connection.list(EVENTS, namespace="default"))["items"]
    found = [one for one in listed if name in ("", one["involvedObject"]["name"])]
    return sorted(found, key=lambda one: str(one["lastTimestamp"]))


async def told(world: World, name: str = "vpa") -> list[Told]:
    return [(one["type"], one["reason"]) for one in await events(world, name)]


async def at_rest(world: World, minutes: int) -> None:
    for _ in range(minutes):
        await world.run(cpu=0.2, memory=200 * MI)


async def test_a_target_that_is_not_there_is_told_once_and_once_when_it_is_there() -> None:
    world = World()
    await world.node(cpu="8", memory="32Gi")
    await world.autoscaler(target="api")
    async with world:
        for _ in range(5):
            await world.run()
        assert await told(world) == [("Warning", "TargetNotFound")]
        await world.deployment("api")
        for _ in range(5):
            await world.run()
        found = await events(world)
    assert [(one["type"], one["reason"]) for one in found] == [("Warning", "TargetNotFound"), ("Normal", "Resolved")]
    assert found[1]["message"] == "TargetNotFound no longer holds"
    about = found[0]["involvedObject"]
    assert (about["apiVersion"], about["kind"], about["namespace"], about["name"]) == (
        "autoscaling.k8s.io/v1",
        "VerticalPodAutoscaler",
        "default",
        "vpa",
    )
    assert about["uid"]
    assert (found[0]["source"]["component"], found[0]["action"]) == (COMPONENT, "Recommend")


async def test_nothing_is_told_at_rest_nor_again_after_a_restart() -> None:
    world = await started()
    await world.autoscaler("other")
    async with world:
        await at_rest(world, 3)
        before = await told(world)
        # Two act on one workload: both say so.
        assert before == await told(world, "other") == [("Warning", "Conflict")]
        world.connection.writes.clear()
        await at_rest(world, 90)
        for _ in range(2):
            await world.restart()
            await at_rest(world, 3)
        assert "create events" not in world.connection.writes
        assert await told(world) == before


async def test_a_new_object_without_fault_is_told_nothing_of() -> None:
    world = await started()
    async with world:
        await at_rest(world, 30)
        assert await told(world) == []


async def test_lost_usage_is_told_when_it_is_lost_and_when_it_is_back() -> None:
    world = await started()
    async with world:
        await at_rest(world, 3)
        for _ in range(30):
            await world.run()
        assert await told(world) == [("Warning", "MetricsLost")]
        await world.restart()
        for _ in range(10):
            await world.run()
        assert await told(world) == [("Warning", "MetricsLost")]
        await at_rest(world, 3)
        assert await told(world) == [("Warning", "MetricsLost"), ("Normal", "Resolved")]


async def test_each_mistake_in_a_spec_is_told() -> None:
    world = await started()
    async with world:
        await at_rest(world, 2)
        for name in ("app", "proxy"):
            twice = [{"containerName": name, "mode": "Off"}] * 2
            await world.change(spec={"resourcePolicy": {"containerPolicies": twice}})
            await at_rest(world, 2)
        found = await events(world)
    assert [(one["type"], one["reason"]) for one in found] == [("Warning", "BadValue")] * 2
    assert ["'app' has one" in found[0]["message"], "'proxy' has one" in found[1]["message"]] == [True, True]


async def test_what_cuts_a_recommendation_is_told_when_it_begins_to() -> None:
    world = await started()
    async with world:
        await at_rest(world, 3)
        assert await told(world) == []
        most = {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "100m", "memory": "64Mi"}}]}
        await world.change(spec={"resourcePolicy": most})
        await at_rest(world, 3)
        [one] = await events(world)
        assert (one["type"], one["reason"]) == ("Normal", "CappedByMax")
        assert "app: cpu CappedByMax (containerPolicies); app: memory CappedByMax" in one["message"]
        # The same in other words, and a restart, are no news.
        most["containerPolicies"][0]["maxAllowed"] = {"cpu": "110m", "memory": "65Mi"}
        await world.change(spec={"resourcePolicy": most})
        await at_rest(world, 3)
        await world.restart()
        await at_rest(world, 90)
        assert len(await events(world)) == 1


async def test_caps_that_contradict_each_other_are_a_warning() -> None:
    world = await started()
    async with world:
        await at_rest(world, 3)
        for name, bound in (("least", {"min": {"memory": "2Gi"}}), ("most", {"max": {"memory": "1Gi"}})):
            await world.create(
                LIMIT_RANGES,
                {
                    "apiVersion": "v1",
                    "kind": "LimitRange",
                    "metadata": {"name": name, "namespace": "default"},
                    "spec": {"limits": [{"type": "Container", **bound}]},
                },
            )
        await at_rest(world, 3)
        [one] = await events(world)
    assert (one["type"], one["reason"]) == ("Warning", "Contradiction")
    assert "LimitRange least, most" in one["message"]


async def kill(world: World, number: int) -> None:
    pod = pod_json("web-a", containers=[container_json(cpu="500m", memory="512Mi", memory_limit="512Mi")])
    await world.set_status("web-a", killed_status(pod, container_id=f"containerd://{number}", restarts=number))


async def test_a_kill_is_told_with_what_it_proved_and_more_of_them_are_counted() -> None:
    world = await started()
    async with world:
        await at_rest(world, 3)
        await kill(world, 1)
        await world.run()
        [first] = await events(world)
        assert (first["type"], first["reason"], first["count"]) == ("Warning", "OomKilled", 1)
        assert first["message"] == "container app was killed for memory at a memory limit of 512Mi; it needs 615Mi"
        await world.restart()
        await world.run()
        for number in range(2, 12):
            await kill(world, number)
            await world.run()
            await world.settle()
        # The new leader had said nothing of it yet, so its first is heard, and nine more are not.
        assert len(await events(world)) == 2
        world.clock.advance(3600)
        await world.run()
        await kill(world, 12)
        await world.run()
        last = (await events(world))[-1]
        assert last["count"] == 10
        assert last["firstTimestamp"] < last["lastTimestamp"]


async def test_a_failing_write_neither_delays_nor_breaks_a_run() -> None:
    world = await started()
    never = asyncio.Event()
    create = world.connection.create

    async def hang(resource: ResourceType, *args: Any, **more: Any) -> bytes:
        if resource is EVENTS:
            await never.wait()
        return await create(resource, *args, **more)

    world.connection.create = hang  # type: ignore[method-assign]
    async with world:
        await world.autoscaler("other")
        async with asyncio.timeout(20):
            await at_rest(world, 3)
        assert (await world.conditions())["ConfigUnsupported"] == "Conflict"
    never.set()


async def test_what_can_not_be_written_is_counted_and_not_tried_again() -> None:
    world = await started()
    world.connection.unserved.add("events")
    async with world:
        await world.autoscaler("other")
        await at_rest(world, 5)
        failed = world.metrics.registry.get_sample_value("elastipod_recommender_events_total", {"outcome": "failed"})
        assert failed == 2
        world.connection.unserved.clear()
        await at_rest(world, 5)
        assert await told(world) == []


async def test_a_storm_is_written_one_a_second_and_no_more_than_two_hundred_of_it() -> None:
    world = World()
    teller = Teller(world.connection, world.clock, metrics := Metrics())
    for number in range(400):
        claim = Claim("default", f"vpa-{number}", uid=f"u-{number}")
        teller.tell(claim, [News(Reason.METRICS_LOST, "no usage sample", about="MetricsLost")])
    began_at = world.clock.now()
    writing = asyncio.create_task(teller.run())
    for _ in range(2000):
        await asyncio.sleep(0)
    writing.cancel()
    values = metrics.registry.get_sample_value
    outcomes = ("written", "dropped", "failed")
    counts = [values("elastipod_recommender_events_total", {"outcome": one}) for one in outcomes]
    assert counts == [200, 200, None]
    assert world.clock.now() - began_at == 200
    assert len({one["lastTimestamp"] for one in await events(world)}) == 200
