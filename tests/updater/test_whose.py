"""Whose a pod is, and who may say what size it has."""

import json
from typing import Any

import pytest

from elastipod.kube.resources import AUTOSCALERS, ELASTIC_POLICIES
from tests import build
from tests.updater.world import World


async def test_a_namesake_is_not_resized() -> None:
    async with World() as world:
        await world.node()
        owner = await world.deployment()
        await world.pod("web-a", owner, cpu="100m")
        await world.autoscaler(cpu="1")

        async def replace() -> None:
            await world.delete("web-a")
            await world.pod("web-a", None, cpu="200m")

        world.connection.before_resize = [replace]
        await world.run(3)
        assert (await world.requests("web-a"))["cpu"] == "200m"


async def test_when_another_actor_changes_the_pod_it_is_left_alone() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment(), cpu="100m")
        await world.autoscaler(cpu="1")
        await world.run()
        await world.resize("web-a", {"cpu": "300m", "memory": "128Mi"})
        await world.run(20, seconds=60)
        assert len(world.connection.resizes) == 1
        assert world.outcome() == "Refused Overridden"
        await world.run(20, seconds=60)
        assert len(world.connection.resizes) == 2


async def test_two_autoscalers_on_one_workload_act_not_at_all() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment())
        await world.autoscaler(cpu="1")
        body = json.loads(await world.connection.get(AUTOSCALERS, "default", "web"))
        second = {**body, "metadata": {"name": "second", "namespace": "default"}}
        second.pop("status", None)
        await world.create(AUTOSCALERS, second)
        await world.run(3, seconds=60)
        assert (world.connection.resizes, world.decided()) == ([], "Conflict")


async def test_bare_pods_that_a_policy_makes_one_workload_are_resized_as_it_r43() -> None:
    async with World() as world:
        await world.node()
        await world.pod("runner-0")
        target = {"apiVersion": "elastipod.io/v1alpha1", "kind": "ElasticPolicy", "name": "runners"}
        await world.autoscaler("runners", cpu="300m", targetRef=target)
        await world.run()
        assert world.connection.resizes == []
        policy = {
            "apiVersion": "elastipod.io/v1alpha1",
            "kind": "ElasticPolicy",
            "metadata": {"name": "runners", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
        }
        await world.create(ELASTIC_POLICIES, policy)
        await world.pod("runner-1")
        await world.run(2)
        assert [(await world.requests(name))["cpu"] for name in ("runner-0", "runner-1")] == ["300m", "300m"]


async def test_a_pod_below_a_custom_owner_is_resized_by_the_advice_for_either_r42() -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment(owner=build.owner_json("Kafka", "k", "uid-k", "kafka.io/v1")))
        await world.autoscaler(cpu="300m")
        await world.run(2)
        assert (await world.requests("web-a"))["cpu"] == "300m"
        await world.autoscaler("k", cpu="700m", targetRef={"apiVersion": "kafka.io/v1", "kind": "Kafka", "name": "k"})
        await world.run(2)
        assert (await world.requests("web-a"))["cpu"] == "700m"


@pytest.mark.parametrize("spec", [{"updatePolicy": {"updateMode": "Off"}}, {"recommenders": [{"name": "other"}]}])
async def test_what_is_not_ours_to_change_stays(spec: dict[str, Any]) -> None:
    async with World() as world:
        await world.node()
        await world.pod("web-a", await world.deployment())
        await world.autoscaler(cpu="1", **spec)
        await world.run(3, seconds=60)
        assert world.connection.resizes == []
        assert world.decided() in ("ModeOff", "NotOurs")
