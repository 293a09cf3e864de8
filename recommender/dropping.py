"""Samples that were not counted, by container and by why.

Owns the numbers since the start, for whoever asks about one container. What is counted is learning.py's matter.
"""

from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from recommender.histogram import Ints


class Dropped(StrEnum):
    """Why a sample was not counted; the words are those of the metric."""

    DUPLICATE = "duplicate"
    """It was told before."""
    IMPLAUSIBLE = "implausible"
    """Far more than the largest node has."""
    BAD_VALUE = "bad_value"
    """It told no CPU or no memory, or no number."""


_PLACES: Final = {why: place for place, why in enumerate(Dropped)}


class Dropping:
    """The numbers, by row."""

    def __init__(self) -> None:
        self._counts: NDArray[np.int64] = np.zeros((len(Dropped), 0), dtype=np.int64)

    def count(self, why: Dropped, rows: Ints) -> None:
        """A sample of each of these rows was not counted."""
        if len(rows):
            if (most := int(rows.max())) >= self._counts.shape[1]:
                more = max(most + 1, self._counts.shape[1] * 5 // 4 + 64) - self._counts.shape[1]
                self._counts = np.pad(self._counts, ((0, 0), (0, more)))
            np.add.at(self._counts[_PLACES[why]], rows, 1)

    def of(self, row: int) -> dict[str, int]:
        """How many of a row, by why."""
        known = row < self._counts.shape[1]
        return {str(why): int(self._counts[place, row]) if known else 0 for why, place in _PLACES.items()}

    def clear(self, row: int) -> None:
        """The row is nobody's any more."""
        if row < self._counts.shape[1]:
            self._counts[:, row] = 0
