"""What the running pods of a job need next, by its earlier runs: the estimator of runs, live.

Owns each job's runs as they are heard, a run from a pod's first sample until it is silent, and when their estimator may
speak: once a run has ended, and while it does better than the histogram in the same rolling replay as others. Between
two runs it says what the next begins with. What it knows is saved with the history (jobrecords.py), so that after a
restart the next run has what it would have had. A run that began unheard is followed and not learned from.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from elastipod.limitmodes import LimitModes
from recommender.banks import Speaker
from recommender.estimators.admission import HISTOGRAM, Admission
from recommender.estimators.candidates import NO_MORE_KILLS, Candidate, Estimator
from recommender.estimators.histogram import Estimate, Estimates
from recommender.estimators.runs import ENOUGH_RUNS, MOST_RUNS, EarlierRuns, Usage, sizes_of_a_first_run
from recommender.histogram import Floats, Ints
from recommender.jobrecords import CANDIDATES, MOST_RUNNING, JobRecord, RunningRecord, in_steps, run_record, usage_of

KINDS: Final = ("CronJob", "Job")
"""Workloads whose pods are runs."""

_RULE: Final = replace(NO_MORE_KILLS, fleet_days=0.0, least_record_seconds=0.0, settling_seconds=0.0)
_INTERVALS: Final = 3
"""So many pass at most until what is seen is in force; after as many without a sample a run is over."""
_MOST_SAMPLES: Final = 10_000
"""What runs longer is no run that another is like."""
_CANDIDATES: Final = (
    Candidate(Estimator.RUNS, "what was asked for at first, then half as much again as the run's peak"),
    Candidate(Estimator.RUNS, f"what followed in the nearest of up to {MOST_RUNS} earlier runs"),
)


@dataclass(slots=True)
class _Run:
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
        place = min(round((at - self.begun_at) / step_seconds), _MOST_SAMPLES)
        self.used += self.used[-1:] * (place - len(self.used))
        self.used[place:] = [max([used, *self.used[place:]])]


class _Job:
    """A job's container: its runs, and what came of sizes by them."""

    def __init__(self, step_seconds: float, *, kills_elsewhere: bool) -> None:
        self.running: dict[str, _Run] = {}
        self.runs = 0
        """How many have ended."""
        self.admission = Admission(CANDIDATES, 1, _RULE)
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
            run = self.running[pod] = _Run(begun_at, asked_bytes, now, before, is_whole)
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

    def _sizes_of(self, run: _Run) -> tuple[float, float]:
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
            self.running[one.pod] = _Run(one.begun_at, one.asked_bytes, one.heard_at, used, one.is_whole)


class Jobs:
    """The jobs that want the best estimator, by row."""

    def __init__(self, step_seconds: float) -> None:
        self._step_seconds = step_seconds
        self._jobs: dict[int, _Job] = {}

    def want(self, row: int, *, kills_elsewhere: bool) -> None:
        """This row is a job's container that wants the best estimator."""
        if row not in self._jobs:
            self._jobs[row] = _Job(self._step_seconds, kills_elsewhere=kills_elsewhere)

    def let_go(self, row: int) -> None:
        """This row wants the histogram, or is gone."""
        self._jobs.pop(row, None)

    def restore(self, row: int, record: JobRecord) -> None:
        """Know what was saved of a wanted row, where that is more than is known."""
        job = self._jobs[row]
        if record.ended > job.runs or not (job.runs or job.running):
            fresh = self._jobs[row] = _Job(self._step_seconds, kills_elsewhere=bool(job.admission.kills_elsewhere[0]))
            fresh.restore(record)

    def record(self, row: int, limits: LimitModes) -> JobRecord | None:
        """What is to be saved of a row; None for one that is no job's or was never heard."""
        job = self._jobs.get(row)
        return None if job is None or not (job.runs or job.running) else job.record(limits)

    def moved(self, tolerance: float) -> list[int]:
        """Rows whose next run would have something else after a restart."""
        return [row for row, job in self._jobs.items() if job.has_moved(tolerance)]

    def unsaved(self) -> list[int]:
        """Rows of which a run has ended that is not saved."""
        return [row for row, job in self._jobs.items() if job.runs != job.saved[0]]

    def note_saved(self, rows: Ints) -> None:
        """These rows are being saved as they are."""
        for row in rows.tolist():
            if (job := self._jobs.get(row)) is not None:
                job.saved = (job.runs, job.told)

    def among(self, rows: Ints) -> Ints:
        """Which of these rows are jobs'."""
        return np.flatnonzero(np.isin(rows, list(self._jobs))) if self._jobs else np.zeros(0, dtype=np.int64)

    def see(self, row: int, pod: str, used: float, asked_bytes: float, started_at: float, now: float) -> None:
        """A pod of a job used so much memory; `asked_bytes` is what it asks for now, it runs since `started_at`."""
        if np.isfinite(used):
            self._jobs[row].hear(pod, used, asked_bytes, started_at, now)

    def see_kill(self, row: int, wanted_bytes: float) -> None:
        """A run was killed that wanted so much."""
        if row in self._jobs:
            self._jobs[row].killed_bytes.append(wanted_bytes)

    def turn(self, raw: Estimates, memory_floors: Floats, now: float) -> Ints:
        """Look at all, and tell those of which it came or went who speaks."""
        changed = []
        for row, job in self._jobs.items():
            if row < len(raw.confidence):
                spoke = np.isfinite(job.told)
                job.look(float(raw.memory.target[row]), float(memory_floors[row]), now)
                if spoke != np.isfinite(job.told):
                    changed.append(row)
        return np.array(changed, dtype=np.int64)

    def spoken(self, found: Estimates) -> Estimates:
        """The estimates with what runs tell in place of others', bounded by what makes it move."""
        rows = [row for row in self.speaking() if row < len(found.confidence)]
        if not rows:
            return found
        values, sizes = found.memory.values.copy(), np.array([self._jobs[row].told for row in rows])
        values[rows] = np.stack((sizes, sizes, sizes * (1.0 + _RULE.band)), axis=1)
        return replace(found, memory=Estimate(values))

    def speaking(self) -> Sequence[int]:
        """The rows whose memory runs speak for."""
        return [row for row, job in self._jobs.items() if np.isfinite(job.told)]

    def speaker(self, row: int) -> Speaker | None:
        """Who speaks for a row's memory, where runs do."""
        job = self._jobs.get(row)
        if job is None or not np.isfinite(job.told):
            return None
        return Speaker(_CANDIDATES[job.choice], True, float(job.admission.record_days[0]), job.histogram)


def _known(amount: float) -> float | None:
    return float(amount) if np.isfinite(amount) else None


def _amount(kept: float | None) -> float:
    return np.nan if kept is None else kept
