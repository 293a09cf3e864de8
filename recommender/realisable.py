"""What a bill could lose: nodes that would be empty if all pods were as recommended.

Owns what pods would request then, and what the nodes hold and cost. Which would be empty is packing.py's matter.
"""

from collections.abc import Callable
from dataclasses import dataclass

from elastipod.fit import pod_sum
from elastipod.pods import Container, ContainerKind, Node, Pod, Workload
from elastipod.quantities import NOTHING, Resources
from recommender.packing import spare_nodes
from recommender.prices import PriceTable
from recommender.savings import Snapshot
from recommender.sums import money_sum


@dataclass(frozen=True, slots=True)
class Realisable:
    """Nodes that could be given back, and what they hold and cost."""

    nodes: tuple[str, ...] = ()
    cores: float = 0.0
    memory_bytes: float = 0.0
    per_hour: float = 0.0


def realisable(snapshot: Snapshot, prices: PriceTable, *, is_protected: Callable[[Pod], bool]) -> Realisable:
    """Which nodes would be empty if all pods were as recommended, those that are already among them. Raises PriceError.

    Pods that wait for a node count too, as they need room. `is_protected` tells of a pod that no budget lets go.
    """
    those = [(pod, workload) for pod, workload in snapshot.pods if not pod.is_terminal and pod.deletion_at is None]
    sizes = {pod.key: _recommended(pod, workload, snapshot) for pod, workload in those}
    names = spare_nodes(
        list(snapshot.nodes.values()),
        [pod for pod, _ in those],
        sizes,
        is_protected=is_protected,
        worth=lambda node: _per_hour(node, prices),
    )
    spared = [snapshot.nodes[name] for name in names]
    held = sum((node.capacity.or_else(node.allocatable) for node in spared), NOTHING)
    per_hour = money_sum(_per_hour(node, prices) for node in spared)
    return Realisable(tuple(names), held.cpu / 1000, float(held.memory), per_hour)


def _recommended(pod: Pod, workload: Workload, snapshot: Snapshot) -> Resources:
    """What a pod would request if it were as recommended."""

    def size(container: Container) -> Resources:
        if container.kind is ContainerKind.INIT:
            return container.requests
        found = snapshot.advised.get(snapshot.key_of(pod, workload, container.name))
        return container.requests if found is None else found.sized(container.requests)

    return pod_sum(pod, size)


def _per_hour(node: Node, prices: PriceTable) -> float:
    """Money for an hour of a node."""
    has = node.capacity.or_else(node.allocatable)
    return prices.of(node).per_hour(has.cpu / 1000, float(has.memory))
