"""Which estimator may speak for a workload.

Owns the rolling replay: every candidate's sizes are kept as if they were in force, beside the histogram's, and scored
on what is used next. A candidate is admitted only while it does no more harm than the histogram (use that is not
served, time over the request, kills), and of those the one that reserves least; when it comes to do more harm, it is
taken back. Harm is rare, so a workload's own record is read together with a stated number of days of the fleet's.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recommender.histogram import Floats

HISTOGRAM: Final = -1
"""The choice where no candidate is admitted."""
_DAY: Final = 86_400.0


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
        self._rule = rule
        # The last line is the histogram's.
        shape = (candidates + 1, rows)
        self._in_force = np.full(shape, np.nan)
        self._was_above = np.zeros(shape, dtype=bool)
        self._reserved, self._unserved = np.zeros(shape), np.zeros(shape)
        self._over, self._kills = np.zeros(shape), np.zeros(shape)
        self._resizes = np.zeros(shape)
        self._used, self._time = np.zeros(rows), np.zeros(rows)
        self._age = np.zeros(rows)

    def see(self, used: Floats, histogram: Floats, elapsed_seconds: float) -> None:
        """Score what was in force, the histogram's size as it was included, on a sample; NaN is "not seen"."""
        self._in_force[-1] = histogram
        fade = np.exp2(-elapsed_seconds / self._rule.half_life_seconds)
        self._age += np.isfinite(used) * elapsed_seconds
        counts = np.isfinite(used) & np.isfinite(self._in_force).all(axis=0)
        counts &= self._age > self._rule.settling_seconds
        days = elapsed_seconds / _DAY
        above = counts & (used > self._in_force)
        for total, more in (
            (self._reserved, np.where(counts, self._in_force, 0.0) * days),
            (self._unserved, np.where(above, used - self._in_force, 0.0) * days),
            (self._over, above * days),
            (self._kills, above & ~self._was_above),
            (self._resizes, 0.0),
            (self._used, np.where(counts, used, 0.0) * days),
            (self._time, counts * days),
        ):
            np.multiply(total, fade, out=total)
            np.add(total, more, out=total)
        self._was_above = above

    def want(self, wanted: Floats) -> None:
        """Put in force what the candidates want now, a line each."""
        rule, now = self._rule, self._in_force[:-1]
        moves = (wanted > now * (1.0 + rule.raise_band)) | (now > wanted * (1.0 + rule.band)) | np.isnan(now)
        moves &= np.isfinite(wanted)
        self._resizes[:-1] += moves & np.isfinite(now)
        now[moves] = wanted[moves]

    def choice(self) -> NDArray[np.int64]:
        """The candidate that is admitted for each row, or HISTOGRAM."""
        rule = self._rule
        kills = self._shared(self._kills, self._time)
        cost = self._reserved + rule.kill_price * kills * self._used
        is_admitted = (cost[:-1] < cost[-1]) & (self._time * _DAY > rule.least_record_seconds)
        is_admitted &= self._resizes[:-1] <= np.maximum(rule.most_resizes_a_day * self._time, 1.0)
        if rule.counts_kills:
            is_admitted &= kills[:-1] <= rule.share * kills[-1]
        if rule.counts_unserved:
            unserved = self._shared(self._unserved, self._used)
            is_admitted &= unserved[:-1] <= rule.share * unserved[-1]
        if rule.counts_over:
            over = self._shared(self._over, self._time)
            is_admitted &= over[:-1] <= rule.share * over[-1]
        best = np.where(is_admitted, cost[:-1], np.inf).argmin(axis=0)
        return np.where(is_admitted.any(axis=0), best, HISTOGRAM)

    def _shared(self, harm: Floats, per: Floats) -> Floats:
        """Each row's rate of harm, as if it had also had some days of the fleet's mean rate."""
        has_record = (per > 0) & (self._time > 0)
        rates = np.where(has_record, harm / np.where(has_record, per, 1.0), 0.0)
        fleet = rates.sum(axis=1, keepdims=True) / max(int(has_record.sum()), 1)
        days = self._rule.fleet_days
        # Without any record there is no harm either.
        return np.asarray((rates * self._time + fleet * days) / np.maximum(self._time + days, 1e-9))
