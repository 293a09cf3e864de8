"""Peaks, quantiles of the fleet, runs of jobs, and which of them may speak."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from elastipod.limitmodes import LimitMode
from recommender.estimators.admission import HISTOGRAM, Admission, AdmissionRule
from recommender.estimators.apart import limit
from recommender.estimators.peaks import DAY, HOUR, WEEK, Peaks
from recommender.estimators.quantile import FEATURES, Features, Lessons, expected, is_fit_due
from recommender.estimators.runs import EarlierRuns, Usage, sizes_of_a_first_run

MINUTE = 60.0
WINDOWS = (15 * MINUTE, HOUR, 6 * HOUR, DAY, WEEK)
used = arrays(np.float64, st.tuples(st.integers(2, 120), st.just(3)), elements=st.floats(0.001, 1000.0))


def seen(values: np.ndarray, step: float = 10 * MINUTE, start: float = 0.0) -> Peaks:
    peaks = Peaks(values.shape[1])
    for number, line in enumerate(values):
        peaks.see(line, start + number * step)
    return peaks


@given(used, st.floats(60.0, 7200.0), st.floats(0.0, 1e9))
def test_a_windows_peak_is_no_lower_than_any_use_in_it_and_rises_with_the_window(
    values: np.ndarray, step: float, start: float
) -> None:
    found = seen(values, step, start).peaks(WINDOWS)
    ages = (len(values) - 1 - np.arange(len(values))) * step
    for window, peak in zip(WINDOWS, found, strict=True):
        assert (peak >= values[ages <= window].max(axis=0)).all()
    assert (np.diff(found, axis=0) >= 0).all()
    assert (found[-1] <= values.max(axis=0)).all()


def test_a_peak_is_forgotten_after_its_window_and_one_block() -> None:
    peaks = seen(np.array([[9.0]] + [[1.0]] * 8), step=10 * MINUTE)
    assert peaks.peaks(WINDOWS)[:, 0].tolist() == [1.0, 1.0, 9.0, 9.0, 9.0]
    peaks.see(np.array([1.0]), 8 * DAY)
    assert peaks.peaks(WINDOWS)[:, 0].tolist() == [1.0] * 5


def test_what_was_not_seen_lowers_no_peak() -> None:
    peaks = seen(np.array([[5.0], [np.nan], [np.nan]]))
    assert peaks.peaks((HOUR,))[0, 0] == 5.0


def test_after_a_drop_the_days_peak_is_kept_until_a_full_hour_is_near_it_again() -> None:
    level = [10.0] * 12 + [3.0] * 18
    peaks = seen(np.array([[one] for one in level]))
    assert peaks.peaks((HOUR,))[0, 0] == 3.0
    assert peaks.guarded((HOUR,))[0, 0] == 10.0
    for number in range(9):
        peaks.see(np.array([9.5]), (30 + number) * 10 * MINUTE)
    assert peaks.guarded((HOUR,))[0, 0] == 9.5


@given(used)
def test_the_guard_only_ever_adds(values: np.ndarray) -> None:
    peaks = seen(values)
    assert (peaks.guarded((HOUR,)) >= peaks.peaks((HOUR,))).all()


@given(used, st.floats(0.5, 200.0))
def test_features_do_not_change_with_the_size_of_a_container(values: np.ndarray, factor: float) -> None:
    def table(scale: float) -> np.ndarray:
        features = Features(values.shape[1])
        for number, line in enumerate(values):
            features.see((1.0 + line) * scale, number * 300.0)
        return features.table()

    assert table(1.0).shape == (3, FEATURES)
    np.testing.assert_allclose(table(1.0), table(factor), atol=1e-3)


def taught(rows: int = 3000, seed: int = 5) -> Lessons:
    random = np.random.default_rng(seed)
    lessons = Lessons()
    features = random.normal(0.0, 1.0, (rows, FEATURES)).astype(np.float32)
    growth = np.where(features[:, 0] > 0, 0.5, 0.0) + random.uniform(0.0, 0.2, rows)
    lessons.take(features, np.ones(rows), np.exp(growth))
    return lessons


def test_quantiles_are_learnt_from_what_tells_of_growth_and_are_in_order() -> None:
    models = taught().fit((0.5, 0.9))
    assert models is not None
    calm, growing = np.full((1, FEATURES), -1.0, np.float32), np.ones((1, FEATURES), np.float32)
    middle, high = expected(models, np.concatenate((calm, growing)), np.array([2.0, 2.0]))
    assert middle == pytest.approx([2.0 * np.exp(0.1), 2.0 * np.exp(0.6)], rel=0.1)
    assert (high >= middle).all()


def test_the_same_lessons_make_the_same_models() -> None:
    features = np.random.default_rng(1).normal(size=(50, FEATURES)).astype(np.float32)
    one, other = (taught().fit((0.9,)) for _ in range(2))
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one.growth(features), other.growth(features))


def test_too_few_lessons_make_no_model_and_unseen_rows_teach_nothing() -> None:
    lessons = Lessons()
    lessons.take(np.zeros((3, FEATURES), np.float32), np.array([1.0, np.nan, 1.0]), np.array([1.0, 1.0, np.nan]))
    assert lessons.seen == 1
    assert lessons.fit() is None


def test_models_are_fitted_after_3_hours_and_then_ever_more_rarely_but_weekly() -> None:
    assert not is_fit_due(2 * HOUR, None)
    assert is_fit_due(3 * HOUR, None)
    assert not is_fit_due(8 * HOUR, 3 * HOUR)
    assert is_fit_due(9 * HOUR, 3 * HOUR)
    assert is_fit_due(17 * DAY, 10 * DAY)


RULE = AdmissionRule(settling_seconds=0.0, fleet_days=0.0, half_life_seconds=DAY)


def judged(use: list[float], candidate: float, histogram: float, rule: AdmissionRule = RULE) -> int:
    admission = Admission(1, 1, rule)
    for value in use:
        admission.see(np.array([value]), np.array([histogram]), 300.0)
        admission.want(np.array([[candidate]]))
    return int(admission.choice()[0])


def test_a_candidate_that_reserves_less_and_does_no_harm_is_admitted() -> None:
    assert judged([1.0] * 5, candidate=2.0, histogram=3.0) == 0


def test_one_that_reserves_more_or_does_more_harm_is_not() -> None:
    assert judged([1.0] * 5, candidate=4.0, histogram=3.0) == HISTOGRAM
    assert judged([1.0, 1.0, 2.5, 1.0], candidate=2.0, histogram=3.0) == HISTOGRAM


def test_an_admitted_candidate_is_taken_back_when_it_does_harm_and_let_in_again_when_the_histogram_did_as_much() -> (
    None
):
    admission = Admission(1, 1, RULE)
    told = []
    for use, wants in [(1.0, 2.0)] * 5 + [(2.5, 2.0)] + [(1.0, 2.0)] * 4 + [(1.0, 4.0), (3.9, 2.0), (1.0, 2.0)]:
        admission.see(np.array([use]), np.array([3.0]), 300.0)
        admission.want(np.array([[wants]]))
        told.append(int(admission.choice()[0]))
    assert told == [HISTOGRAM] + [0] * 4 + [HISTOGRAM] * 6 + [0, 0]


def test_before_there_is_a_record_the_histogram_speaks() -> None:
    assert int(Admission(2, 1, RULE).choice()[0]) == HISTOGRAM
    rule = AdmissionRule(settling_seconds=0.0, fleet_days=0.0, least_record_seconds=HOUR)
    assert judged([1.0] * 5, candidate=2.0, histogram=3.0, rule=rule) == HISTOGRAM
    assert judged([1.0] * 20, candidate=2.0, histogram=3.0, rule=rule) == 0


def test_the_fleets_record_keeps_a_candidate_out_that_harms_others() -> None:
    rule = AdmissionRule(settling_seconds=0.0, fleet_days=1.0, counts_over=False)
    admission = Admission(1, 2, rule)
    for _ in range(6):
        admission.see(np.array([1.0, 2.5]), np.array([3.0, 3.0]), 300.0)
        admission.want(np.array([[2.0, 2.0]]))
    assert admission.choice().tolist() == [HISTOGRAM, HISTOGRAM]


def test_a_candidate_that_has_wanted_nothing_is_neither_better_nor_worse() -> None:
    admission = Admission(2, 1, RULE)
    for _ in range(5):
        admission.see(np.array([1.0]), np.array([3.0]), 300.0)
        admission.want(np.array([[np.nan], [2.0]]))
    assert admission.choice().tolist() == [1]


def test_what_is_not_seen_makes_no_record_older() -> None:
    admission = Admission(1, 1, RULE)
    for use in [1.0] * 3 + [np.nan] * 500:
        admission.see(np.array([use]), np.array([3.0]), 300.0)
        admission.want(np.array([[2.0]]))
    assert admission.record_days[0] == pytest.approx(3 * 300.0 / DAY, rel=0.01)
    assert admission.choice().tolist() == [0]


def test_where_kills_count_by_themselves_nothing_speaks_that_reserves_more() -> None:
    rule = AdmissionRule(
        counts_unserved=False,
        counts_over=False,
        counts_kills=True,
        kill_price=10.0,
        settling_seconds=0.0,
        fleet_days=0.0,
    )
    assert judged([1.0, 1.0, 2.5, 1.0], candidate=3.0, histogram=2.0, rule=rule) == HISTOGRAM
    assert judged([1.0, 1.0, 2.5, 1.0], candidate=1.9, histogram=2.0, rule=rule) == 0
    assert judged([1.0, 1.0, 1.95, 1.0], candidate=1.9, histogram=2.0, rule=rule) == HISTOGRAM


@given(arrays(np.float64, (30, 4), elements=st.floats(0.1, 10.0)), st.floats(0.1, 1000.0))
def test_the_choice_does_not_depend_on_the_unit(values: np.ndarray, unit: float) -> None:
    def choices(scale: float) -> list[list[int]]:
        admission = Admission(2, 4, RULE)
        told = []
        for line in values:
            admission.see(line * scale, np.full(4, 8.0) * scale, 300.0)
            admission.want(np.stack((line * 1.11, line * 1.53)) * scale)
            told.append(admission.choice().tolist())
        return told

    assert choices(1.0) == choices(2.0 ** round(np.log2(unit)))


def usage(*memory: float, step: float = 2.0) -> Usage:
    return Usage(step, np.array(memory) * 2.0**30)


def climbing(scale: float) -> Usage:
    return usage(*(scale * np.concatenate((np.full(60, 1.0), np.linspace(1.0, 4.0, 30), np.full(60, 4.0)))))


def test_a_run_like_earlier_ones_has_what_they_came_to_need_before_it_needs_it() -> None:
    known = EarlierRuns([climbing(1.0 + 0.01 * number) for number in range(6)])
    run = climbing(1.02)
    places = list(range(5, 150, 5))
    sizes = known.sizes(run, places)
    needed = [run.memory_bytes[place : place + 7].max() for place in places]
    assert (sizes >= needed).all()
    assert sizes.mean() < 0.75 * known.highest_bytes * 1.15


@given(st.integers(1, 149))
def test_a_running_job_is_judged_by_what_was_seen_of_it(place: int) -> None:
    known = EarlierRuns([climbing(1.0), climbing(1.1), climbing(1.2)])
    whole = climbing(1.05)
    so_far = Usage(2.0, whole.memory_bytes[: place + 1])
    np.testing.assert_allclose(known.sizes(so_far, [place]), known.sizes(whole, [place]))


def test_a_run_unlike_all_earlier_ones_has_at_least_a_quarter_more_than_it_uses() -> None:
    known = EarlierRuns([climbing(1.0), climbing(1.1)])
    strange = usage(*([50.0] * 40))
    assert (known.sizes(strange, [20, 30]) >= 1.25 * strange.memory_bytes[20]).all()


@given(arrays(np.float64, st.integers(1, 200), elements=st.floats(0.001, 8.0)))
def test_a_first_run_never_has_less_than_a_quarter_above_its_peak_so_far(memory: np.ndarray) -> None:
    run = Usage(2.0, memory)
    places = list(range(len(memory)))
    sizes = sizes_of_a_first_run(run, places, asked_bytes=10.0)
    assert (sizes >= 1.25 * np.maximum.accumulate(memory)).all()
    assert (sizes[:60] >= 10.0).all()
    assert (sizes <= np.maximum(10.0, 1.5 * memory.max())).all()


amounts = arrays(np.float64, 6, elements=st.floats(1.0, 1e12))


@given(amounts, amounts, arrays(np.float64, 6, elements=st.floats(0.1, 10.0)), st.sampled_from(LimitMode))
def test_a_limit_is_never_below_its_request(
    request_bytes: np.ndarray, week_peak: np.ndarray, ratio: np.ndarray, mode: LimitMode
) -> None:
    found = limit(mode, request_bytes, week_peak, ratio)
    assert np.isnan(found).all() if mode is LimitMode.UNSET else (found >= request_bytes).all()


def test_a_limit_keeps_its_ratio_or_follows_the_weeks_peak() -> None:
    sizes = np.array([100.0]), np.array([200.0]), np.array([1.5])
    assert limit(LimitMode.PROPORTIONAL, *sizes)[0] == 150.0
    assert limit(LimitMode.INDEPENDENT, *sizes)[0] == 260.0


def test_where_no_limit_is_stated_a_proportional_one_is_not_made_up() -> None:
    assert np.isnan(limit(LimitMode.PROPORTIONAL, np.array([1.0]), np.array([2.0]), np.array([np.nan])))
