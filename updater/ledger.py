"""What every node has free, kept as pods and nodes change.

Owns the sums per node in the scheduler's and in the kubelet's view (elastipod.fit has the arithmetic), so that one
change costs one pod and not the cluster.
"""

from collections.abc import Collection

from msgspec import Struct

from elastipod.fit import NodeRoom, allocated, pod_sum, reserved
from elastipod.pods import Node, Pod
from elastipod.quantities import Resources
from updater.grants import Grants


class _Held(Struct, frozen=True, gc=False):
    node: str
    for_scheduler: Resources
    for_kubelet: Resources


class Ledger:
    """Nodes, what their pods hold, and what was granted besides."""

    def __init__(self, grants: Grants | None = None) -> None:
        self.grants = grants or Grants()
        self.nodes: dict[str, Node] = {}
        self._held: dict[str, _Held] = {}
        self._sums: dict[str, list[int]] = {}
        self._keys: dict[str, set[str]] = {}

    def put_node(self, node: Node) -> bool:
        """Take a node as it is now; True when it has more than before, or takes resizes again."""
        old = self.nodes.get(node.name)
        self.nodes[node.name] = node
        if old is None:
            return True
        grown = node.allocatable.cpu > old.allocatable.cpu or node.allocatable.memory > old.allocatable.memory
        return grown or (node.is_ready and not old.is_ready)

    def drop_node(self, name: str) -> None:
        """The node is gone."""
        self.nodes.pop(name, None)

    def put_pod(self, key: str, pod: Pod | None) -> str:
        """Take a pod as it is now, None for one that is gone; the node on which room was freed, or nothing."""
        old = self._held.pop(key, None)
        if old is not None:
            self._add(old, -1, key)
        new = None
        if pod is not None:
            self.grants.shown(pod)
            if pod.node_name and not pod.is_terminal:
                new = _Held(pod.node_name, reserved(pod), pod_sum(pod, allocated))
                self._held[key] = new
                self._add(new, 1, key)
        if old is None:
            return ""
        freed = new is None or new.node != old.node or _is_less(new.for_scheduler, old.for_scheduler)
        return old.node if freed or (new is not None and _is_less(new.for_kubelet, old.for_kubelet)) else ""

    def room(self, node: str) -> NodeRoom | None:
        """What is free on a node besides what was granted; None for an unknown one."""
        found = self.nodes.get(node)
        if found is None:
            return None
        sums = self._sums.get(node) or [0, 0, 0, 0]
        for_scheduler, for_kubelet = self.grants.on_node(node)
        return NodeRoom(
            node,
            found.allocatable,
            found.allocatable - (Resources(sums[0], sums[1]) + for_scheduler),
            found.allocatable - (Resources(sums[2], sums[3]) + for_kubelet),
        )

    def keys_on(self, node: str) -> Collection[str]:
        """The pods on a node."""
        return self._keys.get(node, ())

    def _add(self, held: _Held, sign: int, key: str) -> None:
        sums = self._sums.setdefault(held.node, [0, 0, 0, 0])
        sums[0] += sign * held.for_scheduler.cpu
        sums[1] += sign * held.for_scheduler.memory
        sums[2] += sign * held.for_kubelet.cpu
        sums[3] += sign * held.for_kubelet.memory
        keys = self._keys.setdefault(held.node, set())
        if sign > 0:
            keys.add(key)
        else:
            keys.discard(key)


def fits(room: NodeRoom, for_scheduler: Resources, for_kubelet: Resources) -> bool:
    """Whether a pod that grows by this much fits in both views; what does not grow always fits."""
    return _fits(for_scheduler, room.free_for_scheduler) and _fits(for_kubelet, room.free_for_kubelet)


def lack(room: NodeRoom, for_scheduler: Resources, for_kubelet: Resources) -> Resources:
    """How much more room is needed, zero where there is enough."""
    free_scheduler, free_kubelet = room.free_for_scheduler, room.free_for_kubelet
    return Resources(
        _lack(
            (for_scheduler.cpu, free_scheduler.cpu),
            (for_kubelet.cpu, free_kubelet.cpu),
        ),
        _lack(
            (for_scheduler.memory, free_scheduler.memory),
            (for_kubelet.memory, free_kubelet.memory),
        ),
    )


def _fits(more: Resources, free: Resources) -> bool:
    return (more.cpu <= 0 or more.cpu <= free.cpu) and (more.memory <= 0 or more.memory <= free.memory)


def _lack(*views: tuple[int, int]) -> int:
    return max(0, *(more - free if more > 0 else 0 for more, free in views))


def _is_less(one: Resources, other: Resources) -> bool:
    return one.cpu < other.cpu or one.memory < other.memory
