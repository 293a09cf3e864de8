"""Which estimator speaks for a container: the rolling replay, live.

Owns which rows want the best estimator, what they used since they were last looked at, and the models. Rows are looked
at every five minutes, by banks (banks.py) that take turns, so that a minute bears its share. Nothing is stored: after a
start the histogram speaks until there is a day's record again. A row that is not seen keeps what it has.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from recommender.banks import ROWS, RULES, Bank, Speaker, quantiles_of
from recommender.estimators.candidates import Estimator, cores_wanted
from recommender.estimators.histogram import Estimate, Estimates
from recommender.estimators.peaks import DAY, HOUR
from recommender.estimators.quantile import Lessons, Models
from recommender.histogram import Floats, Ints
from recommender.ranges import Resource

_FIRST_FIT: Final = 3 * HOUR


class Speaking:
    """The rows that want the best estimator, and what speaks for each of their resources."""

    def __init__(self) -> None:
        self._banks: list[Bank] = []
        self._places: Ints = np.zeros(0, dtype=np.int64)
        """By row: its place among those of all banks; -1 where it wants nothing."""
        self._rows: Ints = np.zeros(0, dtype=np.int64)
        """By place: its row; -1 for a free one."""
        self._free: list[int] = []
        self._used = np.full((2, 0), np.nan)
        """By place: the most CPU and memory since it was last looked at."""
        self.lessons = Lessons()
        self.models: Models | None = None
        self._played: dict[int, tuple[Bank, int]] = {}
        """By row: the bank that has lived through its past, and its column there."""
        self._fit_at: float | None = None

    def __contains__(self, row: int) -> bool:
        return 0 <= row < len(self._places) and bool(self._places[row] >= 0)

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
                self._used = np.pad(self._used, ((0, 0), (0, ROWS)), constant_values=np.nan)
                self._banks.append(Bank())
            place = self._free.pop()
            self._places[row], self._rows[place] = place, row
        bank, column = divmod(int(self._places[row]), ROWS)
        self._banks[bank].admissions[1].kills_elsewhere[column] = kills_elsewhere

    def let_go(self, row: int) -> None:
        """This row wants the histogram, or is gone; what was known of it is forgotten."""
        if row in self:
            place = int(self._places[row])
            self._played.pop(row, None)
            self._places[row] = self._rows[place] = -1
            self._free.append(place)
            self._used[:, place] = np.nan
            bank, column = divmod(place, ROWS)
            self._banks[bank].clear(column)

    def see(self, rows: Ints, cores: Floats, amounts: Floats, cpu_limits: Floats) -> None:
        """Take samples of rows; of a workload's pods and of a step's samples the highest counts."""
        if len(self):
            places = self._placed(rows)
            wanted = np.flatnonzero(places >= 0)
            if len(wanted):
                self._take(places[wanted], 0, cores_wanted(cores[wanted], cpu_limits[wanted]))
                self._take(places[wanted], 1, amounts[wanted])

    def kills_elsewhere(self, rows: Ints) -> NDArray[np.bool_]:
        """Of which rows a limit apart decides the kills."""
        places = self._places[rows]
        found = np.concatenate([bank.admissions[1].kills_elsewhere for bank in self._banks])
        return np.asarray(found[places])

    def recall(self, rows: Ints, bank: Bank, lessons: Lessons, now: float) -> None:
        """Rows have a past, a column each; it is theirs from their next turn on. What the fleet showed teaches once."""
        self._played |= {row: (bank, column) for column, row in enumerate(rows.tolist()) if row in self}
        if self.models is None and lessons.seen > self.lessons.seen:
            self.lessons, self._fit_at = lessons, now

    def see_kill(self, row: int, wanted_bytes: float) -> None:
        """A container was killed that wanted so much memory."""
        if row in self:
            self._take(self._places[[row]], 1, np.array([wanted_bytes]))

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
        looks = [bank.look(self._used[:, _places(number)], now, self.lessons) for number, bank in due]
        quantiles = quantiles_of(self.models, looks)
        for (number, bank), told in zip(due, quantiles, strict=True):
            rows, used = self._rows[_places(number)], self._used[:, _places(number)]
            floors = memory_floors[np.maximum(rows, 0)]
            changed.append(rows[bank.decide(used, _of_rows(raw, rows), floors, told, now)])
            changed.append(self._recall(bank, rows, now))
            used[:] = np.nan
        return np.concatenate(changed)

    def _recall(self, bank: Bank, rows: Ints, now: float) -> Ints:
        """Give a bank's rows their past. The rows that have one."""
        columns = [column for column, row in enumerate(rows.tolist()) if row in self._played] if self._played else []
        by_bank: dict[int, list[int]] = {}
        for column in columns:
            by_bank.setdefault(id(self._played[int(rows[column])][0]), []).append(column)
        for those in by_bank.values():
            found = [self._played.pop(int(rows[column])) for column in those]
            bank.recall(np.array(those), found[0][0], np.array([theirs for _, theirs in found]), now)
        return rows[np.array(columns, dtype=np.int64)]

    def spoken(self, raw: Estimates) -> Estimates:
        """The estimates with what speaks in place of the histogram's, bounded by what makes it move."""
        if not len(self):
            return raw
        places = np.flatnonzero((self._rows >= 0) & (self._rows < len(raw.confidence)))
        rows = self._rows[places]
        told = np.concatenate([bank.told for bank in self._banks], axis=1)[:, places]
        found = []
        for sizes, estimate, rule in zip(told, (raw.cpu, raw.memory), RULES, strict=True):
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

    def counts(self) -> dict[tuple[str, str], int]:
        """For how many rows each estimator speaks, by resource; of those that want the best."""
        found = np.zeros((len(Resource), len(Estimator)), dtype=np.int64)
        for number, bank in enumerate(self._banks):
            wanted = self._rows[_places(number)] >= 0
            for place, speakers in enumerate(bank.estimators()):
                found[place] += np.bincount(speakers[wanted], minlength=len(Estimator))
        return {
            (str(resource), str(estimator)): int(count)
            for resource, counts in zip(Resource, found, strict=True)
            for estimator, count in zip(Estimator, counts, strict=True)
        }

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
        np.fmax.at(self._used[which], places, values)


def _places(number: int) -> slice:
    """The places of a bank's rows."""
    return slice(number * ROWS, (number + 1) * ROWS)


def _of_rows(raw: Estimates, rows: Ints) -> Floats:
    """The histogram's targets of rows, CPU and memory; NaN for free places."""
    known = (rows >= 0) & (rows < len(raw.confidence))
    return np.stack([np.where(known, one.target[np.where(known, rows, 0)], np.nan) for one in (raw.cpu, raw.memory)])
