"""What the updater shows of nodes and of resizes that wait, made at each scrape.

Owns these metrics, their labels and their bounds: a node has two series of each, and of the resizes that wait the
longest are told. Counting what was done is the service's matter.
"""

import heapq
from collections.abc import Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from elastipod.clock import Clock
from elastipod.quantities import Resources
from updater.attempts import ResizeAttempts
from updater.fleet import Fleet

MOST_WAITING: Final = 1000
_NODE: Final = ("node", "resource")
_WAITING: Final = ("namespace", "workload_kind", "workload", "node", "reason")


class Exposition(Collector):
    """Gauges of a fleet and its attempts, for a registry."""

    def __init__(self, fleet: Fleet, attempts: ResizeAttempts, clock: Clock) -> None:
        self._fleet, self._attempts, self._clock = fleet, attempts, clock

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from self._nodes()
        yield self._waiting()

    def _nodes(self) -> tuple[GaugeMetricFamily, ...]:
        allocatable = _gauge("allocatable", "What pods may request of a node, in cores or bytes.")
        reserved = _gauge("reserved", "What the scheduler counts as taken of a node, in cores or bytes.")
        allocated = _gauge("allocated", "Requests that a node has admitted, in cores or bytes.")
        granted = _gauge("granted", "Promised on a node to resizes that do not show yet, in cores or bytes.")
        ledger = self._fleet.ledger
        for node in sorted(ledger.nodes):
            room = ledger.room(node)
            if room is None:
                continue
            for_scheduler, for_kubelet = ledger.grants.on_node(node)
            has = room.allocatable
            _add(allocatable, node, has)
            _add(reserved, node, has - room.free_for_scheduler - for_scheduler)
            _add(allocated, node, has - room.free_for_kubelet - for_kubelet)
            _add(granted, node, for_scheduler)
        return allocatable, reserved, allocated, granted

    def _waiting(self) -> GaugeMetricFamily:
        now = self._clock.now()
        longest: dict[tuple[str, ...], float] = {}
        for key, attempt in self._attempts.unfinished().items():
            workload = self._fleet.workload(key)
            if workload is not None:
                one = (workload.namespace, workload.kind, workload.name, attempt.node, attempt.reason.value)
                longest[one] = max(longest.get(one, 0.0), now - attempt.first_at)
        family = GaugeMetricFamily(
            "elastipod_workload_resize_waiting_seconds",
            f"How long the resize of a workload's pod waits that waits the longest; the longest {MOST_WAITING}.",
            labels=_WAITING,
        )
        for labels, seconds in heapq.nlargest(MOST_WAITING, longest.items(), key=lambda one: one[1]):
            family.add_metric(labels, seconds)
        return family


def _gauge(name: str, what: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"elastipod_node_{name}", what, labels=_NODE)


def _add(family: GaugeMetricFamily, node: str, amount: Resources) -> None:
    family.add_metric((node, "cpu"), amount.cpu / 1000)
    family.add_metric((node, "memory"), amount.memory)
