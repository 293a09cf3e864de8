"""Which estimator may speak for a workload.

Owns the rolling replay: every candidate's sizes are kept as if they were in force, beside the histogram's, and scored
on what is used next. A candidate is admitted only while it does no more harm than the histogram (use that is not
served, time over the request, kills), and of those the one that reserves least; when it comes to do more harm, it is
taken back. Harm is rare, so a workload's own record is read together with a stated number of days of the fleet's.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

HISTOGRAM: Final = -1
"""The choice where no candidate is admitted."""
_DAY: Final = 86_400.0
Amounts = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class AdmissionRule:
    """What counts as harm, and how it is weighed."""

    counts_unserved: bool = True
    counts_over: bool = True
    counts_kills: bool = False
    kill_price: float = 0.0
    """What a kill a day costs, in multiples of what is used; 0 where kills are not weighed against size."""
    fleet_days: float = 1.0
    """So many days of the fleet's record stand beside a workload's own."""
    settling_seconds: float = 3600.0
    """So long after a workload is first seen nothing is counted: it is starting."""
    least_record_seconds: float = 0.0
    """No candidate is admitted for a workload before there is so much of its own record."""
    most_resizes_a_day: float = 1e9
    """No candidate that changes sizes more often than this is admitted."""
    share: float = 1.0
    """A candidate may do at most this share of the histogram's harm."""
    half_life_seconds: float = 7 * _DAY
    """Time after which what happened counts half."""
    band: float = 0.1
    """A lower size is left alone while it saves no more than this fraction."""
    raise_band: float = 0.0
    """A higher size is left alone while it is no more than this fraction above."""


class Admission:
    """The rolling replay of all candidates of one resource, for all rows."""

    def __init__(self, candidates: int, rows: int, rule: AdmissionRule) -> None:
        self.rule = rule
        self.kills_elsewhere = np.zeros(rows, dtype=bool)
        """Rows that a limit apart decides the kills of, so that no candidate can."""
        # The last line is the histogram's.
        shape = (candidates + 1, rows)
        self._in_force = np.full(shape, np.nan, dtype=np.float32)
        self._was_above = np.zeros(shape, dtype=bool)
        self._reserved, self._unserved, self._over, self._kills, self._resizes = np.zeros((5, *shape), dtype=np.float32)
        self._used, self._time, self._age = np.zeros((3, rows), dtype=np.float32)

    def see(self, used: Amounts, histogram: Amounts, elapsed_seconds: float) -> None:
        """Score what was in force, the histogram's size as it was included, on a sample; NaN is "not seen".

        A candidate that has wanted nothing yet counts as the histogram: it is neither better nor worse.
        """
        self._in_force[-1] = histogram
        seen = np.isfinite(used)
        self._age += seen * np.float32(elapsed_seconds)
        counts = seen & np.isfinite(histogram) & (self._age > self.rule.settling_seconds)
        # What is not seen neither speaks for a candidate nor makes its record older.
        fade = np.where(seen, np.exp2(-elapsed_seconds / self.rule.half_life_seconds), 1.0).astype(np.float32)
        days = np.where(counts, elapsed_seconds / _DAY, 0.0).astype(np.float32)
        use = np.where(counts, used, 0.0).astype(np.float32)
        in_force = np.where(np.isnan(self._in_force), self._in_force[-1], self._in_force)
        above = counts & (use > in_force)
        for total, more in (
            (self._reserved, np.where(counts, in_force, 0.0) * days),
            (self._unserved, np.where(above, use - in_force, 0.0) * days),
            (self._over, above * days),
            (self._kills, above & ~self._was_above),
            (self._resizes, 0.0),
            (self._used, use * days),
            (self._time, days),
        ):
            np.multiply(total, fade, out=total)
            np.add(total, more, out=total)
        self._was_above = np.where(counts, above, self._was_above)

    def want(self, wanted: Amounts) -> None:
        """Put in force what the candidates want now, a line each; NaN is "as before"."""
        now = self._in_force[:-1]
        moves = self.moves(now, wanted)
        self._resizes[:-1] += moves & np.isfinite(now)
        now[moves] = wanted[moves]

    def moves(self, now: Amounts, wanted: Amounts) -> NDArray[np.bool_]:
        """Whether a size is far enough from another to take its place."""
        rule = self.rule
        is_far = (wanted > now * (1.0 + rule.raise_band)) | (now > wanted * (1.0 + rule.band)) | np.isnan(now)
        return np.asarray(is_far & np.isfinite(wanted))

    def choice(self) -> NDArray[np.int64]:
        """The candidate that is admitted for each row, or HISTOGRAM."""
        rule = self.rule
        kills = self._shared(self._kills, self._time)
        cost = self._reserved + rule.kill_price * np.where(self.kills_elsewhere, 0.0, kills) * self._used
        is_admitted = (cost[:-1] < cost[-1]) & self.has_record
        is_admitted &= self._resizes[:-1] <= np.maximum(rule.most_resizes_a_day * self._time, 1.0)
        if rule.counts_kills:
            # The price only ranks those that win without it.
            is_admitted &= self._reserved[:-1] < self._reserved[-1]
            is_admitted &= (kills[:-1] <= rule.share * kills[-1]) | self.kills_elsewhere
        if rule.counts_unserved:
            unserved = self._shared(self._unserved, self._used)
            is_admitted &= unserved[:-1] <= rule.share * unserved[-1]
        if rule.counts_over:
            over = self._shared(self._over, self._time)
            is_admitted &= over[:-1] <= rule.share * over[-1]
        best = np.where(is_admitted, cost[:-1], np.inf).argmin(axis=0)
        return np.where(is_admitted.any(axis=0), best, HISTOGRAM)

    @property
    def has_record(self) -> NDArray[np.bool_]:
        """Whether a row's own record is long enough."""
        return np.asarray(self.record_days * _DAY > self.rule.least_record_seconds)

    @property
    def record_days(self) -> Amounts:
        """How much a row's own record weighs, in days."""
        return self._time

    def arrays(self) -> list[NDArray[Any]]:
        """The records of rows; a row is the last place of each."""
        totals = (self._reserved, self._unserved, self._over, self._kills, self._resizes)
        return [self._in_force, self._was_above, *totals, self._used, self._time, self._age]

    def clear(self, row: int) -> None:
        """Make a row empty, for its next owner."""
        self.kills_elsewhere[row] = False
        self._in_force[:, row] = np.nan
        self._was_above[:, row] = False
        for total in (self._reserved, self._unserved, self._over, self._kills, self._resizes):
            total[:, row] = 0.0
        self._used[row] = self._time[row] = self._age[row] = 0.0

    def _shared(self, harm: Amounts, per: Amounts) -> Amounts:
        """Each row's rate of harm, as if it had also had some days of the fleet's mean rate."""
        has_record = (per > 0) & (self._time > 0)
        rates = np.where(has_record, harm / np.where(has_record, per, 1.0), 0.0)
        fleet = rates.sum(axis=1, keepdims=True) / max(int(has_record.sum()), 1)
        days = self.rule.fleet_days
        # Without any record there is no harm either.
        return np.asarray((rates * self._time + fleet * days) / np.maximum(self._time + days, 1e-9))
