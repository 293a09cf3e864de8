"""The recommender on an embedded API server, which refuses what Kubernetes would."""

import asyncio
import json
import math
from typing import Any

import msgspec
import pytest

from elastipod.kube.connection import PatchType
from elastipod.kube.errors import NotFound
from elastipod.kube.resources import (
    AUTOSCALERS,
    CHECKPOINTS,
    DEPLOYMENTS,
    LIMIT_RANGES,
    POD_METRICS,
    PODS,
    REPLICA_SETS,
)
from elastipod.localcluster.api.kinds import kind_of
from elastipod.loop import Part
from elastipod.quantities import parse_cpu, parse_memory
from recommender.service import Recommender
from recommender.sources.metrics_api import MetricsApiSource
from tests import build
from tests.recommender.world import MI, Json, World, killed_status

GI = 1024 * MI


async def started(**settings: Any) -> World:
    """A world with one running pod of Deployment web and an autoscaler for it."""
    world = World(**settings)
    await world.node(cpu="8", memory="32Gi")
    uid = await world.deployment()
    await world.pod("web-a", uid, cpu="500m", memory="512Mi", memory_limit="512Mi")
    await world.autoscaler()
    return world


async def memory(world: World) -> int:
    return parse_memory(str((await world.target())["memory"]))


async def kill(world: World, container_id: str = "containerd://aaa") -> None:
    pod = json.loads(await world.connection.get(PODS, "default", "web-a"))
    await world.set_status("web-a", killed_status(pod, container_id=container_id))
    await world.settle()


async def test_a_running_workload_gets_a_target_from_its_use() -> None:
    async with await started() as world:
        for _ in range(5):
            await world.run(cpu=0.2, memory=200 * MI)
        assert 230 <= parse_cpu(str((await world.target())["cpu"])) <= 242
        assert 230 * MI <= await memory(world) <= 242 * MI
        conditions = await world.conditions()
        assert conditions == {"RecommendationProvided": "True", "LowConfidence": "LowConfidence"}


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
        before = await memory(world)
        await world.restart()
        await world.run(cpu=0.1, memory=100 * MI)
        assert await memory(world) == before
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


async def test_a_kill_while_the_recommender_was_down_counts_r05() -> None:
    async with await started() as world:
        await world.run(cpu=0.1, memory=100 * MI)
        await world.restart()
        await kill(world)
        await world.run()
        assert await memory(world) >= 612 * MI


async def test_a_restart_changes_no_target_and_writes_nothing_r09() -> None:
    async with await started(checkpoint_interval_seconds=60.0) as world:
        for step in range(30):
            await world.run(cpu=0.2 + step % 3 * 0.1, memory=(300 + step) * MI)
        await world.recommender.save()
        before = await world.read()
        weight = (await world.checkpoint()).status
        for _ in range(3):
            await world.restart()
            world.connection.writes.clear()
            await world.run(cpu=0.4, memory=300 * MI)
            assert "patch verticalpodautoscalers" not in world.connection.writes
        after = await world.read()
        assert after.status == before.status
        saved = (await world.checkpoint()).status
        assert weight is not None
        assert saved is not None
        assert saved.cpu_histogram is not None
        assert weight.cpu_histogram is not None
        assert saved.cpu_histogram.total_weight >= weight.cpu_histogram.total_weight * 0.99


@pytest.mark.parametrize("memory", [200 * MI, 1 * MI], ids=["free", "raised to the floor"])
async def test_steady_use_writes_next_to_nothing(memory: int) -> None:
    async with await started() as world:
        for step in range(10):
            await world.run(cpu=0.2 + step % 2 * 0.001, memory=memory)
        world.connection.writes.clear()
        for step in range(100):
            await world.run(cpu=0.2 + step % 2 * 0.001, memory=memory)
        assert len(world.connection.writes) <= 7


async def test_a_policy_that_leaves_all_containers_out_is_named() -> None:
    async with World() as world:
        await world.node(cpu="8", memory="32Gi")
        await world.pod("web-a", await world.deployment(), cpu="500m", memory="512Mi")
        await world.autoscaler(resourcePolicy={"containerPolicies": [{"containerName": "*", "mode": "Off"}]})
        await world.run(cpu=0.2, memory=200 * MI)
        assert (await world.conditions())["RecommendationProvided"] == "False ModeOff"


async def test_unusable_history_keeps_the_last_good_value_and_says_so_r07() -> None:
    async with await started() as world:
        for _ in range(5):
            await world.run(cpu=0.2, memory=3 * GI)
        await world.recommender.save()
        before = await world.target()
        patch = [{"op": "replace", "path": "/status/memoryHistogram/bucketWeights", "value": {"5": 0}}]
        await world.connection.patch(
            CHECKPOINTS, "default", "vpa-app", json.dumps(patch).encode(), patch_type=PatchType.JSON
        )
        await world.restart()
        for _ in range(3):
            await world.run(cpu=0.01, memory=20 * MI)
        assert await world.target() == before
        assert (await world.conditions())["LowConfidence"] == "HistoryUnusable"


async def test_lost_metrics_lower_nothing_and_are_told() -> None:
    async with await started() as world:
        for _ in range(5):
            await world.run(cpu=0.2, memory=200 * MI)
        before = await world.target()
        world.usage.is_down = True
        for _ in range(6):
            await world.run()
        assert await world.target() == before
        assert (await world.conditions())["MetricsLost"] == "MetricsLost"
        world.usage.is_down = False
        await world.run(cpu=0.2, memory=200 * MI)
        await world.run(cpu=0.2, memory=200 * MI)
        assert "MetricsLost" not in await world.conditions()


async def test_a_renamed_container_leaves_the_status_r10() -> None:
    async with await started() as world:
        await world.run(cpu=0.02, memory=100 * MI)
        await world.connection.delete(PODS, "default", "web-a", body=b'{"gracePeriodSeconds": 0}')
        uid = json.loads(await world.connection.get(REPLICA_SETS, "default", "web-1"))["metadata"]["uid"]
        await world.pod("web-b", uid, name="renamed")
        await world.settle()
        world.clock.advance(60)
        world.usage.samples = [msgspec.structs.replace(world.usage.samples[0], pod="web-b", container="renamed")]
        await world.recommender.run_once()
        await world.settle()
        status = (await world.read()).status
        assert status is not None
        assert status.recommendation is not None
        names = [one.container_name for one in status.recommendation.container_recommendations or []]
        assert names == ["renamed"]


async def test_the_recommendation_stays_between_two_runs_r10() -> None:
    async with await started() as world:
        await world.run(cpu=0.2, memory=200 * MI)
        before = await world.target()
        await world.connection.delete(PODS, "default", "web-a", body=b'{"gracePeriodSeconds": 0}')
        for _ in range(3):
            await world.run()
        assert await world.target() == before
        assert (await world.conditions())["NoPodsMatched"] == "NoPodsMatched"


async def test_a_target_that_does_not_exist_is_told() -> None:
    async with World() as world:
        await world.autoscaler(target="nothing")
        await world.run()
        conditions = await world.conditions()
        assert conditions["TargetNotFound"] == "TargetNotFound"
        assert conditions["RecommendationProvided"] == "False TargetNotFound"


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


async def test_a_policy_is_followed_as_soon_as_it_changes() -> None:
    async with await started() as world:
        await world.run(cpu=0.2, memory=200 * MI)
        policies = [{"containerName": "app", "maxAllowed": {"memory": "100Mi"}}]
        body = json.dumps({"spec": {"resourcePolicy": {"containerPolicies": policies}}}).encode()
        world.recommender.wake.clear()
        await world.connection.patch(AUTOSCALERS, "default", "vpa", body, patch_type=PatchType.MERGE)
        await world.settle()
        assert world.recommender.wake.is_set()
        await world.recommender.run_once()
        assert (await world.target())["memory"] == "100Mi"


async def test_a_limit_range_and_the_largest_node_cap_the_target() -> None:
    async with await started() as world:
        body = {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "lr", "namespace": "default"},
            "spec": {"limits": [{"type": "Container", "max": {"memory": "600Mi"}}]},
        }
        await world.create(LIMIT_RANGES, body)
        await world.run(cpu=7.9, memory=2 * GI)
        assert await world.target() == {"cpu": "8", "memory": "600Mi"}
        caps = world.recommender.explain("default/web-a")
        assert caps is not None
        assert {one["reason"] for one in caps["containers"][0]["caps"]} == {"CappedByLimitRange", "CappedByNode"}


async def test_usage_above_the_largest_node_is_set_aside_f21() -> None:
    async with await started() as world:
        await world.run(cpu=200.0, memory=64 * GI)
        assert world.recommender.recommendations.counts.implausible == 2
        assert (await world.conditions())["RecommendationProvided"] == "False NoRecommendation"


async def test_usage_of_unknown_pods_and_containers_is_counted_and_left_out() -> None:
    async with await started() as world:
        await world.run(cpu=0.2, memory=200 * MI, pods=("web-a", "web-a", "stranger"))
        counts = world.recommender.recommendations.counts
        assert (counts.counted, counts.duplicate, counts.unclaimed) == (1, 1, 1)


async def test_checkpoints_of_a_deleted_autoscaler_go_and_others_stay() -> None:
    async with await started(checkpoint_gc_seconds=60.0) as world:
        await world.autoscaler("second")
        await world.run(cpu=0.2, memory=200 * MI)
        await world.recommender.save()
        await world.connection.delete(AUTOSCALERS, "default", "second")
        for _ in range(3):
            await world.run(cpu=0.2, memory=200 * MI)
        await world.checkpoint("vpa-app")
        with pytest.raises(NotFound):
            await world.checkpoint("second-app")


async def test_no_checkpoint_goes_while_no_autoscaler_is_left_f15() -> None:
    async with await started(checkpoint_gc_seconds=60.0) as world:
        await world.run(cpu=0.2, memory=200 * MI)
        await world.recommender.save()
        await world.connection.delete(AUTOSCALERS, "default", "vpa")
        for _ in range(4):
            await world.run(cpu=0.2, memory=200 * MI)
        await world.checkpoint("vpa-app")


async def test_history_follows_the_workload_to_its_next_pods() -> None:
    async with await started() as world:
        for _ in range(3):
            await world.run(cpu=0.2, memory=200 * MI)
        uid = json.loads(await world.connection.get(REPLICA_SETS, "default", "web-1"))["metadata"]["uid"]
        await world.connection.delete(PODS, "default", "web-a", body=b'{"gracePeriodSeconds": 0}')
        await world.pod("web-b", uid)
        await world.run(cpu=0.2, memory=200 * MI, pods=("web-b",))
        assert world.recommender.recommendations.history.samples[0] == 4


async def test_explain_tells_what_is_known_of_a_pod() -> None:
    async with await started() as world:
        await world.run(cpu=0.2, memory=200 * MI)
        facts = world.recommender.explain("default/web-a")
        assert facts is not None
        assert facts["workload"] == "default/Deployment/web"
        assert facts["containers"][0]["cpu_samples"] == 1
        assert msgspec.json.encode(facts)
        assert world.recommender.explain("default/nobody") is None


async def test_metrics_are_read_from_metrics_k8s_io() -> None:
    async with await started() as world:
        body = {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "PodMetrics",
            "metadata": {"name": "web-a", "namespace": "default"},
            "timestamp": "2026-11-29T12:00:00Z",
            "window": "30s",
            "containers": [{"name": "app", "usage": {"cpu": "200m", "memory": "200Mi"}}],
        }
        world.api.store.put(kind_of(POD_METRICS), body)
        reading = await MetricsApiSource(world.connection).read()
        assert [(one.pod, one.cpu_cores, one.memory_bytes) for one in reading.samples] == [("web-a", 0.2, 200 * MI)]


async def test_what_is_computed_in_a_thread_is_the_same() -> None:
    async with await started(in_thread=True) as world:
        await world.run(cpu=0.2, memory=200 * MI)
        for _ in range(3):
            await asyncio.sleep(0)
        assert 230 * MI <= await memory(world) <= 242 * MI


async def test_the_recommender_is_a_part() -> None:
    world = World()
    part: Part = world.recommender
    assert part.name == "recommender"
    assert isinstance(world.recommender, Recommender)
    assert part.interval_seconds == 60.0


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


async def test_a_status_that_can_not_be_written_is_written_later() -> None:
    async with await started() as world:
        world.connection.failing = {"verticalpodautoscalers", "verticalpodautoscalercheckpoints"}
        await world.run(cpu=0.1, memory=100 * MI)
        assert (await world.read()).status is None
        world.connection.failing = set()
        await world.run(cpu=0.1, memory=100 * MI)
        assert (await world.target())["cpu"]
        await world.checkpoint()


async def test_until_saved_history_can_be_read_nothing_is_recommended_and_nothing_overwritten_r09() -> None:
    async with await started() as world:
        for _ in range(20):
            await world.run(cpu=0.4, memory=300 * MI)
        await world.recommender.save()
        before = (await world.read()).status
        saved = await world.checkpoint()
        await world.restart()
        world.connection.unlistable = {"verticalpodautoscalercheckpoints"}
        for _ in range(3):
            await world.run(cpu=0.01, memory=10 * MI)
        after = (await world.read()).status
        assert before is not None
        assert after is not None
        assert after.recommendation == before.recommendation
        assert (await world.conditions())["FetchingHistory"]
        assert (await world.checkpoint()).status == saved.status
        world.connection.unlistable = set()
        await world.settle()
        assert world.recommender.wake.is_set()
        await world.run(cpu=0.4, memory=300 * MI)
        assert "FetchingHistory" not in await world.conditions()
        assert world.recommender.recommendations.history.samples[0] == 21


async def backed_up(world: World) -> Json:
    """The checkpoint after 20 intervals of 0.4 cores, as a backup has it. It is gone then."""
    for _ in range(20):
        await world.run(cpu=0.4, memory=300 * MI)
    await world.recommender.save()
    found: Json = json.loads(await world.connection.get(CHECKPOINTS, "default", "vpa-app"))
    await world.connection.delete(CHECKPOINTS, "default", "vpa-app")
    for name in ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields"):
        found["metadata"].pop(name, None)
    return found


async def restored_late(world: World, **changed: Any) -> None:
    """A backup that is put back when the next recommender has heard of an interval already."""
    backup = await backed_up(world)
    await world.restart()
    await world.run(cpu=0.01, memory=10 * MI)
    await world.create(CHECKPOINTS, backup | changed)


async def saved_samples(world: World) -> int:
    status = (await world.checkpoint()).status
    assert status is not None
    return status.total_samples_count


@pytest.mark.parametrize("unserved", [set(), {CHECKPOINTS.plural}], ids=["late", "with its kind"])
async def test_a_checkpoint_that_is_restored_late_is_read_before_it_is_written_over_f15(unserved: set[str]) -> None:
    async with await started() as world:
        backup = await backed_up(world)
        world.connection.unserved = unserved
        await world.restart()
        for _ in range(2):
            await world.run(cpu=0.01, memory=10 * MI)
        world.connection.unserved = set()
        await world.create(CHECKPOINTS, backup)
        await world.recommender.save()
        assert await saved_samples(world) == 22
        await world.run(cpu=0.01, memory=10 * MI)
        assert parse_cpu(str((await world.target())["cpu"])) > 400
        await world.recommender.save()
        assert await saved_samples(world) == 23


async def test_a_kind_that_goes_and_is_back_from_a_backup_costs_no_history_f15() -> None:
    async with await started() as world:
        backup = await backed_up(world)
        world.connection.unserved = {CHECKPOINTS.plural}
        await world.run(cpu=0.4, memory=300 * MI)
        await world.recommender.save()
        world.connection.unserved = set()
        await world.create(CHECKPOINTS, backup)
        await world.recommender.save()
        assert await saved_samples(world) == 21


async def test_a_backup_that_is_put_over_what_goes_beyond_it_takes_nothing_away_f15() -> None:
    async with await started() as world:
        backup = await backed_up(world)
        for _ in range(2):
            await world.run(cpu=0.4, memory=300 * MI)
        await world.recommender.save()
        body = json.dumps({"metadata": backup["metadata"], "status": backup["status"]}).encode()
        await world.connection.patch(CHECKPOINTS, "default", "vpa-app", body, patch_type=PatchType.MERGE)
        assert await saved_samples(world) == 20
        await world.recommender.save()
        assert await saved_samples(world) == 22


async def test_a_late_checkpoint_that_can_not_be_read_is_not_written_over_f15() -> None:
    async with await started() as world:
        await restored_late(world)
        world.connection.unlistable = {CHECKPOINTS.plural}
        await world.recommender.save()
        assert await saved_samples(world) == 20
        world.connection.unlistable = set()
        await world.recommender.save()
        assert await saved_samples(world) == 21


async def test_a_restored_checkpoint_is_read_though_a_list_for_another_has_shown_it_f15() -> None:
    async with await started() as world:
        await restored_late(world)
        await world.autoscaler("second")
        await world.run(cpu=0.01, memory=10 * MI)
        await world.recommender.save()
        assert await saved_samples(world) == 22


async def test_a_checkpoint_that_is_late_and_of_no_use_is_written_over_f40() -> None:
    async with await started() as world:
        await restored_late(world, spec={"vpaObjectName": "other", "containerName": "app"})
        await world.recommender.save()
        assert await saved_samples(world) == 1


async def test_a_checkpoint_that_has_lost_its_annotations_is_written_f40() -> None:
    async with await started() as world:
        backup = await backed_up(world)
        await world.recommender.save()
        body = json.dumps({"metadata": {"annotations": None}, "status": backup["status"]}).encode()
        await world.connection.patch(CHECKPOINTS, "default", "vpa-app", body, patch_type=PatchType.MERGE)
        await world.run(cpu=0.4, memory=300 * MI)
        await world.recommender.save()
        assert await saved_samples(world) == 21
        assert (await world.checkpoint()).metadata.annotations
