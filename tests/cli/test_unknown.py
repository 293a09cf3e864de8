"""What a Prometheus does not tell is not known, in every form; it is never nought."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from elastipod.cli.verbs import command
from elastipod.clock import SystemClock
from tests.recommender.prometheus.fleet import MI, Fleet
from tests.recommender.prometheus.server import serving

pytestmark = pytest.mark.promserver

Json = dict[str, Any]
UNKNOWN = ("before", "requested", "allocated", "limit", "waste", "lacking", "applied", "change")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Kubelets are scraped; kube-state-metrics, which tells what pods request, is not there."""
    fleet = Fleet(now=int(SystemClock().now()) // 60 * 60)
    fleet.pod("web-5d4f8c7b9d-x7k2p", None)
    with serving(fleet.metrics) as address:
        yield address


def run(*words: str) -> Result:
    answer = CliRunner().invoke(command(), [*words], env={"KUBECONFIG": "/no/such"})
    assert answer.exit_code == 0, answer.output
    return answer


def test_what_is_requested_is_not_known_in_json_and_csv(url: str) -> None:
    found = json.loads(run("report", "--prometheus", url, "-o", "json").stdout)
    rows = csv.DictReader(io.StringIO(run("report", "--prometheus", url, "-o", "csv").stdout))
    for one, row in zip(found["accounts"], rows, strict=True):
        assert (one["direction"], one["reason"]) == (row["direction"], row["reason"]) == ("unknown", "RequestsUnknown")
        assert {one[name] for name in UNKNOWN} == {None}
        assert {row[f"{name}{what}"] for name in UNKNOWN for what in ("", "_per_hour", "_per_month")} == {""}
        assert one["recommended"]["amount"] > 0
    for sums in found["totals"].values():
        assert [sums[name] for name in ("requested", "waste", "lacking", "applied")] == [None] * 4
        assert sums["used"]["amount"] > 0


def test_what_is_requested_is_not_known_to_whoever_reads_a_table_or_a_page(url: str) -> None:
    table, page = (run("report", "--prometheus", url, "-o", form).stdout for form in ("table", "html"))
    for name in ("Waste (reserved and not needed)", "Needed more", "Applied (reserved less than before)"):
        assert f"{name}: not known\n" in table
    assert "Requested in all: not known." in page
    assert "0.00 USD" not in table + page
    for text in (table, page):
        assert "kube_pod_container_resource_requests is not there" in text


def test_where_only_some_are_told_of_the_others_are_not_known_and_in_no_sum() -> None:
    fleet = Fleet(now=int(SystemClock().now()) // 60 * 60)
    for name in ("web-0", "db-0", "small-0"):
        fleet.pod(name, None)
    for resource, amount in (("cpu", 2), ("memory", 4096 * MI)):
        fleet.asks("web-0", resource, amount)
    # It requests nothing, which is told.
    fleet.metric("kube_pod_container_info", 1, namespace="shop", pod="small-0", container="app")
    with serving(fleet.metrics) as address:
        found = json.loads(run("report", "--prometheus", address, "-o", "json").stdout)
    cpu = {one["workload"]: one for one in found["accounts"] if one["resource"] == "cpu"}
    assert {name: one["requested"] and one["requested"]["amount"] for name, one in cpu.items()} == {
        "web": 2.0, "db": None, "small": 0.0,
    }  # fmt: skip
    assert (cpu["db"]["direction"], cpu["small"]["direction"]) == ("unknown", "more")
    assert found["totals"]["cpu"]["requested"]["amount"] == 2.0
    assert "What 1 container of workloads request is not known, and in no sum." in found["notes"]


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -1.0])
def test_a_request_that_is_told_as_no_amount_is_not_known_and_no_zero(odd: float) -> None:
    fleet = Fleet(now=int(SystemClock().now()) // 60 * 60)
    fleet.pod("web-0", None)
    fleet.asks("web-0", "cpu", odd)
    fleet.asks("web-0", "memory", 4096 * MI)
    with serving(fleet.metrics) as address:
        found = json.loads(run("report", "--prometheus", address, "-o", "json").stdout)
        [row] = json.loads(run("recommend", "--prometheus", address, "-o", "json").stdout)
    cpu, memory = found["accounts"]
    assert {cpu[name] for name in UNKNOWN} == {None}
    assert (cpu["direction"], cpu["reason"], memory["direction"]) == ("unknown", "RequestsUnknown", "less")
    assert memory["requested"]["amount"] == 4096 * MI
    assert found["totals"]["cpu"]["requested"] is None
    assert "no request" not in row["message"]
    assert "What 1 container of workloads request is not known, and in no sum." in found["notes"]


def test_of_a_namespace_of_which_nothing_is_told_that_is_said(url: str) -> None:
    said = "no pod of namespace nowhere lives that usage is known of"
    assert said in run("report", "--prometheus", url, "-n", "nowhere").stdout
    assert said in run("report", "--prometheus", url, "-n", "nowhere", "-o", "csv").stderr
    assert said in run("recommend", "--prometheus", url, "-n", "nowhere").stderr


def test_a_recommendation_is_compared_with_nothing_and_a_patch_says_so(url: str) -> None:
    [row] = json.loads(run("recommend", "--prometheus", url, "-o", "json").stdout)
    assert row["reason"] == "RequestsUnknown"
    text = run("recommend", "--prometheus", url, "-o", "patch").stdout
    assert "# kube_pod_container_resource_requests is not there" in text
    assert "memory: 116Mi" in text
