"""Buckets, weights, decay and percentiles."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recommender.histogram import (
    CPU_FIRST_BUCKET,
    MEMORY_FIRST_BUCKET,
    UPSTREAM_BUCKETS,
    HistogramBank,
    HistogramState,
    buckets_from,
)

DAY = 86_400.0
FIRSTS = (CPU_FIRST_BUCKET, MEMORY_FIRST_BUCKET)


def bank(*percentiles: float, half_life: float = DAY) -> HistogramBank:
    made = HistogramBank(buckets_from(CPU_FIRST_BUCKET), half_life, percentiles or (0.5, 0.9, 0.95))
    made.reserve(4)
    return made


def add(to: HistogramBank, row: int, values: list[float], weight: float = 1.0, at: float = 0.0) -> None:
    count = len(values)
    to.add(np.full(count, row), np.array(values), np.full(count, weight), np.full(count, at))


@given(st.sampled_from(FIRSTS), st.floats(0, 1e3))
def test_every_value_lies_in_its_bucket(first: float, cores: float) -> None:
    buckets = buckets_from(first)
    value = cores * first / CPU_FIRST_BUCKET
    place = int(buckets.index(np.array([value]))[0])
    assert buckets.starts[place] <= value
    assert place == buckets.count - 1 or value < buckets.starts[place + 1]


@pytest.mark.parametrize("first", FIRSTS)
def test_a_value_next_to_a_buckets_start_lies_on_its_own_side(first: float) -> None:
    buckets = buckets_from(first)
    inner = np.arange(1, buckets.count)
    assert buckets.index(buckets.starts).tolist() == [0, *inner]
    assert buckets.index(np.nextafter(buckets.starts[1:], 0.0)).tolist() == (inner - 1).tolist()


@given(st.sampled_from(FIRSTS), st.floats(0.1, 99_000))
def test_a_percentile_is_at_most_a_twentieth_above_the_usage_r12(first: float, times: float) -> None:
    buckets = buckets_from(first)
    value = first * times
    edge = float(buckets.upper_edge(buckets.index(np.array([value])))[0])
    assert value * 0.999_999_9 <= edge <= value * 1.05


@pytest.mark.parametrize("first", FIRSTS)
def test_every_bucket_belongs_to_the_upstream_bucket_that_holds_it(first: float) -> None:
    buckets = buckets_from(first)
    for number in range(UPSTREAM_BUCKETS):
        start = first * (1.05**number - 1) / 0.05
        place = int(buckets.index(np.array([start * (1 + 1e-12)]))[0])
        assert buckets.upstream[place] == number
        if number < UPSTREAM_BUCKETS - 1:
            end = first * (1.05 ** (number + 1) - 1) / 0.05
            assert buckets.upper_edge(np.array([buckets.topmost(number)]))[0] == pytest.approx(end, rel=1e-12)


values = st.lists(st.floats(0, 900), min_size=1, max_size=40)


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 900), st.floats(0, 50 * DAY)), min_size=1, max_size=60))
def test_percentiles_kept_at_hand_equal_those_computed_afresh(samples: list[tuple[int, float, float]]) -> None:
    made = bank()
    for step in range(0, len(samples), 7):
        part = samples[step : step + 7]
        made.add(
            np.array([row for row, _, _ in part]),
            np.array([value for _, value, _ in part]),
            np.ones(len(part)),
            np.array([at for _, _, at in part]),
        )
        kept = made.percentiles()
        for row in range(4):
            for which, fraction in enumerate((0.5, 0.9, 0.95)):
                fresh = made.percentile(row, fraction)
                assert (fresh is None and np.isnan(kept[row, which])) or kept[row, which] == fresh


@given(values, st.floats(0, 400 * DAY))
def test_decay_never_loses_weight(samples: list[float], later: float) -> None:
    made = bank()
    add(made, 0, samples)
    before = made.total(0, 0.0)
    assert before == pytest.approx(len(samples))
    add(made, 0, [1.0], at=later)
    expected = before * 2 ** (-later / DAY) + 1.0
    assert made.total(0, later) == pytest.approx(expected, rel=1e-5)


@given(values, st.floats(0, 900))
@example([1.0] * 9 + [500.0], 1.0)
def test_a_sample_taken_back_leaves_what_was_there(samples: list[float], more: float) -> None:
    made, plain = bank(), bank()
    add(plain, 0, samples)
    add(made, 0, samples)
    add(made, 0, [more], weight=1.0, at=DAY / 3)
    add(made, 0, [more], weight=-1.0, at=DAY / 3)
    assert made.percentiles()[0].tolist() == plain.percentiles()[0].tolist()


def test_a_sample_weighs_half_after_a_half_life() -> None:
    made = bank(0.5)
    add(made, 0, [1.0] * 3, at=0.0)
    add(made, 0, [10.0] * 2, at=DAY)
    assert made.percentiles()[0, 0] > 10.0


def test_a_reused_row_remembers_nothing() -> None:
    made = bank()
    add(made, 1, [5.0])
    made.percentiles()
    made.clear(1)
    assert np.isnan(made.percentiles()[1]).all()
    add(made, 1, [0.5])
    assert made.percentiles()[1, 2] == pytest.approx(0.5, rel=0.05)


@settings(max_examples=30)
@given(values)
def test_a_histogram_taken_out_and_put_back_is_the_same(samples: list[float]) -> None:
    made = bank()
    add(made, 0, samples, at=3 * DAY)
    state = made.state(0)
    assert state is not None
    made.load(2, state)
    assert made.state(2) == state
    found = made.percentiles()
    assert found[2].tolist() == found[0].tolist()


def test_the_bank_grows_without_losing_a_row() -> None:
    made = bank()
    add(made, 3, [2.0])
    made.reserve(20_000)
    add(made, 19_999, [7.0])
    found = made.percentiles()
    assert found[3, 0] == pytest.approx(2.0, rel=0.05)
    assert found[19_999, 0] == pytest.approx(7.0, rel=0.05)


def test_a_state_knows_its_whole_weight() -> None:
    assert HistogramState(((1, 0.25), (7, 0.5)), 0.0).total == 0.75


@given(st.lists(st.floats(0.01, 500.0), min_size=1, max_size=30), st.floats(0.0, 7.9))
def test_the_highest_that_is_remembered_is_at_most_5_percent_above_it_until_it_has_faded(
    values: list[float], days: float
) -> None:
    made = bank()
    add(made, 1, values)
    found = made.highest(np.array([1, 2]), days * DAY, 2.0**-8)
    assert max(values) <= found[0] <= max(values) * 1.051
    assert np.isnan(found[1])


def test_what_has_faded_is_no_longer_the_highest() -> None:
    made = bank()
    add(made, 0, [8.0])
    add(made, 0, [1.0], at=8.5 * DAY)
    assert made.highest(np.array([0]), 8.5 * DAY, 2.0**-8)[0] < 1.06
