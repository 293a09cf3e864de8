"""What was used over the last day or two is told as it was, and how long that is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recommender.ranges import Resource
from recommender.recent import STEP, RecentUsage
from recommender.savings import Usage

NOW = 1_800_000_000.0
DAY = 86_400.0


def seen(*samples: tuple[float, float], row: int = 0, start: float = NOW) -> RecentUsage:
    """A window over samples of one row: how long after the start, and cores; of memory as many GB."""
    recent = RecentUsage()
    for after, cores in samples:
        recent.see(np.array([row]), np.array([cores]), np.array([cores * 1e9]), start + after)
    return recent


def usage(recent: RecentUsage, row: int = 0, resource: Resource = Resource.CPU) -> Usage:
    [found] = recent.of(resource, np.array([row]))
    assert found is not None
    return found


def test_an_instant_is_no_window() -> None:
    recent = seen((0.0, 1.0))
    assert recent.seconds == 0.0
    assert recent.of(Resource.CPU, np.array([0])) == [None]


def test_the_window_is_as_long_as_something_was_seen() -> None:
    recent = seen((0.0, 1.0), (90.0, 3.0))
    assert usage(recent) == Usage(mean=2.0, p95=3.0, peak=3.0, seconds=90.0)
    assert recent.seconds == 90.0


def test_both_resources_follow_one_rule() -> None:
    recent = seen((0.0, 1.0), (60.0, 2.0))
    cpu, memory = usage(recent), usage(recent, resource=Resource.MEMORY)
    assert (memory.mean, memory.peak, memory.seconds) == (cpu.mean * 1e9, cpu.peak * 1e9, cpu.seconds)


@given(st.lists(st.floats(1e-6, 64.0), min_size=2, max_size=300), st.integers(0, 10**6))
def test_mean_and_peak_are_exact_and_a_p95_is_at_most_5_percent_too_high(amounts: list[float], start: int) -> None:
    recent = seen(*((place * STEP, one) for place, one in enumerate(amounts)), start=float(start * 60))
    # With a third day the first one's 144 steps are gone.
    found, kept = usage(recent), np.array(amounts[144:] if len(amounts) > 288 else amounts)
    exact = float(np.quantile(kept, 0.95, method="inverted_cdf"))
    assert found.mean == pytest.approx(kept.mean())
    assert found.peak == kept.max()
    # Below a tenth of the first bucket all is one bucket.
    assert exact <= found.p95 <= max(1.05001 * exact, 0.001)
    assert found.p95 <= found.peak


def test_a_step_counts_by_the_most_that_any_pod_used_in_it() -> None:
    recent = RecentUsage()
    for step in range(40):
        recent.see(np.array([0, 0]), np.array([0.1, 2.0]), np.full(2, np.nan), NOW + step * STEP)
    assert 2.0 <= usage(recent).p95 <= 2.1
    assert usage(recent).mean == pytest.approx(1.05)


def test_the_window_goes_on_with_time_and_reaches_back_between_one_day_and_two() -> None:
    recent = seen(*((hour * 3600.0, 8.0 if hour == 0 else 1.0) for hour in range(24 * 5)))
    assert DAY <= recent.seconds <= 2 * DAY
    assert usage(recent) == Usage(1.0, 1.0, 1.0, usage(recent).seconds)


def test_after_a_gap_of_days_what_was_before_is_not_told() -> None:
    recent = seen((0.0, 8.0), (60.0, 8.0), (3 * DAY, 1.0), (3 * DAY + 60.0, 1.0))
    assert (recent.seconds, usage(recent).peak) == (60.0, 1.0)


def test_a_container_is_told_of_as_much_of_the_window_as_it_was_seen() -> None:
    recent = seen((0.0, 1.0), (6 * STEP, 1.0))
    recent.see(np.array([7]), np.array([2.0]), np.array([np.nan]), NOW + 6 * STEP)
    assert usage(recent, row=7) == Usage(2.0, 2.0, 2.0, STEP)
    assert recent.of(Resource.MEMORY, np.array([7])) == [None]
    assert recent.of(Resource.CPU, np.array([-1, 3, 10**6])) == [None, None, None]


def test_what_is_no_amount_is_not_counted() -> None:
    recent = seen((0.0, 1.0), (60.0, float("nan")), (120.0, -1.0), (180.0, float("inf")), (240.0, 3.0))
    assert (usage(recent).mean, usage(recent).peak) == (2.0, 3.0)


def test_the_next_owner_of_a_row_begins_with_nothing() -> None:
    recent = seen((0.0, 8.0), (STEP, 8.0), (2 * STEP, 8.0))
    recent.clear(0)
    assert recent.of(Resource.CPU, np.array([0])) == [None]
    recent.see(np.array([0]), np.array([1.0]), np.array([1e9]), NOW + 3 * STEP)
    assert usage(recent) == Usage(1.0, 1.0, 1.0, STEP)


def test_a_clock_that_is_put_back_a_little_ends_no_step() -> None:
    recent = seen((2 * STEP, 1.0), (STEP, 1.0), (2 * STEP + 60.0, 1.0))
    assert usage(recent).seconds == 60.0


def test_a_container_costs_less_than_a_quarter_of_a_kilobyte() -> None:
    recent = RecentUsage()
    rows = np.arange(10_000)
    recent.see(rows, np.ones(len(rows)), np.ones(len(rows)), NOW)
    assert sum(array.nbytes for array, _ in recent._arrays()) <= 256 * len(rows)
