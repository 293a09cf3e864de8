"""What a running job will need next, from earlier runs of the same job.

Owns three answers, from the most to the least known. Where at least five runs were seen: the largest growth that
followed on the nearest states of earlier runs. Where a state is unlike all of them: what earlier runs used at that
time of their life, at the least a quarter more than now. Where fewer runs were seen: what was asked for during the
first minutes, then half as much again as the peak so far, and not more than was asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from recommender.histogram import Floats

ENOUGH_RUNS: Final = 5
MOST_RUNS: Final = 20
"""Older ones are forgotten."""

_STATES_PER_RUN: Final = 800
_NEIGHBOURS: Final = 40
_PROBES: Final = 200
HORIZON: Final = 20.0
"""A size has to hold until the next one is in force."""
_ENVELOPE_HORIZON: Final = 60.0
_START: Final = 20.0
_START_MARGIN: Final = 0.15
_MARGIN: Final = 0.12
_LEAST_ROOM: Final = 0.08
"""Room above use, as a fraction of what the job's runs peak at: a quiet phase may end at any time."""
_NOVEL_MARGIN: Final = 0.25
_ABOVE_HIGHEST: Final = 1.15
_FIRST_RUN_HOLD: Final = 120.0
_FIRST_RUN_FACTOR: Final = 1.5
_LAGS: Final = ((2.0, 4.0), (10.0, 2.0), (30.0, 1.5), (120.0, 1.0))
"""Seconds back, and how much the slope since then weighs in the distance between states."""


@dataclass(frozen=True, slots=True, eq=False)
class Usage:
    """The memory of one run from its start on, at even steps."""

    step_seconds: float
    memory_bytes: Floats


class EarlierRuns:
    """What the runs of a job have shown; made once for a new run of it."""

    def __init__(self, runs: Sequence[Usage], horizon_seconds: float = HORIZON) -> None:
        """A size has to hold for so long."""
        if not runs:
            raise ValueError("there are no earlier runs to learn from")
        self._runs = list(runs)[-MOST_RUNS:]
        self._horizon = horizon_seconds
        self._duration = float(np.median([len(run.memory_bytes) * run.step_seconds for run in self._runs]))
        self._peak = float(np.median([run.memory_bytes.max() for run in self._runs]))
        self.highest_bytes = max(float(run.memory_bytes.max()) for run in self._runs)

    @cached_property
    def _learned(self) -> "_States":
        """Made when it is first asked for: a job at rest needs none."""
        states, growths = [], []
        for run in self._runs:
            some = slice(None, None, max(1, len(run.memory_bytes) // _STATES_PER_RUN))
            states.append(self._states(run)[some])
            growths.append(_growth(run, self._horizon)[some])
        return _States(np.concatenate(states), np.concatenate(growths))

    @cached_property
    def _ahead(self) -> list[Floats]:
        """Of each run, the most it used from each of its samples on to a minute later."""
        seconds = max(_ENVELOPE_HORIZON, self._horizon)
        return [_peak_ahead(run.memory_bytes, int(seconds / run.step_seconds) + 1) for run in self._runs]

    @cached_property
    def start_bytes(self) -> float:
        """What a new run begins with."""
        start = max(_START, self._horizon)
        first = max(float(run.memory_bytes[: int(start / run.step_seconds) + 1].max()) for run in self._runs)
        return first * (1.0 + _START_MARGIN)

    def most_bytes(self, used_bytes: float) -> float:
        """More than this there is no reason to have, where looks are far apart and growth between them is large."""
        return max(self.highest_bytes * _ABOVE_HIGHEST, used_bytes * (1.0 + _NOVEL_MARGIN))

    def sizes(self, run: Usage, places: Sequence[int]) -> Floats:
        """What a run should have after each of the samples at these places; nothing after a place is looked at."""
        used = run.memory_bytes[list(places)]
        growth, is_novel = self._learned.ask(self._states(run)[list(places)])
        grown = used * np.exp(growth) * (1.0 + _MARGIN)
        sizes = np.maximum(grown, used + _LEAST_ROOM * self._peak)
        if not is_novel.any():
            return np.asarray(sizes)
        ages = np.asarray(places) * run.step_seconds
        envelope = np.minimum(self.envelope(ages) * 1.1, self.highest_bytes * _ABOVE_HIGHEST)
        novel = np.maximum(sizes, np.maximum(envelope, used * (1.0 + _NOVEL_MARGIN)))
        return np.asarray(np.where(is_novel, novel, sizes))

    def envelope(self, ages: Floats) -> Floats:
        """The most that any earlier run used from these ages on to a minute later; 0 where all had ended."""
        highest = np.zeros(len(ages))
        for run, ahead in zip(self._runs, self._ahead, strict=True):
            places = (ages / run.step_seconds).astype(np.int64)
            is_alive = places < len(ahead)
            highest[is_alive] = np.maximum(highest[is_alive], ahead[places[is_alive]])
        return highest

    def _states(self, run: Usage) -> Floats:
        """Where in its life a run is at each sample, seen from that sample back."""
        level = np.log(np.maximum(run.memory_bytes, 1.0))
        ages = np.arange(len(level)) * run.step_seconds
        peak = np.maximum.accumulate(level)
        usual = np.log(max(self._peak, 1.0))
        columns = [0.3 * np.log(ages + 10.0), ages / self._duration, level - usual, peak - usual, 1.5 * (level - peak)]
        for seconds, weight in _LAGS:
            lag = max(1, round(seconds / run.step_seconds))
            before = np.concatenate((np.full(min(lag, len(level)), level[0]), level[:-lag]))
            columns.append(weight * (level - before))
        return np.stack(columns, axis=1)


class _States:
    """States of earlier runs, and the growth that followed on each."""

    def __init__(self, known: Floats, growths: Floats) -> None:
        from sklearn.neighbors import KDTree

        self._growths = growths
        self._neighbours = min(_NEIGHBOURS, len(known))
        self._tree: Any = KDTree(known)
        probes = known[:: max(1, len(known) // _PROBES)]
        spacing = self._tree.query(probes, k=self._neighbours)[0][:, -1]
        self._novel_from = float(np.quantile(spacing, 0.95))

    def ask(self, states: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """The largest growth that followed on the nearest states, and which states are unlike all."""
        distances, nearest = self._tree.query(states, k=self._neighbours)
        return self._growths[nearest].max(axis=1), np.asarray(distances[:, -1] > self._novel_from)


def sizes_of_a_first_run(run: Usage, places: Sequence[int], asked_bytes: float) -> Floats:
    """What a run of a job that is hardly known should have after the samples at these places."""
    peaks = np.maximum.accumulate(run.memory_bytes)[list(places)]
    ages = np.asarray(places) * run.step_seconds
    later = np.maximum(np.minimum(peaks * _FIRST_RUN_FACTOR, asked_bytes), peaks * (1.0 + _NOVEL_MARGIN))
    return np.where(ages < _FIRST_RUN_HOLD, np.maximum(later, asked_bytes), later)


def _growth(run: Usage, horizon_seconds: float) -> Floats:
    """The largest log growth within the horizon, of each sample; nothing grows after the end."""
    steps = max(1, round(horizon_seconds / run.step_seconds))
    ahead = _peak_ahead(run.memory_bytes, steps + 1)
    return np.asarray(np.log(np.maximum(ahead, 1.0) / np.maximum(run.memory_bytes, 1.0)))


def _peak_ahead(values: Floats, steps: int) -> Floats:
    """The maximum of each value and those after it, so many in all."""
    padded = np.concatenate((values, np.full(steps - 1, -np.inf)))
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, steps).max(axis=1))
