"""Recording rules and alerts under Prometheus' own test of rules: when each fires, and what does not make it fire."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from elastipod.dashboards.boards import files
from elastipod.dashboards.rules import GROUPS, recorded

pytestmark = pytest.mark.promserver

Json = dict[str, Any]
Series = dict[str, str]
"""By name with labels, a value a minute as promtool notates them."""

OF: Final = 'namespace="shop",workload_kind="Deployment",workload="web",container="app"'
CAPPED: Final = f'elastipod_workload_capped{{{OF},resource="memory",reason="CappedByMax",by="shop/web"}}'
RECOMMENDED: Final = f'elastipod_workload_recommended{{{OF},resource="memory"}}'
WAITING: Final = (
    'elastipod_workload_resize_waiting_seconds{namespace="shop",workload_kind="Deployment",workload="web",node="n1",'
    'reason="NoRoom"}'
)
KILLS: Final = f'elastipod_workload_oom_kills_total{{{OF},instance="r:1"}}'
HOLDS: Final = f'elastipod_workload_holds_total{{{OF},result="expired",instance="a:1"}}'
AGE: Final = 'elastipod_source_age_seconds{source="metrics"}'
WASTE: Final = recorded("waste_cost_per_hour")
ALERTS: Final = {alert.name: alert for group in GROUPS for alert in group.alerts}


def runs(part: str, instance: str = "r:1") -> str:
    return f'elastipod_run_seconds_count{{part="{part}",instance="{instance}"}}'


@pytest.fixture
def firing(promtool: Callable[..., str]) -> Callable[..., None]:
    """Asserts how many of an alert fire, by minute."""

    def check(series: Series, alert: str, by_minute: dict[int, int], *, every: str = "1m") -> None:
        counted = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)'
        assert not promtool(
            series,
            alert,
            every=every,
            promql_expr_test=[
                {"expr": counted, "eval_time": f"{minute}m", "exp_samples": [{"labels": "{}", "value": count}]}
                for minute, count in by_minute.items()
            ],
        )

    return check


def test_rule_files_are_what_prometheus_takes(tmp_path: Path) -> None:
    for name, text in files().items():
        if name.startswith("rules/"):
            (tmp_path / Path(name).name).write_text(text)
    done = subprocess.run(
        ["promtool", "check", "rules", *map(str, tmp_path.iterdir())], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_target_is_capped_for_long_only_after_hours(firing: Callable[..., None]) -> None:
    alert = "ElastipodTargetCapped"
    firing({CAPPED: "67108864x500"}, alert, {300: 0, 420: 1})
    firing({CAPPED: "67108864x200 _x10 67108864x300"}, alert, {420: 0})


def test_two_scrapes_of_one_target_and_two_leaders_make_one_alert(firing: Callable[..., None]) -> None:
    doubled = {CAPPED.replace("}", f',instance="{one}",job="{job}"}}'): "1x500" for one in "12" for job in "ab"}
    firing(doubled, "ElastipodTargetCapped", {420: 1})


def test_an_alert_is_of_each_cluster_where_there_are_several(firing: Callable[..., None]) -> None:
    several = {CAPPED.replace("}", f',cluster="{one}"}}'): "1x500" for one in ("east", "west")}
    firing(several, "ElastipodTargetCapped", {420: 2})


def test_a_kill_for_memory_alarms_where_there_was_a_recommendation(firing: Callable[..., None]) -> None:
    alert = "ElastipodOomAfterRecommendation"
    firing({KILLS: "0x10 1x60", RECOMMENDED: "1x100"}, alert, {9: 0, 13: 1, 40: 0})
    firing({KILLS: "0x10 1x60"}, alert, {13: 0})
    # The first kill of a container is where its series begins.
    firing({KILLS: "_x10 1x60", RECOMMENDED: "1x100"}, alert, {13: 1, 40: 0})


def test_a_leader_that_takes_over_makes_no_kill_of_an_old_one(firing: Callable[..., None]) -> None:
    successor = KILLS.replace("r:1", "r:2")
    firing(
        {KILLS: "3x30 stale", successor: "_x31 0x60", RECOMMENDED: "1x100"}, "ElastipodOomAfterRecommendation", {35: 0}
    )


@pytest.mark.parametrize(
    "gap", ["1x60 stale _x4 1x60", "1x60 stale _x45 1x60"], ids=["of minutes", "longer than is looked back"]
)
def test_an_old_kill_is_none_after_a_gap_of_scrapes(firing: Callable[..., None], gap: str) -> None:
    series = {KILLS: gap, HOLDS: gap, runs("recommender"): gap, runs("actuator", "a:1"): gap, RECOMMENDED: "1x150"}
    none = dict.fromkeys(range(16, 150), 0)
    firing(series, "ElastipodOomAfterRecommendation", none)
    firing(series, "ElastipodHoldEndedInKill", none)


@pytest.mark.parametrize("kills", ["1x60 stale _x2 2x60", "_x63 1x60"], ids=["one more", "the first"])
def test_a_kill_within_a_gap_of_scrapes_alarms_after_it(firing: Callable[..., None], kills: str) -> None:
    alive = "1x60 stale _x2 1x60"
    firing(
        {KILLS: kills, runs("recommender"): alive, RECOMMENDED: "1x150"},
        "ElastipodOomAfterRecommendation",
        {62: 0, 66: 1, 90: 0},
    )


@pytest.mark.parametrize(
    "kills",
    ["3x60 stale _x1 1x60", "3x60 1x60", "1x30 stale _x31 1x60"],
    ids=["fewer than before", "without a gap", "as many as before"],
)
def test_a_kill_after_a_restart_in_place_alarms(firing: Callable[..., None], kills: str) -> None:
    firing(
        {KILLS: kills, runs("recommender"): "5x30 0+1x120", RECOMMENDED: "1x150"},
        "ElastipodOomAfterRecommendation",
        {60: 0, 66: 1, 90: 0},
    )


def test_a_hold_alarms_only_where_it_ended_in_a_kill(firing: Callable[..., None]) -> None:
    alert = "ElastipodHoldEndedInKill"
    firing({HOLDS: "0x10 1x60", KILLS: "0x11 1x60"}, alert, {14: 1, 40: 0})
    firing({HOLDS: "0x10 1x60", KILLS: "0x100"}, alert, {14: 0})
    firing({HOLDS.replace("expired", "raised"): "0x10 1x60", KILLS: "0x11 1x60"}, alert, {14: 0})
    elsewhere = KILLS.replace('workload="web"', 'workload="other"')
    firing({HOLDS: "0x10 1x60", elsewhere: "0x11 1x60"}, alert, {14: 0})


def test_a_resize_that_waits_alarms_after_an_hour_and_not_for_one_scrape(firing: Callable[..., None]) -> None:
    alert = "ElastipodResizeWaiting"
    firing({WAITING: "0+60x100"}, alert, {50: 0, 70: 1})
    firing({WAITING: "0x30 4000 0x60"}, alert, {31: 0, 36: 0})


def test_a_reason_that_changes_makes_no_other_alert(firing: Callable[..., None]) -> None:
    other = WAITING.replace("NoRoom", "Deferred")
    turns = {WAITING: "9000+60x3 stale _x2 9480+60x3 stale", other: "_x4 9240+60x3 stale _x2 9720+60x9"}
    firing(turns, "ElastipodResizeWaiting", {4: 0, 6: 1, 14: 1})
    by_quota = CAPPED.replace("CappedByMax", "CappedByQuota").replace("shop/web", "shop/all")
    firing({CAPPED: "5x200 stale", by_quota: "_x201 6x300"}, "ElastipodTargetCapped", {350: 0, 370: 1})


def test_a_source_that_tells_nothing_is_lost_after_ten_minutes(firing: Callable[..., None]) -> None:
    firing({AGE: "30x10 60+60x60"}, "ElastipodSourceLost", {15: 0, 35: 1})
    firing({AGE: "30x10 900 30x60"}, "ElastipodSourceLost", {11: 0, 16: 0})
    firing({AGE: "500x60"}, "ElastipodSourceLost", {50: 0})


@pytest.mark.parametrize("part", ["recommender", "updater"])
def test_a_leader_is_absent_when_no_run_ends(firing: Callable[..., None], part: str) -> None:
    alert = f"Elastipod{part.title()}Absent"
    firing({runs(part): "0+4x30 120x60"}, alert, {30: 0, 60: 1})
    # One that takes over counts anew, and nothing is amiss.
    firing({runs(part): "0+4x30 stale", runs(part, "r:2"): "_x31 0+4x60"}, alert, {33: 0, 40: 0, 60: 0})


@pytest.mark.parametrize("alert", ALERTS)
def test_where_an_alert_can_not_see_its_partner_says_so(firing: Callable[..., None], alert: str) -> None:
    watched = ALERTS[alert].watched
    firing({watched: "1x30 stale"}, f"{alert}Unknown", {20: 0, 40: 0, 50: 1})
    firing({}, f"{alert}Unknown", {10: 0, 20: 1})
    # A scrape that is missed is no absence.
    firing({watched: "1x30 stale _x5 1x60"}, f"{alert}Unknown", {40: 0, 60: 0})


@pytest.mark.parametrize("alert", ALERTS)
def test_a_partner_speaks_of_the_cluster_that_is_blind_while_others_see(
    firing: Callable[..., None], alert: str
) -> None:
    name, _, labels = ALERTS[alert].watched.partition("{")
    of = [f'{name}{{cluster="{one}"{"," if labels else ""}{labels or "}"}' for one in ("east", "west")]
    firing({of[0]: "1x200 stale", of[1]: "1x400"}, f"{alert}Unknown", {190: 0, 230: 1})


def test_a_part_that_is_gone_from_one_of_several_clusters_is_missed_for_a_week(firing: Callable[..., None]) -> None:
    day, hour = 24 * 60, 60
    east, west = (runs("recommender").replace("}", f',cluster="{one}"}}') for one in ("east", "west"))
    firing(
        {east: "0+240x220", west: "0+240x2 stale"},
        "ElastipodRecommenderAbsentUnknown",
        {2 * hour: 0, **{4 * hour + days * day: 1 for days in range(7)}, 8 * day: 0},
        every="1h",
    )


def test_every_alert_names_what_it_is_about_and_what_to_do(promtool: Callable[..., str]) -> None:
    told = promtool(
        {WAITING: "0+60x100", WAITING.replace("NoRoom", "Deferred"): "0x100", "elastipod_node_allocatable": "1x100"},
        "ElastipodResizeWaiting",
        alert_rule_test=[
            {
                "alertname": "ElastipodResizeWaiting",
                "eval_time": "70m",
                "exp_alerts": [
                    {
                        "exp_labels": {
                            "severity": "warning",
                            "namespace": "shop",
                            "workload_kind": "Deployment",
                            "workload": "web",
                            "node": "n1",
                        },
                        "exp_annotations": {
                            "summary": "A resize of shop/web on n1 has waited for 1h 10m 0s: NoRoom.",
                            "description": "`elastipod explain POD` says what is in the way.",
                        },
                    }
                ],
            }
        ],
    )
    assert not told
    several = {
        CAPPED.replace("CappedByMax", one).replace("}", ',cluster="east"}'): "1x500" for one in ("NoRoom", "Odd")
    }
    told = promtool(
        {**several, CAPPED: "1x500"},
        "ElastipodTargetCapped",
        alert_rule_test=[{"alertname": "ElastipodTargetCapped", "eval_time": "400m", "exp_alerts": []}],
    )
    assert "The memory target of shop/web app is capped for hours: NoRoom, Odd." in told
    assert "The memory target of shop/web app is capped for hours: CappedByMax." in told
    for alert in ALERTS.values():
        assert alert.what_to_do.endswith(".")


def test_what_is_recorded_counts_each_container_once(promtool: Callable[..., str]) -> None:
    cost = f'elastipod_workload_waste_cost_per_hour{{{OF},resource="cpu",currency="USD"'
    other = cost.replace('workload="web"', 'workload="api"')
    assert not promtool(
        {
            f'{cost},instance="r:1",job="a"}}': "2x10",
            f'{cost},instance="r:1",job="b"}}': "2x10",
            f'{cost},instance="r:2",job="a"}}': "2x10",
            f'{other},instance="r:1",job="a"}}': "1x10",
        },
        WASTE,
        promql_expr_test=[
            {
                "expr": WASTE,
                "eval_time": "5m",
                "exp_samples": [{"labels": f'{WASTE}{{namespace="shop",currency="USD"}}', "value": 3}],
            }
        ],
    )
