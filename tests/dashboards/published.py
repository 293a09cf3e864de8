"""Which series elastipod publishes, from the parts themselves."""

import random
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from actuator.telling import Numbers
from elastipod.clock import ManualClock
from elastipod.kube.counting import CountedConnection
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.store import Store
from elastipod.loop import Runs
from elastipod.telemetry import Metrics
from recommender.exposition import accounts_text, nodes_text, prices_text, realisable_text
from recommender.prices import PriceTable
from recommender.savings import Realisable, Snapshot
from recommender.service import Recommender
from recommender.settings import RecommenderSettings
from updater.admission.service import Admission
from updater.exposition import Exposition
from updater.service import Updater

KUBELETS: Final = frozenset(
    {
        "container_cpu_cfs_periods_total",
        "container_cpu_cfs_throttled_periods_total",
        "container_start_time_seconds",
    }
)
"""Of the kubelets' cAdvisor; of others nothing is asked for."""
_ENDINGS: Final = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}


def published() -> set[str]:
    """The names of all series."""
    clock = ManualClock(1_800_000_000.0)
    connection = DirectConnection(ApiServer(clock, Store(), spread=random.Random(0)), clock)
    metrics = Metrics()
    Recommender(connection, clock, RecommenderSettings(), metrics=metrics)
    updater = Updater(connection, clock, metrics=metrics)
    Admission(connection, clock, metrics=metrics)
    Numbers(metrics)
    Runs(metrics, "recommender")
    CountedConnection(connection, clock, metrics)
    found = {*_series(metrics.registry), *_series(Exposition(updater.fleet, updater.attempts, clock))}
    accounts = [accounts_text([], 0, "USD"), realisable_text(Realisable(), "USD"), prices_text([], PriceTable())]
    for text in (*accounts, nodes_text(Snapshot([], {}, {}, {}, {}, {}))):
        found |= {one.name for one in text_string_to_metric_families(text.decode())}
    return found


def _series(of: CollectorRegistry | Collector) -> Iterator[str]:
    for family in of.collect():
        for ending in _ENDINGS[family.type]:
            yield family.name + ending
