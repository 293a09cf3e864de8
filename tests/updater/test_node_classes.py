"""A pod is sized by the class of the node it runs on, where its autoscaler's status says so."""

import json

from elastipod.api import (
    Autoscaler,
    AutoscalerSpec,
    AutoscalerStatus,
    ContainerPolicy,
    ContainerRecommendation,
    ObjectMeta,
    Recommendation,
    ResourcePolicy,
)
from elastipod.kube.connection import PatchType
from elastipod.kube.resources import DEPLOYMENTS
from elastipod.optout import EXCLUDED_ANNOTATION
from elastipod.pods import Node
from elastipod.quantities import Resources
from tests.updater.world import World
from updater.sizes import advice_of


async def agents(world: World) -> None:
    """A pod on a node of each of three sizes."""
    owner = await world.deployment()
    for name, cpu in (("small", "2"), ("large", "96"), ("other", "8")):
        await world.node(name, cpu=cpu)
        await world.pod(f"web-{name}", owner, node=name)
    await world.autoscaler(cpu="500m")


async def test_a_pod_gets_its_class_and_one_on_a_node_of_another_class_what_holds_for_all_r75() -> None:
    async with World() as world:
        await agents(world)
        await world.recommend(cpu="500m", on_classes={"app.2-cpus": "130m", "app.96-cpus": "1300m"})
        await world.run(2)
        found = {name: (await world.requests(f"web-{name}"))["cpu"] for name in ("small", "large", "other")}
        assert found == {"small": "130m", "large": "1300m", "other": "500m"}
        assert world.explained("web-small")["nodeClass"] == "2 CPUs"
        assert "nodeClass" not in world.explained("web-other")


async def test_a_container_that_is_excluded_is_so_on_each_class() -> None:
    async with World() as world:
        await agents(world)
        await world.recommend(cpu="500m", on_classes={"app.2-cpus": "130m"})
        body = json.dumps({"metadata": {"annotations": {EXCLUDED_ANNOTATION: "app"}}}).encode()
        await world.connection.patch(DEPLOYMENTS, "default", "web", body, patch_type=PatchType.MERGE)
        await world.run(2)
        assert world.connection.resizes == []


async def test_a_pod_whose_node_is_heard_of_later_gets_its_class_then() -> None:
    async with World() as world:
        owner = await world.deployment()
        await world.node("n1")
        await world.pod("web-a", owner, node="late")
        await world.autoscaler(cpu="500m")
        await world.recommend(cpu="500m", on_classes={"app.2-cpus": "130m"})
        await world.run()
        await world.node("late", cpu="2")
        await world.run(2)
        assert (await world.requests("web-a"))["cpu"] == "130m"


def test_a_class_follows_the_policy_of_its_container_and_what_makes_no_sense_is_named_and_left() -> None:
    def advised(name: str, cpu: str) -> ContainerRecommendation:
        return ContainerRecommendation(name, target={"cpu": cpu})

    names = [advised("app", "500m"), advised("app.2-cpus", "130m"), advised("app.4-cpus", "much"), advised("app.", "1")]
    names += [advised("off", "1"), advised("off.2-cpus", "1"), advised(".2-cpus", "7"), advised("more.2-cpus", "2")]
    policies = [ContainerPolicy("off", mode="Off"), ContainerPolicy("app", max_allowed={"cpu": "1"})]
    advice = advice_of(
        Autoscaler(
            metadata=ObjectMeta(name="web"),
            spec=AutoscalerSpec(resource_policy=ResourcePolicy(policies)),
            status=AutoscalerStatus(recommendation=Recommendation(names)),
        )
    )
    here = advice.on_node(Node("n", capacity=Resources(2000)))
    assert here.containers.keys() == {"app", "more", "app.", ".2-cpus"}
    assert here.containers["app"].target.cpu == 130
    assert here.containers["app"].max_allowed.cpu == 1000
    assert advice.on_node(Node("n", capacity=Resources(4000))) is advice.on_node(None) is advice
    assert advice.containers["app"].target.cpu == 500
    assert [one for one in advice.problems if "app.4-cpus" in one]
