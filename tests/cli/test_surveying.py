"""`elastipod recommend --prometheus`: a whole cluster with nothing installed."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from elastipod.cli.patches import patches
from elastipod.cli.verbs import command
from elastipod.clock import SystemClock
from elastipod.quantities import parse_cpu, parse_memory
from tests.cli.cluster import Cluster
from tests.recommender.prometheus.fleet import DAY, MI, Fleet
from tests.recommender.prometheus.server import serving

Row = dict[str, Any]


def a_cluster() -> Fleet:
    fleet = Fleet(now=int(SystemClock().now()) // 60 * 60)
    fleet.pod("web-5d4f8c7b9d-x7k2p", ("ReplicaSet", "web-5d4f8c7b9d"), cores=lambda _: 0.1, memory=lambda _: 200 * MI)
    fleet.owner("replicaset", "web-5d4f8c7b9d", ("Deployment", "web"))
    fleet.asks("web-5d4f8c7b9d-x7k2p", "cpu", 2)
    fleet.asks("web-5d4f8c7b9d-x7k2p", "memory", 1024 * MI)
    fleet.asks("web-5d4f8c7b9d-x7k2p", "memory", 2048 * MI, kind="limits")
    # Killed at its limit, which its usage does not show.
    fleet.pod("db-0", ("StatefulSet", "db"), memory=lambda _: 290 * MI)
    fleet.asks("db-0", "memory", 300 * MI)
    fleet.asks("db-0", "memory", 300 * MI, kind="limits")
    named = {"namespace": "shop", "pod": "db-0", "container": "app"}
    fleet.metric("kube_pod_container_status_last_terminated_reason", 1, reason="OOMKilled", **named)
    # Young: a quarter of an hour.
    fleet.pod("young-x7k2p", ("DaemonSet", "young"), since=fleet.now - 900)
    # Between two runs.
    fleet.pod(
        "nightly-29400120-x7k2p",
        ("Job", "nightly-29400120"),
        memory=lambda _: 800 * MI,
        since=fleet.now - DAY,
        until=fleet.now - DAY // 2,
    )
    fleet.owner("job_name", "nightly-29400120", ("CronJob", "nightly"))
    # Gone for good.
    fleet.pod("old-6c9f7d5b8f-x7k2p", ("ReplicaSet", "old-6c9f7d5b8f"), until=fleet.now - DAY // 2)
    fleet.metric("machine_cpu_cores", 64, instance="n1")
    fleet.metric("machine_memory_bytes", 256 * 1024 * MI, instance="n1")
    return fleet


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(a_cluster().metrics) as address:
        yield address


def run(*words: str, **environment: str) -> Result:
    return CliRunner().invoke(command(), ["recommend", *words], env={"KUBECONFIG": "/no/such", **environment})


def rows_of(*words: str) -> dict[str, Row]:
    answer = run(*words, "-o", "json")
    assert answer.exit_code == 0, answer.output
    return {row["workload"]: row for row in json.loads(answer.stdout)}


@pytest.mark.promserver
def test_each_workload_has_what_it_asks_for_and_should_ask_for(url: str) -> None:
    rows = rows_of("--prometheus", url)
    assert sorted(rows) == ["CronJob/nightly", "DaemonSet/young", "Deployment/web", "StatefulSet/db"]
    web = rows["Deployment/web"]
    assert web["requests"] == {"cpu_millicores": 2000, "memory_bytes": 1024 * MI}
    assert web["limits"] == {"cpu_millicores": None, "memory_bytes": 2048 * MI}
    assert web["target"]["cpu_millicores"] == pytest.approx(115, rel=0.06)
    assert web["target"]["memory_bytes"] == pytest.approx(230 * MI, rel=0.06)
    assert (web["confidence"], web["reason"]) == ("enough", "OutsideBounds")
    assert "cpu: the request is above the upper bound" in web["message"]


@pytest.mark.promserver
def test_a_kill_at_the_limit_is_a_floor_that_usage_does_not_show(url: str) -> None:
    db = rows_of("--prometheus", url)["StatefulSet/db"]
    assert db["target"]["memory_bytes"] >= 400 * MI
    assert db["reason"] == "OomKilled"


@pytest.mark.promserver
def test_little_history_is_told_as_such(url: str) -> None:
    young = rows_of("--prometheus", url)["DaemonSet/young"]
    assert (young["confidence"], young["reason"]) == ("low", "LowConfidence")
    assert young["upper_bound"]["memory_bytes"] is None


@pytest.mark.promserver
def test_a_cron_job_is_sized_between_two_runs(url: str) -> None:
    nightly = rows_of("--prometheus", url)["CronJob/nightly"]
    assert nightly["pods"] == 0
    assert "what it asks for is not known" in nightly["message"]
    assert nightly["target"]["memory_bytes"] >= 800 * MI


@pytest.mark.promserver
def test_table_csv_and_yaml_say_the_same(url: str) -> None:
    table = run("--prometheus", url).stdout.splitlines()
    assert table[0].split() == ["NAMESPACE", "WORKLOAD", "CONTAINER", "PODS", "CPU", "MEMORY", "CONFIDENCE", "REASON"]
    assert len(table) == 5
    assert "UPPER" not in run("--prometheus", url, "-o", "wide").stdout
    assert "CPU BOUNDS" in run("--prometheus", url, "-o", "wide").stdout
    told = list(csv.DictReader(io.StringIO(run("--prometheus", url, "-o", "csv").stdout)))
    listed = yaml.safe_load(run("--prometheus", url, "-o", "yaml").stdout)
    assert [row["workload"] for row in told] == [row["workload"] for row in listed]
    web = next(row for row in told if row["workload"] == "Deployment/web")
    assert web["requests_cpu_millicores"] == "2000"


@pytest.mark.promserver
def test_one_namespace_can_be_looked_at(url: str) -> None:
    assert rows_of("--prometheus", url, "-n", "shop")
    assert rows_of("--prometheus", url, "-n", "bank") == {}


@pytest.mark.promserver
def test_patches_hold_what_is_worth_a_change_and_name_the_rest(url: str) -> None:
    text = run("--prometheus", url, "-o", "patch").stdout
    documents = {one["kind"]: one for one in yaml.safe_load_all(text) if one}
    assert sorted(documents) == ["CronJob", "Deployment", "StatefulSet"]
    [container] = documents["Deployment"]["spec"]["template"]["spec"]["containers"]
    # A limit keeps its ratio to the request.
    requests, limits = container["resources"]["requests"], container["resources"]["limits"]
    assert parse_memory(limits["memory"]) == pytest.approx(2 * parse_memory(requests["memory"]), rel=0.01)
    assert parse_cpu(requests["cpu"]) < 200
    [db] = documents["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert db["resources"]["requests"]["memory"] == db["resources"]["limits"]["memory"]
    assert "# shop/DaemonSet/young, app: there is too little history to act on" in text


@pytest.mark.promserver
def test_with_a_cluster_named_pods_and_sizes_are_its_own(cluster: Cluster) -> None:
    cluster.add_web(cpu="3", memory="1Gi")
    [pod] = cluster.get("/api/v1/namespaces/default/pods")["items"]
    fleet = Fleet(now=int(SystemClock().now()) // 60 * 60)
    fleet.pod(pod["metadata"]["name"], None, namespace="default", memory=lambda _: 500 * MI)
    # The cluster does not know it, so it is nobody's.
    fleet.pod("stray-0", ("StatefulSet", "stray"), namespace="default")
    with serving(fleet.metrics) as url:
        answer = cluster.run(
            "recommend", "--prometheus", url, "--kubeconfig", str(cluster.kubeconfig), "-A", "-o", "json"
        )
    assert answer.exit_code == 0, answer.output
    [row] = json.loads(answer.stdout)
    assert row["workload"] == "Deployment/web"
    assert row["requests"] == {"cpu_millicores": 3000, "memory_bytes": 1024 * MI}
    assert row["target"]["memory_bytes"] == pytest.approx(575 * MI, rel=0.06)


def test_a_prometheus_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    answer = run("--prometheus", "http://127.0.0.1:9")
    assert answer.exit_code == 1
    assert answer.stderr.splitlines() == ["error: http://127.0.0.1:9: it can not be reached, or hung up"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--prometheus", "prometheus:9090"), "prometheus_url: 'prometheus:9090' is no address"),
        (("--prometheus", "http://p", "-l", "app=web"), "--context"),
        (("--prometheus", "http://p", "--config", "/no/such"), "/no/such"),
    ],
)
def test_what_can_not_be_is_refused_by_name(words: tuple[str, ...], told: str) -> None:
    answer = run(*words, TERMINAL_WIDTH="300", COLUMNS="300")
    assert answer.exit_code == 2
    assert told in answer.stderr


def row(workload: str = "Deployment/web", **more: Any) -> Row:
    amounts = {"cpu_millicores": None, "memory_bytes": None}
    return {
        "namespace": "shop",
        "workload": workload,
        "container": "app",
        "confidence": "enough",
        "message": "",
        "requests": amounts,
        "limits": amounts,
        "target": {"cpu_millicores": 100, "memory_bytes": 100 * MI + 1},
        **more,
    }


def resources(**more: Any) -> Row:
    [document] = [one for one in yaml.safe_load_all("".join(patches([row(**more)]))) if one]
    found: Row = document["spec"]["template"]["spec"]["containers"][0]["resources"]
    return found


def test_a_patch_holds_whole_mebibytes_and_no_limit_that_was_not_there() -> None:
    assert resources() == {"requests": {"cpu": "100m", "memory": "101Mi"}}


def test_a_limit_is_never_below_its_request() -> None:
    limits = {"cpu_millicores": 50, "memory_bytes": 10 * MI}
    assert resources(limits=limits)["limits"] == {"cpu": "100m", "memory": "101Mi"}
    requests = {"cpu_millicores": 50, "memory_bytes": 10 * MI}
    assert resources(limits=limits, requests=requests)["limits"] == {"cpu": "100m", "memory": "101Mi"}


def test_what_has_no_template_that_can_change_is_named() -> None:
    text = "".join(patches([row("Job/genome"), row("Pod/alone"), row("Rollout/web")]))
    assert list(yaml.safe_load_all(text)) in ([], [None])
    assert "the template of a Job can not be changed" in text
    assert "where the template of a Rollout stands is not known" in text


def test_a_cron_jobs_patch_reaches_its_pods() -> None:
    [document] = [one for one in yaml.safe_load_all("".join(patches([row("CronJob/nightly")]))) if one]
    assert document["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["name"] == "app"


def test_no_name_leaves_its_comment() -> None:
    text = "".join(patches([row("Job/x\nkind: Evil")]))
    assert "\nkind: Evil" not in text


@pytest.mark.promserver
@pytest.mark.parametrize("verb", ["recommend", "report"])
def test_several_clusters_are_refused_until_one_is_chosen(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fleets = [Fleet(now=int(SystemClock().now()) // 60 * 60, common={"cluster": one}) for one in ("prod", "stage")]
    for fleet in fleets:
        fleet.metrics = fleets[0].metrics
        fleet.pod("db-0", ("StatefulSet", "db"))
    with serving(fleets[0].metrics) as address:
        refused = CliRunner().invoke(command(), [verb, "--prometheus", address])
        assert refused.exit_code == 1
        assert 'cluster is "prod", "stage"' in refused.stderr
        assert "ELASTIPOD_PROMETHEUS_MATCHERS" in refused.stderr
        monkeypatch.setenv("ELASTIPOD_PROMETHEUS_MATCHERS", 'cluster="stage"')
        taken = CliRunner().invoke(command(), [verb, "--prometheus", address, "-o", "csv"])
        assert taken.exit_code == 0
        assert "StatefulSet/db" in taken.stdout or "StatefulSet,db" in taken.stdout
