"""Recorded usage, as a replay reads it.

Owns the values: series of one step in one array, and runs of jobs. Where they come from is the sources' matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1

import numpy as np
from numpy.typing import NDArray

from recommender.estimators.peaks import DAY, HOUR
from recommender.histogram import Floats

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One container's use of one resource at even steps; NaN where nothing was seen."""

    name: str
    step_seconds: float
    values: Floats
    """Cores, or bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run of a job from its start to its end, at even steps: its memory, and its CPU where that is known."""

    job: str
    number: int
    """Runs of a job are in the order of their numbers."""
    step_seconds: float
    memory_bytes: Floats
    cores: Floats | None = None
    """At the same times; NaN where nothing was seen."""


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """Series of one step side by side: a row per step, a column per series."""

    names: tuple[str, ...]
    step_seconds: float
    values: Floats

    @property
    def seen(self) -> Flags:
        return np.isfinite(self.values)

    @property
    def warm_up(self) -> NDArray[np.int64]:
        """How many steps of each series are not scored: 2 days, or 3 hours of a series under a day."""
        steps = np.arange(1, len(self.values) + 1)[:, np.newaxis]
        lengths = np.where(self.seen, steps, 0).max(axis=0, initial=0)
        seconds = np.where(lengths * self.step_seconds < DAY, 3 * HOUR, 2 * DAY)
        return np.ceil(seconds / self.step_seconds).astype(np.int64)

    def steps(self, seconds: float) -> int:
        """How many steps a span has, at least one."""
        return max(round(seconds / self.step_seconds), 1)

    def part(self, columns: Flags) -> "Panel":
        """Some of the series."""
        names = tuple(name for name, is_in in zip(self.names, columns, strict=True) if is_in)
        return Panel(names, self.step_seconds, self.values[:, columns])


def side_by_side(series: Sequence[Series]) -> list[Panel]:
    """Panels of series, one for each step there is, in order."""
    panels = []
    for step in sorted({one.step_seconds for one in series}):
        those = [one for one in series if one.step_seconds == step]
        values = np.full((max(len(one.values) for one in those), len(those)), np.nan)
        for column, one in enumerate(those):
            values[: len(one.values), column] = one.values
        panels.append(Panel(tuple(one.name for one in those), step, values))
    return panels


def is_for_tuning(name: str) -> bool:
    """The split: settings are chosen on names whose SHA-1 is even; the others are only scored."""
    return sha1(name.encode(), usedforsecurity=False).digest()[-1] % 2 == 0
