"""What the pods of a DaemonSet use by the class of their node: by its size and architecture.

Owns which classes there are, the means, and when they differ so much that one size for all is wrong for some. A
VerticalPodAutoscaler has one recommendation for a container, so this is told and not done, unless an ElasticPolicy asks
for a size for each class: that is classrows.py's matter.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from elastipod.nodeclass import class_key, node_class
from elastipod.pods import ContainerKey, Node
from elastipod.quantities import NOTHING, Resources
from recommender.histogram import Floats, Ints
from recommender.ranges import Resource

_HALF_LIFE_SECONDS: Final = 3600.0
_SEEN_SECONDS: Final = 1800.0
"""Before that a class is not compared."""
_FORGOTTEN_SECONDS: Final = 86_400.0
_DIFFERS: Final = 2.0
_IS_ALIKE: Final = 1.5
_LEAST: Final = (0.01, 16.0 * 1024**2)
"""Cores and bytes; a smaller difference is none."""


@dataclass(slots=True)
class _Mean:
    """What pods on nodes of one class use: cores and bytes."""

    used: Floats
    begun_at: float
    heard_at: float


@dataclass(slots=True)
class _Row:
    """One container of a DaemonSet."""

    by_class: dict[str, _Mean] = field(default_factory=dict)
    differs: tuple[bool, bool] = (False, False)


class NodeClasses:
    """Usage by class of node, of the rows that are DaemonSets'."""

    def __init__(self) -> None:
        self._nodes: Mapping[str, Node] = {}
        self._class_of: dict[str, str] = {}
        self._rows: dict[int, _Row] = {}

    def set_nodes(self, nodes: Mapping[str, Node]) -> None:
        """The cluster's nodes are these now."""
        self._nodes = nodes
        self._class_of = {name: node_class(node) for name, node in nodes.items()}

    def key_of(self, node: str) -> str:
        """The key of a node's class; nothing where it is not known."""
        return class_key(self._class_of.get(node, ""))

    def largest(self) -> dict[str, Resources]:
        """By the key of a class, the most that any of its nodes has."""
        found: dict[str, Resources] = {}
        for name, node in self._nodes.items():
            key = self.key_of(name)
            found[key] = found.get(key, NOTHING).largest(node.allocatable)
        return found

    def know(self, row: int, key: ContainerKey) -> None:
        """Whose row it is."""
        if key.workload.kind == "DaemonSet":
            self._rows.setdefault(row, _Row())

    def forget(self, row: int) -> None:
        """It is nobody's any more."""
        self._rows.pop(row, None)

    def among(self, rows: Ints) -> Ints:
        """The places of rows that are followed."""
        return np.flatnonzero(np.isin(rows, list(self._rows))) if self._rows else np.zeros(0, dtype=np.int64)

    def see(self, rows: Ints, nodes: Sequence[str], used: Floats, now: float) -> None:
        """Samples of followed rows, and on which nodes; `used` has cores and bytes in its two columns, NaN unknown."""
        found: dict[tuple[int, str], list[int]] = {}
        for place, (row, node) in enumerate(zip(rows.tolist(), nodes, strict=True)):
            if name := self._class_of.get(node):
                found.setdefault((row, name), []).append(place)
        for (row, name), places in found.items():
            told = used[places]
            if np.isfinite(told).any(axis=0).all():
                self._take(self._rows[row], name, np.nanmean(told, axis=0), now)

    def turned(self, now: float) -> list[int]:
        """Rows whose use has come to differ by class, or differs no more."""
        changed = []
        for row, one in self._rows.items():
            for name in [name for name, mean in one.by_class.items() if now - mean.heard_at > _FORGOTTEN_SECONDS]:
                del one.by_class[name]
            before, means = one.differs, [mean.used for mean in _compared(one)]
            one.differs = (False, False)
            if len(means) > 1:
                least, most = np.min(means, axis=0), np.max(means, axis=0)
                factors = np.where(before, _IS_ALIKE, _DIFFERS)
                cpu, memory = ((most >= least * factors) & (most - least >= _LEAST)).tolist()
                one.differs = (cpu, memory)
            if one.differs != before:
                changed.append(row)
        return changed

    def differs(self, row: int, resource: Resource) -> str:
        """Between which classes a row's use differs; nothing where it does not."""
        one, column = self._rows.get(row), 0 if resource is Resource.CPU else 1
        if one is None or not one.differs[column]:
            return ""
        names = sorted(one.by_class, key=lambda name: float(one.by_class[name].used[column]))
        return f"nodes of {names[0]} and {names[-1]}"

    def told(self, row: int) -> dict[str, dict[str, int]]:
        """What pods of a row use on average, by class; nothing where there is one class only."""
        one = self._rows.get(row)
        if one is None or len(one.by_class) < 2:
            return {}
        return {
            name: {"cpu_millicores": round(mean.used[0] * 1000), "memory_bytes": round(mean.used[1])}
            for name, mean in sorted(one.by_class.items())
        }

    @staticmethod
    def _take(one: _Row, name: str, used: Floats, now: float) -> None:
        mean = one.by_class.get(name)
        if mean is None:
            one.by_class[name] = _Mean(used, now, now)
            return
        mean.used = used + (mean.used - used) * 2.0 ** ((mean.heard_at - now) / _HALF_LIFE_SECONDS)
        mean.heard_at = now


def _compared(one: _Row) -> Iterable[_Mean]:
    return [mean for mean in one.by_class.values() if mean.heard_at - mean.begun_at >= _SEEN_SECONDS]
