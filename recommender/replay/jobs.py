"""Runs of jobs played and scored.

Owns the loop of a running job: every 10 seconds it is looked at, and 2 seconds later the new size is in force. *Waste*
is what is reserved and not used, in byte-seconds, with half the reservation of an attempt for each kill in it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from recommender.estimators.runs import ENOUGH_RUNS, EarlierRuns, Usage, sizes_of_a_first_run
from recommender.histogram import Floats
from recommender.replay.series import Run

LOOP_SECONDS: Final = 10.0
IN_FORCE_SECONDS: Final = 2.0
AFTER_KILL: Final = 1.2
AFTER_KILL_SECONDS: Final = 3600.0
"""So long no size goes below what a kill proved."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The size a run starts with, and what it should have after each look."""

    start_bytes: float
    sizes: Floats


@dataclass(frozen=True, slots=True)
class RunScore:
    """What one run cost."""

    job: str
    wasted: float
    """Byte-seconds."""
    used: float
    kills: int


@dataclass(frozen=True, slots=True)
class JobsSummary:
    """Many runs together."""

    runs: int
    waste: float
    """Wasted per used, over all of them."""
    mean_waste: float
    """The same of each run, and their mean."""
    kills_a_run: float


Planner = Callable[[Sequence[Run], Run, Sequence[int]], Plan]


def looks(run: Run) -> list[int]:
    """The samples after which a run is looked at."""
    end = len(run.memory_bytes) * run.step_seconds
    times = np.arange(LOOP_SECONDS, end, LOOP_SECONDS)
    return [int(place) for place in np.unique(np.floor(times / run.step_seconds).astype(np.int64))]


def play_run(run: Run, plan: Plan) -> tuple[Floats, int]:
    """What was in force at each sample, and how often the run was killed; killed, it has a fifth more for an hour."""
    allocated = np.empty(len(run.memory_bytes))
    coming = [
        (place * run.step_seconds + IN_FORCE_SECONDS, size) for place, size in zip(looks(run), plan.sizes, strict=True)
    ][::-1]
    in_force, kills, floor, floor_until = plan.start_bytes, 0, 0.0, -np.inf
    for place, used in enumerate(run.memory_bytes):
        at = place * run.step_seconds
        while coming and coming[-1][0] <= at:
            in_force = float(coming.pop()[1])
            if at < floor_until:
                in_force = max(in_force, floor)
        if used > in_force:
            kills += 1
            in_force = floor = float(used) * AFTER_KILL
            floor_until = at + AFTER_KILL_SECONDS
        allocated[place] = in_force
    return allocated, kills


def score_run(run: Run, allocated: Floats, kills: int) -> RunScore:
    """Waste and kills of a run that was played."""
    wasted = (allocated - run.memory_bytes).sum() + 0.5 * kills * allocated.sum()
    return RunScore(run.job, float(wasted) * run.step_seconds, float(run.memory_bytes.sum()) * run.step_seconds, kills)


def play_jobs(
    runs: Sequence[Run], planner: Planner, *, first: int = ENOUGH_RUNS, last: int | None = None
) -> JobsSummary:
    """Score every run that has at least `first` earlier runs, and at most `last`."""
    scores = []
    for job in sorted({run.job for run in runs}):
        own = sorted((run for run in runs if run.job == job), key=lambda run: run.number)
        for place, run in enumerate(own):
            if place >= first and (last is None or place <= last):
                scores.append(score_run(run, *play_run(run, planner(own[:place], run, looks(run)))))
    if not scores:
        return JobsSummary(0, *(float("nan"),) * 3)
    return JobsSummary(
        runs=len(scores),
        waste=sum(one.wasted for one in scores) / sum(one.used for one in scores),
        mean_waste=float(np.mean([one.wasted / one.used for one in scores])),
        kills_a_run=sum(one.kills for one in scores) / len(scores),
    )


def ours(earlier: Sequence[Run], run: Run, places: Sequence[int]) -> Plan:
    """The estimator of runs; a first run is taken to ask for twice what it comes to need, as people do."""
    if len(earlier) >= ENOUGH_RUNS:
        known = EarlierRuns([_usage(one) for one in earlier])
        return Plan(known.start_bytes, known.sizes(_usage(run), places) if places else np.zeros(0))
    asked = 1.15 * max(_peak(one) for one in earlier) if earlier else 2.0 * _peak(run)
    return Plan(asked, sizes_of_a_first_run(_usage(run), places, asked) if places else np.zeros(0))


def vpa(earlier: Sequence[Run], _run: Run, places: Sequence[int]) -> Plan:
    """p90 of earlier peaks +15 %, for the whole run."""
    peaks = np.array([_peak(one) for one in earlier])
    return _static(1.15 * float(np.quantile(peaks, 0.9, method="inverted_cdf")), places)


def krr(earlier: Sequence[Run], _run: Run, places: Sequence[int]) -> Plan:
    """The highest earlier peak +15 %, for the whole run."""
    return _static(1.15 * max(_peak(one) for one in earlier), places)


def envelope(earlier: Sequence[Run], run: Run, places: Sequence[int]) -> Plan:
    """What earlier runs used at that age, a minute ahead, +10 %; their highest peak after all have ended."""
    known = EarlierRuns([_usage(one) for one in earlier])
    found = known.envelope(np.asarray(places) * run.step_seconds)
    return Plan(known.start_bytes, 1.1 * np.where(found > 0, found, known.highest_bytes))


def reactive(earlier: Sequence[Run], run: Run, places: Sequence[int]) -> Plan:
    """A quarter more than now, at every look."""
    start = 1.15 * max(float(one.memory_bytes[: int(20 / one.step_seconds) + 1].max()) for one in earlier)
    return Plan(start, 1.25 * run.memory_bytes[list(places)])


def own_peak(_earlier: Sequence[Run], run: Run, places: Sequence[int]) -> Plan:
    """The run's own peak, known beforehand, for the whole run."""
    return _static(_peak(run), places)


def twice_the_peak(_earlier: Sequence[Run], run: Run, places: Sequence[int]) -> Plan:
    """Twice the run's own peak for the whole run: a careful person's guess."""
    return _static(2.0 * _peak(run), places)


def _static(size: float, places: Sequence[int]) -> Plan:
    return Plan(size, np.full(len(places), size))


def _peak(run: Run) -> float:
    return float(run.memory_bytes.max())


def _usage(run: Run) -> Usage:
    return Usage(run.step_seconds, run.memory_bytes)
