"""From samples and kills to what is remembered.

Owns which samples count, for whom, and why others do not; arrays for every container at once. What is remembered is
history.py's matter, and what comes of it estimating.py's.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from elastipod.nodeclass import parted
from elastipod.pods import ContainerKey, Node, Workload
from elastipod.quantities import Resources
from recommender.classrows import ClassRows
from recommender.clocks import skewed_nodes
from recommender.dropping import Dropped, Dropping
from recommender.estimating import Estimating
from recommender.histogram import Floats, Ints
from recommender.history import History
from recommender.membership import Membership
from recommender.nodeclasses import NodeClasses
from recommender.policies import SizePolicy
from recommender.recent import RecentUsage
from recommender.samples import LEEWAY, OomKill, UsageSample

_LATE_SECONDS: Final = 300.0
"""So long after a pod's end its last usage may be told."""


@dataclass(slots=True)
class Counts:
    """What became of samples."""

    counted: int = 0
    unclaimed: int = 0
    """Of pods that no VerticalPodAutoscaler of ours is for, or of containers that their pod does not have."""
    duplicate: int = 0
    implausible: int = 0
    """Far more than the largest node has."""


class Learning:
    """What is learned of samples and kills, besides the history itself."""

    def __init__(self, history: History, members: Membership, estimating: Estimating) -> None:
        self.counts = Counts()
        self.clocks: dict[str, float] = {}
        """Nodes whose clocks are off, and how far they are ahead."""
        self.recent = RecentUsage()
        self.dropping = Dropping()
        self.node_classes = NodeClasses()
        self.class_rows = ClassRows(history, members, self.node_classes)
        self._history = history
        self._members = members
        self._estimating = estimating

    def know(self, key: ContainerKey, *, is_sized: bool) -> None:
        """A container is claimed; `is_sized` where each class of nodes is to have its own size."""
        _, on_class = parted(key.container)
        if not on_class:
            row = self._history.ensure_row(key)
            self.node_classes.know(row, key)
            self.class_rows.know(row, key, is_sized=is_sized)

    def set_nodes(self, nodes: Mapping[str, Node]) -> Iterable[Workload]:
        """The nodes are these now. The workloads whose sizes by class of node that concerns."""
        self.node_classes.set_nodes(nodes)
        return self.class_rows.resized()

    def forget(self, row: int) -> None:
        """The row is nobody's any more."""
        self.class_rows.forget(row)
        self.node_classes.forget(row)
        self.recent.clear(row)
        self.dropping.clear(row)

    def learn_kill(self, kill: OomKill, policy: SizePolicy) -> bool:
        """Take an OOM kill as evidence; False where it says nothing new."""
        more = {"bump_ratio": policy.oom_bump_ratio, "min_bump_bytes": policy.oom_min_bump_bytes}
        if not self._history.add_oom(kill, **more):
            return False
        row = self._history.ensure_row(ContainerKey(kill.workload, kill.container))
        self._estimating.see_kill(row, float(kill.limit_bytes))
        there = self.class_rows.killed(kill)
        if there is not None:
            self._history.add_oom(there, **more)
        return True

    def learn(self, samples: list[UsageSample], largest_node: Resources, now: float) -> None:
        """Count what was used; what is far more than the largest node has is no usage."""
        self._members.instances.let_go(now, _LATE_SECONDS)
        if samples:
            self.clocks = skewed_nodes(samples, now, lambda one: self._members.node(one.namespace, one.pod))
        place = self._members.instances.place
        places = np.array([place(one.namespace, one.pod, one.container) for one in samples], dtype=np.int64)
        known = np.flatnonzero(places >= 0)
        self.counts.unclaimed += len(samples) - len(known)
        _, first = np.unique(places[known], return_index=True)
        self.counts.duplicate += len(known) - len(first)
        picked = known[np.sort(first)]
        if len(picked) == 0:
            return
        nan = math.nan
        stamps = np.array([one.measured_at for one in samples], dtype=np.float64)[picked]
        cores = np.array([nan if one.cpu_cores is None else one.cpu_cores for one in samples], dtype=np.float64)[picked]
        amounts = np.array(
            [nan if one.memory_bytes is None else one.memory_bytes for one in samples], dtype=np.float64
        )[picked]
        rows, dropping = self._history.rows_of(places[picked]), self.dropping
        self._set_aside(cores, largest_node.cpu / 1000, rows)
        self._set_aside(amounts, float(largest_node.memory), rows)
        limits = self._members.instances.limits()[rows]
        self._history.followers.take(rows, amounts, limits[:, 1])
        is_new = self._history.is_new(places[picked], stamps)
        dropping.count(Dropped.DUPLICATE, rows[~is_new])
        dropping.count(Dropped.BAD_VALUE, rows[is_new & ~(np.isfinite(cores) & np.isfinite(amounts))])
        self._estimating.speaking.see(rows[is_new], cores[is_new], amounts[is_new], limits[is_new, 0])
        self.recent.see(rows[is_new], cores[is_new], amounts[is_new], now)
        followed = self.node_classes.among(rows)
        nodes = [self._members.node(samples[at].namespace, samples[at].pod) for at in picked[followed].tolist()]
        self.node_classes.see(rows[followed], nodes, np.column_stack((cores[followed], amounts[followed])), now)
        for at in self._estimating.jobs.among(rows).tolist():
            if is_new[at]:
                self._learn_of_run(samples[picked[at]], int(rows[at]), float(amounts[at]), now)
        self.counts.counted += len(self._history.add(places[picked], stamps, cores, amounts, now))
        sized = self.class_rows.among(rows)
        if len(sized):
            at = sized[is_new[sized]]
            told = [samples[one] for one in picked[at].tolist()]
            self._learn_on_classes(told, rows[at], stamps[at], cores[at], amounts[at], limits[at, 0], now)

    def _set_aside(self, values: Floats, most: float, rows: Ints) -> None:
        """What is far more than the largest node has is no usage; 0 where no node is known."""
        if most:
            is_too_large = values > most * LEEWAY
            self.counts.implausible += int(is_too_large.sum())
            self.dropping.count(Dropped.IMPLAUSIBLE, rows[is_too_large])
            values[is_too_large] = math.nan

    def _learn_of_run(self, told: UsageSample, row: int, memory_bytes: float, now: float) -> None:
        """Count a sample of a job's pod for the run that it is."""
        pod = self._members.pod(told.namespace, told.pod)
        container = pod.container(told.container) if pod else None
        if pod is not None and container is not None:
            since = max(container.started_at or 0.0, pod.created_at)
            asked = float(container.requests.memory)
            self._estimating.jobs.see(row, told.pod, memory_bytes, asked, since, now)

    def _learn_on_classes(
        self,
        samples: list[UsageSample],
        rows: Ints,
        stamps: Floats,
        cores: Floats,
        amounts: Floats,
        cpu_limits: Floats,
        now: float,
    ) -> None:
        """Count new samples for the classes of their nodes too."""
        places = self.class_rows.twins(samples, rows)
        at = places >= 0
        there = self._history.rows_of(places[at])
        self._history.add(places[at], stamps[at], cores[at], amounts[at], now)
        self._estimating.speaking.see(there, cores[at], amounts[at], cpu_limits[at])
        self.recent.see(there, cores[at], amounts[at], now)
