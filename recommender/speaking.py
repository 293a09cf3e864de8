"""Which estimator speaks for a container: the rolling replay, live.

Owns, for the rows that want it, what they used since they were last looked at, the candidates' sizes and records, and
the size of the one that is admitted. Rows are looked at every five minutes, by banks that take turns, so that a minute
bears its share. Nothing is stored: after a start the histogram speaks until there is a day's record again. A row that
is not seen keeps what it has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elastipod.reasons import Reason
from recommender.estimators.admission import HISTOGRAM, Admission
from recommender.estimators.candidates import (
    CALM,
    CPU,
    MEMORY,
    NO_MORE_KILLS,
    STEP,
    Candidate,
    CpuCandidates,
    MemoryCandidates,
)
from recommender.estimators.histogram import Estimate, Estimates
from recommender.estimators.peaks import DAY, HOUR, MINUTE
from recommender.estimators.quantile import QUANTILES, Lessons, Models, Table, expected
from recommender.histogram import Floats, Ints
from recommender.ranges import Resource

ROWS: Final = 512
"""So many rows are in a bank."""
_CANDIDATES: Final = (CPU, MEMORY)
_RULES: Final = (CALM, NO_MORE_KILLS)
_FIRST_FIT: Final = 3 * HOUR
_FULL: Final = 0.95
_WANTS_MORE: Final = 1.2
"""What uses so much of its CPU limit is throttled; it is taken to want so much of it."""
_LEAST_MORE: Final = 1.001
"""What was killed wanted more than it had."""


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who speaks for one resource of a container."""

    candidate: Candidate | None
    """None where the histogram does."""
    has_record: bool
    record_days: float
    histogram: float
    """What the histogram says; NaN before it was asked."""

    @property
    def reason(self) -> Reason:
        """Why it does."""
        if self.candidate is not None:
            return Reason.ADMITTED
        return Reason.NO_BETTER_ESTIMATOR if self.has_record else Reason.TOO_LITTLE_RECORD


class Speaking:
    """The rows that want the best estimator, and what speaks for each of their resources."""

    def __init__(self) -> None:
        self._banks: list[_Bank] = []
        self._places: Ints = np.zeros(0, dtype=np.int64)
        """By row: its place among those of all banks; -1 where it wants nothing."""
        self._rows: Ints = np.zeros(0, dtype=np.int64)
        """By place: its row; -1 for a free one."""
        self._free: list[int] = []
        self.lessons = Lessons()
        self.models: Models | None = None
        self._fit_at: float | None = None

    def __contains__(self, row: int) -> bool:
        return row < len(self._places) and bool(self._places[row] >= 0)

    def __len__(self) -> int:
        return len(self._rows) - len(self._free)

    def want(self, row: int, *, kills_elsewhere: bool) -> None:
        """This row wants the best estimator; where a limit apart decides its kills, its request can not."""
        if row >= len(self._places):
            more = max(row + 1, len(self._places) * 5 // 4 + 64) - len(self._places)
            self._places = np.pad(self._places, (0, more), constant_values=-1)
        if self._places[row] < 0:
            if not self._free:
                self._free = list(range(len(self._rows) + ROWS - 1, len(self._rows) - 1, -1))
                self._rows = np.pad(self._rows, (0, ROWS), constant_values=-1)
                self._banks.append(_Bank())
            place = self._free.pop()
            self._places[row], self._rows[place] = place, row
        bank, column = divmod(int(self._places[row]), ROWS)
        self._banks[bank].admissions[1].kills_elsewhere[column] = kills_elsewhere

    def let_go(self, row: int) -> None:
        """This row wants the histogram, or is gone; what was known of it is forgotten."""
        if row in self:
            place = int(self._places[row])
            self._places[row] = self._rows[place] = -1
            self._free.append(place)
            bank, column = divmod(place, ROWS)
            self._banks[bank].clear(column)

    def see(self, rows: Ints, cores: Floats, amounts: Floats, cpu_limits: Floats) -> None:
        """Take samples of rows; of a workload's pods and of a step's samples the highest counts."""
        if len(self):
            places = self._placed(rows)
            wanted = np.flatnonzero(places >= 0)
            if len(wanted):
                cores, limits = cores[wanted], cpu_limits[wanted]
                cores = np.where(cores >= _FULL * limits, limits * _WANTS_MORE, cores)
                self._take(places[wanted], 0, cores)
                self._take(places[wanted], 1, amounts[wanted])

    def see_kill(self, row: int, limit_bytes: float) -> None:
        """A container was killed at a memory limit."""
        if row in self:
            self._take(self._places[[row]], 1, np.array([limit_bytes * _LEAST_MORE]))

    def turn(self, raw: Estimates, memory_floors: Floats, now: float) -> Ints:
        """Look at the rows whose turn it is, and tell those whose speaker came or went.

        `raw` is what the histogram says; no candidate wants less memory than its row's floor.
        """
        changed = [np.zeros(0, dtype=np.int64)]
        if not len(self):
            return changed[0]
        if self._fit_at is None:
            self._fit_at = now + _FIRST_FIT
        due = [(number, bank) for number, bank in enumerate(self._banks) if bank.is_due(number, now)]
        looks = [(bank, bank.look(now, self.lessons)) for _, bank in due]
        quantiles = _quantiles(self.models, [look for _, look in looks])
        for (number, bank), told in zip(due, quantiles, strict=True):
            rows = self._rows[number * ROWS : (number + 1) * ROWS]
            floors = memory_floors[np.maximum(rows, 0)]
            changed.append(rows[bank.decide(_of_rows(raw, rows), floors, told, now)])
        return np.concatenate(changed)

    def spoken(self, raw: Estimates) -> Estimates:
        """The estimates with what speaks in place of the histogram's, bounded by what makes it move."""
        if not len(self):
            return raw
        places = np.flatnonzero((self._rows >= 0) & (self._rows < len(raw.confidence)))
        rows = self._rows[places]
        told = np.concatenate([bank.told for bank in self._banks], axis=1)[:, places]
        found = []
        for sizes, estimate, rule in zip(told, (raw.cpu, raw.memory), _RULES, strict=True):
            speaks = np.isfinite(sizes) & np.isfinite(estimate.target[rows])
            values = estimate.values.copy()
            size = sizes[speaks]
            values[rows[speaks]] = np.stack((size, size, size * (1.0 + rule.band)), axis=1)
            found.append(Estimate(values))
        return Estimates(found[0], found[1], raw.confidence)

    def speaker(self, row: int, resource: Resource) -> Speaker | None:
        """Who speaks for a resource of a row; None for a row that wants the histogram."""
        if row not in self:
            return None
        bank, column = divmod(int(self._places[row]), ROWS)
        return self._banks[bank].speaker(column, list(Resource).index(resource))

    def is_fit_due(self, now: float) -> bool:
        """Whether models are to be fitted anew."""
        return self._fit_at is not None and now >= self._fit_at and len(self) > 0

    def fitted(self, models: Models | None, now: float) -> None:
        """Speak with these models from now on; None where there was too little to learn from."""
        self.models = models or self.models
        self._fit_at = now + (DAY if models else HOUR)

    def _placed(self, rows: Ints) -> Ints:
        known = rows < len(self._places)
        return np.where(known, self._places[np.where(known, rows, 0)], -1)

    def _take(self, places: Ints, which: int, values: Floats) -> None:
        values = np.where(np.isfinite(values) & (values >= 0), values, np.nan)
        for number in np.unique(places // ROWS).tolist():
            here = places // ROWS == number
            np.fmax.at(self._banks[number].used[which], places[here] % ROWS, values[here])


@dataclass(frozen=True, slots=True)
class _Look:
    """What the models are asked about a bank."""

    seen: Ints
    table: Table
    used: Floats


class _Bank:
    """Rows that are looked at together."""

    def __init__(self) -> None:
        self.used = np.full((2, ROWS), np.nan)
        """The most since the last look, CPU and memory."""
        self.told = np.full((2, ROWS), np.nan)
        """The size of what speaks; NaN where the histogram does."""
        self.admissions = tuple(
            Admission(len(those), ROWS, rule) for those, rule in zip(_CANDIDATES, _RULES, strict=True)
        )
        self._choices: NDArray[np.int64] = np.full((2, ROWS), HISTOGRAM)
        self._histogram = np.full((2, ROWS), np.nan)
        self._cpu, self._memory = CpuCandidates(ROWS), MemoryCandidates(ROWS)
        self._last: _Look | None = None
        self._looked_at: float | None = None
        self._turn: int | None = None

    def is_due(self, number: int, now: float) -> bool:
        """Whether it is this bank's turn; each number has its own minute."""
        before, self._turn = self._turn, int((now + number * MINUTE) // STEP)
        return before != self._turn

    def look(self, now: float, lessons: Lessons) -> _Look:
        """Take up what was used, and learn from it."""
        used = self.used[0]
        if self._last is not None:
            lessons.take(self._last.table, self._last.used, used[self._last.seen])
        self._cpu.see(used, now)
        self._memory.see(self.used[1], now)
        seen = np.flatnonzero(np.isfinite(used))
        self._last = _Look(seen, self._cpu.table()[seen], used[seen])
        return self._last

    def decide(self, histogram: Floats, memory_floors: Floats, quantiles: Floats, now: float) -> NDArray[np.bool_]:
        """Score what was in force, see what is wanted now, and who may speak. Where that came or went."""
        elapsed = STEP if self._looked_at is None else min(now - self._looked_at, 2 * STEP)
        self._looked_at = now
        told = np.full((len(QUANTILES), ROWS), np.nan)
        if self._last is not None:
            told[:, self._last.seen] = quantiles
        memory = np.maximum(self._memory.sizes(), memory_floors)
        columns, spoke = np.arange(ROWS), np.isfinite(self.told)
        for which, sizes in enumerate((self._cpu.sizes(told), memory)):
            admission, used = self.admissions[which], self.used[which]
            seen = np.isfinite(used)
            wanted = np.where(seen, sizes, np.nan)
            # What the histogram said at the last look was in force until now.
            admission.see(used, self._histogram[which], elapsed)
            admission.want(wanted)
            choice = np.where(seen, admission.choice(), self._choices[which])
            fresh = wanted[choice, columns]
            moved = np.where(admission.moves(self.told[which], fresh), fresh, self.told[which])
            self.told[which] = np.where(choice == HISTOGRAM, np.nan, moved)
            self._choices[which] = choice
        self._histogram = histogram
        self.used[:] = np.nan
        return np.asarray((np.isfinite(self.told) != spoke).any(axis=0))

    def speaker(self, column: int, which: int) -> Speaker:
        """Who speaks for a resource of one of its rows."""
        speaks = np.isfinite(self.told[which, column])
        admission = self.admissions[which]
        return Speaker(
            _CANDIDATES[which][self._choices[which, column]] if speaks else None,
            bool(admission.has_record[column]),
            float(admission.record_days[column]),
            float(self._histogram[which, column]),
        )

    def clear(self, column: int) -> None:
        """Make a row empty, for its next owner."""
        self.used[:, column] = self.told[:, column] = self._histogram[:, column] = np.nan
        self._choices[:, column] = HISTOGRAM
        for admission in self.admissions:
            admission.clear(column)
        self._cpu.clear(column)
        self._memory.clear(column)
        if self._last is not None:
            self._last.used[self._last.seen == column] = np.nan


def _quantiles(models: Models | None, looks: Sequence[_Look]) -> list[Floats]:
    """What models expect of each look's rows, asked about all at once; NaN without models."""
    counts = [len(look.seen) for look in looks]
    if models is None or not sum(counts):
        return [np.full((len(QUANTILES), count), np.nan) for count in counts]
    told = expected(
        models, np.concatenate([look.table for look in looks]), np.concatenate([look.used for look in looks])
    )
    return np.split(told, np.cumsum(counts)[:-1], axis=1)


def _of_rows(raw: Estimates, rows: Ints) -> Floats:
    """The histogram's targets of rows, CPU and memory; NaN for free places."""
    known = (rows >= 0) & (rows < len(raw.confidence))
    return np.stack([np.where(known, one.target[np.where(known, rows, 0)], np.nan) for one in (raw.cpu, raw.memory)])
