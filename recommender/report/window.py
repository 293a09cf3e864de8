"""What containers used over a window of past usage.

Owns mean, p95, peak, and curves of all pods together, as they add up while rows are read: no row is kept. A p95 is
told as the end of its histogram's bucket, at most 5 % above it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elastipod.pods import ContainerKey
from recommender.estimators.peaks import MINUTE
from recommender.histogram import CPU_FIRST_BUCKET, MEMORY_FIRST_BUCKET, Buckets, Floats, buckets_from
from recommender.ranges import Resource
from recommender.savings import Usage
from recommender.sources.prometheus.grid import Grid, Instance, Wanted
from recommender.sources.prometheus.planning import Span

MOST_POINTS: Final = 192
_READ_AS: Final = {Resource.CPU: "mean", Resource.MEMORY: "peak"}
_P95: Final = 0.95
_NOW: Final = 900.0
"""An amount of the last quarter of an hour is of now, and so is the last one."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """What all pods of a container used together, in even pieces of time; NaN where nothing is known."""

    start: float
    seconds: float
    """How long a piece is."""
    values: Floats


@dataclass(slots=True, eq=False)
class _Sum:
    weights: Floats
    """By bucket."""
    pieces: Floats
    """By piece of time: what all pods used, and how many of their amounts are known."""
    known: Floats
    seen: NDArray[np.bool_]
    """By point: whether an amount of any pod is known."""
    total: float = 0.0
    count: int = 0
    peak: float = 0.0


class Window:
    """Usage of many containers over one span."""

    def __init__(self) -> None:
        self.newest: dict[tuple[str, str, str], tuple[float | None, float | None]] = {}
        """Cores and bytes now, by namespace, pod and container; None for what is not known."""
        self._spans: dict[Resource, Span] = {}
        """Each resource may be read at steps of its own."""
        self._began_at: dict[Resource, float] = {}
        self._sums: dict[tuple[ContainerKey, Resource], _Sum] = {}

    @property
    def seconds(self) -> float:
        """How long it is, from the first amount that is known, as the resource tells that is read most closely."""
        closest = min(self._began_at, key=lambda resource: self._spans[resource].step, default=None)
        return 0.0 if closest is None else self._spans[closest].end - self._began_at[closest]

    @property
    def words(self) -> str:
        """How usage is counted, for people."""
        parts = [
            f"{resource} by its {_READ_AS[resource]} in {span.step / MINUTE:g} minutes"
            for resource, span in sorted(self._spans.items())
        ]
        return (
            f"mean, p95 and peak are of one container of the workload, over all its pods: {', '.join(parts)}; what is "
            "used now is the last of these; the p95 is told at most 5 % too high"
        )

    def see(self, resource: str, grid: Grid, wanted: Mapping[Instance, Wanted]) -> None:
        """Count what was read of one resource; NaN is not known."""
        self._spans[Resource(resource)] = grid.span
        for instance, row in zip(grid.instances, grid.amounts, strict=True):
            self._count(Resource(resource), wanted[instance].key, instance, row.astype(np.float64))

    def usage(self) -> dict[tuple[ContainerKey, Resource], Usage]:
        """What one container of each used."""
        return {
            of: Usage(
                one.total / one.count, _p95(of[1], one), one.peak, float(one.seen.sum() * self._spans[of[1]].step)
            )
            for of, one in self._sums.items()
        }

    def curve(self, key: ContainerKey, resource: Resource) -> Curve | None:
        """What all pods used together; None where nothing is known."""
        one, span = self._sums.get((key, resource)), self._spans.get(resource)
        if one is None or span is None:
            return None
        stride = -(-span.points // MOST_POINTS)
        points = np.full(len(one.pieces), float(stride))
        points[-1] = span.points - (len(points) - 1) * stride
        values = np.where(one.known > 0, one.pieces / points, np.nan)
        return Curve(float(span.start), float(stride * span.step), values)

    def _count(self, resource: Resource, key: ContainerKey, instance: Instance, row: Floats) -> None:
        is_known = ~np.isnan(row)
        found = row[is_known]
        if not len(found):
            return
        self._note_begin(resource, int(is_known.argmax()))
        buckets, starts = _buckets(resource), np.arange(0, len(row), -(-len(row) // MOST_POINTS))
        one = self._sums.get((key, resource))
        if one is None:
            one = _Sum(np.zeros(buckets.count), np.zeros(len(starts)), np.zeros(len(starts)), np.zeros_like(is_known))
            self._sums[key, resource] = one
        one.seen |= is_known
        one.weights += np.bincount(buckets.index(found), minlength=buckets.count)
        one.total += float(found.sum())
        one.count += len(found)
        one.peak = max(one.peak, float(found.max()))
        one.pieces += np.add.reduceat(np.where(is_known, row, 0.0), starts)
        one.known += np.add.reduceat(is_known, starts, dtype=np.int64)
        self._note_newest(resource, instance, row)

    def _note_begin(self, resource: Resource, point: int) -> None:
        # An amount is of the step before its time.
        span = self._spans[resource]
        at = float(span.start + (point - 1) * span.step)
        self._began_at[resource] = min(self._began_at.get(resource, at), at)

    def _note_newest(self, resource: Resource, instance: Instance, row: Floats) -> None:
        last = row[-max(int(_NOW // self._spans[resource].step), 1) :]
        last = last[~np.isnan(last)]
        if not len(last):
            return
        where = (instance.namespace, instance.pod, instance.container)
        cores, memory_bytes = self.newest.get(where, (None, None))
        used = float(last[-1])
        self.newest[where] = (used, memory_bytes) if resource is Resource.CPU else (cores, used)


def _buckets(resource: Resource) -> Buckets:
    return buckets_from(CPU_FIRST_BUCKET if resource is Resource.CPU else MEMORY_FIRST_BUCKET)


def _p95(resource: Resource, one: _Sum) -> float:
    reached = int(np.searchsorted(np.cumsum(one.weights), _P95 * one.count))
    edge = float(_buckets(resource).upper_edge(np.array([reached]))[0])
    return min(edge, one.peak)
