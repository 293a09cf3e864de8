"""What is remembered of a container on nodes of each class, where a policy wants a size for each.

Owns which rows those are. They are rows as others are, by the container's name on the class, with usage, memory
windows, kills and checkpoints of their own, besides the container's one row for all nodes. So a class outlives its
nodes, and is forgotten when nothing was heard of it for as long as history is kept.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import structs

from elastipod.nodeclass import on_class, parted
from elastipod.pods import ContainerKey, Pod, Workload
from elastipod.quantities import Resources
from recommender.histogram import Ints
from recommender.history import History
from recommender.membership import Membership
from recommender.nodeclasses import NodeClasses
from recommender.samples import OomKill, UsageSample
from recommender.windows import InstanceKey

MOST_CLASSES: Final = 16
"""Of one container: on nodes of more its one size holds."""
_SEEN_SECONDS: Final = 1800.0
"""Before that a class has no size."""
_NONE: Final = np.zeros(0, dtype=np.int64)


class ClassRows:
    """The rows of containers by class of node."""

    def __init__(self, history: History, members: Membership, node_classes: NodeClasses) -> None:
        self._history = history
        self._members = members
        self._node_classes = node_classes
        self.largest: dict[str, Resources] = {}
        """By the key of a class, the most that any of its nodes has; kept where anything is sized by class."""
        self._sized: dict[int, ContainerKey] = {}
        """Containers that have a size for each class, by their row for all nodes."""
        self._instances: dict[InstanceKey, tuple[Pod, int]] = {}
        """Those that count for a class: their pods, and the rows they count in."""

    def know(self, row: int, key: ContainerKey, *, is_sized: bool) -> None:
        """Whether a container has a size for each class."""
        if is_sized:
            self._sized[row] = key
            self.largest = self.largest or self._node_classes.largest()
        elif self._sized.pop(row, None) is not None and not self._sized:
            self._let_go(all_of_them=True)

    def resized(self) -> set[Workload]:
        """Whose classes have nodes of other sizes than before."""
        if not self._sized:
            return set()
        before, self.largest = self.largest, self._node_classes.largest()
        return set() if before == self.largest else {key.workload for key in self._sized.values()}

    def among(self, rows: Ints) -> Ints:
        """The places of rows that have a size for each class."""
        return np.flatnonzero(np.isin(rows, list(self._sized))) if self._sized else _NONE

    def twins(self, samples: Sequence[UsageSample], rows: Ints) -> Ints:
        """The instances on the class of the node that samples of such rows count for too; -1 for none."""
        self._let_go()
        places = np.full(len(rows), -1, dtype=np.int64)
        for at, (one, row) in enumerate(zip(samples, rows.tolist(), strict=True)):
            pod = self._members.pod(one.namespace, one.pod)
            there = None if pod is None else self._there(self._sized[row], pod)
            if pod is not None and there is not None:
                instance, row_there = InstanceKey(pod.uid, there.container), self._history.ensure_row(there)
                self._instances[instance] = pod, row_there
                places[at] = self._history.ensure_instance(instance, row_there)
        return places

    def killed(self, kill: OomKill) -> OomKill | None:
        """The same kill as it counts for the class of its node."""
        key = ContainerKey(kill.workload, kill.container)
        if not self._sized or self._history.row(key) not in self._sized:
            return None
        pod = next((one for one in self._members.pods(kill.workload) if one.uid == kill.pod_uid), None)
        there = None if pod is None else self._there(key, pod)
        return None if there is None else structs.replace(kill, container=there.container)

    def sized(self, workload: Workload) -> dict[str, set[str]]:
        """By the key of a class, the containers of a workload whose use on it is known well enough."""
        found: dict[str, set[str]] = {}
        for name in self._history.containers(workload):
            container, of = parted(name)
            row = self._history.row(ContainerKey(workload, name))
            if of and row is not None:
                first, last = self._history.heard_between(row)
                if last - first >= _SEEN_SECONDS:
                    found.setdefault(of, set()).add(container)
        return found

    def forget(self, row: int) -> None:
        """The row is nobody's any more."""
        self._sized.pop(row, None)
        for instance in [one for one, (_, counts_in) in self._instances.items() if counts_in == row]:
            self._drop(instance)

    def _there(self, key: ContainerKey, pod: Pod) -> ContainerKey | None:
        """A container on the class of a pod's node; None where that is not known, or there are too many classes."""
        of = self._node_classes.key_of(pod.node_name)
        there = ContainerKey(key.workload, on_class(key.container, of))
        if of and self._history.row(there) is None:
            names = map(parted, self._history.containers(key.workload))
            if sum(name == key.container and bool(other) for name, other in names) >= MOST_CLASSES:
                return None
        return there if of else None

    def _let_go(self, *, all_of_them: bool = False) -> None:
        """Of instances whose pods are gone or have ended."""
        for instance, (seen, _) in list(self._instances.items()):
            pod = self._members.pod(seen.namespace, seen.name)
            if all_of_them or pod is None or pod.uid != seen.uid or pod.is_terminal:
                self._drop(instance)

    def _drop(self, instance: InstanceKey) -> None:
        del self._instances[instance]
        self._history.forget_instance(instance)
