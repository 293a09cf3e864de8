"""What is kept of a job's runs over a restart.

Owns the form, which stands in our annotation of the checkpoint, its bounds and its strict reading; only fields that are
not known, as of a newer version, are passed over. A record has at most 25 runs of 240 samples in KiB: 3 kB for runs of
ten minutes, 75 kB at the very most. A longer run is kept as the highest of equal spans. What becomes of runs is
jobs.py's matter.
"""

import math
from collections.abc import Iterable
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct

from elastipod.kube.decoding import UNREADABLE
from elastipod.limitmodes import LimitMode, LimitModes
from recommender.estimators.runs import MOST_RUNS, Usage

CANDIDATES: Final = 2
"""Sizes that compete with the histogram's."""
MOST_RUNNING: Final = 5
"""Runs that have not ended, those that use most."""
_SCORES: Final = (*[CANDIDATES + 1] * 7, 1, 1, 1)
_MOST_SAMPLES: Final = 240
_MOST_BYTES: Final = 1e14
_MOST_NAME: Final = 253
_MOST_STEP_SECONDS: Final = 10 * 86_400.0
_MOST_SCORE: Final = 1e30
_KI: Final = 1024


class UnusableRuns(ValueError):
    """A record that can not be used; the message names the field."""


class RunRecord(Struct, frozen=True):
    """One run: the most it used in each step."""

    step_seconds: float
    used_kib: list[int]


class RunningRecord(Struct, frozen=True):
    """A run that has not ended."""

    pod: str
    begun_at: float
    heard_at: float
    asked_bytes: float
    is_whole: bool
    run: RunRecord


class JobRecord(Struct, frozen=True):
    """All that is known of the runs of a job's container, and how well sizes by them did."""

    ended: int
    choice: int
    told_bytes: float | None
    histogram_bytes: float | None
    scores: list[list[float | None]]
    """The admission's arrays, each as one list; null only in the first, for what was never in force."""
    earlier: list[RunRecord] = []
    running: list[RunningRecord] = []
    cpu_limit: LimitMode = LimitMode.PROPORTIONAL
    memory_limit: LimitMode = LimitMode.PROPORTIONAL
    """As ElasticPolicies stated them: between two runs there is no pod whose labels would tell."""

    @property
    def limits(self) -> LimitModes:
        return LimitModes(self.cpu_limit, self.memory_limit)


_records: Final = msgspec.json.Decoder(JobRecord)


def run_record(usage: Usage) -> RunRecord:
    """A run as it is kept."""
    used = usage.memory_bytes
    together = max(1, math.ceil(len(used) / _MOST_SAMPLES))
    starts = np.arange(0, len(used), together)
    highest = np.maximum.reduceat(used, starts)
    return RunRecord(usage.step_seconds * together, np.ceil(highest / _KI).astype(np.int64).tolist())


def usage_of(record: RunRecord) -> Usage:
    """A run as it was kept."""
    return Usage(record.step_seconds, np.array(record.used_kib, dtype=np.float64) * _KI)


def in_steps(record: RunRecord, step_seconds: float, most: int) -> list[float]:
    """A run in other steps, so many at most: to go on with."""
    usage = usage_of(record)
    count = min(max(1, round(len(usage.memory_bytes) * usage.step_seconds / step_seconds)), most)
    places = (np.arange(count) * step_seconds / usage.step_seconds).astype(np.int64)
    return [float(used) for used in usage.memory_bytes[np.minimum(places, len(usage.memory_bytes) - 1)]]


def read_record(text: msgspec.Raw, latest: float) -> JobRecord:
    """A record, checked; no time in it is after `latest`. Raises UnusableRuns."""
    try:
        record = _records.decode(text)
    except UNREADABLE as error:
        raise UnusableRuns(f": {str(error)[:200]}") from None
    _check("ended", 0 <= record.ended < 2**31, "is out of range")
    _check("choice", -1 <= record.choice < CANDIDATES, f"is no number from -1 to {CANDIDATES - 1}")
    _check("scores", tuple(map(len, record.scores)) == _SCORES, f"are not {', '.join(map(str, _SCORES))} numbers")
    _check("scores", _within((one for part in record.scores for one in part), _MOST_SCORE), "are out of range")
    _check("scores", None not in [one for part in record.scores[1:] for one in part], "are no numbers")
    _check("told_bytes", _within((record.told_bytes,), _MOST_BYTES), "is out of range")
    _check("histogram_bytes", _within((record.histogram_bytes,), _MOST_BYTES), "is out of range")
    _check("earlier", len(record.earlier) <= MOST_RUNS, f"are more than {MOST_RUNS}")
    _check("running", len(record.running) <= MOST_RUNNING, f"are more than {MOST_RUNNING}")
    for run in record.earlier:
        _check_run("earlier", run)
    for running in record.running:
        _check("running.pod", 0 < len(running.pod) <= _MOST_NAME, "is no pod's name")
        _check("running", 0 <= running.begun_at <= running.heard_at <= latest, "begun_at or heard_at is out of range")
        _check("running.asked_bytes", _within((running.asked_bytes,), _MOST_BYTES), "is out of range")
        _check_run("running.run", running.run)
    return record


def _check_run(where: str, run: RunRecord) -> None:
    _check(f"{where}.step_seconds", 0.1 <= run.step_seconds <= _MOST_STEP_SECONDS, "is out of range")
    _check(f"{where}.used_kib", 0 < len(run.used_kib) <= _MOST_SAMPLES, f"are not 1 to {_MOST_SAMPLES} samples")
    _check(f"{where}.used_kib", _within(run.used_kib, _MOST_BYTES / _KI), "are out of range")


def _within(amounts: Iterable[float | None], most: float) -> bool:
    return all(amount is None or 0 <= amount <= most for amount in amounts)


def _check(where: str, is_right: bool, why: str) -> None:
    if not is_right:
        raise UnusableRuns(f".{where}: {why}")
