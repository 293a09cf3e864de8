"""Which nodes would be empty if pods had the sizes that they need: the only saving that lowers a bill.

Owns emptying nodes one after the other, as a cluster's autoscaler does: a node can be spared when each of its pods has
a place on those that stay. Rules: cluster-autoscaler's for scale-down, as far as pods and nodes tell. Volumes and local
storage are not looked at.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from elastipod.fit import desired, pod_sum
from elastipod.placement import keep_apart, may_run
from elastipod.pods import Node, Pod
from elastipod.quantities import Resources

_TAKEN: Final = np.inf
_CONTROL_PLANE: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def spare_nodes(
    nodes: Sequence[Node],
    pods: Iterable[Pod],
    sizes: Mapping[str, Resources],
    *,
    is_protected: Callable[[Pod], bool] = lambda _: False,
    worth: Callable[[Node], float] = lambda _: 1.0,
) -> list[str]:
    """The names of nodes that would be empty if all pods had these sizes, in the order they would be emptied.

    `sizes` is by pod (`namespace/name`); others keep what they ask for. `is_protected` tells of a pod that no budget
    lets go. `worth` is a node's price: of nodes equally full, the dearest is emptied first. Pods of DaemonSets and
    static pods end with their node; a pod that nobody would make again, that stays, that is protected, or that requires
    what is not weighed here (Affinity.has_more) keeps its node. Nodes that take no pods are neither emptied nor filled;
    those of the control plane are filled only.
    """
    open_nodes = [node for node in nodes if node.is_ready and not node.is_unschedulable]
    packing = _Packing(open_nodes, pods, sizes)
    order = sorted(
        (number for number, node in enumerate(open_nodes) if not any(one in node.labels for one in _CONTROL_PLANE)),
        key=lambda one: (packing.to_move_share(one), -worth(open_nodes[one]), open_nodes[one].name),
    )
    return [open_nodes[one].name for one in order if packing.empty(one, is_protected)]


class _Packing:
    """Nodes, what is free on them, and who is there."""

    def __init__(self, nodes: Sequence[Node], pods: Iterable[Pod], sizes: Mapping[str, Resources]) -> None:
        self._nodes = nodes
        self._all = np.array([(node.allocatable.cpu, node.allocatable.memory) for node in nodes]).reshape(-1, 2)
        self._free = self._all.astype(np.float64)
        self._there: list[list[Pod]] = [[] for _ in nodes]
        self._needs: dict[str, tuple[int, int]] = {}
        places = {node.name: number for number, node in enumerate(nodes)}
        for pod in pods:
            number = places.get(pod.node_name)
            if number is not None and not pod.is_terminal:
                need = sizes.get(pod.key) or pod_sum(pod, desired)
                self._needs[pod.key] = (need.cpu, need.memory)
                self._put(pod, number)

    def to_move_share(self, number: int) -> float:
        """The share of a node that would have to go elsewhere, by the scarcer resource."""
        needs = [self._needs[pod.key] for pod in self._moving(number)]
        return float((np.sum(needs, axis=0) / np.maximum(self._all[number], 1)).max()) if needs else 0.0

    def empty(self, number: int, is_protected: Callable[[Pod], bool]) -> bool:
        """Move all that would have to go to other nodes; nothing where one of them has to stay."""
        moving = self._moving(number)
        if any(pod.owner is None or pod.stays or pod.affinity.has_more or is_protected(pod) for pod in moving):
            return False
        free = self._free[number].copy()
        self._free[number] = -_TAKEN
        moved: list[tuple[Pod, int]] = []
        for pod in sorted(moving, key=lambda one: (*reversed(self._needs[one.key]), one.key), reverse=True):
            target = self._target(pod)
            if target is None:
                for back, there in moved:
                    self._there[there].remove(back)
                    self._free[there] += self._needs[back.key]
                self._free[number] = free
                return False
            self._put(pod, target)
            moved.append((pod, target))
        self._there[number] = []
        return True

    def _target(self, pod: Pod) -> int | None:
        """The fullest node that takes the pod, so that what is left elsewhere stays in one piece."""
        left = self._free - self._needs[pod.key]
        fits = np.flatnonzero((left >= 0).all(axis=1))
        shares = (left[fits] / np.maximum(self._all[fits], 1)).max(axis=1)
        for number in fits[np.argsort(shares, kind="stable")].tolist():
            there = self._there[number]
            if may_run(pod, self._nodes[number], len(there)) and not keep_apart(pod, there):
                return int(number)
        return None

    def _put(self, pod: Pod, number: int) -> None:
        self._there[number].append(pod)
        self._free[number] -= self._needs[pod.key]

    def _moving(self, number: int) -> list[Pod]:
        return [pod for pod in self._there[number] if not _ends_with_node(pod)]


def _ends_with_node(pod: Pod) -> bool:
    return pod.is_mirror or (pod.owner is not None and pod.owner.kind == "DaemonSet")
