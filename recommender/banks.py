"""Rows that are looked at together: what candidates want of them, what each would have done, and who may speak.

Owns one bank's state. Which rows are in it and when it has its turn is speaking.py's matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elastipod.reasons import Reason
from recommender.estimators.admission import HISTOGRAM, Admission
from recommender.estimators.candidates import (
    CALM,
    CPU,
    MEMORY,
    NO_MORE_KILLS,
    Candidate,
    CpuCandidates,
    Estimator,
    MemoryCandidates,
)
from recommender.estimators.peaks import HOUR, MINUTE
from recommender.estimators.quantile import QUANTILES, Lessons, Models, Table, expected
from recommender.histogram import Floats, Ints
from recommender.steps import STEP

ROWS: Final = 512
"""So many rows are in a bank."""
RULES: Final = (CALM, NO_MORE_KILLS)
"""By which CPU and memory are admitted."""
_CANDIDATES: Final = (CPU, MEMORY)
_ESTIMATORS: Final = tuple(np.array([list(Estimator).index(one.estimator) for one in those]) for those in _CANDIDATES)


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


@dataclass(frozen=True, slots=True)
class Look:
    """What the models are asked about a bank."""

    seen: Ints
    table: Table
    used: Floats


class Bank:
    """Rows that are looked at together."""

    def __init__(self) -> None:
        self.told = np.full((2, ROWS), np.nan)
        """The size of what speaks; NaN where the histogram does."""
        self.admissions = tuple(
            Admission(len(those), ROWS, rule) for those, rule in zip(_CANDIDATES, RULES, strict=True)
        )
        self._choices: NDArray[np.int64] = np.full((2, ROWS), HISTOGRAM)
        self._histogram = np.full((2, ROWS), np.nan)
        self._cpu, self._memory = CpuCandidates(ROWS), MemoryCandidates(ROWS)
        self._last: Look | None = None
        self._looked_at: float | None = None
        self._turn: int | None = None

    def is_due(self, number: int, now: float) -> bool:
        """Whether it is this bank's turn; each number has its own minute."""
        before, self._turn = self._turn, int((now + number * MINUTE) // STEP)
        return before != self._turn

    def look(self, both: Floats, now: float, lessons: Lessons) -> Look:
        """Take up what was used of both resources, and learn from it."""
        used, memory = both
        if self._last is not None:
            lessons.take(self._last.table, self._last.used, used[self._last.seen])
        self._cpu.see(used, now)
        self._memory.see(memory, now)
        seen = np.flatnonzero(np.isfinite(used))
        self._last = Look(seen, self._cpu.table()[seen], used[seen])
        return self._last

    def decide(
        self, both: Floats, histogram: Floats, memory_floors: Floats, quantiles: Floats, now: float
    ) -> NDArray[np.bool_]:
        """Score what was in force, see what is wanted now, and who may speak. Where that came or went."""
        elapsed = STEP if self._looked_at is None else min(now - self._looked_at, 2 * STEP)
        self._looked_at = now
        told = np.full((len(QUANTILES), ROWS), np.nan)
        if self._last is not None:
            told[:, self._last.seen] = quantiles
        memory = np.maximum(self._memory.sizes(), memory_floors)
        columns, spoke = np.arange(ROWS), np.isfinite(self.told)
        for which, sizes in enumerate((self._cpu.sizes(told), memory)):
            admission, used = self.admissions[which], both[which]
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

    def estimators(self) -> Ints:
        """Who speaks for each resource of every row, as a place in Estimator."""
        found = [places[choices] for places, choices in zip(_ESTIMATORS, self._choices, strict=True)]
        return np.where(np.isfinite(self.told), np.stack(found), list(Estimator).index(Estimator.HISTOGRAM))

    def recall(self, columns: Ints, past: "Bank", theirs: Ints, now: float) -> None:
        """Know of rows what a bank that has lived through their past knows of its own, and what was used since."""
        since = np.full((2, ROWS), np.nan)
        since[:, theirs] = np.stack([one.highest((HOUR,))[0][columns] for one in (self._cpu, self._memory)])
        # From here on both banks keep times at the same places.
        past.look(since, now, Lessons())
        for mine, known in zip(self._arrays(), past._arrays(), strict=True):
            mine[..., columns] = known[..., theirs]

    def _arrays(self) -> list[NDArray[Any]]:
        """All that is kept of rows; a row is the last place of each."""
        records = [array for admission in self.admissions for array in admission.arrays()]
        return [self.told, self._choices, self._histogram, *records, *self._cpu.arrays(), *self._memory.arrays()]

    def clear(self, column: int) -> None:
        """Make a row empty, for its next owner."""
        self.told[:, column] = self._histogram[:, column] = np.nan
        self._choices[:, column] = HISTOGRAM
        for admission in self.admissions:
            admission.clear(column)
        self._cpu.clear(column)
        self._memory.clear(column)
        if self._last is not None:
            self._last.used[self._last.seen == column] = np.nan


def quantiles_of(models: Models | None, looks: Sequence[Look]) -> list[Floats]:
    """What models expect of each look's rows, asked about all at once; NaN without models."""
    counts = [len(look.seen) for look in looks]
    if models is None or not sum(counts):
        return [np.full((len(QUANTILES), count), np.nan) for count in counts]
    told = expected(
        models, np.concatenate([look.table for look in looks]), np.concatenate([look.used for look in looks])
    )
    return np.split(told, np.cumsum(counts)[:-1], axis=1)
