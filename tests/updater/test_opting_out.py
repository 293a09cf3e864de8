"""A pod that is not to be sized is not resized, whoever opted in further away."""

import json

import pytest

from elastipod.kube.connection import PatchType
from elastipod.kube.resources import DEPLOYMENTS, PODS, ResourceType
from elastipod.optout import EXCLUDED_ANNOTATION, SIZING_ANNOTATION
from tests.updater.world import World


async def say(world: World, resource: ResourceType, name: str, key: str, word: str | None) -> None:
    body = json.dumps({"metadata": {"annotations": {key: word}}}).encode()
    await world.connection.patch(resource, "default", name, body, patch_type=PatchType.MERGE)


async def begun(world: World) -> None:
    await world.node()
    owner = await world.deployment()
    for name in ("web-a", "web-b"):
        await world.pod(name, owner, cpu="100m")


@pytest.mark.parametrize(
    ("resource", "name", "key", "word", "resized"),
    [
        (PODS, "web-a", SIZING_ANNOTATION, "Off", {"web-b"}),
        (PODS, "web-a", SIZING_ANNOTATION, "of", {"web-b"}),
        (PODS, "web-a", EXCLUDED_ANNOTATION, "app", {"web-b"}),
        (DEPLOYMENTS, "web", SIZING_ANNOTATION, "Off", set()),
        (DEPLOYMENTS, "web", EXCLUDED_ANNOTATION, "proxy,app", set()),
        (DEPLOYMENTS, "web", EXCLUDED_ANNOTATION, "proxy", {"web-a", "web-b"}),
        (PODS, "web-a", SIZING_ANNOTATION, "Auto", {"web-a", "web-b"}),
    ],
)
async def test_what_opts_out_is_not_resized_and_all_others_are_r45(
    resource: ResourceType, name: str, key: str, word: str, resized: set[str]
) -> None:
    async with World() as world:
        await begun(world)
        await say(world, resource, name, key, word)
        await world.autoscaler(cpu="1")
        await world.run(3, seconds=60)
        assert {pod for pod, _ in world.connection.resizes} == resized
        if key == SIZING_ANNOTATION and "web-a" not in resized:
            assert world.decided() == "ModeOff"


async def test_one_that_is_opted_in_again_is_resized() -> None:
    async with World() as world:
        await begun(world)
        await say(world, DEPLOYMENTS, "web", SIZING_ANNOTATION, "Off")
        await say(world, PODS, "web-b", SIZING_ANNOTATION, "Auto")
        await world.autoscaler(cpu="1")
        await world.run(3, seconds=60)
        assert {pod for pod, _ in world.connection.resizes} == {"web-b"}
        await say(world, DEPLOYMENTS, "web", SIZING_ANNOTATION, None)
        await world.run(3, seconds=60)
        assert {pod for pod, _ in world.connection.resizes} == {"web-a", "web-b"}
