"""Past usage is replayed: an estimator that has won over days need not win them anew after a start."""

from copy import deepcopy
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.pods import ContainerKey, Workload
from elastipod.quantities import parse_cpu, parse_memory
from recommender.banks import ROWS
from recommender.estimators.peaks import DAY, HOUR
from recommender.past import Past, Played
from recommender.speaking import Speaking
from recommender.steps import STEP, UseInSteps
from tests.recommender.test_choosing import explained, state
from tests.recommender.test_fetching import Past as Source
from tests.recommender.test_fetching import days_of
from tests.recommender.test_speaking import says
from tests.recommender.world import MI, World

NAN = float("nan")
NOW = 1_800_000_000.0
WEB = ContainerKey(Workload("default", "Deployment", "web"), "app")


def steady(days: float, cores: float = 0.5, amount: float = 200 * MI, ends_at: float = NOW) -> UseInSteps:
    found = UseInSteps.nothing(ends_at, days * DAY)
    found.used[0], found.used[1] = cores, amount
    return found


def played(*steps: UseInSteps, cpu_limit: float = NAN, floor: float = 0.0) -> Played:
    count = len(steps)
    said = np.array([[1.0], [300.0 * MI]]).repeat(count, axis=1)
    keys = [ContainerKey(Workload("default", "Deployment", f"web-{one}"), "app") for one in range(count)]
    limits, floors, elsewhere = np.full(count, cpu_limit), np.full(count, floor), np.zeros(count, dtype=bool)
    return Past(keys, np.arange(count), steps, limits, said, floors, elsewhere).played()


def recalled(past: Played, count: int, now: float = NOW + 120) -> Speaking:
    speaking = Speaking()
    for row in range(count):
        speaking.want(row, kills_elsewhere=False)
    speaking.recall(np.arange(count), past.bank, past.lessons, now)
    turned = speaking.turn(says([1.0] * count, [300.0 * MI] * count), np.zeros(count), now)
    assert set(range(count)) <= set(turned.tolist())
    return speaking


def targets(speaking: Speaking, count: int) -> tuple[list[float], list[float]]:
    found = speaking.spoken(says([1.0] * count, [300.0 * MI] * count))
    return found.cpu.target.tolist(), found.memory.target.tolist()


@cache
def _calm() -> Played:
    return played(steady(2), steady(0.5), steady(2))


def calm() -> Played:
    """The past of three that used the same all the time: two for days, one for half a day."""
    return deepcopy(_calm())


def test_what_has_won_for_two_days_speaks_at_the_first_look() -> None:
    cores, amounts = targets(recalled(calm(), 3), 3)
    assert cores == pytest.approx([0.525, 1.0, 0.525], rel=1e-3)
    assert amounts == pytest.approx([204 * MI, 300 * MI, 204 * MI], rel=1e-3)


def test_peaks_of_a_week_are_known_and_harm_counts() -> None:
    wild = steady(8)
    wild.used[1, -288::20] = 320 * MI
    past = played(wild)
    assert past.bank._memory.highest((6 * DAY,))[0, 0] == 320 * MI
    _, amounts = targets(recalled(past, 1), 1)
    assert amounts[0] >= 300 * MI


def test_what_ran_into_its_limit_is_taken_to_have_wanted_more_and_no_less_than_a_kill_has_proven() -> None:
    cores, amounts = targets(recalled(played(steady(2), cpu_limit=0.5, floor=250 * MI), 1), 1)
    assert cores[0] >= 0.6
    assert amounts == [250 * MI]


def test_what_was_used_while_the_past_was_played_is_not_forgotten() -> None:
    speaking = Speaking()
    speaking.want(0, kills_elsewhere=False)
    raw = says([1.0], [300.0 * MI])
    for minute, cores in ((0, 0.5), (5, 0.9), (10, 0.5)):
        speaking.see(np.array([0]), np.array([cores]), np.array([cores * 400 * MI]), np.array([NAN]))
        speaking.turn(raw, np.zeros(1), NOW + minute * 60)
    past = calm()
    speaking.recall(np.array([0]), past.bank, past.lessons, NOW + 900)
    for step in range(3, 8):
        speaking.see(np.array([0]), np.array([0.5]), np.array([200.0 * MI]), np.array([NAN]))
        speaking.turn(raw, np.zeros(1), NOW + step * STEP)
    assert targets(speaking, 1)[1][0] >= 360 * MI


def test_a_row_that_is_let_go_of_meanwhile_gets_no_past() -> None:
    speaking, past = Speaking(), calm()
    speaking.want(0, kills_elsewhere=False)
    speaking.recall(np.array([0]), past.bank, past.lessons, NOW)
    speaking.let_go(0)
    speaking.want(0, kills_elsewhere=False)
    speaking.turn(says([1.0], [300.0 * MI]), np.zeros(1), NOW)
    assert targets(speaking, 1) == ([1.0], [300.0 * MI])


def test_rows_of_several_banks_have_one_past_together() -> None:
    speaking, past = Speaking(), calm()
    rows = np.array([0, ROWS, ROWS + 1])
    for row in range(ROWS + 2):
        speaking.want(row, kills_elsewhere=False)
    speaking.recall(rows, past.bank, past.lessons, NOW)
    raw = says([1.0] * (ROWS + 2), [300.0 * MI] * (ROWS + 2))
    for minute in range(6):
        speaking.turn(raw, np.zeros(ROWS + 2), NOW + minute * 60)
    spoken = np.flatnonzero(speaking.spoken(raw).cpu.target < 0.6)
    assert spoken.tolist() == [0, ROWS + 1]


def test_models_are_fitted_at_once_from_what_the_past_shows() -> None:
    speaking = recalled(calm(), 3)
    assert speaking.lessons.kept > 1000
    assert speaking.is_fit_due(NOW + 121)


def test_pasts_of_different_lengths_and_ends_stand_at_their_times() -> None:
    early = steady(1, cores=0.9, ends_at=NOW - 2 * HOUR)
    late = steady(1.5)
    late.used[0, -6:] = 0.8
    past = played(early, late)
    highest = past.bank._cpu.highest((HOUR, DAY))[:, :2]
    assert np.isnan(highest[0, 0])
    assert highest[1, 0] == pytest.approx(0.9)
    assert highest[0, 1] == pytest.approx(0.8)


@given(
    st.lists(st.floats(0.5, 100, width=32) | st.just(NAN), min_size=1, max_size=60), st.sampled_from([60, 300, 1800])
)
def test_a_step_is_the_highest_of_what_was_used_in_it_whatever_the_resolution(
    amounts: list[float], seconds: int
) -> None:
    row, times = np.array(amounts, dtype=np.float32), NOW - seconds * np.arange(len(amounts) - 1.0, -1, -1)
    found = UseInSteps.nothing(NOW, DAY)
    found.take(1, times, row, seconds)
    for back in range(found.used.shape[1]):
        end = found.ends_at - back * STEP
        those = row[(times > end - STEP) & (times - seconds < end) & ((times <= end) | (seconds > STEP))]
        expected = np.fmax.reduce(those, initial=np.float32("nan")) if len(those) else NAN
        assert found.used[1, -1 - back] == pytest.approx(expected, nan_ok=True)


async def test_after_a_start_with_a_kept_past_the_best_estimator_speaks_within_minutes() -> None:
    source = Source()
    world = World(past=source)
    now = world.clock.now()
    source.histories[WEB] = days_of(200 * MI, 8, now)
    source.steps[WEB] = steady(2, cores=0.3, ends_at=now)
    async with world:
        await world.node(cpu="8", memory="32Gi")
        await world.pod("web-a", await world.deployment(), cpu="1", memory="512Mi", memory_limit="1Gi")
        await world.autoscaler(updatePolicy={"updateMode": "InPlaceOrRecreate"})
        await state(world)
        for _ in range(9):
            await world.run(cpu=0.3, memory=200 * MI)
        assert source.asked[0].is_replayed
        told = explained(world)["estimators"]["memory"]
        assert (told["speaks"], told["reason"]) == ("peaks", "Admitted")
        target = await world.target()
        assert parse_memory(str(target["memory"])) == 204 * MI
        assert parse_cpu(str(target["cpu"])) == 315


async def test_a_past_that_is_only_replayed_keeps_nobody_waiting_after_a_restart() -> None:
    source = Source()
    async with World(past=source, confidence_interval_seconds=300.0) as world:
        await world.node(cpu="8", memory="32Gi")
        await world.pod("web-a", await world.deployment(), cpu="1", memory="512Mi", memory_limit="1Gi")
        await world.autoscaler(updatePolicy={"updateMode": "InPlaceOrRecreate"})
        await state(world)
        for _ in range(8):
            await world.run(cpu=0.3, memory=200 * MI)
        await world.recommender.save()
        source.steps[WEB] = steady(1.5, cores=0.3, ends_at=world.clock.now())
        await world.restart()
        before = world.connection.writes.count("patch verticalpodautoscalers")
        for _ in range(2):
            await world.run(cpu=0.3, memory=200 * MI)
            assert "FetchingHistory" not in await world.conditions()
        assert [(one.is_waited_for, one.is_replayed) for one in source.asked] == [(True, True), (False, True)]
        assert world.connection.writes.count("patch verticalpodautoscalers") == before
        # Each row has its turn every five minutes.
        for _ in range(7):
            await world.run(cpu=0.3, memory=200 * MI)
        assert explained(world)["estimators"]["memory"]["speaks"] == "peaks"


async def test_where_nobody_wants_the_best_estimator_no_steps_are_asked_for() -> None:
    source = Source()
    async with World(past=source) as world:
        await world.node(cpu="8", memory="32Gi")
        await world.pod("web-a", await world.deployment())
        await world.autoscaler()
        await world.run(cpu=0.3, memory=200 * MI)
        await world.run(cpu=0.3, memory=200 * MI)
        assert [one.is_replayed for one in source.asked] == [False]
