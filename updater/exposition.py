"""What the updater shows of nodes and of resizes that wait, made at each scrape.

Owns these metrics, their labels and their bounds: a node has two series of each, and of the resizes that wait the
longest are told. Counting what was done is the service's matter.
"""

import heapq
from collections.abc import Iterator
from typing import Final

from elastipod.gauges import Gauge, labels
from updater.attempts import ResizeAttempts
from updater.fleet import Fleet

MOST_WAITING: Final = 1000

_ALLOCATABLE: Final = Gauge("elastipod_node_allocatable", "What pods may request of a node, in cores or bytes.")
_RESERVED: Final = Gauge("elastipod_node_reserved", "What the scheduler counts as taken of a node, in cores or bytes.")
_ALLOCATED: Final = Gauge("elastipod_node_allocated", "Requests that a node has admitted, in cores or bytes.")
_GRANTED: Final = Gauge(
    "elastipod_node_granted", "Promised on a node to resizes that do not show yet, in cores or bytes."
)
_WAITING: Final = Gauge(
    "elastipod_workload_resize_waiting_seconds",
    f"How long the resize of a workload's pod waits that waits the longest; the longest {MOST_WAITING}.",
)


def fleet_text(fleet: Fleet, attempts: ResizeAttempts, now: float) -> bytes:
    """Gauges of a fleet and its attempts, for /metrics."""
    nodes = [*_nodes(fleet)]
    told = [
        gauge.text(series for taken in nodes for series in taken[place])
        for place, gauge in enumerate((_ALLOCATABLE, _RESERVED, _ALLOCATED, _GRANTED))
    ]
    return "".join((*told, _WAITING.text(_waiting(fleet, attempts, now)))).encode()


def _nodes(fleet: Fleet) -> Iterator[list[tuple[tuple[str, float], tuple[str, float]]]]:
    """Each node's series: what it has, what is reserved of it, allocated and granted."""
    for node in sorted(fleet.ledger.nodes):
        room = fleet.ledger.room(node)
        if room is None:
            continue
        for_scheduler, for_kubelet = fleet.ledger.grants.on_node(node)
        has = room.allocatable
        reserved, allocated = has - room.free_for_scheduler - for_scheduler, has - room.free_for_kubelet - for_kubelet
        cpu, memory = labels(node=node, resource="cpu"), labels(node=node, resource="memory")
        yield [((cpu, one.cpu / 1000), (memory, one.memory)) for one in (has, reserved, allocated, for_scheduler)]


def _waiting(fleet: Fleet, attempts: ResizeAttempts, now: float) -> Iterator[tuple[str, float]]:
    longest: dict[tuple[str, ...], float] = {}
    for key, attempt in attempts.unfinished().items():
        workload = fleet.workload(key)
        if workload is not None:
            one = (workload.namespace, workload.kind, workload.name, attempt.node, attempt.reason.value)
            longest[one] = max(longest.get(one, 0.0), now - attempt.first_at)
    for (namespace, kind, name, node, reason), seconds in heapq.nlargest(
        MOST_WAITING, longest.items(), key=lambda one: one[1]
    ):
        yield labels(namespace=namespace, workload_kind=kind, workload=name, node=node, reason=reason), seconds
