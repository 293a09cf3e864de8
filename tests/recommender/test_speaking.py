"""Which estimator speaks for a row, live: it is let in by its record, taken back by its harm, and lowered by no gap."""

from collections.abc import Sequence
from copy import deepcopy
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastipod.reasons import Reason
from recommender.banks import ROWS, Speaker
from recommender.estimators.candidates import CALM, CPU, MEMORY, NO_MORE_KILLS, CpuCandidates, Estimator
from recommender.estimators.histogram import Estimate, Estimates
from recommender.estimators.peaks import DAY, HOUR
from recommender.estimators.quantile import QUANTILES, Lessons
from recommender.histogram import Floats
from recommender.ranges import Resource
from recommender.speaking import Speaking
from recommender.steps import STEP
from tests.recommender.world import MI

NAN = float("nan")
RECORD = round(1.2 * DAY / STEP)
"""As many steps as make a day's record: an hour is not counted, and what is old counts less."""


def says(cores: Sequence[float], amounts: Sequence[float]) -> Estimates:
    """What the histogram says of each row: its target, with bounds a fifth below and above."""
    spread = np.array([0.8, 1.0, 1.2])
    return Estimates(
        Estimate(np.array(cores)[:, np.newaxis] * spread),
        Estimate(np.array(amounts)[:, np.newaxis] * spread),
        np.ones(len(cores)),
    )


class One:
    """One row that wants the best estimator; the histogram says 1 core and 120 MiB."""

    def __init__(self, *, kills_elsewhere: bool = False) -> None:
        self.speaking = Speaking()
        self.speaking.want(0, kills_elsewhere=kills_elsewhere)
        self.raw = says([1.0], [120.0 * MI])
        self.floors = np.zeros(1)
        self.now = 0.0

    def step(self, cores: float = NAN, amount: float = NAN, *, cpu_limit: float = NAN) -> None:
        self.speaking.see(np.array([0]), np.array([cores]), np.array([amount * MI]), np.array([cpu_limit]))
        self.speaking.turn(self.raw, self.floors, self.now)
        self.now += STEP

    def steps(self, count: int, cores: float = NAN, amount: float = NAN) -> "One":
        for _ in range(count):
            self.step(cores, amount)
        return self

    def target(self, resource: Resource) -> float:
        found = self.speaking.spoken(self.raw)
        return float((found.cpu if resource is Resource.CPU else found.memory).target[0])

    def reason(self, resource: Resource) -> Reason:
        speaker = self.speaking.speaker(0, resource)
        assert speaker is not None
        return speaker.reason


@cache
def _calm(*, kills_elsewhere: bool) -> One:
    return One(kills_elsewhere=kills_elsewhere).steps(RECORD, 0.5, 100.0)


def calm(*, kills_elsewhere: bool = False) -> One:
    """A row that has used half a core and 100 MiB for as long as it takes for others to be let in."""
    return deepcopy(_calm(kills_elsewhere=kills_elsewhere))


def test_the_histogram_speaks_until_there_is_a_days_record() -> None:
    one = One().steps(round(DAY / STEP), 0.5, 100.0)
    assert one.target(Resource.CPU) == 1.0
    assert one.target(Resource.MEMORY) == 120.0 * MI
    assert one.reason(Resource.CPU) is Reason.TOO_LITTLE_RECORD


def test_what_reserves_less_and_does_no_harm_speaks_after_a_day_for_each_resource_by_itself() -> None:
    one = One().steps(RECORD, 0.5, 125.0)
    assert one.target(Resource.CPU) == pytest.approx(0.5 * 1.05, rel=1e-3)
    assert one.reason(Resource.CPU) is Reason.ADMITTED
    assert one.target(Resource.MEMORY) == 120.0 * MI
    assert one.reason(Resource.MEMORY) is Reason.NO_BETTER_ESTIMATOR


def test_its_bounds_are_what_makes_it_move() -> None:
    one = calm()
    found = one.speaking.spoken(one.raw)
    for estimate, rule in ((found.cpu, CALM), (found.memory, NO_MORE_KILLS)):
        lower, target, upper = estimate.values[0]
        assert lower == target
        assert upper == pytest.approx(target * (1.0 + rule.band))


def test_it_is_taken_back_when_the_histogram_would_have_served_what_it_did_not() -> None:
    one = calm()
    assert one.target(Resource.MEMORY) == pytest.approx(102.0 * MI)
    one.step(0.9, 119.0)
    one.step(0.5, 100.0)
    assert one.target(Resource.CPU) == 1.0
    assert one.target(Resource.MEMORY) == 120.0 * MI
    assert one.reason(Resource.MEMORY) is Reason.NO_BETTER_ESTIMATOR


def test_no_candidate_wants_less_memory_than_a_kill_has_proven() -> None:
    one = One()
    one.raw, one.floors = says([1.0], [110.0 * MI]), np.array([110.0 * MI])
    one.steps(RECORD, 0.5, 100.0)
    assert one.target(Resource.MEMORY) == 110.0 * MI
    assert one.reason(Resource.MEMORY) is Reason.NO_BETTER_ESTIMATOR


def test_a_kill_at_its_own_size_is_harm_that_usage_does_not_show() -> None:
    one = calm()
    one.speaking.see_kill(0, 115.2 * MI)
    one.step(0.5, 100.0)
    assert one.target(Resource.MEMORY) == 120.0 * MI


def test_where_a_limit_apart_decides_kills_memory_follows_use_closely() -> None:
    one = calm(kills_elsewhere=True)
    one.step(0.5, 119.0)
    one.steps(30, 0.5, 100.0)
    assert one.target(Resource.MEMORY) == pytest.approx(102.0 * MI)


def test_what_runs_into_its_cpu_limit_is_taken_to_want_more_than_is_seen() -> None:
    one = calm()
    for _ in range(3):
        one.step(0.525, 100.0, cpu_limit=0.525)
    assert one.target(Resource.CPU) > 0.525 * 1.19


def test_a_gap_changes_nothing_however_long_it_is() -> None:
    one = calm()
    before = one.speaking.spoken(one.raw)
    for hours in (0.1, 1, 2, 30, 30, 300):
        one.now += hours * HOUR
        one.step()
    after = one.speaking.spoken(one.raw)
    np.testing.assert_array_equal(before.cpu.values, after.cpu.values)
    np.testing.assert_array_equal(before.memory.values, after.memory.values)
    assert one.reason(Resource.CPU) is Reason.ADMITTED


def test_of_a_workloads_pods_and_of_a_steps_samples_the_highest_counts() -> None:
    one = calm()
    one.now -= STEP
    one.speaking.see(np.array([0, 0]), np.array([0.8, 0.1]), np.array([NAN, NAN]), np.full(2, NAN))
    one.steps(2, 0.2)
    assert one.target(Resource.CPU) >= 0.8


def test_a_row_that_is_let_go_of_is_forgotten_and_its_place_is_anothers() -> None:
    one = calm()
    one.speaking.let_go(0)
    assert 0 not in one.speaking
    assert one.target(Resource.CPU) == 1.0
    one.speaking.want(0, kills_elsewhere=False)
    one.step(0.5, 100.0)
    assert one.target(Resource.CPU) == 1.0
    assert one.reason(Resource.CPU) is Reason.TOO_LITTLE_RECORD


def test_rows_that_want_nothing_are_as_the_histogram_says_to_the_bit() -> None:
    one = calm()
    one.raw = says([1.0, 0.3], [120.0 * MI, 7.0 * MI])
    found = one.speaking.spoken(one.raw)
    np.testing.assert_array_equal(found.cpu.values[1], one.raw.cpu.values[1])
    np.testing.assert_array_equal(found.memory.values[1], one.raw.memory.values[1])
    assert Speaking().spoken(one.raw) is one.raw


def test_more_rows_than_a_bank_holds_take_turns_and_each_is_looked_at_within_a_step() -> None:
    speaking, count = Speaking(), 2 * ROWS + 5
    for row in range(count):
        speaking.want(row, kills_elsewhere=False)
    looked_at = []
    for minute in range(1, 6):
        speaking.turn(says([float(minute)] * count, [1.0] * count), np.zeros(count), 600.0 + minute * 60.0)
        looked_at.append(sum(one is not None and one.histogram == minute for one in speakers(speaking, count)))
    speaking.turn(says([6.0] * count, [1.0] * count), np.zeros(count), 660.0 + STEP)
    assert max(looked_at[1:]) <= ROWS
    assert all(one is not None and one.histogram > 1.0 for one in speakers(speaking, count)[ROWS:])


def speakers(speaking: Speaking, count: int) -> list[Speaker | None]:
    return [speaking.speaker(row, Resource.CPU) for row in range(count)]


uses = st.lists(st.none() | st.floats(0.01, 3.0), min_size=30, max_size=60)


@settings(max_examples=15, deadline=None)
@given(uses)
def test_lower_bound_target_and_upper_bound_stay_in_order_whatever_is_used(used: list[float | None]) -> None:
    one = calm()
    for value in used:
        one.step(NAN if value is None else value, NAN if value is None else value * 100.0)
        found = one.speaking.spoken(one.raw)
        for estimate in (found.cpu, found.memory):
            lower, target, upper = estimate.values[0]
            assert 0 < lower <= target <= upper


def test_every_candidate_has_a_name() -> None:
    assert len(CPU) == len(CpuCandidates(1).sizes(np.full((len(QUANTILES), 1), NAN)))
    assert len({one.how for one in CPU}) == len(CPU)
    assert len({one.how for one in MEMORY}) == len(MEMORY)


def test_a_quantile_speaks_where_growth_is_foreseen_and_peaks_are_not_near() -> None:
    """Saw teeth: each step 40 % up for an hour, and down again; the next value is known, peaks are far above."""
    speaking, count = Speaking(), 8
    rows = np.arange(count)
    for row in rows.tolist():
        speaking.want(row, kills_elsewhere=False)
    raw = says([2.2] * count, [1.0] * count)
    random = np.random.default_rng(3)
    now, fitted = 0.0, False
    for step in range(round(1.7 * DAY / STEP)):
        place = (step + 3 * rows) % 36
        used: Floats = 0.1 * 1.1**place * np.asarray(np.exp(random.normal(0.0, 0.01, count)))
        speaking.see(rows, used, np.full(count, NAN), np.full(count, NAN))
        speaking.turn(raw, np.zeros(count), now)
        if speaking.is_fit_due(now) and not fitted:
            speaking.fitted(speaking.lessons.copy().fit(), now)
            fitted = speaking.models is not None
        now += STEP
    assert fitted
    admitted = {one.candidate.estimator for one in speakers(speaking, count) if one is not None and one.candidate}
    assert admitted == {Estimator.QUANTILE}


def test_a_fit_is_due_after_three_hours_then_daily_and_hourly_while_there_is_too_little_to_learn() -> None:
    one = One()
    one.step(0.5)
    assert not one.speaking.is_fit_due(2.9 * 3600)
    assert one.speaking.is_fit_due(3.1 * 3600)
    one.speaking.fitted(None, 3.1 * 3600)
    assert not one.speaking.is_fit_due(4 * 3600)
    assert one.speaking.is_fit_due(4.2 * 3600)
    lessons = Lessons()
    random = np.random.default_rng(0)
    lessons.take(random.normal(size=(1000, 22)).astype(np.float32), np.ones(1000), np.full(1000, 1.1))
    models = lessons.fit((0.9,))
    one.speaking.fitted(models, 4.2 * 3600)
    assert one.speaking.models is models
    assert not one.speaking.is_fit_due(4.2 * 3600 + DAY - 1)
    one.speaking.fitted(None, 4.2 * 3600 + DAY)
    assert one.speaking.models is models
