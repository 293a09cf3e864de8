"""docs/metrics.md: every metric that the parts tell, from the parts themselves."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families

from actuator.telling import Numbers
from elastipod.clock import ManualClock
from elastipod.kube.counting import CountedConnection
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.store import Store
from elastipod.loop import Runs
from elastipod.pods import Container, ContainerKey, Node, Pod, Workload
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from elastipod.telemetry import Metrics
from recommender.exposition import USAGE_WINDOW, accounts_text, realisable_text
from recommender.podexposition import nodes_text, pods_text, prices_text
from recommender.prices import PriceTable
from recommender.ranges import Cap, Resource
from recommender.realisable import Realisable
from recommender.savings import Advised, Snapshot, Usage, accounts
from recommender.service import Recommender
from recommender.settings import RecommenderSettings
from updater.admission.service import Admission
from updater.attempt import Wanted
from updater.attempts import ResizeAttempts
from updater.exposition import fleet_text
from updater.facts import Urgency
from updater.fleet import Fleet
from updater.plan import Resize
from updater.service import Updater

PAGE: Final = Path(__file__).parent.parent / "docs" / "metrics.md"
_HEAD: Final = """# Metrics

What the parts tell at `/metrics`, in Prometheus' text format. Seconds, bytes and cores are whole units; money is for an
hour, in the currency of the prices, and a month has 730 hours. `resource` is `cpu` or `memory`, and an amount is in
cores or bytes by that. Labels `namespace`, `workload_kind`, `workload` and `container` name a container of a workload,
whichever pods come and go; a pod counts from its binding to a node until it is told to end. This page is written from
the code by `make docs`.
"""


class Family(NamedTuple):
    """A metric, as the page has it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    what: str


class Noted(Metrics):
    """Metrics that are noted down as they are made."""

    def __init__(self) -> None:
        super().__init__()
        self.families: list[Family] = []

    def counter(self, name: str, what: str, *labels: str) -> Counter:
        self.families.append(Family(f"elastipod_{name}_total", "counter", labels, what))
        return super().counter(name, what, *labels)

    def gauge(self, name: str, what: str, *labels: str) -> Gauge:
        self.families.append(Family(f"elastipod_{name}", "gauge", labels, what))
        return super().gauge(name, what, *labels)

    def histogram(self, name: str, what: str, *labels: str, buckets: tuple[float, ...]) -> Histogram:
        self.families.append(Family(f"elastipod_{name}", "histogram", labels, what))
        return super().histogram(name, what, *labels, buckets=buckets)


def families() -> dict[str, list[Family]]:
    """All metrics, by who tells them."""
    clock = ManualClock(1_800_000_000.0)
    connection = DirectConnection(ApiServer(clock, Store(), spread=random.Random(0)), clock)
    process, recommender, updating, admission, actuator = Noted(), Noted(), Noted(), Noted(), Noted()
    Runs(process, "updater")
    CountedConnection(connection, clock, process)
    Recommender(connection, clock, RecommenderSettings(), metrics=recommender)
    Updater(connection, clock, metrics=updating)
    Admission(connection, clock, metrics=admission)
    Numbers(actuator)
    return {
        "Every process": process.families,
        "Recommender": recommender.families,
        "Recommender, while it leads": list(_written(_accounts_text())),
        "Updater": updating.families,
        "Updater, while it leads": list(_written(_fleet_text())),
        "Admission webhook": admission.families,
        "Actuator": actuator.families,
    }


def page() -> str:
    """The page as it should be."""
    parts = [_HEAD]
    for part, found in families().items():
        parts.append(f"\n## {part}\n\n| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
        for one in sorted(found):
            labels = ", ".join(f"`{label}`" for label in one.labels)
            parts.append(f"| `{one.name}` | {one.kind} | {labels} | {one.what.rstrip('.')}. |\n")
    return "".join(parts)


def _written(text: bytes) -> Iterator[Family]:
    """Those that are written as text, each of which has a series in it."""
    for family in text_string_to_metric_families(text.decode()):
        yield Family(family.name, family.type, tuple(family.samples[0].labels), family.documentation)


def _fleet_text() -> bytes:
    pod = Pod("shop", "web-0", "uid", node_name="n1")
    fleet, attempts = Fleet(()), ResizeAttempts()
    fleet.put_node("n1", Node("n1"))
    fleet.put_pod(pod.key, pod)
    resize = Resize(pod.key, pod.uid, {}, {}, Reason.DRIFTED, Urgency.DRIFTED)
    attempts.handle(Wanted(resize, "n1", 1, fits=False), 0.0)
    return fleet_text(fleet, attempts, 1.0)


def _accounts_text() -> bytes:
    workload, size = Workload("shop", "Deployment", "web"), Resources(1000, 2**30)
    container = Container("app", requests=size, limits=size)
    pod = Pod("shop", "web-0", "uid", node_name="n1", phase="Running", containers=(container,))
    caps = tuple(Cap(one, Reason.CAPPED_BY_MAX, 1, "containerPolicies") for one in Resource)
    snapshot = Snapshot(
        [(pod, workload)],
        {"n1": Node("n1")},
        {ContainerKey(workload, "app"): Advised(size, lower=size, upper=size, uncapped=size, caps=caps)},
        {("shop", "web-0", "app"): (1.0, 1.0)},
        {},
        {(ContainerKey(workload, "app"), one): Usage(1.0, 1.0, 1.0, 1.0) for one in Resource},
    )
    prices = PriceTable()
    text = accounts_text(accounts(snapshot, prices), 0, prices.currency)
    text += realisable_text(Realisable(), prices.currency) + USAGE_WINDOW.only(1.0).encode()
    text += prices_text(snapshot.nodes.values(), prices) + nodes_text(snapshot) + pods_text(snapshot, 1)
    return text
