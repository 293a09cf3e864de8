"""From what is remembered to an estimate for every row.

Owns the order: the histogram's rule, what speaks in its place where an ElasticPolicy allows, and the limits that are
apart; and what is stated about each workload. Caps are judging.py's matter.
"""

from dataclasses import replace

import numpy as np

from elastipod.limitmodes import LimitMode
from elastipod.pods import ContainerKey, Workload
from recommender.estimators.apart import Apart
from recommender.estimators.histogram import Estimate, Estimates, estimate, proven
from recommender.histogram import Ints
from recommender.history import History
from recommender.settings import RecommenderSettings
from recommender.speaking import Speaking
from recommender.stated import NOTHING_STATED, Stated


class Estimating:
    """What every row is estimated to need."""

    def __init__(self, settings: RecommenderSettings, history: History) -> None:
        self.speaking = Speaking()
        self.raw: Estimates | None = None
        """What the histogram says of every row: what a checkpoint would recommend."""
        self.turned: Ints = np.zeros(0, dtype=np.int64)
        """Rows whose speaker came or went at the last look."""
        self._settings = settings
        self._history = history
        self._apart = Apart(settings)
        self._stated: dict[Workload, Stated] = {}

    def stated(self, workload: Workload) -> Stated:
        """What holds for a workload."""
        return self._stated.get(workload, NOTHING_STATED)

    def state(self, workload: Workload, stated: Stated) -> None:
        """This holds for a workload now, and for each of its containers."""
        if stated == NOTHING_STATED:
            if self._stated.pop(workload, None) is None:
                return
        else:
            self._stated[workload] = stated
        for name in self._history.containers(workload):
            row = self._history.row(ContainerKey(workload, name))
            if row is not None:
                self._apart.want(row, stated.limits)
                if stated.only_histogram is None:
                    self.speaking.want(row, kills_elsewhere=stated.limits.memory is not LimitMode.PROPORTIONAL)
                else:
                    self.speaking.let_go(row)

    def let_go(self, row: int) -> None:
        """The row is nobody's any more."""
        self.speaking.let_go(row)
        self._apart.let_go(row)

    def estimates(self, now: float) -> Estimates:
        """The recommendation for every row, before any policy."""
        self.raw = raw = estimate(self._history, self._settings)
        self.turned = self.speaking.turn(raw, self._history.oom_floor, now)
        found = self.speaking.spoken(raw)
        if found is not raw:
            found = replace(found, memory=Estimate(proven(found.memory.values, self._history)))
        return self._apart.bounded(found, self._history, now)
