"""What boards show where the same is told more than once, ends, begins anew, or is of several clusters."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from elastipod.dashboards.boards import BOARDS
from elastipod.dashboards.podnames import FORMS
from elastipod.owners import OWN_KINDS
from elastipod.pods import Workload
from recommender.prices import HOURS_A_MONTH
from recommender.sources.prometheus.ownership import is_named_by
from tests.dashboards.asked import asked

pytestmark = pytest.mark.promserver

WEB: Final = 'namespace="shop",workload_kind="Deployment",workload="web",container="app"'
EXPRESSIONS: Final = {
    (board.name, panel.title): panel.queries[0].expression for board in BOARDS for panel in board.panels
}
WASTE: Final = EXPRESSIONS["savings", "Waste, CPU"]
THROTTLED: Final = EXPRESSIONS["workload", "Throttled"]
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
    shows({holds(instance="a:1", job=job): "0+6x60" for job in "ab"}, HOLDS, 30)


def test_what_two_nodes_counted_is_added_up(shows: Callable[..., None]) -> None:
    shows({holds(instance=one): "0+6x60" for one in ("a:1", "a:2")}, HOLDS, 60)


def test_a_process_that_was_replaced_counts_until_then_and_its_successor_from_then_on(
    shows: Callable[..., None],
) -> None:
    shows({holds(instance="a:1"): "600+6x20 stale", holds(instance="a:2"): "_x21 0+6x60"}, HOLDS, 30)


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


def test_the_first_kill_of_a_container_is_drawn(shows: Callable[..., None]) -> None:
    told = {f'elastipod_workload_oom_kills_total{{{WEB},instance="r:1"}}': "_x28 1x60"}
    shows(told, EXPRESSIONS["workload", "Killed for memory"], 1.0)
    shows(told, EXPRESSIONS["workload", "Killed for memory"], 0.0, minute=40)


def test_the_first_hold_of_a_process_is_marked_once(shows: Callable[..., None]) -> None:
    told = {holds(instance="a:1"): "_x20 1x60", 'elastipod_run_seconds_count{part="actuator",instance="a:1"}': "1x90"}
    for minute, value in ((19, None), (20, 1.0), (21, None)):
        shows(told, HELD, value, minute=minute)


def periods(pod: str, rate: int, throttled: int, *, job: str = "kubelet", namespace: str = "shop") -> dict[str, str]:
    """What a kubelet counts of a pod by the minute."""
    labels = f'{{namespace="{namespace}",pod="{pod}",container="app",job="{job}"}}'
    return {
        f"container_cpu_cfs_periods_total{labels}": f"0+{rate}x60",
        f"container_cpu_cfs_throttled_periods_total{labels}": f"0+{throttled}x60",
    }


def pods_of(*workloads: str, namespace: str = "shop") -> dict[str, str]:
    """What elastipod tells of workloads, by kind and name."""
    return {
        f'elastipod_workload_pods{{namespace="{namespace}",workload_kind="{kind}",workload="{name}",container="app",'
        'resource="cpu"}': "1x60"
        for kind, _, name in (one.partition("/") for one in workloads)
    }


def test_throttling_is_the_share_of_periods_of_the_workloads_own_pods(shows: Callable[..., None]) -> None:
    told = {
        **pods_of("Deployment/web", "Deployment/web-api", "StatefulSet/api"),
        **periods("web-5d4f8c7b9d-x7k2p", 600, 150),
        **periods("web-5d4f8c7b9d-x7k2p", 600, 150, job="again"),
        **periods("web-5d4f8c7b9d-zzzzz", 600, 0),
        **periods("web-api-6c8b4d7f5-x7k2p", 600, 600),
        **periods("api-0", 600, 600),
    }
    shows(told, THROTTLED, 0.125, workload="web")
    shows(told, THROTTLED, 1.0, workload="web-api")
    shows(told, THROTTLED, 1.125, workload="(web|api)")
    shows(told, f"count({THROTTLED})", 3)


@pytest.mark.parametrize(
    ("workload", "pod"),
    [
        ("Deployment/web", "web-5d4f8c7b9d-x7k2p"),
        ("StatefulSet/web", "web-0"),
        ("DaemonSet/web", "web-x7k2p"),
        ("ReplicaSet/web", "web-x7k2p"),
        ("ReplicationController/web", "web-x7k2p"),
        ("Job/web", "web-x7k2p"),
        ("Job/web", "web-3-x7k2p"),
        ("CronJob/web", "web-29400120-x7k2p"),
        ("CronJob/web", "web-29400120-3-x7k2p"),
        ("Pod/web", "web"),
    ],
)
def test_a_pod_is_the_workloads_whose_kind_names_it_so(shows: Callable[..., None], workload: str, pod: str) -> None:
    kind, _, name = workload.partition("/")
    assert is_named_by(pod, Workload("shop", kind, name))
    shows({**pods_of(workload), **periods(pod, 600, 300)}, THROTTLED, 0.5, workload="web")
    longer = {**pods_of(workload), **periods(pod.replace("web", "web-api"), 600, 300)}
    shows(longer, THROTTLED, None, workload="web")
    shows({**pods_of(workload, namespace="bank"), **periods(pod, 600, 300)}, THROTTLED, None, workload="web")


@pytest.mark.parametrize("length", [46, 47, 49, 51])
def test_a_long_deployments_pods_are_known_by_their_cut_names(shows: Callable[..., None], length: int) -> None:
    name = "w" * length
    pod = f"{f'{name}-5d4f8c7b9d-'[:58]}x7k2p"
    shows({**pods_of(f"Deployment/{name}"), **periods(pod, 600, 300)}, THROTTLED, 0.5, workload=name)


def test_every_kind_of_kubernetes_own_names_its_pods() -> None:
    assert {kind for kind, _ in FORMS} == {"Pod", *OWN_KINDS}


def test_a_pod_is_of_the_longest_name_that_could_be_meant(shows: Callable[..., None]) -> None:
    told = {
        **pods_of("Job/sort", "Job/sort-2"),
        **periods("sort-x7k2p", 600, 0),
        **periods("sort-2-x7k2p", 600, 600),
    }
    shows(told, THROTTLED, 0.0, workload="sort")
    shows(told, THROTTLED, 1.0, workload="sort-2")


def test_a_container_that_starts_is_marked_once(shows: Callable[..., None]) -> None:
    def started(name: str, pod: str = "web-0") -> str:
        return f'container_start_time_seconds{{namespace="shop",pod="{pod}",container="app",id="{name}"}}'

    # Its second life began in minute 20, second 30.
    told = {
        **pods_of("StatefulSet/web", "Deployment/web-api"),
        started("a"): "10x20 stale",
        started("b"): "_x21 1230x60",
        started("c", "web-api-6c8b4d7f5-x7k2p"): "_x10 610x60",
    }
    for minute, count in ((11, None), (20, None), (21, 1.0), (22, None)):
        shows(told, f"count({STARTED})", count, minute=minute, workload="web")
