"""The recommender on an embedded API server, which refuses what Kubernetes would."""

import asyncio
import json

import msgspec
import pytest

from elastipod.kube.connection import PatchType
from elastipod.kube.resources import AUTOSCALERS, LIMIT_RANGES, POD_METRICS, PODS, REPLICA_SETS
from elastipod.localcluster.api.kinds import kind_of
from elastipod.loop import Part
from elastipod.quantities import parse_cpu
from recommender.service import Recommender
from recommender.sources.metrics_api import MetricsApiSource
from tests.recommender.world import GI, MI, World, started


async def test_a_running_workload_gets_a_target_from_its_use() -> None:
    async with await started() as world:
        for _ in range(5):
            await world.run(cpu=0.2, memory=200 * MI)
        assert 230 <= parse_cpu(str((await world.target())["cpu"])) <= 242
        assert 230 * MI <= await world.memory() <= 242 * MI
        conditions = await world.conditions()
        assert conditions == {"RecommendationProvided": "True", "LowConfidence": "LowConfidence"}


async def test_an_owner_that_came_and_went_between_two_runs_led_to_its_pods_workload() -> None:
    async with World() as world:
        await world.autoscaler()
        await world.run()
        await world.pod("web-a", await world.deployment())
        await world.settle()
        await world.connection.delete(REPLICA_SETS, "default", "web-1")
        for _ in range(3):
            await world.run(cpu=0.2, memory=200 * MI)
        assert await world.memory() >= 200 * MI


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
        assert world.recommender.recommendations.learning.counts.implausible == 2
        assert (await world.conditions())["RecommendationProvided"] == "False NoRecommendation"


async def test_usage_of_unknown_pods_and_containers_is_counted_and_left_out() -> None:
    async with await started() as world:
        await world.run(cpu=0.2, memory=200 * MI, pods=("web-a", "web-a", "stranger"))
        counts = world.recommender.recommendations.learning.counts
        assert (counts.counted, counts.duplicate, counts.unclaimed) == (1, 1, 1)


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
        assert 230 * MI <= await world.memory() <= 242 * MI


async def test_the_recommender_is_a_part() -> None:
    world = World()
    part: Part = world.recommender
    assert part.name == "recommender"
    assert isinstance(world.recommender, Recommender)
    assert part.interval_seconds == 60.0


async def test_a_status_that_can_not_be_written_is_written_later() -> None:
    async with await started() as world:
        world.connection.failing = {"verticalpodautoscalers", "verticalpodautoscalercheckpoints"}
        await world.run(cpu=0.1, memory=100 * MI)
        assert (await world.read()).status is None
        world.connection.failing = set()
        await world.run(cpu=0.1, memory=100 * MI)
        assert (await world.target())["cpu"]
        await world.checkpoint()
