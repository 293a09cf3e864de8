"""Which autoscalers are ours, what they point at, and who else points there."""

import json

import pytest

from elastipod.kube.connection import PatchType
from elastipod.kube.resources import AUTOSCALERS, DEPLOYMENTS
from elastipod.quantities import parse_cpu
from tests import build
from tests.recommender.world import GI, MI, Json, World, started


async def test_a_target_that_does_not_exist_is_told() -> None:
    async with World() as world:
        await world.autoscaler(target="nothing")
        await world.run()
        conditions = await world.conditions()
        assert conditions["TargetNotFound"] == "TargetNotFound"
        assert conditions["RecommendationProvided"] == "False TargetNotFound"


async def test_of_a_kind_that_is_not_watched_it_is_not_said_that_it_is_not_there() -> None:
    async with World() as world:
        await world.autoscaler(targetRef={"apiVersion": "v1", "kind": "ReplicationController", "name": "web"})
        await world.run()
        conditions = await world.conditions()
        assert "TargetNotFound" not in conditions
        assert conditions["NoPodsMatched"] == "NoPodsMatched"


async def test_cpu_is_whole_for_a_container_that_upstreams_annotation_names_and_caps_come_after() -> None:
    mark = "vpa-post-processor.kubernetes.io/app_integerCPU"
    async with await started() as world:
        await world.change(metadata={"annotations": {mark: "true"}})
        for _ in range(30):
            await world.run(cpu=1.3, memory=300 * MI)
        status = (await world.read()).status
        assert status is not None
        assert status.recommendation is not None
        [app] = status.recommendation.container_recommendations or []
        told = [
            one for one in (app.target, app.lower_bound, app.upper_bound, app.uncapped_target) if one and "cpu" in one
        ]
        assert [parse_cpu(str(one["cpu"])) % 1000 for one in told] == [0] * len(told)
        assert parse_cpu(str((app.target or {})["cpu"])) == 2000
        policy = {"containerName": "*", "maxAllowed": {"cpu": "1500m"}}
        await world.change(spec={"resourcePolicy": {"containerPolicies": [policy]}})
        await world.run(cpu=1.3, memory=300 * MI)
        assert (await world.target())["cpu"] == "1500m"
        await world.change(metadata={"annotations": {mark: None}}, spec={"resourcePolicy": None})
        await world.run(cpu=1.3, memory=300 * MI)
        assert parse_cpu(str((await world.target())["cpu"])) % 1000 != 0


async def test_a_target_that_is_controlled_by_another_is_told() -> None:
    async with await started() as world:
        ref = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1"}
        await world.autoscaler("other", targetRef=ref)
        await world.run(cpu=0.2, memory=MI)
        assert (await world.conditions("other"))["ConfigUnsupported"] == "BadValue"


async def test_a_target_below_a_custom_owner_is_sized_by_itself_and_says_so_r42() -> None:
    async with World() as world:
        await world.node(cpu="8", memory="32Gi")
        uid = await world.deployment()
        owner = build.owner_json("Kafka", "k", "c", "kafka.example/v1")
        body = json.dumps({"metadata": {"ownerReferences": [owner]}}).encode()
        await world.connection.patch(DEPLOYMENTS, "default", "web", body, patch_type=PatchType.MERGE)
        await world.pod("web-a", uid, cpu="500m", memory="512Mi")
        await world.autoscaler()
        await world.run(cpu=0.2, memory=200 * MI)
        assert parse_cpu(str((await world.target())["cpu"])) <= 242
        status = (await world.read()).status
        assert status is not None
        told = {one.type: one.message for one in status.conditions or []}
        assert "Deployment web is sized by itself" in told["RecommendationProvided"]
        assert "ConfigUnsupported" not in told


async def test_autoscalers_of_other_recommenders_are_left_alone() -> None:
    async with await started() as world:
        await world.autoscaler("theirs", recommenders=[])
        await world.run(cpu=0.2, memory=200 * MI)
        assert (await world.read("theirs")).status is None


async def test_the_name_default_means_autoscalers_that_name_none() -> None:
    async with await started(recommender_names=("default", "elastipod")) as world:
        await world.autoscaler("theirs", recommenders=[])
        await world.run(cpu=0.2, memory=200 * MI)
        assert (await world.read("theirs")).status is not None


async def test_an_autoscaler_turned_to_another_workload_starts_afresh() -> None:
    async with await started() as world:
        await world.run(cpu=2.0, memory=4 * GI)
        await world.recommender.save()
        uid = await world.deployment("other")
        await world.pod("other-a", uid, workload="other")
        ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}
        body = json.dumps({"spec": {"targetRef": ref}}).encode()
        await world.connection.patch(AUTOSCALERS, "default", "vpa", body, patch_type=PatchType.MERGE)
        await world.run(cpu=0.1, memory=100 * MI, pods=("other-a",))
        assert parse_cpu(str((await world.target())["cpu"])) < 130


async def test_two_autoscalers_on_one_workload_are_told_of_each_other_r44() -> None:
    async with await started() as world:
        await world.autoscaler("second")
        await world.run(cpu=0.1, memory=100 * MI)
        for name in ("vpa", "second"):
            assert (await world.conditions(name))["ConfigUnsupported"] == "Conflict"


async def test_one_that_only_recommends_quarrels_with_nobody_as_for_the_updater_r44() -> None:
    async with await started() as world:
        await world.autoscaler("second", updatePolicy={"updateMode": "Off"})
        for _ in range(2):
            await world.run(cpu=0.1, memory=100 * MI)
        for name in ("vpa", "second"):
            assert "ConfigUnsupported" not in await world.conditions(name)
        await world.change("second", spec={"updatePolicy": {"updateMode": "Initial"}})
        await world.run(cpu=0.1, memory=100 * MI)
        for name in ("vpa", "second"):
            assert (await world.conditions(name))["ConfigUnsupported"] == "Conflict"


@pytest.mark.parametrize("mode", ["Off", "Recreate"])
async def test_another_recommenders_autoscaler_is_a_rival_where_it_acts_r44(mode: str) -> None:
    async with await started() as world:
        theirs: Json = {"recommenders": [{"name": "default"}], "updatePolicy": {"updateMode": mode}}
        await world.autoscaler("theirs", **theirs)
        await world.run(cpu=0.1, memory=100 * MI)
        assert (await world.conditions()).get("ConfigUnsupported") == (None if mode == "Off" else "Conflict")
        await world.connection.delete(AUTOSCALERS, "default", "theirs")
        await world.run(cpu=0.1, memory=100 * MI)
        assert "ConfigUnsupported" not in await world.conditions()
