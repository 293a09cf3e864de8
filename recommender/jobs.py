"""What the running pods of jobs need next, by earlier runs: the estimator of runs, live.

Owns which rows are jobs', and what is told and saved of them: what is known is saved with the history (jobrecords.py),
so that after a restart the next run has what it would have had. What becomes of one job's runs is job.py's matter.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from elastipod.limitmodes import LimitModes
from recommender.banks import Speaker
from recommender.estimators.candidates import Candidate, Estimator
from recommender.estimators.histogram import Estimate, Estimates
from recommender.estimators.runs import MOST_RUNS
from recommender.histogram import Floats, Ints
from recommender.job import RULE, Job
from recommender.jobrecords import JobRecord

KINDS: Final = ("CronJob", "Job")
"""Workloads whose pods are runs."""

_CANDIDATES: Final = (
    Candidate(Estimator.RUNS, "what was asked for at first, then half as much again as the run's peak"),
    Candidate(Estimator.RUNS, f"what followed in the nearest of up to {MOST_RUNS} earlier runs"),
)


class Jobs:
    """The jobs that want the best estimator, by row."""

    def __init__(self, step_seconds: float) -> None:
        self._step_seconds = step_seconds
        self._jobs: dict[int, Job] = {}

    def want(self, row: int, *, kills_elsewhere: bool) -> None:
        """This row is a job's container that wants the best estimator."""
        if row not in self._jobs:
            self._jobs[row] = Job(self._step_seconds, kills_elsewhere=kills_elsewhere)

    def let_go(self, row: int) -> None:
        """This row wants the histogram, or is gone."""
        self._jobs.pop(row, None)

    def restore(self, row: int, record: JobRecord) -> None:
        """Know what was saved of a wanted row, where that is more than is known."""
        job = self._jobs[row]
        if record.ended > job.runs or not (job.runs or job.running):
            fresh = self._jobs[row] = Job(self._step_seconds, kills_elsewhere=bool(job.admission.kills_elsewhere[0]))
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
        values[rows] = np.stack((sizes, sizes, sizes * (1.0 + RULE.band)), axis=1)
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
