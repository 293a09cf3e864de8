"""From what is remembered to an estimate for every row.

Owns the order: the histogram's rule, what speaks in its place where an ElasticPolicy allows, and the limits that are
apart; and what is stated about each workload. Caps are judging.py's matter.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from elastipod.limitmodes import LimitMode
from elastipod.pods import ContainerKey, QosClass, Workload
from recommender.banks import ROWS, Speaker
from recommender.estimators.apart import Apart
from recommender.estimators.candidates import Estimator
from recommender.estimators.histogram import Estimate, Estimates, estimate, proven
from recommender.histogram import Ints
from recommender.history import History
from recommender.jobrecords import JobRecord
from recommender.jobs import KINDS, Jobs
from recommender.membership import Membership
from recommender.past import Past, Played
from recommender.ranges import Resource
from recommender.settings import RecommenderSettings
from recommender.speaking import Speaking
from recommender.stated import NOTHING_STATED, Stated, stated
from recommender.steps import UseInSteps

_LEAST_MORE: Final = 1.001
"""What was killed wanted more than it had."""


class Estimating:
    """What every row is estimated to need."""

    def __init__(self, settings: RecommenderSettings, history: History, members: Membership) -> None:
        self.speaking = Speaking()
        self.jobs = Jobs(settings.interval_seconds)
        self.raw: Estimates | None = None
        """What the histogram says of every row: what a checkpoint would recommend."""
        self.turned: Ints = np.zeros(0, dtype=np.int64)
        """Rows whose speaker came or went at the last look."""
        self._settings = settings
        self._history = history
        self._members = members
        self._apart = Apart(settings)
        self._stated: dict[Workload, Stated] = {}

    def stated(self, workload: Workload) -> Stated:
        """What holds for a workload."""
        return self._stated.get(workload, NOTHING_STATED)

    def restate(self, workload: Workload, *, in_place: bool) -> None:
        """Take up what ElasticPolicies say of a workload now; between two runs all stays as it was."""
        policies = self._members.policies(workload.namespace)
        pod = next(iter(self._members.pods(workload)), None) if policies else None
        if pod is not None:
            found = stated(
                workload,
                pod.labels,
                policies,
                in_place=in_place,
                is_guaranteed=pod.qos_class is QosClass.GUARANTEED,
                may_choose=self._settings.estimator == "Auto",
            )
            self._state(workload, found)
        elif not policies:
            self.unclaim(workload)

    def restore(self, key: ContainerKey, record: JobRecord) -> None:
        """Know what was saved of a job's container; until a pod shows which policies hold, all is as it was then."""
        row = self._history.row(key)
        if row is not None and key.workload.kind in KINDS and self._settings.estimator == "Auto":
            found = self._stated.get(key.workload, Stated(None, record.limits))
            self._state(key.workload, found)
            if found.only_histogram is None:
                self.jobs.restore(row, record)

    def record(self, row: int) -> JobRecord | None:
        """What is to be saved of a row's runs."""
        key = self._history.key(row)
        return None if key is None else self.jobs.record(row, self.stated(key.workload).limits)

    def unclaim(self, workload: Workload) -> None:
        """Nothing is stated of a workload any more."""
        if workload in self._stated:
            self._state(workload, NOTHING_STATED)

    def let_go(self, row: int) -> None:
        """The row is nobody's any more."""
        self.speaking.let_go(row)
        self.jobs.let_go(row)
        self._apart.let_go(row)

    def see_kill(self, row: int, limit_bytes: float) -> None:
        """A container was killed at a memory limit."""
        for one in (self.speaking, self.jobs):
            one.see_kill(row, limit_bytes * _LEAST_MORE)

    def estimates(self, now: float) -> Estimates:
        """The recommendation for every row, before any policy."""
        self.raw = raw = estimate(self._history, self._settings)
        floors = self._history.oom_floor
        self.turned = np.concatenate((self.speaking.turn(raw, floors, now), self.jobs.turn(raw, floors, now)))
        found = self.jobs.spoken(self.speaking.spoken(raw))
        if found is not raw:
            found = replace(found, memory=Estimate(proven(found.memory.values, self._history)))
        return self._apart.bounded(found, self._history, now)

    def speaker(self, row: int, resource: Resource) -> Speaker | None:
        """Who speaks for a resource of a row; None for a row that wants the histogram."""
        by_runs = self.jobs.speaker(row) if resource is Resource.MEMORY else None
        return by_runs or self.speaking.speaker(row, resource)

    def counts(self) -> dict[tuple[str, str], int]:
        """For how many rows each estimator speaks, by resource; of those that want the best."""
        counts = self.speaking.counts()
        for row in self.jobs.speaking():
            for speaker, change in ((self.speaking.speaker(row, Resource.MEMORY), -1), (self.jobs.speaker(row), 1)):
                if speaker is not None:
                    estimator = speaker.candidate.estimator if speaker.candidate else Estimator.HISTOGRAM
                    counts[str(Resource.MEMORY), str(estimator)] += change
        return counts

    def past(self, steps: dict[ContainerKey, UseInSteps]) -> Past | None:
        """The past of some containers that want the best estimator, to be played; None where there is none now."""
        raw, speaking, keys = self.raw, self.speaking, [key for key in steps if self._wants(key)][:ROWS]
        if raw is None or not keys:
            return None
        rows = np.array([self._history.row(key) for key in keys], dtype=np.int64)
        return Past(
            keys,
            rows,
            [steps[key] for key in keys],
            self._members.instances.limits()[rows, 0],
            np.stack((raw.cpu.target[rows], raw.memory.target[rows])),
            self._history.oom_floor[rows],
            speaking.kills_elsewhere(rows),
        )

    def recall(self, played: Played, now: float) -> None:
        """Containers have lived through their past; those that are gone meanwhile have none."""
        is_theirs = [self._history.row(key) == row for key, row in zip(played.keys, played.rows.tolist(), strict=True)]
        rows = np.where(is_theirs, played.rows, -1)
        self.speaking.recall(rows, played.bank, played.lessons, now)

    def _wants(self, key: ContainerKey) -> bool:
        row = self._history.row(key)
        return row is not None and row in self.speaking and self.raw is not None and row < len(self.raw.confidence)

    def _state(self, workload: Workload, found: Stated) -> None:
        self._stated[workload] = found
        if found == NOTHING_STATED:
            del self._stated[workload]
        for name in self._history.containers(workload):
            row = self._history.row(ContainerKey(workload, name))
            if row is not None:
                self._apart.want(row, found.limits)
                kills_elsewhere = found.limits.memory is not LimitMode.PROPORTIONAL
                if found.only_histogram is not None:
                    self.speaking.let_go(row)
                    self.jobs.let_go(row)
                    continue
                self.speaking.want(row, kills_elsewhere=kills_elsewhere)
                if workload.kind in KINDS:
                    self.jobs.want(row, kills_elsewhere=kills_elsewhere)
