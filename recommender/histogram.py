"""Decaying histograms of many containers in one array.

Owns buckets, weights, decay and percentiles. What is counted and what is made of it is history.py's and the
estimators' matter.

The buckets are upstream VPA's 176 (first 0.01 core or 1e7 bytes, each 1.05 times as wide), each cut into parts whose
ends are at most 5 % apart, and with parts down to a tenth of upstream's first bucket. So a percentile is at most 5 %
above the usage, small containers included, and every part belongs to exactly one upstream bucket.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

UPSTREAM_BUCKETS: Final = 176
CPU_FIRST_BUCKET: Final = 0.01
MEMORY_FIRST_BUCKET: Final = 1e7

_RATIO: Final = 1.05
_LEAST: Final = 1e-7
"""Weights below this count as empty: what is left when a sample was taken away again."""
_NEARLY: Final = 1 - 1e-6
"""A sum this near its share has reached it: float32 weights are exact to about 1e-7 each."""
_MOST_EXPONENT: Final = 20.0
_CELL: Final = 44
"""Bits of a number that tell no cells apart; 8 of its fraction do."""
_SLAB: Final = 4096
_WALK: Final = 6
_CHUNK: Final = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """Where buckets begin, and which upstream bucket each belongs to."""

    starts: Floats
    upstream: Ints
    cells: Ints
    """The bucket that each cell begins in. A cell is the numbers that begin with the same bits: at most 0.4 % wide, so
    that no more than one bucket begins within it."""
    first_cell: int

    @property
    def count(self) -> int:
        return len(self.starts)

    def index(self, values: Floats) -> Ints:
        """The bucket of each value; values beyond the last bucket's start lie in the last."""
        bits = np.ascontiguousarray(values, dtype=np.float64).view(np.int64)
        found = self.cells[np.clip((bits >> _CELL) - self.first_cell, 0, len(self.cells) - 1)]
        is_beyond = values >= self.starts[np.minimum(found + 1, self.count - 1)]
        indices: Ints = np.minimum(found + is_beyond, self.count - 1)
        return indices

    def upper_edge(self, buckets: Ints) -> Floats:
        """What a percentile in a bucket is reported as: its end, and the start of the last bucket, which has none."""
        edges: Floats = self.starts[np.minimum(buckets + 1, self.count - 1)]
        return edges

    def topmost(self, upstream_bucket: int) -> int:
        """The highest bucket within an upstream bucket: it has the same end."""
        return int(np.searchsorted(self.upstream, upstream_bucket, side="right")) - 1


@lru_cache(maxsize=8)
def buckets_from(first: float) -> Buckets:
    """The buckets over upstream's with the given first bucket."""
    edges = [first * (_RATIO**number - 1) / (_RATIO - 1) for number in range(UPSTREAM_BUCKETS + 1)]
    starts, upstream = [0.0], [0]
    for number in range(UPSTREAM_BUCKETS):
        low, high = max(edges[number], first / 10), edges[number + 1]
        is_last = number == UPSTREAM_BUCKETS - 1
        parts = 1 if is_last else math.ceil(math.log(high / low) / math.log(_RATIO) - 1e-9)
        for part in range(parts):
            # The first part starts exactly where upstream's bucket does.
            starts.append(low if part == 0 else low * (high / low) ** (part / parts))
            upstream.append(number)
    first_cell, last_cell = (np.array(starts)[[1, -1]].view(np.int64) >> _CELL).tolist()
    begins = (np.arange(first_cell, last_cell + 1) << _CELL).view(np.float64)
    cells = np.searchsorted(starts, begins, side="right") - 1
    return Buckets(np.array(starts), np.array(upstream, dtype=np.int64), cells, first_cell)


@dataclass(frozen=True, slots=True)
class HistogramState:
    """One histogram by itself: weights by bucket, as of the reference time."""

    weights: tuple[tuple[int, float], ...]
    reference_at: float

    @property
    def total(self) -> float:
        return math.fsum(weight for _, weight in self.weights)


class HistogramBank:
    """Histograms as rows of one float32 array, with chosen percentiles kept at hand.

    New samples weigh more rather than old ones less; a row whose weights grew too large is scaled by a power of two.
    Percentiles are cursors that walk as weight is added: the cost is that of the samples, not of the array.
    """

    def __init__(self, buckets: Buckets, half_life_seconds: float, percentiles: tuple[float, ...]) -> None:
        self.buckets = buckets
        self._half_life = half_life_seconds
        self._fractions = np.array(percentiles)
        self._weights = np.zeros((0, buckets.count), dtype=np.float32)
        self._totals = np.zeros(0)
        self._references = np.zeros(0)
        self._cursors = np.zeros((0, len(percentiles)), dtype=np.int64)
        self._below = np.zeros((0, len(percentiles)))
        self._is_dirty = np.zeros(0, dtype=bool)
        self._is_unsought = np.zeros(0, dtype=bool)

    @property
    def nbytes(self) -> int:
        return self._weights.nbytes

    def reserve(self, rows: int) -> None:
        """Have place for so many rows."""
        have = len(self._totals)
        if rows <= have:
            return
        grown = max(-(-rows // _SLAB) * _SLAB, have + have // 4)
        weights = np.zeros((grown, self.buckets.count), dtype=np.float32)
        weights[:have] = self._weights
        self._weights = weights
        more = grown - have
        self._totals = np.pad(self._totals, (0, more))
        self._references = np.pad(self._references, (0, more), constant_values=np.nan)
        self._cursors = np.pad(self._cursors, ((0, more), (0, 0)))
        self._below = np.pad(self._below, ((0, more), (0, 0)))
        self._is_dirty = np.pad(self._is_dirty, (0, more))
        self._is_unsought = np.pad(self._is_unsought, (0, more))

    def clear(self, row: int) -> None:
        """Make a row empty, for its next owner."""
        self._weights[row] = 0
        self._totals[row] = 0
        self._references[row] = np.nan
        self._cursors[row] = 0
        self._below[row] = 0
        self._is_dirty[row] = self._is_unsought[row] = False

    def add(self, rows: Ints, values: Floats, weights: Floats, at: Floats) -> None:
        """Count values; a negative weight takes back what was counted at the same time."""
        if len(rows) == 0:
            return
        self._set_references(rows, at)
        grown = weights * np.exp2((at - self._references[rows]) / self._half_life)
        flat = rows * self.buckets.count + self.buckets.index(values)
        flat, which = np.unique(flat, return_inverse=True)
        all_weights = self._weights.reshape(-1)
        before = all_weights[flat]
        after = (before + np.bincount(which, grown, len(flat))).astype(np.float32)
        # A sample taken back leaves nothing but rounding.
        after[after < _LEAST * np.maximum(before, 1.0)] = 0.0
        all_weights[flat] = after
        # The change as it was stored, so that totals stay exact sums of the array.
        change = after.astype(np.float64) - before
        touched, places = flat // self.buckets.count, flat % self.buckets.count
        np.add.at(self._totals, touched, change)
        for which_percentile in range(len(self._fractions)):
            is_below = places < self._cursors[touched, which_percentile]
            np.add.at(self._below[:, which_percentile], touched[is_below], change[is_below])
        self._is_dirty[touched] = True

    def percentiles(self) -> Floats:
        """The kept percentiles of every row (the end of the bucket they lie in); NaN where a row is empty."""
        dirty = np.flatnonzero(self._is_dirty)
        fresh = dirty[self._is_unsought[dirty]]
        self._seek(fresh)
        for which in range(len(self._fractions)):
            self._walk(dirty, which)
        self._is_dirty[dirty] = False
        values = self.buckets.upper_edge(self._cursors)
        values[self._totals <= _LEAST] = np.nan
        return values

    def percentile(self, row: int, fraction: float) -> float | None:
        """One percentile of one row, computed afresh; None where the row is empty."""
        sums = np.cumsum(self._weights[row], dtype=np.float64)
        if sums[-1] <= _LEAST:
            return None
        bucket = np.searchsorted(sums, sums[-1] * fraction * _NEARLY, side="left")
        return float(self.buckets.upper_edge(np.array([bucket]))[0])

    def highest(self, rows: Ints, at: float, least_weight: float) -> Floats:
        """The end of the highest bucket of rows that weighs so much at a time; NaN where none does."""
        found = np.full(len(rows), np.nan)
        # A time so late that a weight can not count any more leaves nothing.
        least = least_weight * np.exp2(np.minimum((at - self._references[rows]) / self._half_life, 1000.0))
        for start in range(0, len(rows), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            counts = self._weights[rows[chunk]] >= least[chunk, np.newaxis]
            places = self.buckets.count - 1 - counts[:, ::-1].argmax(axis=1)
            found[chunk] = np.where(counts.any(axis=1), self.buckets.upper_edge(places), np.nan)
        return found

    def total(self, row: int, at: float) -> float:
        """The weight of a row as it counts at a time."""
        if self._totals[row] == 0:
            return 0.0
        return float(self._totals[row] * np.exp2((self._references[row] - at) / self._half_life))

    def state(self, row: int) -> HistogramState | None:
        """A row by itself; None where it is empty."""
        places = np.flatnonzero(self._weights[row])
        if len(places) == 0:
            return None
        weights = self._weights[row, places].astype(np.float64)
        return HistogramState(tuple(zip(places.tolist(), weights.tolist(), strict=True)), float(self._references[row]))

    def load(self, row: int, state: HistogramState) -> None:
        """Put a histogram in an empty row."""
        self.clear(row)
        for bucket, weight in state.weights:
            self._weights[row, bucket] = weight
        self._totals[row] = self._weights[row].sum(dtype=np.float64)
        self._references[row] = state.reference_at
        self._is_dirty[row] = self._is_unsought[row] = True

    def _set_references(self, rows: Ints, at: Floats) -> None:
        """Give new rows a reference, and shift it where weights would grow too large."""
        is_new = np.isnan(self._references[rows])
        if is_new.any():
            self._references[rows[is_new]] = np.floor(at[is_new] / self._half_life) * self._half_life
            self._is_unsought[rows[is_new]] = True
        exponents = (at - self._references[rows]) / self._half_life
        too_large = exponents > _MOST_EXPONENT
        if not too_large.any():
            return
        late, first = np.unique(rows[too_large], return_index=True)
        steps = np.floor(exponents[too_large][first])
        # Powers of two keep float32 weights exact; what decays below the smallest number is gone for good.
        scale = np.exp2(-np.minimum(steps, 1000.0))
        for start in range(0, len(late), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            self._weights[late[chunk]] *= scale[chunk, np.newaxis].astype(np.float32)
            self._totals[late[chunk]] = self._weights[late[chunk]].sum(axis=1, dtype=np.float64)
        self._references[late] += steps * self._half_life
        self._is_unsought[late] = self._is_dirty[late] = True

    def _seek(self, rows: Ints) -> None:
        """Place the cursors of rows afresh."""
        for start in range(0, len(rows), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            sums = np.cumsum(self._weights[chunk], axis=1, dtype=np.float64)
            totals = sums[:, -1]
            self._totals[chunk] = totals
            for which, fraction in enumerate(self._fractions):
                places = (sums < (totals * fraction * _NEARLY)[:, np.newaxis]).sum(axis=1)
                places = np.minimum(places, self.buckets.count - 1)
                self._cursors[chunk, which] = places
                picked = np.arange(len(chunk))
                self._below[chunk, which] = np.where(places > 0, sums[picked, places - 1], 0.0)
        self._is_unsought[rows] = False

    def _walk(self, rows: Ints, which: int) -> None:
        """Move one cursor of each row to where its percentile now lies; far ways are sought afresh."""
        for _ in range(_WALK):
            cursors, below = self._cursors[rows, which], self._below[rows, which]
            wanted = self._totals[rows] * self._fractions[which] * _NEARLY
            here = self._weights[rows, cursors]
            up = (below + here < wanted) & (cursors < self.buckets.count - 1)
            down = (below >= wanted) & (cursors > 0)
            moving = up | down
            if not moving.any():
                return
            rows, cursors, below, here, up = rows[moving], cursors[moving], below[moving], here[moving], up[moving]
            moved = cursors + np.where(up, 1, -1)
            self._cursors[rows, which] = moved
            self._below[rows, which] = np.where(up, below + here, below - self._weights[rows, moved])
        self._seek(rows)
