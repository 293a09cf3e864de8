"""What boards show where the same is told more than once, ends, begins anew, or is of several clusters."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from elastipod.dashboards.boards import BOARDS
from recommender.prices import HOURS_A_MONTH
from tests.dashboards.asked import asked

pytestmark = pytest.mark.promserver

WEB: Final = 'namespace="shop",workload_kind="Deployment",workload="web",container="app"'
EXPRESSIONS: Final = {
    (board.name, panel.title): panel.queries[0].expression for board in BOARDS for panel in board.panels
}
WASTE: Final = EXPRESSIONS["savings", "Waste, CPU"]
HOLDS: Final = EXPRESSIONS["workload", "Memory spikes"]
MARKS: Final = {one.name: one.expression for board in BOARDS for one in board.annotations}
RESIZED, STARTED = MARKS["Resized"], MARKS["Started"]
HELD, KILLED = MARKS["Held"], MARKS["Killed for memory"]


def waste(**more: str) -> str:
    return f'elastipod_workload_waste{{{WEB},resource="cpu"{_labels(more)}}}'


def holds(**more: str) -> str:
    return f'elastipod_workload_holds_total{{{WEB},result="raised"{_labels(more)}}}'


def _labels(more: dict[str, str]) -> str:
    return "".join(f',{name}="{value}"' for name, value in more.items())


@pytest.fixture
def shows(promtool: Callable[..., str]) -> Callable[..., None]:
    """Asserts the sum of what an expression shows after half an hour; None for nothing."""

    def check(series: dict[str, str], expression: str, value: float | None, minute: int = 30, **chosen: str) -> None:
        asked_for = f"sum({asked(expression, rate='5m', **chosen)})"
        samples: list[Any] = [] if value is None else [{"labels": "{}", "value": value}]
        one = {"expr": asked_for, "eval_time": f"{minute}m", "exp_samples": samples}
        assert not promtool(series, "", promql_expr_test=[one])

    return check


def test_two_scrapes_and_two_leaders_tell_of_one_waste(shows: Callable[..., None]) -> None:
    told = {waste(instance=instance, job=job): "2x60" for instance in ("r:1", "r:2") for job in ("a", "b")}
    shows(told, WASTE, 2)


def test_a_leader_that_ended_is_in_no_sum_beside_its_successor(shows: Callable[..., None]) -> None:
    told = {waste(instance="r:1"): "2x28 stale", waste(instance="r:2"): "_x27 1x60"}
    shows(told, WASTE, 1)


def test_clusters_are_added_up_and_each_can_be_chosen(shows: Callable[..., None]) -> None:
    told = {waste(cluster="east", instance="r:1"): "2x60", waste(cluster="west", instance="r:1"): "3x60"}
    shows(told, WASTE, 5)
    shows(told, WASTE, 2, cluster="east")
    shows(told, WASTE, None, cluster="north")


def test_without_a_label_of_clusters_all_is_one(shows: Callable[..., None]) -> None:
    shows({waste(instance="r:1"): "2x60"}, WASTE, 2)


def test_currencies_are_not_added_up(shows: Callable[..., None]) -> None:
    cost = f'elastipod_workload_waste_cost_per_hour{{{WEB},resource="cpu",currency='
    told = {f'{cost}"USD",cluster="east"}}': "1x60", f'{cost}"EUR",cluster="west"}}': "2x60"}
    expression = EXPRESSIONS["savings", "Waste"]
    shows(told, f"count({expression})", 2)
    shows(told, expression, HOURS_A_MONTH, cluster="east")


def test_what_two_scrapes_counted_grew_once(shows: Callable[..., None]) -> None:
    shows({holds(instance="a:1", job=job): "0+6x60" for job in "ab"}, HOLDS, 0.1)


def test_what_two_nodes_counted_is_added_up(shows: Callable[..., None]) -> None:
    shows({holds(instance=one): "0+6x60" for one in ("a:1", "a:2")}, HOLDS, 0.2)


def test_a_process_that_was_replaced_counts_until_then_and_its_successor_from_then_on(
    shows: Callable[..., None],
) -> None:
    shows({holds(instance="a:1"): "600+6x20 stale", holds(instance="a:2"): "_x21 0+6x60"}, HOLDS, 0.1)


def test_a_resize_is_where_the_mean_pod_requests_otherwise_and_not_where_there_are_more_pods(
    shows: Callable[..., None],
) -> None:
    of = f'{{{WEB},resource="cpu"}}'
    pods, requests = f"elastipod_workload_pods{of}", f"elastipod_workload_requests{of}"
    shows({pods: "2x60", requests: "1x60"}, RESIZED, None)
    shows({pods: "2x29 2x30", requests: "1x29 0.5x30"}, RESIZED, 0.25)
    shows({pods: "2x29 4x30", requests: "1x29 2x30"}, RESIZED, None)


def test_an_old_hold_and_an_old_kill_are_not_marked_after_a_gap_of_scrapes(shows: Callable[..., None]) -> None:
    gap = "3x20 stale _x2 3x60"
    told = {
        holds(instance="a:1"): gap,
        f'elastipod_workload_oom_kills_total{{{WEB},instance="a:1"}}': gap,
        'elastipod_run_seconds_count{part="any",instance="a:1"}': gap,
    }
    for minute in range(10, 40):
        shows(told, HELD, None, minute=minute)
        shows(told, KILLED, None, minute=minute)


def test_the_first_hold_of_a_process_is_marked_once(shows: Callable[..., None]) -> None:
    told = {holds(instance="a:1"): "_x20 1x60", 'elastipod_run_seconds_count{part="actuator",instance="a:1"}': "1x90"}
    for minute, value in ((19, None), (20, 1.0), (21, None)):
        shows(told, HELD, value, minute=minute)


def test_throttling_is_the_share_of_periods_of_the_workloads_own_pods(shows: Callable[..., None]) -> None:
    def periods(name: str, pod: str, job: str = "kubelet") -> str:
        labels = f'namespace="shop",pod="{pod}",container="app",job="{job}"'
        return f"container_cpu_cfs_{name}_total{{{labels}}}"

    told = {
        periods("periods", "web-5d4f8c7b9d-abcde"): "0+600x60",
        periods("periods", "web-5d4f8c7b9d-abcde", "again"): "0+600x60",
        periods("throttled_periods", "web-5d4f8c7b9d-abcde"): "0+150x60",
        periods("periods", "api-0"): "0+600x60",
        periods("throttled_periods", "api-0"): "0+600x60",
    }
    throttled = EXPRESSIONS["workload", "Throttled"]
    shows(told, throttled, 0.25, workload="web")
    shows(told, throttled, 0.625)


def test_a_container_that_starts_is_marked_once(shows: Callable[..., None]) -> None:
    started = 'container_start_time_seconds{namespace="shop",pod="web-0",container="app",id="%s"}'
    # Its second life began in minute 20, second 30.
    told = {started % "a": "10x20 stale", started % "b": "_x21 1230x60"}
    for minute, count in ((20, None), (21, 1.0), (22, None)):
        shows(told, f"count({STARTED})", count, minute=minute, workload="web")
