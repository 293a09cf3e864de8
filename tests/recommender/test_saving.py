"""When checkpoints are written: seldom at rest, and before a crash could cost what is recommended."""

import random
from datetime import UTC, datetime
from typing import Any

import pytest

from elastipod.clock import ManualClock
from elastipod.kube.resources import CHECKPOINTS, ELASTIC_POLICIES, JOBS, NAMESPACES, PODS, ResourceType
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.store import Store
from elastipod.pods import ContainerKey, Workload
from elastipod.quantities import parse_cpu, parse_memory
from recommender.checkpoints import to_checkpoint
from recommender.claims import Claim
from recommender.history import ContainerHistory
from recommender.settings import RecommenderSettings
from recommender.store import CheckpointStore
from tests import build
from tests.recommender.world import MI, World

WRITES = {f"create {CHECKPOINTS.plural}", f"patch {CHECKPOINTS.plural}"}


async def started() -> World:
    """A world with one container."""
    world = World()
    await world.node(cpu="8", memory="32Gi")
    uid = await world.deployment()
    await world.pod("web-a", uid, cpu="500m", memory="512Mi")
    await world.autoscaler()
    return world


async def rest(world: World, minutes: int, cpu: float = 0.2) -> int:
    """So many minutes of steady use; how many checkpoints were written meanwhile."""
    world.connection.writes.clear()
    for step in range(minutes):
        await world.run(cpu=cpu + step % 2 * 0.001, memory=200 * MI)
    return sum(write in WRITES for write in world.connection.writes)


async def cores(world: World) -> float:
    return parse_cpu(str((await world.target())["cpu"])) / 1000


async def test_what_a_status_recommends_for_the_first_time_is_saved_with_it() -> None:
    async with await started() as world:
        assert await rest(world, 1) == 1


async def test_at_rest_a_history_is_saved_once_an_interval() -> None:
    async with await started() as world:
        await rest(world, 200)
        assert await rest(world, 450) == 5


async def test_after_a_crash_no_checkpoint_that_was_read_is_written_before_its_time() -> None:
    async with await started() as world:
        await rest(world, 200)
        await world.recommender.save()
        writes = 0
        for _ in range(5):
            await world.restart()
            writes += await rest(world, 3)
        assert writes <= 1


async def test_lives_shorter_than_an_interval_leave_something_behind() -> None:
    async with await started() as world:
        for _ in range(8):
            await rest(world, 45)
            await world.restart()
        await rest(world, 1)
        assert world.recommender.recommendations.history.samples[0] > 45


async def test_a_history_that_nothing_is_added_to_is_not_saved_again() -> None:
    async with await started() as world:
        await rest(world, 70)
        world.connection.writes.clear()
        for _ in range(130):
            await world.run()
        assert sum(write in WRITES for write in world.connection.writes) <= 1


async def test_a_history_that_would_recommend_something_else_is_saved_at_once() -> None:
    async with await started() as world:
        await rest(world, 200)
        before = await cores(world)
        writes = 0
        while await cores(world) < 1.04 * before:
            writes += await rest(world, 1, cpu=0.3)
        assert 1 <= writes <= 2
        await world.restart()
        assert await rest(world, 1, cpu=0.3) == 0
        assert await cores(world) > 1.04 * before


async def test_an_autoscaler_that_comes_later_has_the_history_in_a_checkpoint_of_its_own_at_once() -> None:
    async with await started() as world:
        await rest(world, 100)
        await world.autoscaler("second")
        await rest(world, 2)
        status = (await world.checkpoint("second-app")).status
        assert status is not None
        assert status.total_samples_count > 100


async def night(world: World, number: int) -> list[int]:
    """A run of a CronJob's pod that climbs in the end; what is recommended after each minute."""
    name = f"nightly-{number}"
    job = build.job_json(name)
    job["metadata"]["ownerReferences"] = [build.owner_json("CronJob", "nightly", "c", "batch/v1")]
    owner = build.owner_json("Job", name, (await world.create(JOBS, job))["metadata"]["uid"], "batch/v1")
    pod = build.pod_json(f"{name}-a", containers=[build.container_json(memory="2Gi")], node="n1", owner=owner)
    await world.create(PODS, pod)
    started_at = datetime.fromtimestamp(world.clock.now() + 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    await world.set_status(pod["metadata"]["name"], build.running_status(pod, started_at=started_at))
    told = []
    for used in [200] * 10 + [300, 500, 700, 900, 900, 900]:
        await world.run(cpu=0.2, memory=used * MI, pods=(pod["metadata"]["name"],))
        told.append(parse_memory(str((await world.target())["memory"])))
    await world.connection.delete(PODS, "default", pod["metadata"]["name"], body=b'{"gracePeriodSeconds": 0}')
    for _ in range(6):
        await world.run()
    world.clock.advance(3600)
    await world.run()
    return told


async def ninth_night(*, crash: bool) -> list[int]:
    """What the ninth run is told, and how many checkpoints the four after it cost, as the last number."""
    async with World() as world:
        await world.node(cpu="8", memory="32Gi")
        body = {"apiVersion": ELASTIC_POLICIES.api_version, "kind": ELASTIC_POLICIES.kind, "spec": {}}
        await world.create(ELASTIC_POLICIES, body | {"metadata": {"name": "all", "namespace": "default"}})
        target = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly"}
        await world.autoscaler(targetRef=target, updatePolicy={"updateMode": "InPlaceOrRecreate"})
        for number in range(8):
            await night(world, number)
            if crash:
                await world.restart()
                await world.run()
        told = await night(world, 8)
        world.connection.writes.clear()
        for number in range(9, 13):
            await night(world, number)
        return [*told, sum(write in WRITES for write in world.connection.writes)]


async def test_a_jobs_runs_outlive_crashes_and_cost_few_writes() -> None:
    *told, writes = await ninth_night(crash=True)
    *without, _ = await ninth_night(crash=False)
    assert max(told[:3]) < 400 * MI < 900 * MI < max(told)
    assert told == pytest.approx(without, rel=0.01)
    assert writes <= 0.05 * 4 * 83


class InSmallPages(DirectConnection):
    """Lists two objects at a time."""

    async def list(self, resource: ResourceType, **more: Any) -> bytes:
        return await super().list(resource, **more | {"limit": 2})


async def test_histories_of_all_namespaces_are_read_whatever_their_names_and_the_pages() -> None:
    clock = ManualClock(1_800_000_000.0)
    connection = InSmallPages(ApiServer(clock, Store(), spread=random.Random(0)), clock)
    store, now = CheckpointStore(connection, RecommenderSettings()), clock.now()
    claims = [
        Claim(space, name, target=Workload(space, "Deployment", name))
        for space in ("a", "a-b", "a0", "empty")
        for name in ("x", "y", "z")
    ]
    for space in ("a", "a-b", "a0"):
        body = f'{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{space}"}}}}'
        await connection.create(NAMESPACES, None, body.encode())
    for claim in claims:
        if claim.target is not None and claim.namespace != "empty":
            history = ContainerHistory(first_sample_at=now - 60, last_sample_at=now, samples=2)
            key = ContainerKey(claim.target, "app")
            await store.save(to_checkpoint(claim.namespace, claim.name, key, history, now))
    found = {
        claim.key: saved async for claim, saved in CheckpointStore(connection, RecommenderSettings()).load(claims, now)
    }
    assert sorted(found) == sorted(claim.key for claim in claims)
    assert {key for key, saved in found.items() if not saved.histories} == {"empty/x", "empty/y", "empty/z"}
