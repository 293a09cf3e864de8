"""What is saved is read before it is written over, whenever it comes back, and goes with its autoscaler."""

import json
from typing import Any

import pytest

from elastipod.kube.connection import PatchType
from elastipod.kube.errors import NotFound
from elastipod.kube.resources import AUTOSCALERS, CHECKPOINTS
from elastipod.quantities import parse_cpu
from recommender.checkpoints import second_name
from recommender.samples import UsageSample
from recommender.store import CheckpointStore
from tests.recommender.world import GI, MI, Json, World, started


def of_another_version(name: str, autoscaler: str, container: str) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"vpaObjectName": autoscaler, "containerName": container},
        "status": {"version": "v2"},
    }


async def test_unusable_history_is_told_until_enough_is_learned_also_where_no_value_was_recommended_before() -> None:
    async with await started(enough_confidence=0.005) as world:
        await world.create(CHECKPOINTS, of_another_version("vpa-app", "vpa", "app"))
        await world.run(cpu=0.2, memory=GI)
        assert (await world.conditions())["LowConfidence"] == "HistoryUnusable"
        for _ in range(20):
            await world.run(cpu=0.2, memory=GI)
        status = (await world.read()).status
        assert status is not None
        assert [(one.type, one.message) for one in status.conditions or []] == [("RecommendationProvided", "")]


async def test_a_checkpoint_that_another_autoscalers_name_begins_with_is_not_told_to_this_one() -> None:
    """By its name it might be of `vpa` and a container `x-app`; there is none."""
    async with await started() as world:
        await world.create(CHECKPOINTS, of_another_version("vpa-x-app", "vpa", "other"))
        await world.run(cpu=0.2, memory=GI)
        assert (await world.conditions())["LowConfidence"] == "LowConfidence"


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


@pytest.mark.parametrize("restarts", [2, 4])
async def test_the_last_good_value_stays_over_all_restarts_until_history_is_enough_again_r07(restarts: int) -> None:
    async with await started() as world:
        for _ in range(5):
            await world.run(cpu=0.2, memory=3 * GI)
        await world.recommender.save()
        before = await world.target()
        await world.connection.delete(CHECKPOINTS, "default", "vpa-app")
        for _ in range(restarts):
            await world.restart()
            for _ in range(3):
                await world.run(cpu=0.01, memory=20 * MI)
            await world.recommender.save()
            assert await world.target() == before
        for _ in range(200):
            await world.run(cpu=0.01, memory=20 * MI)
        learned = await world.target()
        assert learned != before
        await world.recommender.save()
        await world.restart()
        await world.run(cpu=0.01, memory=20 * MI)
        assert await world.target() == learned


async def test_a_value_that_was_learned_from_little_moves_on_after_a_restart() -> None:
    async with await started() as world:
        for _ in range(3):
            await world.run(cpu=0.01, memory=20 * MI)
        await world.recommender.save()
        before = await world.target()
        await world.restart()
        for _ in range(9):
            await world.run(cpu=2.0, memory=3 * GI)
        assert parse_cpu(str((await world.target())["cpu"])) > 10 * parse_cpu(str(before["cpu"]))


async def test_a_recommender_whose_clock_is_behind_writes_over_no_history() -> None:
    async with await started() as world:
        for _ in range(20):
            await world.run(cpu=0.4, memory=3 * GI)
        await world.recommender.save()
        before, saved = await world.target(), (await world.checkpoint()).status
        world.clock.at -= 4 * 86_400.0
        await world.restart()
        for _ in range(5):
            await world.run(cpu=0.01, memory=20 * MI)
        await world.recommender.save()
        assert await world.target() == before
        assert (await world.checkpoint()).status == saved
        status = (await world.read()).status
        assert status is not None
        told = {one.type: one.message for one in status.conditions or ()}
        assert "our clock may be wrong" in told["LowConfidence"]
        world.clock.at += 4 * 86_400.0
        await world.restart()
        await world.run(cpu=0.4, memory=3 * GI)
        assert await world.target() == before
        assert world.recommender.recommendations.history.samples[0] == 21


async def test_a_history_that_lies_ahead_is_saved_anew_once_it_was_deleted() -> None:
    async with await started() as world:
        for _ in range(5):
            await world.run(cpu=0.4, memory=300 * MI)
        await world.recommender.save()
        world.clock.at -= 4 * 86_400.0
        await world.restart()
        await world.run(cpu=0.4, memory=300 * MI)
        await world.connection.delete(CHECKPOINTS, "default", "vpa-app")
        await world.recommender.save()
        assert await saved_samples(world) == 1


async def two_of_a_name(world: World) -> None:
    """Autoscalers web and web-api, whose containers' checkpoints would have the same name."""
    for name, container in (("web", "api-cache"), ("web-api", "cache")):
        uid = await world.deployment(name)
        await world.pod(f"{name}-a", uid, workload=name, name=container)
        await world.autoscaler(name, name)


async def heard(world: World) -> dict[str, int]:
    """How many samples are known, by container, after another of each."""
    await world.settle()
    world.clock.advance(60)
    at = world.clock.now()
    world.usage.samples = [
        UsageSample("default", "web-a", "api-cache", at, 0.4, 400 * MI),
        UsageSample("default", "web-api-a", "cache", at, 0.1, 100 * MI),
    ]
    await world.recommender.run_once()
    await world.settle()
    history = world.recommender.recommendations.history
    return {key.container: int(history.samples[row]) for key, row in history.rows()}


async def test_two_autoscalers_whose_checkpoints_would_have_one_name_keep_a_history_each() -> None:
    async with World() as world:
        await two_of_a_name(world)
        for _ in range(3):
            await heard(world)
        await world.recommender.save()
        for _ in range(2):
            await world.restart()
            found = await heard(world)
            await world.recommender.save()
        assert found == {"api-cache": 5, "cache": 5}
        spec = (await world.checkpoint("web-api-cache")).spec
        other = second_name("web", "api-cache") if spec.container_name == "cache" else second_name("web-api", "cache")
        assert (await world.checkpoint(other)).spec.container_name != spec.container_name


async def test_another_recommenders_checkpoint_of_the_same_name_is_not_written_over() -> None:
    async with World() as world:
        await two_of_a_name(world)
        await world.change("web-api", spec={"recommenders": None})
        body = {
            "apiVersion": CHECKPOINTS.api_version,
            "kind": CHECKPOINTS.kind,
            "metadata": {"name": "web-api-cache", "namespace": "default"},
            "spec": {"vpaObjectName": "web-api", "containerName": "cache"},
        }
        theirs = await world.create(CHECKPOINTS, body)
        await heard(world)
        await world.recommender.save()
        assert json.loads(await world.connection.get(CHECKPOINTS, "default", "web-api-cache")) == theirs
        assert (await world.checkpoint(second_name("web", "api-cache"))).spec.container_name == "api-cache"


async def test_what_is_forgotten_takes_no_checkpoint_of_another_with_it() -> None:
    async with World() as world:
        await two_of_a_name(world)
        await heard(world)
        await world.recommender.save()
        store = CheckpointStore(world.connection, world.settings)
        gone = [("default", "web", "api-cache"), ("default", "web-api", "cache")]
        for of in gone:
            assert await store.collect([of]) == 1
        assert json.loads(await world.connection.list(CHECKPOINTS))["items"] == []


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
