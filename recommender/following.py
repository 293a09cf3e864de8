"""Containers whose memory follows the limit they are given, as a JVM's heap or a cache does.

Owns the recognition: under three limits, each higher than the one before, the most that was used is the same fraction
of the limit. Such a container takes whatever it gets, so more is no answer, unless a kill shows that it was too little.
"""

import numpy as np

from recommender.histogram import Floats, Ints

STEPS = 3
_SAME = 0.01
"""Nodes round: a limit this close is the same."""
_RAISED = 1.1
_LEAST_FRACTION = 0.5
"""Below this the limit can not be what holds usage back."""
_ALIKE = 0.1

Steps = tuple[tuple[float, float], ...]
"""Limit, and the most that was used under it; oldest first."""


class Followers:
    """For all containers, the newest limits and the most that was used under each."""

    def __init__(self) -> None:
        self._limits = np.zeros((0, STEPS))
        self._peaks = np.zeros((0, STEPS))

    def reserve(self, rows: int) -> None:
        more = rows - len(self._limits)
        if more > 0:
            self._limits = np.pad(self._limits, ((0, more), (0, 0)), constant_values=np.nan)
            self._peaks = np.pad(self._peaks, ((0, more), (0, 0)), constant_values=np.nan)

    def clear(self, row: int) -> None:
        """Nothing is known of it."""
        self._limits[row] = self._peaks[row] = np.nan

    def take(self, rows: Ints, memory_bytes: Floats, limits: Floats) -> None:
        """What was used under the limits in force; NaN where there is none, or pods differ."""
        is_known = np.isfinite(limits) & np.isfinite(memory_bytes)
        rows, memory_bytes, limits = rows[is_known], memory_bytes[is_known], limits[is_known]
        with np.errstate(invalid="ignore"):
            is_new = ~(np.abs(limits - self._limits[rows, -1]) <= _SAME * limits)
        changed, first = np.unique(rows[is_new], return_index=True)
        self._limits[changed, :-1] = self._limits[changed, 1:]
        self._peaks[changed, :-1] = self._peaks[changed, 1:]
        self._limits[changed, -1] = limits[is_new][first]
        self._peaks[changed, -1] = 0.0
        np.maximum.at(self._peaks[:, -1], rows, memory_bytes)

    def follows(self, row: int) -> bool:
        """Whether its memory follows its limit."""
        limits, peaks = self._limits[row], self._peaks[row]
        if not np.isfinite(limits).all() or (limits[1:] < limits[:-1] * _RAISED).any():
            return False
        fractions = peaks / limits
        return bool(fractions.min() >= _LEAST_FRACTION and fractions.max() <= fractions.min() * (1 + _ALIKE))

    def steps(self, row: int) -> Steps:
        """What is known of a row, to be saved."""
        return tuple(
            (float(limit), float(peak))
            for limit, peak in zip(self._limits[row], self._peaks[row], strict=True)
            if np.isfinite(limit)
        )

    def restore(self, row: int, steps: Steps) -> None:
        """Know this of a row."""
        self.clear(row)
        for place, (limit, peak) in enumerate(reversed(steps[-STEPS:]), start=1):
            self._limits[row, -place], self._peaks[row, -place] = limit, peak
