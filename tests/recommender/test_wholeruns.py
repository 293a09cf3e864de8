"""A run that is played to its finish: what too little CPU, a kill and a hold cost it."""

import numpy as np
import pytest

from recommender.replay.jobs import Plan, looks
from recommender.replay.series import Run
from recommender.replay.wholeruns import HOLD_SECONDS, Sizes, highest, play_whole

GIB = 1024.0**3


def run(memory: list[float], cores: float | list[float] = 1.0) -> Run:
    """A run of a second a sample; memory in GiB."""
    used = np.array(memory) * GIB
    return Run("job", 0, 1.0, used, np.broadcast_to(np.asarray(cores, dtype=np.float64), used.shape).copy())


def sizes(of: Run, gib: float | list[float], *, cores: float = 1.0, is_guarded: bool = False) -> Sizes:
    """A start, and what comes after each look."""
    start, *later = gib if isinstance(gib, list) else [gib] * (1 + len(looks(of)))
    plan = Plan(start * GIB, np.array(later) * GIB)
    return Sizes(np.full(len(of.memory_bytes), cores), plan, is_guarded)


def test_a_run_that_has_enough_reserves_for_as_long_as_it_takes() -> None:
    one = run([1.0] * 3600)
    told = play_whole(one, sizes(one, 2.0, cores=1.5))
    assert (told.core_hours, told.gib_hours) == (pytest.approx(1.5), pytest.approx(2.0))
    assert (told.kills, told.holds, told.resizes, told.throttled_seconds, told.finish_seconds) == (0, 0, 0, 0, 3600)


def test_too_little_cpu_makes_it_take_longer_and_all_is_reserved_so_long() -> None:
    one = run([1.0] * 3600, [2.0] * 1800 + [0.5] * 1800)
    told = play_whole(one, sizes(one, 2.0, cores=1.0))
    assert told.finish_seconds == 2 * 1800 + 1800
    assert told.throttled_seconds == 1800
    assert told.core_hours == pytest.approx(5400 / 3600)
    assert told.gib_hours == pytest.approx(2 * 5400 / 3600)


def test_a_kill_costs_all_it_did_and_the_next_attempt_has_a_fifth_more_than_was_proven() -> None:
    one = run([1.0] * 100 + [3.0] * 100)
    told = play_whole(one, sizes(one, 2.0))
    assert (told.kills, told.finish_seconds) == (1, 100 + 200)
    assert told.gib_hours == pytest.approx((100 * 2.0 + 200 * 3.6) / 3600)


def test_a_guard_holds_it_for_a_moment_and_nothing_is_lost() -> None:
    one = run([1.0] * 100 + [3.0] * 100)
    told = play_whole(one, sizes(one, 2.0, is_guarded=True))
    assert (told.kills, told.holds, told.resizes) == (0, 1, 1)
    assert told.finish_seconds == 200 + HOLD_SECONDS
    # Steps of a quarter of the limit that double: 2, 2.5, 3.5.
    assert told.gib_hours == pytest.approx((100 * 2.0 + 100 * 3.5 + HOLD_SECONDS * 3.5) / 3600)


def test_a_guard_gives_no_more_than_four_times_the_limit() -> None:
    one = run([1.0] * 100 + [8.1] * 100)
    told = play_whole(one, sizes(one, 2.0, is_guarded=True))
    assert (told.kills, told.holds) == (1, 0)


def test_a_guard_holds_only_so_often_in_a_while() -> None:
    one = run([1.0, 1.8, 3.9, 6.0, 7.0] + [7.0] * 5)
    told = play_whole(one, sizes(one, 1.0, is_guarded=True))
    assert (told.holds, told.kills) == (3, 1)


def test_what_a_hold_proved_is_not_taken_away_within_the_hour() -> None:
    one = run([1.0] * 15 + [3.0] * 30)
    told = play_whole(one, sizes(one, [2.0, *[1.5] * len(looks(one))], is_guarded=True))
    assert (told.kills, told.holds) == (0, 1)


def test_a_new_size_is_in_force_two_seconds_after_the_look() -> None:
    one = run([1.0] * 30)
    told = play_whole(one, sizes(one, [2.0, 4.0, 4.0]))
    assert looks(one) == [10, 20]
    assert told.resizes == 1
    assert told.gib_hours == pytest.approx((12 * 2.0 + 18 * 4.0) / 3600)


def test_the_peak_is_of_all_runs() -> None:
    assert highest([run([1.0, 4.0], 0.5), run([2.0], 3.0)]) == (3.0, 4.0 * GIB)
