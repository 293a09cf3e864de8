"""Which nodes would be empty if pods had the sizes that they need: the only saving that lowers a bill.

Owns emptying nodes one after the other, as a cluster's autoscaler does: a node can be spared when each of its pods has
a place on those that stay; and, before that, a place for what has none. Rules: cluster-autoscaler's for scale-down, as
far as pods and nodes tell. Volumes and local storage are not looked at.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import filterfalse
from typing import Final

import numpy as np

from elastipod.fit import desired, pod_sum
from elastipod.placement import keep_apart, may_run
from elastipod.pods import Node, Pod
from elastipod.quantities import Resources

_TAKEN: Final = np.inf
_CONTROL_PLANE: Final = {"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}


def spare_nodes(
    nodes: Sequence[Node],
    pods: Iterable[Pod],
    sizes: Mapping[str, Resources],
    *,
    is_protected: Callable[[Pod], bool] = lambda _: False,
    worth: Callable[[Node], float] = lambda _: 1.0,
) -> list[str]:
    """The names of nodes that would be empty if all pods had these sizes, in the order they would be emptied.

    Pods that are on no ready node, and what their node has no room for at these sizes, have their place first; while
    one of them finds none, no node is spared. For a pod that waits, and that no node would take were it empty, none is
    kept.

    `sizes` is by pod (`namespace/name`); others keep what they ask for. `is_protected` tells of a pod that no budget
    lets go. `worth` is a node's price: of nodes equally full, the dearest is emptied first. Pods of DaemonSets and
    static pods end with their node; a pod that nobody would make again, that stays, that is protected, or that requires
    what is not weighed here (Affinity.has_more) keeps its node. Nodes that take no pods are neither emptied nor filled;
    those of the control plane are filled only.
    """
    ready = [node for node in nodes if node.is_ready]
    packing = _Packing(ready, pods, sizes, is_protected)
    if not packing.settle():
        return []
    order = sorted(
        (
            number
            for number, node in enumerate(ready)
            if not node.is_unschedulable and not _CONTROL_PLANE & node.labels.keys()
        ),
        key=lambda one: (packing.to_move_share(one), -worth(ready[one]), ready[one].name),
    )
    return [ready[one].name for one in order if packing.empty(one)]


class _Packing:
    """Nodes, what is free on them, who is there, and who is nowhere yet."""

    def __init__(
        self,
        nodes: Sequence[Node],
        pods: Iterable[Pod],
        sizes: Mapping[str, Resources],
        is_protected: Callable[[Pod], bool],
    ) -> None:
        self._nodes, self._is_protected = nodes, is_protected
        self._all = np.array([(node.allocatable.cpu, node.allocatable.memory) for node in nodes]).reshape(-1, 2)
        self._free = self._all.astype(np.float64)
        self._there: list[list[Pod]] = [[] for _ in nodes]
        self._waiting: list[Pod] = []
        self._needs: dict[str, tuple[int, int]] = {}
        places = {node.name: number for number, node in enumerate(nodes)}
        for pod in pods:
            if pod.is_terminal:
                continue
            need = sizes.get(pod.key) or pod_sum(pod, desired)
            self._needs[pod.key] = (need.cpu, need.memory)
            number = places.get(pod.node_name)
            if number is not None:
                self._put(pod, number)
            elif not _ends_with_node(pod):
                self._waiting.append(pod)

    def settle(self) -> bool:
        """Give those a place that have none; whether all are settled."""
        over = np.flatnonzero((self._free < 0).any(axis=1)).tolist()
        return all(self._relieve(number) for number in over) and all(
            self._move(pod) or not self._could_run(pod) for pod in self._largest_first(self._waiting)
        )

    def to_move_share(self, number: int) -> float:
        """The share of a node that would have to go elsewhere, by the scarcer resource."""
        needs = [self._needs[pod.key] for pod in self._moving(number)]
        return float((np.sum(needs, axis=0) / np.maximum(self._all[number], 1)).max()) if needs else 0.0

    def empty(self, number: int) -> bool:
        """Move all that would have to go to other nodes; nothing where one of them has to stay."""
        moving = self._moving(number)
        if not all(map(self._may_go, moving)):
            return False
        free = self._free[number].copy()
        self._free[number] = -_TAKEN
        moved: list[tuple[Pod, int]] = []
        for pod in self._largest_first(moving):
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

    def _relieve(self, number: int) -> bool:
        """Move pods from a node that has too little room for its own, until it has enough: one, if one will do."""
        free, there = self._free[number].copy(), list(self._there[number])
        self._free[number] = -_TAKEN
        going = self._largest_first(filter(self._may_go, self._moving(number)))

        def is_enough(pod: Pod) -> bool:
            return bool((free + self._needs[pod.key] >= 0).all())

        for pod in (*filter(is_enough, reversed(going)), *filterfalse(is_enough, going)):
            if (free >= 0).all():
                break
            if self._move(pod):
                there.remove(pod)
                free += self._needs[pod.key]
        self._free[number], self._there[number] = free, there
        return bool((free >= 0).all())

    def _move(self, pod: Pod) -> bool:
        """Put a pod where it finds a place; one of which not all wishes are weighed finds none."""
        target = None if pod.affinity.has_more else self._target(pod)
        if target is not None:
            self._put(pod, target)
        return target is not None

    def _could_run(self, pod: Pod) -> bool:
        """Whether a node would take the pod if it were empty."""
        fits = np.flatnonzero((self._all >= self._needs[pod.key]).all(axis=1))
        return any(may_run(pod, self._nodes[number], 0) for number in fits.tolist())

    def _may_go(self, pod: Pod) -> bool:
        return not (pod.owner is None or pod.stays or pod.affinity.has_more or self._is_protected(pod))

    def _largest_first(self, pods: Iterable[Pod]) -> list[Pod]:
        return sorted(pods, key=lambda one: (*reversed(self._needs[one.key]), one.key), reverse=True)

    def _put(self, pod: Pod, number: int) -> None:
        self._there[number].append(pod)
        self._free[number] -= self._needs[pod.key]

    def _moving(self, number: int) -> list[Pod]:
        return [pod for pod in self._there[number] if not _ends_with_node(pod)]


def _ends_with_node(pod: Pod) -> bool:
    return pod.is_mirror or (pod.owner is not None and pod.owner.kind == "DaemonSet")
