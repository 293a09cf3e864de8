"""What containers used over the last day or two: mean, p95 and peak, as people are told of it.

Owns that window and all that is kept for it: sums, and the peaks of the highest ten minutes, of this day and of the one
before; a fifth of a kilobyte for a container. It begins with the process: what was used before is not in it, and how
long it is is told. Sizes are recommended from history.py's histograms, and from nothing of this.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from recommender.estimators.peaks import DAY, MINUTE
from recommender.histogram import CPU_FIRST_BUCKET, MEMORY_FIRST_BUCKET, Floats, Ints, buckets_from
from recommender.ranges import Resource
from recommender.savings import Usage

STEP: Final = 10 * MINUTE
_STEPS_A_DAY: Final = int(DAY / STEP)
USAGE_WORDS: Final = (
    "mean, p95 and peak are of one container of the workload; the p95 is of the most that any pod used in each ten "
    "minutes, and told at most 5 % too high"
)
_ABOVE: Final = 20
"""Of so many steps one has a higher peak than the p95."""
_HIGHEST: Final = 2 * _STEPS_A_DAY // _ABOVE + 1
"""So many of a day's peaks are kept; further ones are below the p95 of two days."""
_BUCKETS: Final = (buckets_from(CPU_FIRST_BUCKET), buckets_from(MEMORY_FIRST_BUCKET))


class RecentUsage:
    """The window. Arrays are by day (this one, the one before), by resource and by row of the history."""

    def __init__(self) -> None:
        days = (2, len(Resource), 0)
        self._sums = np.zeros(days)
        self._counts = np.zeros(days, dtype=np.uint32)
        self._peaks = np.full(days, np.nan)
        self._steps = np.zeros(days, dtype=np.uint8)
        """How many steps had a sample."""
        self._highest = np.zeros((*days, _HIGHEST), dtype=np.uint16)
        """Of the peaks of those steps the highest, in no order, each as its bucket."""
        self._running = np.full((1, len(Resource), 0), np.nan)
        """The peak of the step that runs."""
        self._step, self._first_step = -1, 0
        """The step that runs, and the first of this day."""
        self._began_at: list[float | None] = [None, None]
        self._seen_at = 0.0

    @property
    def seconds(self) -> float:
        """How long it is; 0 before the second sample."""
        began_at = next((one for one in reversed(self._began_at) if one is not None), self._seen_at)
        return max(self._seen_at - began_at, 0.0)

    def see(self, rows: Ints, cores: Floats, memory_bytes: Floats, now: float) -> None:
        """Take samples of rows; NaN is "not told"."""
        if not len(rows):
            return
        self._reserve(int(rows.max()) + 1)
        self._turn(now)
        self._seen_at = now
        for which, values in enumerate((cores, memory_bytes)):
            known = np.flatnonzero(np.isfinite(values) & (values >= 0))
            here, found = rows[known], values[known]
            np.add.at(self._sums[0, which], here, found)
            np.add.at(self._counts[0, which], here, 1)
            np.fmax.at(self._peaks[0, which], here, found)
            np.fmax.at(self._running[0, which], here, found)

    def clear(self, row: int) -> None:
        """Make a row empty, for its next owner."""
        if row < self._sums.shape[2]:
            for array, empty in self._arrays():
                array[:, :, row] = empty

    def of(self, resource: Resource, rows: Ints) -> list[Usage | None]:
        """What one container of each row used; None where nothing was seen, or at one instant only.

        A step counts by the most that any pod used in it: the p95 is what no pod was above in 19 of 20 steps.
        """
        which, there_are = list(Resource).index(resource), self._sums.shape[2]
        seconds, is_here = self.seconds, (rows >= 0) & (rows < there_are)
        if not seconds or not is_here.any():
            return [None] * len(rows)
        rows = np.where(is_here, rows, 0)
        counts = np.where(is_here, self._counts[:, which, rows].sum(axis=0), 0)
        means = self._sums[:, which, rows].sum(axis=0) / np.maximum(counts, 1)
        peaks = np.fmax.reduce(self._peaks[:, which, rows])
        running = self._running[0, which, rows]
        is_running = np.isfinite(running)
        steps = self._steps[:, which, rows].sum(axis=0, dtype=np.int64) + is_running
        last = np.where(is_running, _BUCKETS[which].index(np.nan_to_num(running)), 0)
        highest = np.sort(np.column_stack((*self._highest[:, which, rows], last)), axis=1)
        p95s = _BUCKETS[which].upper_edge(highest[np.arange(len(rows)), -1 - steps // _ABOVE])
        told = zip(counts.tolist(), means.tolist(), p95s.tolist(), peaks.tolist(), steps.tolist(), strict=True)
        return [
            Usage(min(mean, peak), min(p95, peak), peak, min(number * STEP, seconds)) if count else None
            for count, mean, p95, peak, number in told
        ]

    def _arrays(self) -> list[tuple[NDArray[Any], float]]:
        """All that is kept of rows, and what stands where nothing is known."""
        empty = (0.0, 0, np.nan, 0, 0, np.nan)
        kept = (self._sums, self._counts, self._peaks, self._steps, self._highest, self._running)
        return list(zip(kept, empty, strict=True))

    def _reserve(self, rows: int) -> None:
        """Have a place for so many rows."""
        there_are = self._sums.shape[2]
        if rows > there_are:
            more = max(rows, there_are * 9 // 8 + 64) - there_are
            self._sums, self._counts, self._peaks, self._steps, self._highest, self._running = (
                np.pad(array, [(0, more if axis == 2 else 0) for axis in range(array.ndim)], constant_values=empty)
                for array, empty in self._arrays()
            )

    def _turn(self, now: float) -> None:
        """End the step and the day that are over."""
        step = int(now // STEP)
        if step <= self._step:
            return
        self._end_step()
        self._step = step
        days = (step - self._first_step) // _STEPS_A_DAY
        if self._began_at[0] is None or days:
            self._first_step, self._began_at = step, [now, self._began_at[0] if days == 1 else None]
            for array, empty in self._arrays():
                if len(array) > 1:
                    array[1] = array[0] if days == 1 else empty
                    array[0] = empty

    def _end_step(self) -> None:
        """Keep the peaks of the step that ran, where they are among the highest of the day."""
        for which, buckets in enumerate(_BUCKETS):
            peaks, highest = self._running[0, which], self._highest[0, which]
            rows = np.flatnonzero(np.isfinite(peaks))
            found, lowest = buckets.index(peaks[rows]), highest[rows].argmin(axis=1)
            highest[rows, lowest] = np.maximum(highest[rows, lowest], found)
            self._steps[0, which, rows] += 1
        self._running[:] = np.nan
