"""Amounts to histories."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from elastipod.pods import ContainerKey, Workload
from recommender.histogram import HistogramState
from recommender.history import ContainerHistory, History
from recommender.joining import filled
from recommender.settings import RecommenderSettings
from recommender.sources.past import Unknown
from recommender.sources.prometheus.answers import Series
from recommender.sources.prometheus.counting import LEAST_BYTES, suspicion
from recommender.sources.prometheus.folding import Fold
from recommender.sources.prometheus.grid import MOST_BYTES, MOST_CORES, Amounts, Grid, Instance, Wanted
from recommender.sources.prometheus.planning import Span
from recommender.sources.prometheus.queries import Names
from recommender.windows import InstanceKey
from tests.recommender.prometheus.loopback import compact

KEY = ContainerKey(Workload("shop", "Deployment", "web"), "app")
NOW = 1_800_000_000
STEP = 3600
SETTINGS = RecommenderSettings(cpu_sample_weight=0.1, metrics_resolution_seconds=STEP)
amounts = st.lists(st.none() | st.floats(0.125, 1000, width=32), min_size=1, max_size=120)


def row_of(found: list[float | None]) -> Amounts:
    return np.array([np.nan if one is None else one for one in found], dtype=np.float32)


def span_of(row: Amounts) -> Span:
    return Span(NOW - (len(row) - 1) * STEP, NOW, STEP)


def folded(
    cores: Amounts, memory: Amounts, unknown: Unknown | None = None, *, uid: str = ""
) -> ContainerHistory | None:
    fold = Fold(SETTINGS, NOW)
    wanted = [Wanted(KEY, unknown or Unknown(NOW), uid)]
    fold.add_cpu(span_of(cores), cores[np.newaxis], wanted)
    fold.add_memory(span_of(memory), memory[np.newaxis], wanted)
    return fold.histories().get(KEY)


def heard_live(row: Amounts) -> ContainerHistory:
    """The same amounts, learned one after the other."""
    history = History(SETTINGS)
    place = history.ensure_instance(InstanceKey("uid", "app"), history.ensure_row(KEY))
    for at, amount in zip(range(span_of(row).start, NOW + 1, STEP), row.astype(np.float64), strict=True):
        if not np.isnan(amount):
            one = np.array([amount])
            history.add(np.array([place]), np.array([float(at)]), one, one * 1e6, float(at))
    return history.export(0)


@given(amounts)
def test_the_past_counts_as_if_it_had_been_heard_live(found: list[float | None]) -> None:
    row = row_of(found)
    past, live = folded(row, row * np.float32(1e6), uid="uid"), heard_live(row)
    if past is None:
        assert live.last_sample_at is None
        return
    assert (past.samples, past.first_sample_at, past.last_sample_at) == (
        live.samples,
        live.first_sample_at,
        live.last_sample_at,
    )
    for one, other in ((past.cpu, live.cpu), (past.memory, live.memory)):
        assert one is not None
        assert other is not None
        assert [bucket for bucket, _ in one.weights] == [bucket for bucket, _ in other.weights]
        scale = 2.0 ** ((other.reference_at - one.reference_at) / SETTINGS.half_life_seconds)
        ours = [weight for _, weight in one.weights]
        theirs = [weight * scale for _, weight in other.weights]
        assert ours == pytest.approx(theirs, rel=1e-4)
    if past.windows:
        [window], [live_window] = past.windows, live.windows
        assert (window.pod_uid, window.ends_at) == (live_window.pod_uid, live_window.ends_at)
        assert window.peak_bytes == pytest.approx(live_window.peak_bytes, rel=1e-6)


@given(amounts, st.integers(0, 120), st.integers(0, 120), st.integers(0, 120))
def test_only_times_that_are_not_known_count(found: list[float | None], first: int, last: int, until: int) -> None:
    row = row_of(found)
    start = span_of(row).start
    unknown = Unknown(start + until * STEP, start + first * STEP, start + last * STEP)
    past = folded(row, row, unknown)
    places = [
        place for place, one in enumerate(found) if one is not None and place <= until and not (first <= place <= last)
    ]
    assert (past.samples if past else 0) == len(places)


@given(amounts, st.integers(0, 120))
def test_the_past_and_what_is_heard_live_make_the_whole_once(found: list[float | None], split: int) -> None:
    row = row_of(found)
    start = span_of(row).start
    past = folded(row, row * np.float32(1e6), Unknown(start + (split - 0.5) * STEP), uid="uid")
    later = row.copy()
    later[:split] = np.nan
    live, whole = heard_live(later), heard_live(row)
    both = live if past is None else filled(live, past, SETTINGS.half_life_seconds)
    assert (both.samples, both.first_sample_at, both.last_sample_at) == (
        whole.samples,
        whole.first_sample_at,
        whole.last_sample_at,
    )
    if whole.cpu is None or whole.memory is None:
        return
    assert both.cpu is not None
    assert both.memory is not None
    assert weights_at(both.cpu, NOW) == pytest.approx(weights_at(whole.cpu, NOW), rel=1e-4)
    # Intervals begin anew where the past ends, so there may be one peak more; the highest is the same.
    ours, theirs = weights_at(both.memory, NOW), weights_at(whole.memory, NOW)
    assert max(ours) == max(theirs)
    assert sum(ours.values()) <= sum(theirs.values()) + 2.0 + 1e-3


def weights_at(state: HistogramState, at: float) -> dict[int, float]:
    scale = 2.0 ** ((state.reference_at - at) / SETTINGS.half_life_seconds)
    return {bucket: weight * scale for bucket, weight in state.weights}


def test_a_coarse_step_weighs_as_many_live_samples_as_it_is_long() -> None:
    settings = RecommenderSettings(metrics_resolution_seconds=60)
    fold = Fold(settings, NOW)
    fold.add_cpu(Span(NOW - 3600, NOW, 3600), row_of([1.0, 1.0])[np.newaxis], [Wanted(KEY, Unknown(NOW))])
    assert fold.histories()[KEY].samples == 120


PODS = {Instance("shop", f"web-{number}", "app") for number in range(10)}


def grid(most: float = MOST_CORES) -> Grid:
    return Grid(Span(0, 600, 60), Names(), most, PODS)


def series(values: list[list[object]], pod: str = "web-0", container: str = "app") -> Series:
    return Series({"namespace": "shop", "pod": pod, "container": container}, Raw(compact(values)))


def test_what_is_no_amount_is_dropped_and_counted_f23_r31() -> None:
    found = grid()
    values: list[list[object]] = [[0, "NaN"], [60, "0.2"], [120, "+Inf"], [180, None], [240, "-1"], [300, "1e308"]]
    found.take(series(values))
    [(instance, row)] = found.rows()
    assert instance == Instance("shop", "web-0", "app")
    assert np.flatnonzero(~np.isnan(row)).tolist() == [1]
    assert (found.dropped.bad_values, found.dropped.too_large) == (4, 1)


def test_a_time_that_is_told_twice_counts_once() -> None:  # F24
    found = grid()
    found.take(series([[0, "1"], [0, "2"], [60, "3"]]))
    found.take(series([[0, "1.5"], [60, "2"]]))
    [(_, row)] = found.rows()
    assert row[:2].tolist() == [2, 3]


def test_times_that_were_not_asked_for_are_left_out() -> None:
    found = grid()
    found.take(series([[-60, "1"], [30, "1"], [660, "1"], [1e300, "1"], [60, "1"]]))
    [(_, row)] = found.rows()
    assert int((~np.isnan(row)).sum()) == 1
    assert found.dropped.off_grid == 4


def test_series_without_a_container_are_nobodys_r30() -> None:
    found = grid()
    for container in ("", "POD", "x" * 1000):
        found.take(series([[0, "1"]], container=container))
    assert list(found.rows()) == []
    assert found.dropped.nameless == 3


def test_only_series_that_were_asked_for_are_held() -> None:  # F27
    found = grid()
    for number in range(1000):
        found.take(series([[0, "1"]], pod=f"web-{number}"))
    assert {instance for instance, _ in found.rows()} == PODS
    assert found.dropped.unwanted == 990


@pytest.mark.parametrize(
    ("found", "taken", "too_large", "is_suspect"),
    [
        ([100e6, 200e6, 50e6], 3, 0, False),
        ([100e6 / 1024, 20e6 / 1024, 50e6 / 1024], 3, 0, True),
        ([], 0, 10, True),
        ([100e6], 10, 3, False),
        ([], 0, 0, False),
    ],
)
def test_another_unit_is_noticed(found: list[float], taken: int, too_large: int, is_suspect: bool) -> None:  # F21
    assert bool(suspicion(found, LEAST_BYTES, taken, too_large)) is is_suspect


def test_a_byte_is_beyond_no_reason() -> None:
    found = grid(MOST_BYTES)
    found.take(series([[0, str(2**40)]]))
    [(_, row)] = found.rows()
    assert row[0] == 2**40
