"""`elastipod report`: the same figures in every form, live and from a Prometheus with nothing installed."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from aiohttp import web
from msgspec import structs
from typer.testing import CliRunner, Result

from elastipod.cli.reportpage import Patches
from elastipod.cli.verbs import command
from elastipod.clock import SystemClock
from elastipod.kube.leadership import LACKS_ANNOTATION
from elastipod.pods import Workload
from elastipod.quantities import parse_cpu, parse_memory
from recommender.ranges import Resource
from recommender.report.figures import cells, flat
from recommender.report.told import Paid, Savings, read_savings
from tests.cli.cluster import Cluster
from tests.cli.test_reading import LEASES, lease
from tests.cli.test_surveying import a_cluster
from tests.localcluster.served import Json
from tests.recommender.prometheus.fleet import MI, Fleet
from tests.recommender.prometheus.server import serving
from tests.recommender.report.build import GIB, account, savings
from tests.recommender.report.test_page import Read

WEB, DB = Workload("shop", "Deployment", "web"), Workload("shop", "StatefulSet", "db")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(a_cluster().metrics) as address:
        yield address


def run(*words: str) -> Result:
    return CliRunner().invoke(command(), ["report", *words], env={"KUBECONFIG": "/no/such", "COLUMNS": "300"})


def told(*words: str) -> Savings:
    answer = run(*words, "-o", "json")
    assert answer.exit_code == 0, answer.output
    return read_savings(answer.stdout.encode())


def of(found: Savings, owner: Workload, resource: Resource) -> Any:
    [one] = [one for one in found.accounts if one.owner == owner and one.resource is resource]
    return one


@pytest.mark.promserver
def test_a_prometheus_is_enough_for_what_is_reserved_used_and_recommended(url: str) -> None:
    found = told("--prometheus", url)
    cpu, memory = (of(found, WEB, resource) for resource in Resource)
    assert (cpu.pods, cpu.requested.amount, memory.requested.amount) == (1, 2.0, 1024 * MI)
    assert (cpu.limit, memory.limit.amount) == (None, 2048 * MI)
    assert cpu.recommended.amount == pytest.approx(0.115, rel=0.06)
    assert cpu.waste.amount == pytest.approx(2.0 - cpu.recommended.amount)
    assert cpu.used.amount == pytest.approx(0.1, rel=0.01)
    assert cpu.usage.mean == pytest.approx(0.1, rel=0.02)
    assert cpu.usage.mean <= cpu.usage.p95 <= cpu.usage.peak <= 0.101
    assert memory.usage.peak == 200 * MI
    assert (cpu.direction, cpu.reason) == ("less", "OutsideBounds")
    assert found.window_seconds == 86_400  # As much as there is.


@pytest.mark.promserver
def test_where_nothing_is_installed_nothing_is_applied_and_no_node_is_promised(url: str) -> None:
    found = told("--prometheus", url)
    assert {one.applied.amount for one in found.accounts if one.applied} == {0.0}
    assert found.realisable is None
    assert any("--context" in note for note in found.notes)


@pytest.mark.promserver
def test_what_was_killed_is_shown_as_needing_more(url: str) -> None:
    db = of(told("--prometheus", url), DB, Resource.MEMORY)
    assert (db.direction, db.reason, db.waste.amount) == ("more", "OomKilled", 0.0)
    assert db.lacking.amount == db.recommended.amount - db.requested.amount > 0


@pytest.mark.promserver
def test_every_form_has_the_same_figures_to_the_last_digit(url: str, tmp_path: Path) -> None:
    found, file = told("--prometheus", url), tmp_path / "report.html"
    rows = {(one.owner, one.resource): cells(one, "USD") for one in found.accounts}
    listed = list(csv.DictReader(io.StringIO(run("--prometheus", url, "-o", "csv").stdout)))
    answer = run("--prometheus", url, "-o", "table", "--file", str(file))
    assert f"wrote {file}" in answer.stderr
    table, page = answer.stdout, Read(file.read_text("utf-8"))
    assert len(listed) == len(rows) == len(page.rows) - 1
    for one, row in zip(found.accounts, listed, strict=True):
        for name, value in flat(one, "USD").items():
            if isinstance(value, float) and not name.startswith("used"):
                assert float(row[name]) == value
        shown = rows[one.owner, one.resource]
        [line] = [line for line in table.splitlines() if shown.workload in line and f"  {shown.resource} " in line]
        [seen] = [each for each in page.rows if (each[1], each[3]) == (shown.workload, shown.resource)]
        for text in (shown.requested, shown.recommended, shown.direction, shown.change, shown.month, shown.reason):
            assert text in line
            assert text in seen
    assert run("--prometheus", url, "-o", "html").stdout.startswith("<!doctype html>")
    assert "ALLOCATED" in run("--prometheus", url, "-o", "wide").stdout


@pytest.mark.promserver
def test_a_page_that_can_not_be_written_is_told_by_its_file(url: str) -> None:
    answer = run("--prometheus", url, "--file", "/no/such/report.html")
    assert answer.exit_code == 1
    assert answer.stderr.endswith("error: --file: /no/such/report.html can not be written: No such file or directory\n")


def test_money_is_in_the_tables_currency_and_nothing_is_converted(url: str, tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("core_hour,gib_hour\n0.1,0.01\n")
    found = told("--prometheus", url, "--prices", str(file), "--currency", "EUR")
    assert found.currency == "EUR"
    assert of(found, WEB, Resource.CPU).requested.per_hour == 0.2
    assert of(found, WEB, Resource.MEMORY).requested.per_hour == 0.01
    file.write_text("core_hour,gib_hour,currency\n0.1,0.01,CHF\n")
    refused = run("--prometheus", url, "--prices", str(file), "--currency", "EUR")
    assert refused.exit_code == 2
    assert "the prices are in CHF, and nothing is converted" in refused.stderr


@pytest.mark.promserver
def test_what_needs_more_than_the_administrator_allows_is_told_to_need_more(tmp_path: Path) -> None:
    fleet = Fleet(now=int(SystemClock().now()) // 60 * 60)
    fleet.pod("web-0", ("StatefulSet", "web"), cores=lambda _: 1.0)
    fleet.asks("web-0", "cpu", 0.9)
    file = tmp_path / "settings.yaml"
    file.write_text("max_allowed_cpu_millicores: 500\n")
    with serving(fleet.metrics) as address:
        found = told("--prometheus", address, "--config", str(file))
        patch = run("--prometheus", address, "--config", str(file), "-o", "html").stdout
        rows = CliRunner().invoke(
            command(), ["recommend", "--prometheus", address, "--config", str(file), "-o", "patch"]
        )
    cpu = of(found, Workload("shop", "StatefulSet", "web"), Resource.CPU)
    assert (cpu.recommended.amount, cpu.direction, cpu.reason) == (0.5, "more", "CappedByGlobalMax")
    assert cpu.waste == Paid(0.0, 0.0)
    assert cpu.change == cpu.lacking
    assert cpu.lacking.amount > 0.1
    said = "a cap holds it down to 500m."
    assert said in patch
    assert said in rows.stdout


@pytest.mark.promserver
def test_two_scrapers_and_a_replaced_pod_count_nothing_twice() -> None:
    fleet = Fleet(now=int(SystemClock().now()) // 60 * 60)
    fleet.pod("web-5d4f8c7b9d-old01", ("ReplicaSet", "web-5d4f8c7b9d"), until=fleet.now - 3600)
    fleet.pod("web-5d4f8c7b9d-new02", ("ReplicaSet", "web-5d4f8c7b9d"), since=fleet.now - 3600, scrapes=2)
    fleet.owner("replicaset", "web-5d4f8c7b9d", ("Deployment", "web"))
    for pod in ("web-5d4f8c7b9d-old01", "web-5d4f8c7b9d-new02"):
        for prometheus in ("a", "b"):
            asked = {"namespace": "shop", "pod": pod, "container": "app", "resource": "cpu", "replica": prometheus}
            fleet.metric("kube_pod_container_resource_requests", 2.0, **asked)
    with serving(fleet.metrics) as address:
        cpu = of(told("--prometheus", address), WEB, Resource.CPU)
    assert (cpu.pods, cpu.requested.amount) == (1, 2.0)
    assert cpu.used.amount == pytest.approx(0.1, rel=0.01)


@pytest.mark.promserver
def test_with_a_cluster_named_nodes_have_their_prices_and_can_be_given_back(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_web(cpu="3", memory="1Gi")
    [pod] = cluster.get("/api/v1/namespaces/default/pods")["items"]
    fleet = Fleet(now=int(SystemClock().now()) // 60 * 60)
    fleet.pod(pod["metadata"]["name"], None, namespace="default", memory=lambda _: 500 * MI)
    file = tmp_path / "prices.csv"
    file.write_text("core_hour,gib_hour\n0.1,0.01\n")
    with serving(fleet.metrics) as address:
        words = ("report", "--prometheus", address, "--kubeconfig", str(cluster.kubeconfig), "--prices", str(file))
        whole, part = (cluster.run(*words, *more, "-o", "json") for more in ((), ("-n", "default")))
        file.write_text("instance_type,core_hour,gib_hour\nm5.large,0.1,0.01\n")
        without_row = read_savings(cluster.run(*words, "-o", "json").stdout.encode())
    assert [one for one in without_row.notes if "has no row for 1 node (1 on-demand)" in one]
    assert whole.exit_code == part.exit_code == 0, whole.output + part.output
    found = read_savings(whole.stdout.encode())
    assert found.realisable is not None
    assert found.notes == ["kube_pod_owner is not there (kube-state-metrics), so pods are matched by name"]
    paid = of(found, Workload("default", "Deployment", "web"), Resource.CPU).requested
    assert (paid.amount, paid.per_hour) == (3.0, pytest.approx(0.3))
    # Where not every pod is seen, a node may hold one that is not.
    assert read_savings(part.stdout.encode()).realisable is None


@pytest.mark.promserver
def test_with_a_cluster_named_each_right_that_is_missing_is_named_with_what_is_not_shown(cluster: Cluster) -> None:
    cluster.add_web(cpu="3", memory="1Gi")
    [pod] = cluster.get("/api/v1/namespaces/default/pods")["items"]
    fleet = Fleet(now=int(SystemClock().now()) // 60 * 60)
    fleet.pod(pod["metadata"]["name"], None, namespace="default", memory=lambda _: 500 * MI)
    shown = {
        "nodes": "No node is known, nor what it costs, nor which could be given back",
        "poddisruptionbudgets": "Which nodes could be given back is not known",
        "replicasets": "Workloads are told of as far as what owns their pods is known",
    }
    with serving(fleet.metrics) as address:
        for plural, words in shown.items():
            cluster.guarded.forbidden = {plural}
            answer = cluster.run(
                "report", "--prometheus", address, "--kubeconfig", str(cluster.kubeconfig), "-o", "json"
            )
            assert answer.exit_code == 0, answer.output
            found = read_savings(answer.stdout.encode())
            [note] = [one for one in found.notes if f'cannot list resource "{plural}"' in one]
            assert note.startswith(words)
            assert (found.realisable is None) == (plural != "replicasets")
            assert not any("a template has each" in one for one in found.notes)


@pytest.mark.parametrize(
    ("words", "exit_code", "line"),
    [
        (("--since", "8d"), 2, "--since: the recommender has a window of its own"),
        (("--prices", "p.csv"), 2, "--prices, --currency: the running recommender has prices"),
        (("-l", "app=web"), 2, "--selector: the recommender tells of workloads"),
        (("--config", "c.yaml"), 2, "--config: the running recommender has settings of its own"),
        (("--prometheus", "http://127.0.0.1:9", "--since", "8h"), 2, "--since: '8h' is no span"),
        (("--prometheus", "http://127.0.0.1:9", "--since", "400d"), 2, "--since: 400d is more than 60 days"),
        (("--prometheus", "http://127.0.0.1:9", "--prices", "/no/such"), 2, "--prices: /no/such can not be read"),
        (("--prometheus", "http://127.0.0.1:9", "--currency", "EUR"), 2, "--currency: the prices are in USD"),
        (("--prometheus", "http://127.0.0.1:9", "--currency", "euro"), 2, "--currency: 'euro' is no currency"),
        (("--prometheus", "http://127.0.0.1:9",), 1, "http://127.0.0.1:9: it can not be reached"),
    ],
)  # fmt: skip
def test_what_can_not_be_is_refused_by_name(words: tuple[str, ...], exit_code: int, line: str) -> None:
    answer = run(*words)
    assert answer.exit_code == exit_code
    assert line in " ".join(answer.stderr.replace("│", " ").split())


# Live.


class Leader:
    """A recommender's port, and its Lease."""

    def __init__(self, cluster: Cluster, body: bytes | None, *, lacks: str = "") -> None:
        self._cluster, self._body = cluster, body
        self._runner = cluster.on_loop(self._start())
        held = lease("recommender", f"http://127.0.0.1:{self._runner.addresses[0][1]}")
        held["metadata"]["annotations"][LACKS_ANNOTATION] = lacks
        cluster.post(LEASES, held)

    async def _start(self) -> web.AppRunner:
        async def answer(_: web.Request) -> web.Response:
            return web.Response(body=self._body) if self._body is not None else web.Response(status=404)

        app = web.Application()
        app.router.add_get("/savings", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    def close(self) -> None:
        self._cluster.on_loop(self._runner.cleanup())


def asked(cluster: Cluster, body: bytes | None, *words: str) -> Result:
    leader = Leader(cluster, body)
    try:
        return cluster.run("report", *words)
    finally:
        leader.close()


def test_the_leading_recommender_is_asked_and_its_figures_are_passed_on_as_they_are(cluster: Cluster) -> None:
    one = account(2.0, 1 / 3, applied=Paid(1.0, 0.1))
    found = savings(one, account(1.0, 4.0, namespace="bank"))
    answer = asked(cluster, msgspec.json.encode(found), "-o", "json")
    assert answer.exit_code == 0, answer.output
    assert read_savings(answer.stdout.encode()) == found
    facts: Json = json.loads(answer.stdout)
    assert facts["accounts"][0]["change"]["amount"] == -1.667


def test_what_is_withheld_from_the_recommender_and_from_the_command_is_told(cluster: Cluster) -> None:
    cluster.guarded.forbidden = {"deployments", "cronjobs"}
    leader = Leader(
        cluster, msgspec.json.encode(savings(account(), notes=["As it says itself."])), lacks="may not list nodes"
    )
    try:
        page = cluster.run("report", "-o", "html").stdout
        table = cluster.run("report").stdout
    finally:
        leader.close()
    assert "<strong>Note:</strong> The recommender is without what it wants: may not list nodes." in page
    assert "The recommender is without what it wants: may not list nodes.\nAs it says itself." in table
    assert "Which containers stand in the template of a Deployment or CronJob is not known" in page
    assert "cannot list resource &quot;deployments&quot;" in page


def test_of_one_namespace_only_its_own_is_told(cluster: Cluster) -> None:
    found = savings(account(), account(1.0, 4.0, namespace="bank"))
    answer = asked(cluster, msgspec.json.encode(found), "-n", "bank")
    assert answer.exit_code == 0, answer.output
    assert "shop" not in answer.stdout
    assert "Waste (reserved and not needed): 0.000 cores and 0 B, 0.00 EUR a month" in answer.stdout
    assert "Realisable (nodes that would be empty): not known" in answer.stdout


def test_a_csv_of_nothing_has_its_headings(cluster: Cluster) -> None:
    answer = asked(cluster, msgspec.json.encode(savings(account())), "-n", "bnak", "-o", "csv")
    assert list(csv.reader(io.StringIO(answer.stdout))) == [list(flat(account(), "EUR"))]


def test_no_recommender_is_told_with_what_to_do(cluster: Cluster) -> None:
    answer = cluster.run("report")
    assert answer.exit_code == 1
    assert answer.stderr.startswith(
        "error: no recommender has made itself known in this cluster; see `elastipod status`"
    )
    assert "--prometheus URL" in answer.stderr


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (None, "tells no savings yet: it has just begun, or is older than this"),
        (b"{}", "the recommender's savings are not understood (Object missing required field `at`)"),
        (b"\xff\x1b[31m", "are not understood"),
    ],
)
def test_an_old_or_strange_recommender_is_told_as_such(cluster: Cluster, body: bytes | None, line: str) -> None:
    answer = asked(cluster, body)
    assert answer.exit_code == 1
    assert line in answer.stderr
    assert "\x1b" not in answer.output


def test_hostile_names_move_no_cursor_and_make_no_formula(cluster: Cluster) -> None:
    body = msgspec.json.encode(savings(account(workload="=cmd|' /c calc'!A0", container="\x1b[31mred", reason="@x")))
    leader = Leader(cluster, body)
    table, listed = cluster.run("report"), cluster.run("report", "-o", "csv")
    leader.close()
    assert "\x1b" not in table.stdout + listed.stdout
    [row] = csv.DictReader(io.StringIO(listed.stdout))
    assert (row["workload"], row["reason"]) == ("'=cmd|' /c calc'!A0", "'@x")


# Patches.


def resources(*accounts: Any) -> Json:
    [document] = yaml.safe_load_all(Patches(savings(*accounts)).of(accounts[0].owner))
    found: Json = document["spec"]["template"]["spec"]["containers"][0]["resources"]
    return found


def test_a_patch_holds_one_pods_share_of_both_resources() -> None:
    cpu = account(6.0, 1.5, pods=3, limit=Paid(12.0, 1.2))
    memory = account(3.0, 0.75, Resource.MEMORY, pods=3, limit=None)
    found = resources(cpu, memory)
    assert found["requests"] == {"cpu": "500m", "memory": "256Mi"}
    # A limit keeps its ratio to the request, and what has none gets none.
    assert found["limits"] == {"cpu": "1"}
    assert (parse_cpu(found["requests"]["cpu"]), parse_memory(found["requests"]["memory"])) == (500, 0.25 * GIB)


def test_a_limit_of_a_pod_as_a_whole_becomes_none_of_its_containers() -> None:
    own = account(4.0, 1.0, pods=2, limit=Paid(1.0, 0.1), pod_target=0.5, pod_limit=3.0)
    # What it shares with its pod is no limit of its own, however little that is.
    shared = account(2.0, 8.0, Resource.MEMORY, limit=Paid(GIB, 0.1), pod_target=8 * GIB, pod_limit=GIB)
    assert resources(own, shared) == {"requests": {"cpu": "500m", "memory": "8Gi"}}
    assert resources(structs.replace(own, recommended=Paid(1.6, 0.16)))["limits"] == {"cpu": "800m"}


def test_a_native_sidecars_patch_stands_among_the_init_containers() -> None:
    both = savings(account(), account(container="proxy", is_sidecar=True))
    spec = yaml.safe_load(Patches(both).of(WEB))["spec"]["template"]["spec"]
    assert {where: [one["name"] for one in those] for where, those in spec.items()} == {
        "containers": ["app"],
        "initContainers": ["proxy"],
    }


@pytest.mark.parametrize(
    "one",
    [
        account(confidence_days=0.01),
        account(recommended=None),
        account(reason="WithinBounds"),
        account(workload_kind="Job"),
    ],
)
def test_what_is_not_worth_a_patch_has_none(one: Any) -> None:
    assert Patches(savings(one)).of(one.owner) == ""
