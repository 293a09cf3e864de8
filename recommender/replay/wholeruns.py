"""Runs of jobs played from their start to their finish, with what their sizes cost them.

Owns what happens to a run: too little CPU stretches its time, memory above its limit kills it and it begins anew, or,
where a guard stands by, holds it for a moment and gives it more. Half of what is counted is time: everything is
reserved for as long as the run then takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from recommender.histogram import Floats
from recommender.replay.jobs import AFTER_KILL, AFTER_KILL_SECONDS, IN_FORCE_SECONDS, Plan, looks
from recommender.replay.series import Run

_LEAST_BUMP_BYTES: Final = 100 * 1024**2
"""What a kill proves at least: VPA's and our rule."""
_STEP_FRACTION: Final = 0.25
_LEAST_STEP_BYTES: Final = 64 * 1024**2
MOST_FACTOR: Final = 4.0
_MOST_HOLDS: Final = 3
_HOLDS_WINDOW_SECONDS: Final = 600.0
"""The actuator's defaults: how much it gives, up to which share of the limit before, and how often."""
HOLD_SECONDS: Final = 2.0
"""How long a run stands still while it is held: as long as a size takes to be in force. Measured holds are shorter."""
_MOST_ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """What a run has: CPU at each of its samples, and memory after each look."""

    cores: Floats
    memory: Plan
    is_guarded: bool = False
    """Whether a guard holds it rather than let it be killed."""


@dataclass(slots=True)
class Told:
    """What a run cost, all its attempts together."""

    core_hours: float = 0.0
    gib_hours: float = 0.0
    kills: int = 0
    holds: int = 0
    resizes: int = 0
    throttled_seconds: float = 0.0
    finish_seconds: float = 0.0

    def add(self, other: "Told") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def play_whole(run: Run, sizes: Sizes) -> Told:
    """A run with these sizes, until it is done."""
    told = Told()
    floor = 0.0
    for _ in range(_MOST_ATTEMPTS):
        allocated, end, proven = _attempt(run, sizes, floor, told)
        _reserve(run, sizes.cores, allocated, end, told)
        if proven is None:
            told.resizes += int((np.diff(sizes.cores) != 0).sum())
            return told
        told.kills += 1
        floor = proven
    raise ValueError(f"{run.job} run {run.number} is killed {_MOST_ATTEMPTS} times: no rule gives it enough")


def _attempt(run: Run, sizes: Sizes, floor: float, told: Told) -> tuple[Floats, int, float | None]:
    """What was in force at each sample, how many it came to, and what its end proved where it was killed."""
    coming = [
        (place * run.step_seconds + IN_FORCE_SECONDS, float(size))
        for place, size in zip(looks(run), sizes.memory.sizes, strict=True)
    ][::-1]
    allocated = np.empty(len(run.memory_bytes))
    in_force, floor_until = max(sizes.memory.start_bytes, floor), np.inf if floor else -np.inf
    holds: list[float] = []
    for place, used in enumerate(run.memory_bytes.tolist()):
        at = place * run.step_seconds
        while coming and coming[-1][0] <= at:
            wanted = coming.pop()[1]
            wanted = max(wanted, floor) if at < floor_until else wanted
            told.resizes += wanted != in_force
            in_force = wanted
        if used > in_force:
            holds = [one for one in holds if at - one < _HOLDS_WINDOW_SECONDS]
            raised = _raised(in_force, used) if sizes.is_guarded and len(holds) < _MOST_HOLDS else None
            if raised is None:
                return allocated, place, max(used * AFTER_KILL, used + _LEAST_BUMP_BYTES)
            holds.append(at)
            told.holds += 1
            told.resizes += 1
            told.finish_seconds += HOLD_SECONDS
            told.core_hours += float(sizes.cores[place]) * HOLD_SECONDS / 3600
            told.gib_hours += raised * HOLD_SECONDS / 3600 / 1024**3
            in_force = floor = raised
            floor_until = at + AFTER_KILL_SECONDS
        allocated[place] = in_force
    return allocated, len(allocated), None


def _raised(limit: float, used: float) -> float | None:
    """The limit that a guard gives for a leap: in steps that double; None where it may not give so much."""
    step, raised = max(limit * _STEP_FRACTION, _LEAST_STEP_BYTES), limit
    while raised < used:
        raised += step
        step *= 2
    most = limit * MOST_FACTOR
    return min(raised, most) if used <= most else None


def _reserve(run: Run, cores: Floats, allocated: Floats, end: int, told: Told) -> None:
    """Add what an attempt reserved for as long as it took."""
    used = np.zeros(end) if run.cores is None else np.nan_to_num(run.cores[:end])
    stretched = run.step_seconds * np.maximum(used / np.maximum(cores[:end], 1e-9), 1.0)
    told.core_hours += float((cores[:end] * stretched).sum()) / 3600
    told.gib_hours += float((allocated[:end] * stretched).sum()) / 3600 / 1024**3
    told.throttled_seconds += float((stretched - run.step_seconds).sum())
    told.finish_seconds += float(stretched.sum())


def highest(runs: Sequence[Run]) -> tuple[float, float]:
    """The most cores and bytes that any of these runs used."""
    cores = max(float(np.nanmax(run.cores)) for run in runs if run.cores is not None)
    return cores, max(float(run.memory_bytes.max()) for run in runs)
