"""A recommendation, or a size that a person states, becomes a resize in force."""

import json

import pytest

from tests.updater.world import World


async def test_a_recommendation_becomes_a_resize_in_force_and_then_nothing_more_is_written() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment(), cpu="100m", memory="128Mi")
        await world.autoscaler(cpu="1")
        await world.run()
        assert await world.requests("web-a") == {"cpu": "1", "memory": "128Mi"}
        assert world.outcome() == "Done Done"
        assert await world.events() == ["OutsideBounds"]
        await world.run(20, seconds=60)
        assert len(world.connection.resizes) == 1


async def test_a_request_names_uid_and_version_and_only_what_changes() -> None:
    async with World() as world:
        await world.node()
        made = await world.pod("web-a", await world.deployment())
        await world.autoscaler(cpu="1")
        await world.run()
        [(_, body)] = world.connection.resizes
        assert body["metadata"]["uid"] == made["metadata"]["uid"]
        assert body["metadata"]["resourceVersion"]
        assert body["spec"] == {
            "containers": [{"name": "app", "resources": {"requests": {"cpu": "1", "memory": "128Mi"}}}]
        }


async def test_a_size_stated_on_the_deployment_is_followed_by_its_running_pods() -> None:
    async with World() as world:
        await world.node()
        owner = await world.deployment()
        for name in ("web-a", "web-b"):
            await world.pod(name, owner, cpu="100m")
        await world.run()
        await world.state("web", json.dumps({"app": {"requests": {"cpu": "700m"}}}))
        await world.run()
        assert [(await world.requests(name))["cpu"] for name in ("web-a", "web-b")] == ["700m", "700m"]
        assert world.explained()["attempt"]["because"] == "StatedOnWorkload"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"app": {"requests": {"cpu": "lots"}}}', "elastipod.io/resources.app.requests.cpu: 'lots' is not a quantity"),
        ("[" * 100_000, "elastipod.io/resources is not JSON"),
    ],
    ids=["no quantity", "too long"],
)
async def test_a_stated_size_that_can_not_be_read_is_named_and_changes_nothing(text: str, told: str) -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment())
        await world.state("web", text)
        await world.run()
        assert (world.connection.resizes, world.decided()) == ([], "BadValue")
        assert world.explained()["decision"]["message"].startswith(told)
        assert await world.events() == ["BadValue"]


async def test_a_size_stated_for_a_container_that_is_not_there_is_named_and_the_others_hold() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment())
        await world.state("web", json.dumps({"app": {"requests": {"cpu": "700m"}}, "ap": {"requests": {"cpu": "1"}}}))
        await world.run(2)
        assert (await world.requests("web-a"))["cpu"] == "700m"
        assert world.decided() == "BadValue"
        message = world.explained()["decision"]["message"]
        assert message == "elastipod.io/resources.ap: the pod has no such container to resize, only app"


async def test_memory_goes_down_in_steps_and_never_below_what_is_used() -> None:
    async with World(step_seconds=30.0) as world:
        await world.node()
        await world.pod(
            "web-a", await world.deployment(), cpu="100m", memory="1Gi", cpu_limit="200m", memory_limit="1Gi"
        )
        await world.autoscaler(cpu="100m", memory="256Mi")
        world.used.by_pod["web-a"] = ("10m", "200Mi")
        await world.run(40, seconds=15)
        limits = [
            body["spec"]["containers"][0]["resources"]["limits"]["memory"] for _, body in world.connection.resizes
        ]
        assert len(limits) >= 6
        assert limits[-1] == "256Mi"
        assert (await world.requests("web-a"))["memory"] == "256Mi"


async def test_without_a_fresh_sample_memory_stays() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment(), memory="1Gi")
        await world.autoscaler(cpu="100m", memory="256Mi")
        world.used.by_pod["web-a"] = ("10m", "100Mi")
        world.used.age_seconds = 20.0
        await world.run(5, seconds=15)
        assert (world.connection.resizes, world.decided()) == ([], "StaleData")
        world.used.age_seconds = 2.0
        await world.run(5, seconds=15)
        assert (await world.requests("web-a"))["memory"] == "256Mi"
