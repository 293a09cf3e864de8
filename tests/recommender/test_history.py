"""What is remembered: memory peaks, OOM evidence, restarts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.pods import ContainerKey, Workload
from recommender.estimators.histogram import estimate
from recommender.history import History
from recommender.oom import OomEvidence, after_kill
from recommender.samples import OomKill
from recommender.settings import RecommenderSettings
from recommender.windows import InstanceKey

MI, GI = 1024**2, 1024**3
HOUR, DAY = 3600.0, 86_400.0
WEB = Workload("ns", "Deployment", "web")
KEY = ContainerKey(WEB, "app")
SETTINGS = RecommenderSettings()
START = 1.8e9


def use(history: History, pod: str, at: float, memory: float = math.nan, cpu: float = math.nan) -> None:
    """One sample of one pod."""
    place = history.ensure_instance(InstanceKey(pod, "app"), history.ensure_row(KEY))
    history.add(np.array([place]), np.array([at]), np.array([cpu]), np.array([memory]), at)


def kill(number: int, limit: float, *, pod: str = "p", at: float = START, request: float = 0) -> OomKill:
    return OomKill(WEB, "app", pod, f"kill-{number}", at, int(limit), int(request))


def memory_target(history: History) -> float:
    return float(estimate(history, SETTINGS).memory.target[0])


def test_many_kills_at_the_same_limit_grow_the_target_once_r01() -> None:
    history = History(SETTINGS)
    for number in range(250):
        history.add_oom(kill(number, 995e6, at=START + number * 270))
    for minute in range(60):
        use(history, "p", START + 18 * HOUR + minute * 60, memory=1.2e9 + minute * 6.6e6)
    assert 1.6e9 <= memory_target(history) < 2.1e9


def test_a_ladder_of_applied_kills_stays_within_twice_the_last_limit_r01() -> None:
    history, limit = History(SETTINGS), 995e6
    for number in range(3):
        history.add_oom(kill(number, limit))
        limit = memory_target(history)
        if limit >= 1.6e9:
            break
    assert 1.6e9 <= limit < 2.1e9


@pytest.mark.parametrize("days", [30, 0])
def test_kills_alone_raise_memory_after_a_downsize_r02(days: int) -> None:
    history = History(SETTINGS)
    for day in range(days):
        use(history, "p", START + day * DAY, memory=400 * MI)
    limit = 300.0 * MI
    for bump in range(5):
        history.add_oom(kill(bump, limit, pod="q", at=START + 30 * DAY + bump * 60))
        limit = memory_target(history)
        if limit >= 400 * MI:
            break
    assert limit >= 400 * MI


def test_a_gap_lowers_nothing_r02() -> None:
    history = History(SETTINGS)
    use(history, "p", START, memory=400 * MI, cpu=0.5)
    history.add_oom(kill(1, 500 * MI))
    before = estimate(history, SETTINGS)
    history.expire_oom()
    after = estimate(history, SETTINGS)
    assert (after.memory.target == before.memory.target).all()
    assert (after.cpu.target == before.cpu.target).all()


def test_a_kill_before_the_first_sample_gives_memory_and_no_cpu_r03() -> None:
    history = History(SETTINGS)
    for number in range(3):
        history.add_oom(kill(number, 100 * MI))
        found = estimate(history, SETTINGS)
        assert found.memory.target[0] >= 200 * MI
        assert np.isnan(found.cpu.target[0])
        assert found.confidence[0] == 0.0


def test_one_suffering_pod_of_many_raises_the_target_within_three_kills_r04() -> None:
    history, limit = History(SETTINGS), 130.0 * MI
    for number in range(3):
        for minute in range(30):
            for pod in range(9):
                use(history, f"fine-{pod}", START + number * HOUR + minute * 60, memory=100 * MI)
        if limit >= 600 * MI:
            break
        history.add_oom(kill(number, limit, pod="hungry", at=START + number * HOUR))
        limit = max(limit, memory_target(history))
    assert limit >= 600 * MI


def test_the_same_kill_counts_once() -> None:
    history = History(SETTINGS)
    assert history.add_oom(kill(1, 100 * MI))
    assert not history.add_oom(kill(1, 400 * MI))
    assert memory_target(history) == 200 * MI


def test_a_kill_at_our_own_cap_teaches_nothing() -> None:
    evidence = OomEvidence()
    for number in range(40):
        evidence = after_kill(evidence, str(number), START, 500 * MI, 1.2, 100 * MI)
    assert evidence.floor_bytes == 600 * MI
    assert evidence.kills == 40


def test_a_repeat_at_the_recommended_size_doubles_the_step() -> None:
    evidence, sizes = OomEvidence(), [1000.0]
    for number in range(3):
        evidence = after_kill(evidence, str(number), START, sizes[-1] * MI, 1.2, 100 * MI)
        sizes.append(evidence.floor_bytes / MI)
    assert sizes == [1000, 1200, 1200 + 2 * 240, 1680 + 4 * 336]


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=30))
def test_a_kill_never_lowers_the_floor(amounts: list[float]) -> None:
    evidence = OomEvidence()
    for number, amount in enumerate(amounts):
        after = after_kill(evidence, str(number), START, amount, 1.2, 100 * MI)
        assert after.floor_bytes >= evidence.floor_bytes
        assert after.floor_bytes >= amount
        evidence = after


def test_the_peak_of_the_day_counts_where_it_is_above_limit_and_request() -> None:
    history = History(SETTINGS)
    use(history, "p", START, memory=900 * MI)
    history.add_oom(kill(1, 0, request=512 * MI))
    assert memory_target(history) >= 1080 * MI


def test_a_kill_older_than_the_newest_sample_counts_r26() -> None:
    history = History(SETTINGS)
    use(history, "p", START + 60, memory=100 * MI)
    assert history.add_oom(kill(1, 300 * MI, at=START + 44))
    assert memory_target(history) >= 400 * MI


def test_the_peak_of_a_window_replaces_the_one_before_it() -> None:
    history = History(SETTINGS)
    for step, memory in enumerate((100, 300, 200, 500)):
        use(history, "p", START + step * 60, memory=memory * MI)
    assert history.memory.total(0, START + DAY) == pytest.approx(1.0)
    assert 500 * MI <= (history.memory.percentile(0, 0.5) or 0) <= 525 * MI


def test_each_interval_has_a_peak_of_its_own() -> None:
    history = History(SETTINGS)
    for day in range(4):
        use(history, "p", START + day * DAY, memory=100 * MI)
    assert history.memory.total(0, START + 4 * DAY) == pytest.approx(1 + 1 / 2 + 1 / 4 + 1 / 8)


def test_the_peak_of_a_running_day_outlives_daily_restarts_r08() -> None:
    history = History(SETTINGS)
    for day in range(10):
        for hour in range(24):
            at = START + day * DAY + hour * HOUR
            use(history, "p", at, memory=3 * GI if hour == 2 else 1 * GI)
            if hour == 20:
                saved = history.export(0)
                history = History(SETTINGS)
                history.restore(KEY, saved)
            if day or hour >= 2:
                assert memory_target(history) >= 3 * GI


def test_a_restart_within_a_window_does_not_count_the_window_twice() -> None:
    history = History(SETTINGS)
    use(history, "p", START, memory=100 * MI)
    again = History(SETTINGS)
    again.restore(KEY, history.export(0))
    use(again, "p", START + 60, memory=300 * MI)
    assert again.memory.total(0, START + DAY) == pytest.approx(1.0)


def test_strange_and_repeated_samples_are_counted_and_left_out() -> None:
    history = History(SETTINGS)
    use(history, "p", START, memory=100 * MI, cpu=0.1)
    use(history, "p", START, memory=900 * MI, cpu=9.0)
    assert history.dropped.duplicate == 1
    use(history, "p", START + 60, memory=-1.0, cpu=math.inf)
    assert history.dropped.not_finite == 2
    assert history.samples[0] == 1


def test_a_stamp_from_the_future_freezes_nothing_r74() -> None:
    history = History(SETTINGS)
    place = np.array([history.ensure_instance(InstanceKey("p", "app"), history.ensure_row(KEY))])
    one = np.array([0.1])
    for stamp, now in ((START + 3 * HOUR, START), (START + 60, START + 60), (START + 120, START + 120)):
        history.add(place, np.array([stamp]), one, one, now)
    assert history.samples[0] == 3
    assert history.last_sample_at[0] == START + 120


def test_files_in_memory_that_outlive_a_restart_count_as_need_r28() -> None:
    history = History(SETTINGS)
    for minute in range(30):
        use(history, "p", START + minute * 60, memory=(100 + 13 * minute) * MI)
    history.add_oom(kill(1, 500 * MI, at=START + 30 * 60))
    use(history, "p", START + 31 * 60, memory=410 * MI)
    assert memory_target(history) >= 600 * MI


def test_a_percentile_is_the_upper_end_of_the_bucket_that_holds_it_r24() -> None:
    history = History(SETTINGS)
    for hundredth in range(1, 101):
        use(history, f"p{hundredth}", START, cpu=hundredth / 10, memory=hundredth * 1e7)
    row = history.row(KEY)
    assert row is not None
    for bank, unit in ((history.cpu, 0.1), (history.memory, 1e7)):
        for percentile in (0.5, 0.9, 0.95):
            found = bank.percentile(row, percentile)
            assert found is not None
            assert percentile * 100 * unit <= found <= percentile * 100 * unit * 1.05


@given(st.permutations(list(range(12))))
def test_the_same_usage_gives_the_same_advice_in_whatever_order_its_pods_are_told_r24(order: list[int]) -> None:
    def learned(pods: list[int]) -> History:
        history = History(SETTINGS)
        for pod in range(12):
            history.ensure_instance(InstanceKey(str(pod), "app"), history.ensure_row(KEY))
        places = np.array([history.ensure_instance(InstanceKey(str(pod), "app"), 0) for pod in pods])
        amounts = np.array([0.25 * 2**pod for pod in pods])
        for minute in range(3):
            at = START + minute * 60
            history.add(places, np.full(12, at), amounts, amounts * 1e6, at)
        return history

    one, other = (estimate(learned(pods), SETTINGS) for pods in (order, sorted(order)))
    for resource in ("cpu", "memory"):
        assert getattr(one, resource).values.tobytes() == getattr(other, resource).values.tobytes()


def test_an_oom_floor_ends_after_as_much_seen_usage_as_is_kept() -> None:
    history = History(SETTINGS)
    history.add_oom(kill(1, 500 * MI, at=START))
    for day in range(8):
        use(history, "p", START + day * DAY, memory=50 * MI)
    assert history.expire_oom() == []
    use(history, "p", START + 8.1 * DAY, memory=50 * MI)
    assert history.expire_oom() == [0]
    assert memory_target(history) < 100 * MI
    assert not history.add_oom(kill(1, 500 * MI, at=START))


def test_a_forgotten_containers_row_starts_empty_for_the_next() -> None:
    history = History(SETTINGS)
    use(history, "p", START, memory=100 * MI, cpu=1.0)
    history.add_oom(kill(1, 500 * MI))
    history.forget_instance(InstanceKey("p", "app"))
    history.forget(KEY)
    other = ContainerKey(WEB, "other")
    assert history.ensure_row(other) == 0
    found = estimate(history, SETTINGS)
    assert np.isnan(found.cpu.target[0])
    assert np.isnan(found.memory.target[0])
    assert history.containers(WEB) == ["other"]
