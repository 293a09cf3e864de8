"""The sizes that compete with the histogram's.

Owns which there are of each resource, what they are called, and by which rule they are admitted; the recommender and
the replay take them from here. Whether one may speak is admission.py's matter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from recommender.estimators.admission import AdmissionRule
from recommender.estimators.peaks import DAY, HOUR, WEEK, Peaks
from recommender.estimators.quantile import QUANTILES, Features, Table
from recommender.histogram import Floats
from recommender.steps import STEP

WINDOWS: Final = (HOUR, 6 * HOUR, DAY, 3 * DAY, WEEK)
MARGINS: Final = (1.02, 1.05, 1.1, 1.2)
CPU_MARGIN: Final = 1.05
HOLD: Final = HOUR / 2
_ABOVE: Final = (1.1, 1.25)
"""The highest quantile with so much more competes too."""
_FULL: Final = 0.95
_WANTS_MORE: Final = 1.2
"""What uses so much of its CPU limit is throttled; it is taken to want so much of it."""

CALM: Final = AdmissionRule(
    fleet_days=2.0,
    share=0.85,
    least_record_seconds=DAY,
    most_resizes_a_day=200.0,
    band=0.15,
    raise_band=0.02,
)
"""CPU: no more is left unserved than by the histogram, nor is use more often above the request."""
NO_MORE_KILLS: Final = AdmissionRule(
    counts_unserved=False,
    counts_over=False,
    counts_kills=True,
    kill_price=10.0,
    fleet_days=2.0,
    least_record_seconds=DAY,
    band=0.1,
    raise_band=0.02,
)
"""Memory: no more is killed than with the histogram."""


class Estimator(StrEnum):
    """Who may speak."""

    HISTOGRAM = "histogram"
    PEAKS = "peaks"
    QUANTILE = "quantile"
    RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One estimator with its settings."""

    estimator: Estimator
    how: str


def cores_wanted(cores: Floats, limits: Floats) -> Floats:
    """What would have been used without CPU limits; NaN is no limit."""
    return np.where(cores >= _FULL * limits, limits * _WANTS_MORE, cores)


def moving(quantiles: Floats) -> Floats:
    """Quantiles of the next step, those between them, and two above the highest."""
    between = np.sqrt(quantiles[1:] * quantiles[:-1])
    return np.concatenate((quantiles, between, *(quantiles[-1:] * factor for factor in _ABOVE)))


def with_margins(levels: Floats) -> Floats:
    """Each level with each margin."""
    return np.concatenate([levels * margin for margin in MARGINS])


class MemoryCandidates:
    """Peaks of memory, with and without the restart guard, each with a margin."""

    def __init__(self, rows: int) -> None:
        self._peaks = Peaks(rows)

    def see(self, used: Floats, at: float) -> None:
        self._peaks.see(used, at)

    def arrays(self) -> list[NDArray[Any]]:
        """All that is kept of rows; a row is the last place of each."""
        return self._peaks.arrays()

    def highest(self, windows: Sequence[float]) -> Floats:
        """The most that was used in windows that end now, a line each."""
        return self._peaks.peaks(windows)

    def sizes(self) -> Floats:
        """What each candidate wants, a line each."""
        return with_margins(np.concatenate((self._peaks.peaks(WINDOWS), self._peaks.guarded(WINDOWS[:2]))))

    def clear(self, row: int) -> None:
        """Make a row empty, for its next owner."""
        self._peaks.clear(row)


class CpuCandidates:
    """Quantiles of the next step, as they are told and held for a while; and peaks."""

    def __init__(self, rows: int) -> None:
        self._features = Features(rows)
        self._told = np.full((round(HOLD / STEP), _MOVING, rows), np.nan, dtype=np.float32)

    def see(self, used: Floats, at: float) -> None:
        self._features.see(used, at)

    def arrays(self) -> list[NDArray[Any]]:
        """All that is kept of rows; a row is the last place of each."""
        return [*self._features.arrays(), self._told]

    def highest(self, windows: Sequence[float]) -> Floats:
        """The most that was used in windows that end now, a line each."""
        return self._features.highest(windows)

    def table(self) -> Table:
        """What is known of each row, for the models."""
        return self._features.table()

    def sizes(self, quantiles: Floats) -> Floats:
        """What each candidate wants after models told the quantiles, a line each; NaN where they told nothing."""
        self._told = np.roll(self._told, 1, axis=0)
        self._told[0] = moving(quantiles)
        held = np.fmax.reduce(self._told, axis=0)
        return np.concatenate((self._told[0], held, self._features.highest(WINDOWS) * CPU_MARGIN))

    def clear(self, row: int) -> None:
        """Make a row empty, for its next owner."""
        self._features.clear(row)
        self._told[:, :, row] = np.nan


_MOVING: Final = 2 * len(QUANTILES) - 1 + len(_ABOVE)


def _moving() -> Iterator[str]:
    lower = [f"{one:g}" for one in QUANTILES]
    yield from (f"the {one} quantile of the next 5 minutes" for one in lower)
    yield from (f"between the {one} and {other} quantiles of the next 5 minutes" for one, other in pairwise(lower))
    yield from (f"the {lower[-1]} quantile of the next 5 minutes +{factor - 1:.0%}" for factor in _ABOVE)


def _levels(windows: Sequence[float]) -> list[str]:
    names = {HOUR: "hour", DAY: "day", WEEK: "week"}
    return [
        f"the last {names[one]}'s peak"
        if one in names
        else f"the last {one / DAY:.0f} days' peak"
        if one > DAY
        else f"the last {one / HOUR:.0f} hours' peak"
        for one in windows
    ]


CPU: Final = (
    *(Candidate(Estimator.QUANTILE, how) for how in _moving()),
    *(Candidate(Estimator.QUANTILE, f"{how}, held for half an hour") for how in _moving()),
    *(Candidate(Estimator.PEAKS, f"{level} +{CPU_MARGIN - 1:.0%}") for level in _levels(WINDOWS)),
)
"""In the order of CpuCandidates.sizes."""
MEMORY: Final = tuple(
    Candidate(Estimator.PEAKS, f"{level} +{margin - 1:.0%}")
    for margin in MARGINS
    for level in (*_levels(WINDOWS), *(f"{one}, of the day after a drop" for one in _levels(WINDOWS[:2])))
)
"""In the order of MemoryCandidates.sizes."""
