"""What was used over a window is counted once, and its curve is of all pods together."""

import json

import msgspec
import numpy as np
import pytest

from elastipod.pods import ContainerKey, Workload
from recommender.ranges import Resource
from recommender.report.window import MOST_POINTS, Window
from recommender.sources.past import Unknown
from recommender.sources.prometheus.answers import Series
from recommender.sources.prometheus.grid import MOST_BYTES, Grid, Instance, Wanted
from recommender.sources.prometheus.planning import Span
from recommender.sources.prometheus.queries import Names

KEY = ContainerKey(Workload("shop", "Deployment", "web"), "app")
SPAN = Span(0, 300 * 999, 300)


def seen(
    *rows: list[float], span: Span = SPAN, resource: Resource = Resource.CPU, window: Window | None = None
) -> Window:
    """A window over pods, each with its amounts from the start of the span on."""
    wanted = {Instance("shop", f"web-{number}", "app"): Wanted(KEY, Unknown(0.0)) for number in range(len(rows))}
    grid = Grid(span, Names(), MOST_BYTES, wanted)
    for one, row in zip(wanted, rows, strict=True):
        points = [[span.start + place * span.step, str(value)] for place, value in enumerate(row)]
        labels = {"namespace": "shop", "pod": one.pod, "container": "app"}
        grid.take(Series(labels, values=msgspec.Raw(json.dumps(points).encode())))
    window = window or Window()
    window.see(str(resource), grid, wanted)
    return window


def test_mean_p95_and_peak_are_of_one_container() -> None:
    window = seen([0.5] * 500, [1.0] * 450 + [4.0] * 50)
    found = window.usage()[KEY, Resource.CPU]
    assert found.mean == pytest.approx((250 + 450 + 200) / 1000)
    assert 1.0 <= found.p95 <= 1.05
    assert found.peak == 4.0


@pytest.mark.parametrize("number", [1, 19, 20, 21, 1000])
def test_a_p95_is_at_most_5_percent_too_high_and_never_above_the_peak(number: int) -> None:
    row = np.random.default_rng(number).lognormal(size=number).astype(np.float32).astype(float).tolist()
    found = seen(row).usage()[KEY, Resource.CPU]
    exact = float(np.quantile(row, 0.95, method="inverted_cdf"))
    # Amounts are kept with 24 bits.
    assert exact * (1 - 1e-5) <= found.p95 <= min(1.05001 * exact, found.peak)


def test_a_curve_is_of_all_pods_together_and_breaks_where_nothing_is_known() -> None:
    window = seen([1.0] * 500, [2.0] * 500)
    curve = window.curve(KEY, Resource.CPU)
    assert curve is not None
    assert len(curve.values) <= MOST_POINTS
    assert curve.values[0] == 3.0
    assert np.isnan(curve.values[-1])
    assert curve.seconds * len(curve.values) >= 300 * 1000
    assert window.curve(KEY, Resource.MEMORY) is None


def test_only_what_was_used_in_the_last_quarter_of_an_hour_is_of_now() -> None:
    window = seen([1.0] * 1000, [2.0] * 500)
    assert window.newest == {("shop", "web-0", "app"): (1.0, None)}
    assert window.seconds == 300 * 1000


def test_each_resource_has_steps_of_its_own() -> None:
    window = seen([1.0] * 960, span=Span(300, 300 * 960, 300))
    hours = seen([5.0] * 80, [5.0] * 80, span=Span(3600, 3600 * 80, 3600), resource=Resource.MEMORY, window=window)
    assert hours is window
    cpu, memory = (window.curve(KEY, resource) for resource in Resource)
    assert cpu is not None
    assert memory is not None
    assert (set(cpu.values.tolist()), set(memory.values.tolist())) == ({1.0}, {10.0})
    assert {of: one.seconds for (_, of), one in window.usage().items()} == dict.fromkeys(Resource, window.seconds)
    assert "cpu by its mean in 5 minutes, memory by its peak in 60 minutes" in window.words


def test_the_window_begins_with_what_is_known_and_not_with_what_was_asked_for() -> None:
    window = seen([float("nan")] * 900 + [1.0] * 100, [float("nan")] * 950 + [1.0] * 50)
    assert window.seconds == 300 * 100
    assert seen([float("nan")] * 3).seconds == 0.0


def test_what_is_no_amount_is_not_counted() -> None:
    found = seen([1.0, float("nan"), 3.0]).usage()[KEY, Resource.CPU]
    assert (found.mean, found.peak) == (2.0, 3.0)
