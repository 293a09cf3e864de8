"""Past usage as the histories that would stand there, had it been heard live.

Owns the rule: each amount counts for as many live samples as its step is long, memory by the peaks of each instance's
intervals, from its first sample on. Asks nothing; what is known already is left out by its time.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from elastipod.pods import ContainerKey
from recommender.histogram import (
    CPU_FIRST_BUCKET,
    MEMORY_FIRST_BUCKET,
    Floats,
    HistogramState,
    buckets_from,
)
from recommender.history import ContainerHistory, MemoryWindow
from recommender.settings import RecommenderSettings
from recommender.sources.past import Unknown
from recommender.sources.prometheus.grid import Row
from recommender.sources.prometheus.planning import Span


@dataclass(slots=True)
class _Sum:
    """What has been counted of one container."""

    cpu: Floats
    memory: Floats
    samples: float = 0.0
    first_at: float = np.inf
    last_at: float = -np.inf
    windows: list[MemoryWindow] = field(default_factory=list)


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
        self._last: tuple[Span, Floats, Floats] | None = None

    def add_cpu(self, key: ContainerKey, span: Span, row: Row, unknown: Unknown) -> None:
        """Count what an instance used; NaN is not known."""
        times, growth = self._along(span)
        found = np.flatnonzero(~np.isnan(row) & _is_unknown(times, unknown))
        if len(found) == 0:
            return
        settings, total = self._settings, self._sum(key)
        worth = span.step / settings.metrics_resolution_seconds
        weights = settings.cpu_sample_weight * worth * growth[found]
        buckets = self._cpu.index(row[found].astype(np.float64))
        total.cpu += np.bincount(buckets, weights, self._cpu.count)
        total.samples += len(found) * worth
        _widen(total, times[found])

    def add_memory(self, key: ContainerKey, span: Span, row: Row, unknown: Unknown, living_uid: str = "") -> None:
        """Count the peaks of an instance; the last interval of a pod that is alive (`living_uid`) still runs."""
        times, _ = self._along(span)
        found = np.flatnonzero(~np.isnan(row) & _is_unknown(times, unknown))
        if len(found) == 0:
            return
        total = self._sum(key)
        interval = self._settings.memory_interval_seconds
        at = times[found]
        numbers = np.floor((at - at[0]) / interval)
        starts = np.flatnonzero(np.diff(numbers, prepend=-1.0))
        peaks = np.maximum.reduceat(row[found].astype(np.float64), starts)
        ends = at[0] + (numbers[starts] + 1) * interval
        total.memory += np.bincount(self._memory.index(peaks), self._growth(ends), self._memory.count)
        if living_uid and ends[-1] > self._now:
            total.windows.append(MemoryWindow(living_uid, float(ends[-1]), float(peaks[-1])))
        _widen(total, at)

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

    def _sum(self, key: ContainerKey) -> _Sum:
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = _Sum(np.zeros(self._cpu.count), np.zeros(self._memory.count))
        return found

    def _along(self, span: Span) -> tuple[Floats, Floats]:
        """A span's times, and how much their samples weigh; the same for very many rows."""
        if self._last is None or self._last[0] != span:
            times = span.start + np.arange(span.points, dtype=np.float64) * span.step
            self._last = (span, times, self._growth(times))
        return self._last[1:]

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


def _is_unknown(times: Floats, unknown: Unknown) -> NDArray[np.bool_]:
    is_unknown: NDArray[np.bool_] = times <= unknown.until
    if unknown.first is not None and unknown.last is not None:
        is_unknown &= (times < unknown.first) | (times > unknown.last)
    return is_unknown


def _widen(total: _Sum, at: Floats) -> None:
    total.first_at = min(total.first_at, float(at[0]))
    total.last_at = max(total.last_at, float(at[-1]))
