"""Past usage as the histories that would stand there, had it been heard live.

Owns the rule: each amount counts for as many live samples as its step is long, memory by the peaks of each instance's
intervals, from its first sample on. Asks nothing; what is known already is left out by its time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from elastipod.pods import ContainerKey
from recommender.histogram import (
    CPU_FIRST_BUCKET,
    MEMORY_FIRST_BUCKET,
    Floats,
    HistogramState,
    Ints,
    buckets_from,
)
from recommender.history import ContainerHistory
from recommender.settings import RecommenderSettings
from recommender.sources.prometheus.grid import Amounts, Wanted
from recommender.sources.prometheus.planning import Span
from recommender.windows import MemoryWindow

_BLOCK: Final = 65_536
"""So many amounts are counted together: as many as stay at hand while they are."""


@dataclass(slots=True)
class _Sum:
    """What has been counted of one container."""

    cpu: Floats
    memory: Floats
    samples: float = 0.0
    first_at: float = np.inf
    last_at: float = -np.inf
    windows: list[MemoryWindow] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """What is known of some instances, one after the other: each amount with its instance's row and its time."""

    of: Sequence[Wanted]
    rows: Ints
    times: Floats
    amounts: Floats
    bounds: Ints
    """Where each row begins, and where the last ends."""

    def weights(self, rows: Ints, buckets: Ints, weights: Floats, count: int) -> Floats:
        """The weights that fall into each of so many buckets, a row for each instance."""
        found = np.bincount(rows * count + buckets, weights, len(self.of) * count)
        return found.astype(np.float64, copy=False).reshape(-1, count)


class Fold:
    """Histories as they add up, of all containers."""

    def __init__(self, settings: RecommenderSettings, now: float) -> None:
        self._settings = settings
        self._now = now
        self._cpu = buckets_from(CPU_FIRST_BUCKET)
        self._memory = buckets_from(MEMORY_FIRST_BUCKET)
        # One reference for all: weights are largest now, and none is lost.
        half_life = settings.half_life_seconds
        self._reference_at = np.floor(now / half_life) * half_life
        self._sums: dict[ContainerKey, _Sum] = {}

    def add_cpu(self, span: Span, amounts: Amounts, of: Sequence[Wanted]) -> None:
        """Count what instances used, a row each; NaN is not known."""
        worth = span.step / self._settings.metrics_resolution_seconds
        weight = self._settings.cpu_sample_weight * worth
        for block in _blocks(span, amounts, of):
            buckets = self._cpu.index(block.amounts)
            weights = block.weights(block.rows, buckets, weight * self._growth(block.times), self._cpu.count)
            for row, total in self._totals(block):
                total.cpu += weights[row]
                total.samples += worth * float(block.bounds[row + 1] - block.bounds[row])

    def add_memory(self, span: Span, amounts: Amounts, of: Sequence[Wanted]) -> None:
        """Count the peaks of instances, a row each; the last interval of a pod that is alive still runs."""
        interval = self._settings.memory_interval_seconds
        for block in _blocks(span, amounts, of):
            begins = block.times[block.bounds[block.rows]]
            numbers = np.floor((block.times - begins) / interval)
            changes = (np.diff(block.rows, prepend=-1) != 0) | (np.diff(numbers, prepend=-1.0) != 0)
            starts = np.flatnonzero(changes)
            rows, peaks = block.rows[starts], np.maximum.reduceat(block.amounts, starts)
            ends = begins[starts] + (numbers[starts] + 1) * interval
            weights = block.weights(rows, self._memory.index(peaks), self._growth(ends), self._memory.count)
            lasts = np.searchsorted(rows, np.arange(len(block.of)), side="right") - 1
            for row, total in self._totals(block):
                total.memory += weights[row]
                uid, end = block.of[row].living_uid, float(ends[lasts[row]])
                if uid and end > self._now:
                    total.windows.append(MemoryWindow(uid, end, float(peaks[lasts[row]])))

    def histories(self) -> dict[ContainerKey, ContainerHistory]:
        """What was counted."""
        return {
            key: ContainerHistory(
                cpu=self._state(total.cpu),
                memory=self._state(total.memory),
                first_sample_at=total.first_at,
                last_sample_at=total.last_at,
                samples=round(total.samples),
                windows=tuple(sorted(total.windows, key=lambda window: window.pod_uid)),
            )
            for key, total in self._sums.items()
        }

    def _totals(self, block: _Block) -> Iterator[tuple[int, _Sum]]:
        """The rows of which something is known, and what has been counted of their containers."""
        for row in np.flatnonzero(np.diff(block.bounds)).tolist():
            key = block.of[row].key
            total = self._sums.get(key)
            if total is None:
                total = self._sums[key] = _Sum(np.zeros(self._cpu.count), np.zeros(self._memory.count))
            total.first_at = min(total.first_at, float(block.times[block.bounds[row]]))
            total.last_at = max(total.last_at, float(block.times[block.bounds[row + 1] - 1]))
            yield row, total

    def _growth(self, at: Floats) -> Floats:
        """How much more newer samples weigh."""
        grown: Floats = np.exp2((at - self._reference_at) / self._settings.half_life_seconds)
        return grown

    def _state(self, weights: Floats) -> HistogramState | None:
        places = np.flatnonzero(weights)
        if len(places) == 0:
            return None
        return HistogramState(
            tuple(zip(places.tolist(), weights[places].tolist(), strict=True)), float(self._reference_at)
        )


def _blocks(span: Span, amounts: Amounts, of: Sequence[Wanted]) -> Iterator[_Block]:
    """What is known and wanted of instances, some rows at a time; none without any."""
    times = span.start + np.arange(span.points, dtype=np.float64) * span.step
    unknown = [one.unknown for one in of]
    until = np.array([one.until for one in unknown])[:, np.newaxis]
    # What has no first and last is compared to nothing.
    known = np.array([(one.first, one.last) for one in unknown], dtype=np.float64).reshape(-1, 2, 1)
    for begin in range(0, len(of), max(_BLOCK // span.points, 1)):
        part = slice(begin, begin + max(_BLOCK // span.points, 1))
        is_wanted = ~np.isnan(amounts[part]) & (times <= until[part])
        is_wanted &= ~((times >= known[part, 0]) & (times <= known[part, 1]))
        rows, columns = np.nonzero(is_wanted)
        if len(rows):
            found = amounts[part][is_wanted].astype(np.float64)
            bounds = np.searchsorted(rows, np.arange(len(of[part]) + 1))
            yield _Block(of[part], rows, times[columns], found, bounds)
