"""VPA's rule: percentiles, margin, confidence."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.pods import ContainerKey, Workload
from recommender.estimators.histogram import Estimates, bounded, estimate
from recommender.history import History
from recommender.settings import RecommenderSettings
from recommender.windows import InstanceKey

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
KEY = ContainerKey(Workload("ns", "Deployment", "web"), "app")


def watched(minutes: int, cpu: float = 1.0, memory: float = 1e9, **settings: Any) -> tuple[Estimates, History]:
    """A container that used the same for so many minutes."""
    given_settings = RecommenderSettings(**settings)
    history = History(given_settings)
    place = np.array([history.ensure_instance(InstanceKey("p", "app"), history.ensure_row(KEY))])
    for minute in range(minutes + 1):
        at = 1e9 + minute * MINUTE
        history.add(place, np.array([at]), np.array([cpu]), np.array([memory]), at)
    return estimate(history, given_settings), history


@pytest.mark.parametrize(
    ("seconds", "upper", "lower"),
    [(5 * MINUTE, 289.0, 0.60), (HOUR, 25.0, 0.95), (12 * HOUR, 3.0, 0.996), (DAY, 2.0, 0.998), (7 * DAY, 1.1429, 1.0)],
)
def test_bounds_are_as_wide_as_upstreams(seconds: float, upper: float, lower: float) -> None:
    confidence = np.array([seconds / DAY])
    settings = RecommenderSettings(enough_confidence=0.0, margin_fraction=0.0)
    found = bounded(np.ones((1, 3)), confidence, settings)
    assert found[0, 2] == pytest.approx(upper, rel=0.01)
    assert found[0, 0] == pytest.approx(lower, rel=0.01)
    assert found[0, 1] == 1.0


def test_confidence_counts_samples_and_time_whichever_is_less() -> None:
    _, history = watched(60)
    assert history.confidence()[0] == pytest.approx(HOUR / DAY)
    _, sparse = watched(60, metrics_resolution_seconds=10.0)
    assert sparse.confidence()[0] == pytest.approx(61 / 8640)


def test_a_steady_container_gets_its_use_and_a_margin() -> None:
    estimates, _ = watched(30)
    assert 1.15 <= estimates.cpu.target[0] <= 1.15 * 1.05
    assert 1.15e9 <= estimates.memory.target[0] <= 1.15e9 * 1.05


def test_a_container_that_uses_next_to_nothing_gets_next_to_nothing_r12() -> None:
    settings = RecommenderSettings()
    history = History(settings)
    place = np.array([history.ensure_instance(InstanceKey("p", "app"), history.ensure_row(KEY))])
    spread = np.random.default_rng(1)
    for minute in range(300):
        cpu = 0.002 if spread.random() < 0.05 else 0.001
        at = 1e9 + minute * MINUTE
        history.add(place, np.array([at]), np.array([cpu]), np.array([5e6]), at)
    target = estimate(history, settings).cpu.target[0]
    assert 2 <= np.ceil(target * 1000) <= 5


def test_no_upper_bound_before_there_is_enough_history_r27() -> None:
    early, _ = watched(2)
    assert np.isinf(early.cpu.upper[0])
    assert np.isinf(early.memory.upper[0])
    late, _ = watched(181)
    assert np.isfinite(late.cpu.upper[0])


@given(st.lists(st.tuples(st.floats(0, 64), st.floats(0, 1e11)), min_size=1, max_size=40), st.floats(1, 90))
def test_lower_bound_target_and_upper_bound_are_in_order(usage: list[tuple[float, float]], minutes: float) -> None:
    settings = RecommenderSettings()
    history = History(settings)
    place = np.array([history.ensure_instance(InstanceKey("p", "app"), history.ensure_row(KEY))])
    for step, (cpu, memory) in enumerate(usage):
        at = 1e9 + step * minutes * MINUTE
        history.add(place, np.array([at]), np.array([cpu]), np.array([memory]), at)
    estimates = estimate(history, settings)
    for one in (estimates.cpu, estimates.memory):
        assert one.lower[0] <= one.target[0] <= one.upper[0]
