"""The runs of one job's container as they are heard, and which size they tell.

Owns a run from a pod's first sample until it is silent, and when sizes by runs may speak: once one has ended, and while
they do better than the histogram in the same rolling replay as others. Between two runs the next's beginning is told.
A run that began unheard is followed and not learned from.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from elastipod.limitmodes import LimitModes
from recommender.estimators.admission import HISTOGRAM, Admission
from recommender.estimators.candidates import NO_MORE_KILLS
from recommender.estimators.runs import ENOUGH_RUNS, MOST_RUNS, EarlierRuns, Usage, sizes_of_a_first_run
from recommender.histogram import Floats
from recommender.jobrecords import CANDIDATES, MOST_RUNNING, JobRecord, RunningRecord, in_steps, run_record, usage_of

RULE: Final = replace(NO_MORE_KILLS, fleet_days=0.0, least_record_seconds=0.0, settling_seconds=0.0)
"""By which sizes are admitted."""
_INTERVALS: Final = 3
"""So many pass at most until what is seen is in force; after as many without a sample a run is over."""
_MOST_SAMPLES: Final = 10_000
"""What runs longer is no run that another is like."""


@dataclass(slots=True)
class Run:
    """A run as it is heard."""

    begun_at: float
    asked_bytes: float
    heard_at: float
    used: list[float] = field(default_factory=list)
    is_whole: bool = True
    """Whether it was heard from its start on."""

    def hear(self, used: float, at: float, step_seconds: float) -> None:
        """Take a sample up; a gap goes on as it was before."""
        self.heard_at = at
        place = min(max(round((at - self.begun_at) / step_seconds), 0), _MOST_SAMPLES)
        self.used += self.used[-1:] * (place - len(self.used))
        self.used[place:] = [max([used, *self.used[place:]])]


class Job:
    """A job's container: its runs, and what came of sizes by them."""

    def __init__(self, step_seconds: float, *, kills_elsewhere: bool) -> None:
        self.running: dict[str, Run] = {}
        self.runs = 0
        """How many have ended."""
        self.admission = Admission(CANDIDATES, 1, RULE)
        self.admission.kills_elsewhere[:] = kills_elsewhere
        self.told = np.nan
        """The size while it speaks."""
        self.killed_bytes: list[float] = []
        """What killed runs wanted since the last look."""
        self.choice = HISTOGRAM
        self.histogram = np.nan
        self.saved = (0, np.nan)
        """How many runs had ended, and what was told, in what is saved."""
        self._step_seconds = step_seconds
        self._earlier: deque[Usage] = deque(maxlen=MOST_RUNS)
        self._known: EarlierRuns | None = None
        self._since = np.inf
        """The first look."""
        self._looked_at = -np.inf
        self._is_at_rest = False
        """Whether nothing has come to be known since the last look."""

    def hear(self, pod: str, used: float, asked_bytes: float, started_at: float, now: float) -> None:
        """A pod used so much; it runs since `started_at`."""
        run = self.running.get(pod)
        if run is None:
            is_whole = started_at >= min(self._since, now) - _INTERVALS * self._step_seconds
            begun_at, before = (now, []) if is_whole else (started_at, [used])
            run = self.running[pod] = Run(begun_at, asked_bytes, now, before, is_whole)
        run.hear(used, now, self._step_seconds)

    def look(self, histogram: float, floor: float, now: float) -> None:
        """Score what was in force, and see what is wanted now and whether it may be told."""
        if self._is_at_rest and not self.running and not self.killed_bytes:
            self.histogram = histogram
            return
        elapsed = min(now - self._looked_at, _INTERVALS * self._step_seconds)
        self._looked_at, self._is_at_rest = now, not self.running
        heard = [run.used[-1] for run in self.running.values() if run.heard_at == now]
        if self._since > now:
            # What ran before us has its time to be heard again.
            self._since = now
            for run in self.running.values():
                run.heard_at = now
        heard, self.killed_bytes = heard + self.killed_bytes, []
        if heard:
            self.admission.see(np.array([max(heard)]), np.array([self.histogram]), elapsed)
        self.histogram = histogram
        self._end(now)
        wanted = np.maximum(self._sizes(), floor)[:, np.newaxis]
        self.admission.want(wanted)
        self.choice = int(self.admission.choice()[0]) if self.runs and np.isfinite(histogram) else HISTOGRAM
        if self.choice == HISTOGRAM:
            self.told = np.nan
        elif self.admission.moves(np.array([self.told]), wanted[self.choice])[0]:
            self.told = float(wanted[self.choice, 0])

    def _sizes(self) -> Floats:
        """What its running pods need, or the next begins with, by each candidate; NaN where one tells nothing."""
        if not self.running:
            return np.array([np.nan, np.nan if self._known is None else self._known.start_bytes])
        sizes = np.array([self._sizes_of(run) for run in self.running.values()])
        return np.asarray(sizes.max(axis=0))

    def _sizes_of(self, run: Run) -> tuple[float, float]:
        usage, last = Usage(self._step_seconds, np.array(run.used)), [len(run.used) - 1]
        first = float(sizes_of_a_first_run(usage, last, run.asked_bytes)[0])
        if self._known is None:
            return first, np.nan
        size = min(float(self._known.sizes(usage, last)[0]), self._known.most_bytes(run.used[-1]))
        # It has just begun: what others began with is the best that is known.
        return first, max(size, self._known.start_bytes) if len(run.used) <= _INTERVALS else size

    def _end(self, now: float) -> None:
        """Learn from runs that are over."""
        over = [pod for pod, run in self.running.items() if now - run.heard_at > _INTERVALS * self._step_seconds]
        for pod in over:
            run = self.running.pop(pod)
            if run.is_whole and run.heard_at > self._since and len(run.used) < _MOST_SAMPLES:
                self.runs += 1
                self._earlier.append(Usage(self._step_seconds, np.array(run.used)))
        if over:
            self._know()

    def _know(self) -> None:
        if len(self._earlier) >= ENOUGH_RUNS:
            self._known = EarlierRuns(self._earlier, _INTERVALS * self._step_seconds)

    def has_moved(self, tolerance: float) -> bool:
        """Whether what is saved would tell the next run something else."""
        _, told = self.saved
        is_another = np.isfinite(told) != np.isfinite(self.told) or abs(self.told - told) > tolerance * told
        return bool(is_another and not self.running)

    def record(self, limits: LimitModes) -> JobRecord:
        """What is to be saved."""
        most = sorted(self.running.items(), key=lambda item: (-max(item[1].used), item[0]))[:MOST_RUNNING]
        return JobRecord(
            ended=self.runs,
            choice=self.choice,
            told_bytes=_known(self.told),
            histogram_bytes=_known(self.histogram),
            scores=[array.reshape(-1).astype(float).tolist() for array in self.admission.arrays()],
            earlier=[run_record(usage) for usage in self._earlier],
            running=[
                RunningRecord(
                    pod,
                    run.begun_at,
                    run.heard_at,
                    run.asked_bytes,
                    run.is_whole,
                    run_record(Usage(self._step_seconds, np.array(run.used))),
                )
                for pod, run in most
            ],
            cpu_limit=limits.cpu,
            memory_limit=limits.memory,
        )

    def restore(self, record: JobRecord) -> None:
        """Know what was saved."""
        self.runs, self.choice = record.ended, record.choice
        self.told, self.histogram = _amount(record.told_bytes), _amount(record.histogram_bytes)
        self.saved = (self.runs, self.told)
        for array, scores in zip(self.admission.arrays(), record.scores, strict=True):
            array[...] = np.reshape([_amount(score) for score in scores], array.shape)
        self._earlier.extend(usage_of(run) for run in record.earlier)
        self._know()
        for one in record.running:
            used = in_steps(one.run, self._step_seconds, _MOST_SAMPLES)
            self.running[one.pod] = Run(one.begun_at, one.asked_bytes, one.heard_at, used, one.is_whole)


def _known(amount: float) -> float | None:
    return float(amount) if np.isfinite(amount) else None


def _amount(kept: float | None) -> float:
    return np.nan if kept is None else kept
