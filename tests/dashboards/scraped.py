"""A real Prometheus that has scraped a real elastipod at work in a cluster on this machine.

Owns the play and what is scraped: every target twice, as by two scrapers that do not know of each other. What is asked
of it afterwards is the tests' matter.
"""

import asyncio
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from elastipod.cli.demo.manifests import autoscaler, container, deployment, job
from elastipod.cli.demo.pace import HURRIED
from elastipod.cli.running import RunningCluster, Wanted, running_cluster
from elastipod.clock import SystemClock
from elastipod.dashboards.boards import files
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.leadership import ADDRESS_ANNOTATION
from elastipod.kube.resources import AUTOSCALERS, DEPLOYMENTS, ELASTIC_NODES, JOBS, LEASES, ResourceType
from tests.dashboards.webhook import asked_webhook
from tests.recommender.prometheus.server import running

Json = dict[str, Any]

LONGEST_SECONDS: Final = 90.0
_MIB: Final = 1024**2


@dataclass(frozen=True, slots=True)
class Scraped:
    """A Prometheus that scraped from one instant to another."""

    url: str
    since: float
    until: float

    def value(self, expression: str) -> float:
        """The value at the end of an expression's only series."""
        [one] = self.instant(expression)
        return float(one["value"][1])

    def rules(self) -> list[Json]:
        """Every rule, and how it fares."""
        with urllib.request.urlopen(f"{self.url}/api/v1/rules", timeout=30) as answer:
            return [rule for group in json.load(answer)["data"]["groups"] for rule in group["rules"]]

    def instant(self, expression: str) -> list[Json]:
        """The series at the end, each with labels and a value."""
        return _ask(self.url, "query", expression, time=self.until)

    def curves(self, expression: str) -> list[Json]:
        """The series over the whole time, each with labels and values."""
        return _ask(self.url, "query_range", expression, start=self.since, end=self.until + 1.0, step=1.0)

    def values(self, expression: str) -> list[float]:
        """Every value of every series over the whole time."""
        return [float(value) for one in self.curves(expression) for _, value in one["values"]]


def _ask(url: str, kind: str, expression: str, **when: float) -> list[Json]:
    """The series that a query finds. Raises ValueError with what Prometheus says against it."""
    asked = urllib.parse.urlencode({"query": expression, **when})
    try:
        with urllib.request.urlopen(f"{url}/api/v1/{kind}", data=asked.encode(), timeout=30) as answer:
            found: list[Json] = json.load(answer)["data"]["result"]
            return found
    except urllib.error.HTTPError as error:
        raise ValueError(f"{expression}: {error.read().decode()}") from None


@contextmanager
def scraped(place: Path, wanted: list[str], *, least_seconds: float = 0.0) -> Iterator[Scraped]:
    """A play that lasts until each of the wanted expressions has had a value, or for as long as one may last."""
    targets = place / "targets.json"
    with running(place, config=config(targets, "elastipod", "again")) as url:
        yield asyncio.run(_play(place, targets, url, wanted, least_seconds))


def config(targets: Path, *scrapers: str) -> str:
    """A Prometheus' configuration: each scraper reads what the file lists, and rules are looked at, every second."""
    targets.write_text("[]")
    sources = [{"files": [str(targets)], "refresh_interval": "1s"}]
    rules = targets.parent / "rules"
    rules.mkdir()
    for name, text in files().items():
        if name.startswith("rules/"):
            (targets.parent / name).write_text(text)
    jobs = [
        {"job_name": one, "honor_labels": True, "scrape_timeout": "1s", "file_sd_configs": sources} for one in scrapers
    ]
    often = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    return yaml.safe_dump({"global": often, "rule_files": [f"{rules}/*.yaml"], "scrape_configs": jobs})


async def _play(place: Path, targets: Path, url: str, wanted: list[str], least_seconds: float) -> Scraped:
    """Runs the cluster; in the middle of a long play the wide service is let shrink."""
    clock = SystemClock()
    since, began, missing, is_off = clock.now(), clock.monotonic(), list(wanted), True
    chosen = Wanted(
        "boards",
        str(place / "cluster"),
        simulated=True,
        nodes=2,
        cpu_millicores=2000,
        memory_bytes=4096 * _MIB,
        with_parts=False,
        usage_seconds=1.0,
    )
    async with running_cluster(chosen) as cluster:
        cluster.start_parts(HURRIED)
        async with _connected(cluster) as connection, asked_webhook(place / "tls", connection) as webhook:
            await _load(connection)
            while (gone := clock.monotonic() - began) < least_seconds or (missing and gone < LONGEST_SECONDS):
                if is_off and 0.0 < 0.5 * least_seconds < gone:
                    await connection.patch(AUTOSCALERS, "default", "wide", _IN_PLACE, patch_type=PatchType.MERGE)
                    is_off = False
                targets.write_text(json.dumps([*await serving_parts(connection), {"targets": [webhook.metrics]}]))
                await webhook.ask()
                await clock.sleep(1.0)
                missing = [one for one in missing if not await asyncio.to_thread(_ask, url, "query", one)]
            return Scraped(url, since, clock.now())


@asynccontextmanager
async def _connected(cluster: RunningCluster) -> AsyncIterator[Connection]:
    """A way to its API server, for as long as it is needed."""
    connection = cluster.connection()
    try:
        yield connection
    finally:
        await connection.close()


async def _load(connection: Connection) -> None:
    async def create(resource: ResourceType, body: Json) -> None:
        await connection.create(resource, "default", json.dumps(body).encode())

    wide = container("app", [], {"cpu": "400m", "memory": "512Mi"}, {"cpu": "1", "memory": "1Gi"})
    narrow = container("app", [], {"cpu": "20m", "memory": "32Mi"})
    for name, spec, usage in (
        ("wide", wide, {"cpu": "40m", "memory": "50Mi"}),
        ("narrow", narrow, {"cpu": "200m", "memory": "90Mi"}),
    ):
        body = deployment(name, spec, {}, usage)
        body["spec"]["replicas"] = 2
        await create(DEPLOYMENTS, body)
    await create(AUTOSCALERS, {**autoscaler("wide"), "spec": {**autoscaler("wide")["spec"], "updatePolicy": _OFF}})
    capped = {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "50m", "memory": "64Mi"}}]}
    held = {"resourcePolicy": capped, "updatePolicy": _OFF}
    await create(AUTOSCALERS, {**autoscaler("narrow"), "spec": {**autoscaler("narrow")["spec"], **held}})
    moving = container("app", [], {"cpu": "300m", "memory": "128Mi"})
    await create(DEPLOYMENTS, deployment("moving", moving, {}, {"cpu": "30m", "memory": "40Mi"}))
    await create(AUTOSCALERS, autoscaler("moving"))
    # No node is as large as this one is told to be.
    stated = {"elastipod.io/resources": json.dumps({"app": {"requests": {"cpu": "5"}}})}
    await create(DEPLOYMENTS, deployment("waiting", narrow, stated, {"cpu": "10m", "memory": "10Mi"}))
    limited = container("app", [], {"cpu": "100m", "memory": "64Mi"}, {"memory": "96Mi"})
    leaps = [[second, "100m", f"{amount}Mi"] for second, amount in ((0, 20), (6, 150), (9, 30), (14, 400), (17, 30))]
    await create(JOBS, job("leaping", limited, {}, {"steps": leaps, "seconds": 120}))
    doomed = {"elastipod.io/memory-spike": "Off"}
    await create(JOBS, job("doomed", limited, doomed, {"steps": [[0, "100m", "20Mi"], [8, "100m", "300Mi"]]}))
    await create(AUTOSCALERS, autoscaler("doomed", "Job"))


_OFF: Final = {"updateMode": "Off"}
_IN_PLACE: Final = b'{"spec": {"updatePolicy": {"updateMode": "InPlace"}}}'


async def serving_parts(connection: Connection) -> list[Json]:
    """Where the parts serve, with the labels that the chart's monitors give."""
    leases = json.loads(await connection.list(LEASES))["items"]
    found: list[Json] = [
        {"targets": [address.removeprefix("http://")]}
        for one in leases
        if (address := one["metadata"].get("annotations", {}).get(ADDRESS_ANNOTATION))
    ]
    for node in json.loads(await connection.list(ELASTIC_NODES))["items"]:
        if address := node.get("status", {}).get("address"):
            labels = {"node": node["metadata"]["name"]}
            found += [{"targets": [address.removeprefix("http://")], "labels": labels}]
    return found
