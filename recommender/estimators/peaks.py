"""The most that was used in the last quarter of an hour, hour, day, week.

Owns block maxima: the extremes of every row in blocks of 5 minutes, an hour and a day, from them the peak of any window
up to a week, and what was used a day and a week ago; and the restart guard. A window's peak reaches back at least as
long as the window, and less than one block further.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from recommender.histogram import Floats, Ints

MINUTE: Final = 60.0
HOUR: Final = 3600.0
DAY: Final = 86_400.0
WEEK: Final = 7 * DAY

_SHORT_BLOCK: Final = 5 * MINUTE
_BACK_UP: Final = 0.9


class _Blocks:
    """The extremes of each row in the newest blocks of time, newest first."""

    def __init__(
        self, rows: int, count: int, seconds: float, *, least: bool = False, dtype: type[Any] = np.float64
    ) -> None:
        self.count = count
        self._seconds = seconds
        self._join = np.fmin if least else np.fmax
        self.ring: NDArray[Any] = np.full((count, rows), np.nan, dtype=dtype)
        self._newest: int | None = None

    def see(self, values: Floats, at: float) -> None:
        block = int(at // self._seconds)
        if self._newest is not None:
            for passed in range(max(self._newest + 1, block - self.count + 1), block + 1):
                self.ring[passed % self.count] = np.nan
        self._newest = block if self._newest is None else max(self._newest, block)
        here = self.ring[self._newest % self.count]
        self._join(here, values, out=here)

    def extremes(self, blocks: Sequence[int]) -> Floats:
        """Over so many of the newest blocks, a line for each number; NaN where nothing was seen in them."""
        reach = min(max(blocks), self.count)
        running = self._join.accumulate(self.ring[self._places(reach)], axis=0)
        found: Floats = running[[min(one, reach) - 1 for one in blocks]]
        return found

    def at(self, blocks_ago: Sequence[int]) -> Floats:
        """Of single blocks; 0 is the one that runs."""
        found: Floats = self.ring[self._places(self.count)[list(blocks_ago)]]
        return found

    def _places(self, count: int) -> Ints:
        return ((self._newest or 0) - np.arange(count)) % self.count


class Peaks:
    """The peaks of rows, all of which are seen at the same times."""

    def __init__(self, rows: int, *, looks_back: bool = False, dtype: type[Any] = np.float64) -> None:
        """`looks_back` keeps what single blocks of the past day and week had."""
        self._short = _Blocks(rows, 13, _SHORT_BLOCK, dtype=dtype)
        self._short_least = _Blocks(rows, 13, _SHORT_BLOCK, least=True, dtype=dtype)
        self._hours = _Blocks(rows, 25, HOUR, dtype=dtype)
        self._days = _Blocks(rows, 8, DAY, dtype=dtype)
        self._all = [self._short, self._short_least, self._hours, self._days]
        if looks_back:
            # Never recommended: half the memory will do.
            self._past_day = _Blocks(rows, 289, _SHORT_BLOCK, dtype=np.float32)
            self._past_week = _Blocks(rows, 169, HOUR, dtype=np.float32)
            self._all += [self._past_day, self._past_week]

    def see(self, values: Floats, at: float) -> None:
        """Take a sample of every row; NaN is "not seen". Times do not go back."""
        for blocks in self._all:
            blocks.see(values, at)

    def arrays(self) -> list[NDArray[Any]]:
        """All that is kept of rows; a row is the last place of each."""
        return [blocks.ring for blocks in self._all]

    def clear(self, row: int) -> None:
        """Make a row empty, for its next owner."""
        for array in self.arrays():
            array[:, row] = np.nan

    def peaks(self, windows: Sequence[float]) -> Floats:
        """The most that was used in windows (seconds, rising) that end now, a line each."""
        found = []
        for blocks, seconds, above, most in (
            (self._short, _SHORT_BLOCK, 0.0, HOUR),
            (self._hours, HOUR, HOUR, DAY),
            (self._days, DAY, DAY, WEEK),
        ):
            those = [int(-(-one // seconds)) + 1 for one in windows if above < one <= most]
            if those:
                found.append(blocks.extremes(those))
        return np.concatenate(found)

    def leasts(self, windows: Sequence[float]) -> Floats:
        """The least that was used in windows of up to an hour, a line each."""
        return self._short_least.extremes([int(-(-one // _SHORT_BLOCK)) + 1 for one in windows])

    def short_peaks(self, blocks_ago: Sequence[int]) -> Floats:
        """The peaks of 5-minute blocks of the clock, up to a day ago, a line each; 0 is the one that runs."""
        return self._past_day.at(blocks_ago)

    def hour_peaks(self, hours_ago: Sequence[int]) -> Floats:
        """The peaks of hours of the clock, a line each; 0 is the one that runs."""
        return self._past_week.at(hours_ago)

    def guarded(self, windows: Sequence[float]) -> Floats:
        """The windows' peaks; after a drop the day's, until a full hour is above 0.9 of it again."""
        *peaks, day = self.peaks([*windows, DAY])
        is_back = self.leasts([HOUR])[0] > _BACK_UP * day
        return np.where(is_back, np.stack(peaks), np.fmax(np.stack(peaks), day))
