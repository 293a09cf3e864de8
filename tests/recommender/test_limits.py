"""What a cluster allows, as it shows in statuses: quotas, horizontal autoscalers, contradictions."""

import json
from typing import Any

import pytest

from elastipod.kube.connection import PatchType
from elastipod.kube.decoding import BadObject
from elastipod.kube.resources import (
    DEPLOYMENTS,
    ELASTIC_POLICIES,
    HORIZONTAL_POD_AUTOSCALERS,
    LIMIT_RANGES,
    RESOURCE_QUOTAS,
)
from elastipod.quantities import parse_memory
from recommender.capping import Hold
from recommender.ranges import Resource
from recommender.scaling import decode_scaler, holds
from tests import build
from tests.recommender.world import MI, Json, World

GI = 1024 * MI
SCALER = "HorizontalPodAutoscaler web"


async def started(**spec: Any) -> World:
    """A world with one running pod of 512Mi and an autoscaler for its Deployment."""
    world = World()
    await world.node(cpu="8", memory="32Gi")
    await world.pod("web-a", await world.deployment(), cpu="500m", memory="512Mi")
    await world.autoscaler(**spec)
    return world


def scaler(*metrics: Json, target: str = "web") -> Json:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "minReplicas": 1,
            "maxReplicas": 5,
            "metrics": list(metrics),
        },
    }


def utilization(resource: str, percent: int = 70) -> Json:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": resource, "target": target}}


def absolute(resource: str, amount: str) -> Json:
    return {
        "type": "Resource",
        "resource": {"name": resource, "target": {"type": "AverageValue", "averageValue": amount}},
    }


def of_container(resource: str, container: str) -> Json:
    target = {"type": "Utilization", "averageUtilization": 60}
    metric = {"name": resource, "container": container, "target": target}
    return {"type": "ContainerResource", "containerResource": metric}


async def message(world: World) -> str:
    status = (await world.read()).status
    assert status is not None
    return next(one.message for one in status.conditions or [] if one.type == "RecommendationProvided")


def test_what_a_horizontal_autoscaler_scales_is_of_the_group_it_names() -> None:
    one = scaler(utilization("cpu"))
    one["spec"]["scaleTargetRef"] = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "db"}
    assert str(decode_scaler(json.dumps(one).encode()).target) == "default/StatefulSet.apps.kruise.io/db"


async def test_a_resource_that_a_horizontal_autoscaler_scales_on_is_held_and_told() -> None:
    async with await started() as world:
        await world.create(HORIZONTAL_POD_AUTOSCALERS, scaler(utilization("cpu")))
        await world.run(cpu=0.2, memory=200 * MI)
        assert set(await world.target()) == {"memory"}
        assert f"app: cpu ScaledHorizontally ({SCALER})" in await message(world)
        facts = world.recommender.explain("default/web-a")
        assert facts is not None
        [told] = facts["containers"][0]["caps"]
        assert (told["reason"], told["by"]) == ("ScaledHorizontally", SCALER)


async def test_a_hold_ends_with_its_horizontal_autoscaler() -> None:
    async with await started() as world:
        await world.create(HORIZONTAL_POD_AUTOSCALERS, scaler(utilization("cpu")))
        await world.run(cpu=0.2, memory=200 * MI)
        await world.connection.delete(HORIZONTAL_POD_AUTOSCALERS, "default", "web")
        await world.run(cpu=0.2, memory=200 * MI)
        assert set(await world.target()) == {"cpu", "memory"}


async def test_a_hold_begins_with_its_horizontal_autoscaler() -> None:
    async with await started() as world:
        await world.run(cpu=0.2, memory=200 * MI)
        await world.create(HORIZONTAL_POD_AUTOSCALERS, scaler(utilization("cpu"), utilization("memory")))
        await world.run(cpu=0.2, memory=200 * MI)
        status = (await world.read()).status
        assert status is not None
        assert status.recommendation is None
        assert (await world.conditions())["RecommendationProvided"] == "False ScaledHorizontally"


AT_MOST: Json = {"type": "Value", "value": "30"}
EXTERNAL: Json = {"type": "External", "external": {"metric": {"name": "queue"}, "target": AT_MOST}}
OF_PODS: Json = {
    "type": "Pods",
    "pods": {"metric": {"name": "cpu"}, "target": {"type": "AverageValue", "averageValue": "1"}},
}
OF_OBJECT: Json = {
    "type": "Object",
    "object": {
        "metric": {"name": "memory"},
        "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "web"},
        "target": AT_MOST,
    },
}


@pytest.mark.parametrize(
    ("metrics", "held"),
    [
        ([utilization("cpu")], {"cpu"}),
        ([utilization("memory")], {"memory"}),
        ([absolute("cpu", "500m")], set()),
        ([absolute("memory", "1Gi"), absolute("cpu", "500m")], set()),
        ([of_container("cpu", "app")], {"cpu"}),
        ([of_container("cpu", "sidecar")], set()),
        ([of_container("cpu", "sidecar"), utilization("memory")], {"memory"}),
        ([of_container("cpu", "sidecar"), of_container("cpu", "app")], {"cpu"}),
        ([EXTERNAL], set()),
        ([OF_PODS], set()),
        ([OF_OBJECT], set()),
        # As KEDA writes it for a queue and a cpu trigger.
        ([EXTERNAL, utilization("cpu", 80)], {"cpu"}),
        ([absolute("cpu", "500m"), utilization("memory")], {"memory"}),
        # The API server makes it utilization of CPU.
        ([], {"cpu"}),
    ],
    ids=lambda given: (
        ",".join(
            f"{one['type']}:{next(iter(one.get(one['type'][0].lower() + one['type'][1:], {}).values()), '')}"
            for one in given
        )
        if isinstance(given, list)
        else "+".join(sorted(given)) or "nothing"
    ),
)
async def test_only_a_utilization_of_this_container_or_of_all_of_them_holds_a_request(
    metrics: list[Json], held: set[str]
) -> None:
    async with await started() as world:
        await world.create(HORIZONTAL_POD_AUTOSCALERS, scaler(*metrics))
        await world.run(cpu=0.2, memory=200 * MI)
        assert set(await world.target()) == {"cpu", "memory"} - held
        facts = world.recommender.explain("default/web-a")
        assert facts is not None
        told = {one["resource"]: (one["reason"], one["by"]) for one in facts["containers"][0]["caps"]}
        assert told == dict.fromkeys(held, ("ScaledHorizontally", SCALER))
        for resource in ("cpu", "memory"):
            assert (f"app: {resource} ScaledHorizontally ({SCALER})" in await message(world)) == (resource in held)
            labels = {"resource": resource, "reason": "ScaledHorizontally"}
            found = world.metrics.registry.get_sample_value("elastipod_recommender_caps", labels)
            assert (found or 0) == (resource in held)


async def test_a_horizontal_autoscaler_of_another_workload_holds_nothing() -> None:
    async with await started() as world:
        await world.create(HORIZONTAL_POD_AUTOSCALERS, scaler(utilization("cpu"), target="other"))
        await world.run(cpu=0.2, memory=200 * MI)
        assert set(await world.target()) == {"cpu", "memory"}


@pytest.mark.parametrize(("sized", "scaled"), [("Deployment", "Kafka"), ("Kafka", "Deployment"), ("Kafka", "Kafka")])
async def test_what_scales_a_custom_owner_or_what_it_owns_holds_for_whichever_is_sized(sized: str, scaled: str) -> None:
    async with World() as world:
        await world.node(cpu="8", memory="32Gi")
        uid = await world.deployment()
        owner = {"metadata": {"ownerReferences": [build.owner_json("Kafka", "web", "k", "kafka.example/v1")]}}
        body = json.dumps(owner).encode()
        await world.connection.patch(DEPLOYMENTS, "default", "web", body, patch_type=PatchType.MERGE)
        await world.pod("web-a", uid, cpu="500m", memory="512Mi")
        await world.autoscaler(targetRef={"apiVersion": "any/v1", "kind": sized, "name": "web"})
        await world.run(cpu=0.2, memory=200 * MI)
        assert set(await world.target()) == {"cpu", "memory"}
        other = scaler(utilization("cpu"))
        other["spec"]["scaleTargetRef"] = {"apiVersion": "any/v1", "kind": scaled, "name": "web"}
        await world.create(HORIZONTAL_POD_AUTOSCALERS, other)
        await world.run(cpu=0.2, memory=200 * MI)
        assert set(await world.target()) == {"memory"}
        await world.connection.delete(HORIZONTAL_POD_AUTOSCALERS, "default", "web")
        await world.run(cpu=0.2, memory=200 * MI)
        assert set(await world.target()) == {"cpu", "memory"}


async def test_of_two_horizontal_autoscalers_the_hold_lasts_as_long_as_one_of_them_asks_for_it() -> None:
    async with await started() as world:
        await world.create(HORIZONTAL_POD_AUTOSCALERS, scaler(utilization("cpu")))
        second = scaler(utilization("cpu"))
        second["metadata"]["name"] = "keda-hpa-web"
        await world.create(HORIZONTAL_POD_AUTOSCALERS, second)
        await world.run(cpu=0.2, memory=200 * MI)
        await world.connection.delete(HORIZONTAL_POD_AUTOSCALERS, "default", "web")
        await world.run(cpu=0.2, memory=200 * MI)
        assert set(await world.target()) == {"memory"}
        assert "app: cpu ScaledHorizontally (HorizontalPodAutoscaler keda-hpa-web)" in await message(world)
        body = json.dumps({"spec": {"metrics": [absolute("cpu", "500m")]}}).encode()
        await world.connection.patch(
            HORIZONTAL_POD_AUTOSCALERS, "default", "keda-hpa-web", body, patch_type=PatchType.MERGE
        )
        await world.run(cpu=0.2, memory=200 * MI)
        assert set(await world.target()) == {"cpu", "memory"}


def test_a_horizontal_autoscaler_may_speak_of_one_container() -> None:
    found = decode_scaler(json.dumps(scaler(of_container("cpu", "app"), utilization("memory"))).encode())
    assert holds([found]) == (Hold(Resource.CPU, SCALER, "app"), Hold(Resource.MEMORY, SCALER))


@pytest.mark.parametrize("metrics", [None, [], [{"type": "Pods", "pods": {}}], [utilization("nvidia.com/gpu")]])
def test_other_metrics_hold_nothing(metrics: Any) -> None:
    body = scaler()
    body["spec"]["metrics"] = metrics
    assert holds([decode_scaler(json.dumps(body).encode())]) == ()


def test_a_horizontal_autoscaler_that_can_not_be_read_is_a_bad_object() -> None:
    with pytest.raises(BadObject):
        decode_scaler(b'{"metadata": {"name": "web"}, "spec": {"metrics": "all"}}')


async def test_a_quota_caps_the_target_and_lifts_it_again() -> None:
    async with await started() as world:
        body = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q", "namespace": "default"},
            "spec": {"hard": {"requests.memory": "600Mi"}},
        }
        await world.create(RESOURCE_QUOTAS, body)
        used = json.dumps({"status": {"hard": {"requests.memory": "600Mi"}, "used": {"requests.memory": "512Mi"}}})
        await world.connection.patch(
            RESOURCE_QUOTAS, "default", "q", used.encode(), patch_type=PatchType.MERGE, subresource="status"
        )
        await world.run(cpu=0.2, memory=2 * GI)
        assert (await world.target())["memory"] == "600Mi"
        assert "app: memory CappedByQuota (ResourceQuota q)" in await message(world)
        await world.connection.delete(RESOURCE_QUOTAS, "default", "q")
        await world.run(cpu=0.2, memory=2 * GI)
        assert parse_memory(str((await world.target())["memory"])) > 2 * GI


async def test_limit_ranges_that_contradict_each_other_are_named_and_nothing_is_recommended() -> None:
    async with await started() as world:
        for name, limits in (("low", {"max": {"memory": "1Gi"}}), ("high", {"min": {"memory": "2Gi"}})):
            body = {
                "apiVersion": "v1",
                "kind": "LimitRange",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"limits": [{"type": "Container", **limits}]},
            }
            await world.create(LIMIT_RANGES, body)
        await world.run(memory=200 * MI)
        assert (await world.conditions())["RecommendationProvided"] == "False Contradiction"
        assert "LimitRange high, low" in await message(world)


async def test_a_process_that_is_told_its_limit_at_its_start_is_not_shrunk_while_it_runs_r15() -> None:
    async with World() as world:
        await world.node(cpu="8", memory="32Gi")
        env = [{"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}}]
        uid = await world.deployment()
        await world.pod("web-a", uid, memory="512Mi", memory_limit="512Mi", env=env)
        await world.autoscaler(updatePolicy={"updateMode": "InPlace"})
        await world.run(memory=200 * MI)
        assert (await world.target())["memory"] == "512Mi"
        assert "app: memory KeptForRuntime (env LIMIT)" in await message(world)


@pytest.mark.parametrize(
    ("statements", "recommended"),
    [
        ({"all": {"horizontalScaling": "Ignore"}}, {"cpu", "memory"}),
        ({"all": {"horizontalScaling": "Hold"}}, {"memory"}),
        (
            {
                "all": {"horizontalScaling": "Hold"},
                "near": {"horizontalScaling": "Ignore", "selector": {"kind": "Deployment", "name": "web"}},
            },
            {"cpu", "memory"},
        ),
        ({"other": {"horizontalScaling": "Ignore", "selector": {"name": "other"}}}, {"memory"}),
        ({"silent": {"donate": False}}, {"memory"}),
    ],
    ids=["ignore", "hold", "nearest", "other", "silent"],
)
async def test_a_policy_says_whether_a_resource_is_held_for_a_horizontal_autoscaler(
    statements: dict[str, Json], recommended: set[str]
) -> None:
    async with await started() as world:
        await world.create(HORIZONTAL_POD_AUTOSCALERS, scaler(utilization("cpu")))
        await world.run(cpu=0.2, memory=200 * MI)
        assert set(await world.target()) == {"memory"}
        for name, spec in statements.items():
            body = {"apiVersion": "elastipod.io/v1alpha1", "kind": "ElasticPolicy"}
            await world.create(
                ELASTIC_POLICIES, body | {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
            )
        await world.run(cpu=0.2, memory=200 * MI)
        assert set(await world.target()) == recommended
