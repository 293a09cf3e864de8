"""When checkpoints are written: seldom at rest, and before a crash could cost what is recommended."""

from elastipod.kube.resources import CHECKPOINTS
from elastipod.quantities import parse_cpu
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
        assert await rest(world, 300) == 5


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
        assert world.recommender.recommendations.history.samples[0] > 8 * 45 / 4


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
