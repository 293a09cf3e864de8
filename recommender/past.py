"""A bank that has lived through the past: what candidates would have done, had they been looked at then.

Owns the play. What the histogram says now is taken to have been in force all the time: it has seen those days, so a
candidate has to do better than it could. Which rows are played, and when, is speaking.py's and replaying.py's matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from elastipod.pods import ContainerKey
from recommender.banks import ROWS, Bank, quantiles_of
from recommender.estimators.candidates import cores_wanted
from recommender.estimators.peaks import DAY
from recommender.estimators.quantile import Lessons
from recommender.histogram import Floats, Ints
from recommender.steps import STEP, UseInSteps

_SCORED: Final = 2 * DAY
"""So long before the end candidates are scored: what is older counts less, and takes as long to play."""


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """Up to a bank of containers, and what the histogram says of them now: a column each."""

    keys: Sequence[ContainerKey]
    rows: Ints
    steps: Sequence[UseInSteps]
    cpu_limits: Floats
    histogram: Floats
    memory_floors: Floats
    kills_elsewhere: NDArray[np.bool_]

    def played(self) -> "Played":
        """What a bank knows at the end of it."""
        played = Played(self.keys, self.rows)
        bank, count = played.bank, len(self.rows)
        histogram, floors = np.full((2, ROWS), np.nan), np.zeros(ROWS)
        histogram[:, :count], floors[:count] = self.histogram, self.memory_floors
        bank.admissions[1].kills_elsewhere[:count] = self.kills_elsewhere
        used = self._together()
        end = max(one.ends_at for one in self.steps)
        for back in range(used.shape[1], 0, -1):
            at = end - (back - 1) * STEP
            both = np.full((2, ROWS), np.nan)
            both[:, :count] = used[:, -back]
            look = bank.look(both, at, played.lessons)
            if end - at < _SCORED:
                bank.decide(both, histogram, floors, quantiles_of(None, [look])[0], at)
        return played

    def _together(self) -> Floats:
        """What was used: resources, steps up to the latest end, containers."""
        end, most = max(one.ends_at for one in self.steps), max(one.used.shape[1] for one in self.steps)
        used = np.full((2, most, len(self.steps)), np.nan)
        for column, one in enumerate(self.steps):
            last = most - round((end - one.ends_at) / STEP)
            kept = min(one.used.shape[1], max(last, 0))
            used[:, max(last, 0) - kept : max(last, 0), column] = one.used[:, one.used.shape[1] - kept :]
        used[0] = cores_wanted(used[0], self.cpu_limits)
        return used


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """A bank at the end of the past, and what the fleet has shown in it."""

    keys: Sequence[ContainerKey]
    rows: Ints
    bank: Bank = field(default_factory=Bank)
    lessons: Lessons = field(default_factory=Lessons)
