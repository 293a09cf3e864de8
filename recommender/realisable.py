"""What a bill could lose: nodes that would be empty if all pods were as recommended.

Owns what pods would request then, and what the nodes hold and cost. Which would be empty is packing.py's matter.
"""

from collections.abc import Callable
from dataclasses import dataclass

from elastipod.fit import pod_sum
from elastipod.pods import Container, ContainerKind, Node, Pod, Workload
from elastipod.quantities import Resources
from recommender.packing import spare_nodes
from recommender.prices import PriceTable
from recommender.savings import Snapshot, counts


@dataclass(frozen=True, slots=True)
class Realisable:
    """Nodes that could be given back, and what they hold and cost."""

    nodes: tuple[str, ...] = ()
    cores: float = 0.0
    memory_bytes: float = 0.0
    per_hour: float = 0.0


def realisable(snapshot: Snapshot, prices: PriceTable, *, is_protected: Callable[[Pod], bool]) -> Realisable:
    """Which nodes would be empty if all pods were as recommended, those that are already among them. Raises PriceError.

    `is_protected` tells of a pod that no budget lets go.
    """
    pods = [pod for pod, _ in snapshot.pods if counts(pod)]
    sizes = {pod.key: _recommended(pod, workload, snapshot) for pod, workload in snapshot.pods if counts(pod)}
    names = spare_nodes(
        list(snapshot.nodes.values()),
        pods,
        sizes,
        is_protected=is_protected,
        worth=lambda node: _whole(node, prices)[2],
    )
    wholes = [_whole(snapshot.nodes[name], prices) for name in names]
    cores, memory_bytes, per_hour = (sum(column) for column in zip(*wholes, strict=True)) if wholes else (0.0, 0.0, 0.0)
    return Realisable(tuple(names), cores, memory_bytes, per_hour)


def _recommended(pod: Pod, workload: Workload, snapshot: Snapshot) -> Resources:
    """What a pod would request if it were as recommended."""

    def size(container: Container) -> Resources:
        if container.kind is ContainerKind.INIT:
            return container.requests
        found = snapshot.advised.get(snapshot.key_of(pod, workload, container.name))
        return container.requests if found is None else found.sized(container.requests)

    return pod_sum(pod, size)


def _whole(node: Node, prices: PriceTable) -> tuple[float, float, float]:
    """A node's cores and bytes, and money for an hour of it."""
    has = node.capacity.or_else(node.allocatable)
    cores, memory_bytes = has.cpu / 1000, float(has.memory)
    return cores, memory_bytes, prices.of(node).per_hour(cores, memory_bytes)
