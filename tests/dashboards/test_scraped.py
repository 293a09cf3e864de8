"""Every query of every board, asked of a real Prometheus that has scraped a real elastipod twice over."""

import math
from collections.abc import Iterator
from typing import Final

import pytest

from elastipod.dashboards.asking import once, sum_by
from elastipod.dashboards.boards import BOARDS
from elastipod.dashboards.panels import Board, Panel, Unit
from elastipod.dashboards.rules import GROUPS, recorded
from recommender.prices import ON_DEMAND
from tests.dashboards.asked import asked
from tests.dashboards.scraped import Scraped, scraped

pytestmark = [pytest.mark.promserver, pytest.mark.timeout(300)]

# No kubelet is scraped here.
_NOT_HERE: Final = ("container_",)
_MOST: Final = {
    Unit.CORES: 4.0,
    Unit.BYTES: 8 * 1024.0**3,
    Unit.MONEY: ON_DEMAND.per_month(4, 8 * 1024**3),
    Unit.PRICE: ON_DEMAND.core_hour,
    Unit.COUNT: 10_000.0,
    Unit.DAYS: 0.1,
    Unit.SECONDS: 300.0,
    Unit.FRACTION: 1.0,
    Unit.PER_SECOND: 50.0,
}
"""No number of a cluster of two nodes of 2 cores and 4 GiB, minutes old, is above."""
_CENTURY: Final = 100 * 366 * 86_400.0
"""How long the certificate of the tests holds."""
PANELS: Final = [(board, panel) for board in BOARDS for panel in board.panels]


def is_here(expression: str) -> bool:
    return not any(name in expression for name in _NOT_HERE)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    wanted = [asked(query.expression) for _, panel in PANELS for query in panel.queries if is_here(query.expression)]
    with scraped(tmp_path_factory.mktemp("scraped"), wanted) as found:
        yield found


@pytest.mark.parametrize(("board", "panel"), PANELS, ids=[f"{board.name}: {panel.title}" for board, panel in PANELS])
def test_a_panel_shows_something_and_in_its_unit(prometheus: Scraped, board: Board, panel: Panel) -> None:
    for query in panel.queries:
        found = prometheus.values(asked(query.expression))
        if not is_here(query.expression):
            assert not found, query.expression
            continue
        numbers = [one for one in found if not math.isnan(one)]
        assert numbers, query.expression
        most = _CENTURY if "certificate_ends" in query.expression else _MOST[panel.unit]
        assert max(map(abs, numbers)) <= most, query.expression


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_annotations_are_what_prometheus_understands(prometheus: Scraped, board: Board) -> None:
    for one in board.annotations:
        prometheus.values(asked(one.expression))


def test_a_hold_and_a_kill_are_marked(prometheus: Scraped) -> None:
    marks = {one.name: asked(one.expression) for board in BOARDS for one in board.annotations}
    for name in ("Held", "Killed for memory"):
        assert prometheus.values(marks[name]), name


def test_what_two_scrapers_see_counts_once(prometheus: Scraped) -> None:
    for metric in ("elastipod_workload_waste", "elastipod_workload_requests", "elastipod_node_allocatable"):
        assert prometheus.value(f'count(count by (job) ({metric}{{resource="cpu"}}))') == 2
    panels = {panel.title: asked(panel.queries[0].expression) for _, panel in PANELS}
    once = 'elastipod_workload_waste{resource="cpu",job="again"}'
    assert prometheus.value(panels["Waste, CPU"]) == pytest.approx(prometheus.value(f"sum({once})"))
    assert prometheus.value(panels["Chosen nodes' CPU"]) == 4.0


def test_every_rule_is_worked_out(prometheus: Scraped) -> None:
    found = prometheus.rules()
    assert {one["name"] for one in found} >= {alert.name for group in GROUPS for alert in group.alerts}
    assert {one["health"] for one in found} == {"ok"}


def test_what_is_recorded_is_the_sum_of_what_is_told(prometheus: Scraped) -> None:
    told = sum_by((), once("elastipod_workload_requests_before", 'resource="cpu"'))
    kept = f'sum({recorded("requests_before")}{{resource="cpu"}})'
    # It is a second old, in which a Job may have ended.
    assert prometheus.value(kept) == pytest.approx(prometheus.value(told), rel=0.2)


def test_money_is_cores_and_memory_at_their_price_for_a_month(prometheus: Scraped) -> None:
    panels = {panel.title: asked(panel.queries[0].expression) for _, panel in PANELS}
    cores, memory = prometheus.value(panels["Waste, CPU"]), prometheus.value(panels["Waste, memory"])
    assert prometheus.value(panels["Waste"]) == pytest.approx(ON_DEMAND.per_month(cores, memory))


def test_what_is_chosen_is_what_is_shown(prometheus: Scraped) -> None:
    panels = {panel.title: panel.queries[0].expression for _, panel in PANELS}
    of = {name: prometheus.value(asked(panels["Waste, CPU"], workload=name)) for name in ("wide", "narrow")}
    assert of["wide"] > 0.5
    assert of["narrow"] == 0.0
    both = prometheus.value(asked(panels["Waste, CPU"], workload="(wide|narrow)"))
    assert both == pytest.approx(sum(of.values()))
