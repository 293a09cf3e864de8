"""A history played and scored, against sums that can be done by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from recommender.estimators.candidates import CALM
from recommender.estimators.peaks import DAY, HOUR
from recommender.replay import jobs, ours, peers
from recommender.replay.playing import Played, UpdateRule, play
from recommender.replay.scoring import score, summary
from recommender.replay.series import Panel, Run, Series, is_for_tuning, side_by_side

STEP = 300.0
WARM = 36
"""Three hours of 5-minute steps."""


def panel(*columns: list[float], step: float = STEP) -> Panel:
    return side_by_side([Series(str(which), step, np.array(one)) for which, one in enumerate(columns)])[0]


def test_what_is_wanted_at_a_step_is_in_force_from_the_next() -> None:
    played = play(panel([1.0, 2.0, 3.0]), np.array([[5.0], [6.0], [7.0]]), UpdateRule())
    assert played.allocated[:, 0] == pytest.approx([np.nan, 5.0, 6.0], nan_ok=True)
    assert played.changed[:, 0].tolist() == [False, True, True]


def test_a_small_change_is_left_alone_and_so_is_what_is_young() -> None:
    wanted = np.array([[10.0], [9.5], [8.0], [4.0], [2.0]])
    played = play(panel([1.0] * 5), wanted, UpdateRule(band=0.1, young_seconds=3 * STEP))
    assert played.allocated[1:, 0].tolist() == [10.0, 10.0, 10.0, 4.0]


def test_after_use_above_what_is_in_force_a_fifth_more_stands_for_an_hour() -> None:
    used = [1.0, 2.0] + [1.0] * 13
    played = play(panel(used), np.full((15, 1), 1.5), UpdateRule(bump=0.2))
    assert played.allocated[2:14, 0] == pytest.approx([2.4] * 12)
    assert played.allocated[14, 0] == pytest.approx(1.5)


def test_outside_its_bounds_a_size_changes_even_while_young() -> None:
    wanted = np.array([[10.0], [10.0], [9.9], [9.9]])
    bounds = (np.full((4, 1), 5.0), np.array([[20.0], [20.0], [9.95], [20.0]]))
    played = play(panel([1.0] * 4), wanted, UpdateRule(band=0.1, raise_band=0.1, young_seconds=DAY), bounds)
    assert played.allocated[1:, 0].tolist() == [10.0, 10.0, 9.9]


def test_the_score_of_a_short_series_by_hand() -> None:
    used = [1.0] * WARM + [1.0, 3.0, 3.0, 1.0]
    sizes = np.full((len(used), 1), 2.0)
    found = summary([score(panel(used), Played(sizes, np.zeros(sizes.shape, dtype=bool)))])
    assert found.slack == pytest.approx((8 - 8) / 8)
    assert found.unserved == pytest.approx(2 / 8)
    assert found.over == pytest.approx(0.5)
    assert found.kills_a_day == pytest.approx(1 / (4 * STEP / DAY))
    assert found.reserved_hours == pytest.approx(8 * STEP / HOUR)


def test_a_limit_apart_decides_kills_and_the_request_decides_slack() -> None:
    used = panel([1.0] * WARM + [3.0] * 4)
    request, limit = (Played(np.full((40, 1), size), np.zeros((40, 1), dtype=bool)) for size in (4.0, 2.0))
    found = summary([score(used, request, limit)])
    assert found.slack == pytest.approx(0.25)
    assert found.kills_a_day > 0
    assert summary([score(used, request)]).kills_a_day == 0


def test_a_series_under_a_day_warms_up_for_3_hours_and_a_longer_one_for_2_days() -> None:
    assert panel([1.0] * 100, [1.0] * 288).warm_up.tolist() == [WARM, 2 * 288]


def test_the_split_keeps_a_name_on_its_side() -> None:
    sides = [is_for_tuning(f"series-{number}") for number in range(400)]
    assert sides == [is_for_tuning(f"series-{number}") for number in range(400)]
    assert 150 < sum(sides) < 250


def test_trailing_peaks_are_those_of_the_last_steps() -> None:
    found = peers.trailing_peak(np.array([[1.0], [5.0], [2.0], [3.0], [1.0]]), 3)
    assert found[:, 0].tolist() == [1.0, 5.0, 5.0, 5.0, 3.0]


def test_an_oracle_is_never_below_use_and_a_shorter_one_reserves_no_more() -> None:
    used = panel(np.random.default_rng(1).uniform(1, 9, 900).tolist())
    short, long = (score(used, peers.oracle(used, seconds=seconds)) for seconds in (HOUR, DAY))
    assert short.kills[0] == long.kills[0] == 0
    assert short.slack[0] <= long.slack[0]


def noisy(columns: int, steps: int, seed: int) -> Panel:
    random = np.random.default_rng(seed)
    values = np.exp(random.normal(0.0, 0.3, (steps, columns)) + np.sin(np.arange(steps) / 40)[:, np.newaxis])
    values[random.random(values.shape) < 0.02] = np.nan
    return Panel(tuple(map(str, range(columns))), STEP, values)


@pytest.mark.parametrize(
    "rule", ["vpa", "vpa memory", "krr", "krr memory", "autopilot", "peaks", "memory", "apart", "cpu"]
)
def test_no_rule_sees_a_future_sample(rule: str) -> None:
    def in_force(used: Panel) -> np.ndarray:
        base = peers.vpa(used, is_memory=True)
        match rule:
            case "memory":
                return ours.memory(used, base).allocated
            case "apart":
                return np.hstack([one.allocated for one in ours.memory_apart(used)])
            case "peaks":
                return peers.recent_peak(used, seconds=HOUR, is_memory=True).allocated
            case "cpu":
                return ours.cpu(used, base, ours.fleet_quantiles(used), CALM).allocated
            case _:
                name, _, resource = rule.partition(" ")
                return peers.PEERS[name](used, is_memory=bool(resource)).allocated

    used, cut = noisy(30, 170, seed=3), 130
    other = Panel(used.names, used.step_seconds, used.values.copy())
    other.values[cut:] *= 50.0
    np.testing.assert_array_equal(in_force(used)[: cut + 1], in_force(other)[: cut + 1])


def test_the_test_for_leaks_would_find_one() -> None:
    used, cut = noisy(3, 60, seed=3), 40
    other = Panel(used.names, used.step_seconds, used.values.copy())
    other.values[cut:] *= 50.0
    one, another = (peers.oracle(panel, seconds=HOUR).allocated[: cut + 1] for panel in (used, other))
    assert not np.array_equal(one, another, equal_nan=True)


@given(arrays(np.float64, (80, 2), elements=st.floats(0.01, 100.0)), st.floats(0.1, 1000.0))
def test_slack_does_not_depend_on_the_unit(values: np.ndarray, unit: float) -> None:
    def slack(factor: float) -> np.ndarray:
        used = Panel(("a", "b"), STEP, values * factor)
        return score(used, peers.recent_peak(used, seconds=HOUR, is_memory=False)).slack

    np.testing.assert_allclose(slack(1.0), slack(unit), rtol=1e-6, atol=1e-9)


def run(*memory: float, job: str = "align", number: int = 0, step: float = 2.0) -> Run:
    return Run(job, number, step, np.array(memory))


def test_a_size_decided_at_a_look_is_in_force_2_seconds_later() -> None:
    played, kills = jobs.play_run(run(*[1.0] * 12), jobs.Plan(5.0, np.array([3.0, 2.0])))
    assert played.tolist() == [5.0] * 6 + [3.0] * 5 + [2.0]
    assert kills == 0


def test_a_killed_run_goes_on_with_a_fifth_more_and_its_half_is_wasted() -> None:
    one = run(1.0, 4.0, 4.0, 1.0)
    played, kills = jobs.play_run(one, jobs.Plan(2.0, np.zeros(0)))
    assert played == pytest.approx([2.0, 4.8, 4.8, 4.8])
    found = jobs.score_run(one, played, kills)
    assert found.kills == 1
    assert found.wasted == pytest.approx((16.4 - 10.0 + 0.5 * 16.4) * 2.0)


def test_only_runs_with_enough_earlier_ones_are_scored() -> None:
    runs = [run(1.0, 2.0, number=number) for number in range(7)]
    assert jobs.play_jobs(runs, jobs.vpa).runs == 2
    assert jobs.play_jobs(runs, jobs.ours, first=0, last=0).runs == 1
    assert jobs.play_jobs(runs, jobs.own_peak).waste == pytest.approx(1 / 3)
