"""From samples and kills to what each VerticalPodAutoscaler's status should say.

Owns learning and deciding for all claims at once: arrays for every container, Python only for the claims that moved.
Reads and writes nothing.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from msgspec import structs

from elastipod.api import AutoscalerStatus, ContainerRecommendation, resources
from elastipod.clock import to_rfc3339
from elastipod.limits import LimitRange
from elastipod.pods import ContainerKey, Workload
from elastipod.quantities import Resources
from recommender.capping import Cap, Capped, Range, Surroundings, cap, cap_pod, range_of
from recommender.claims import WELL_KNOWN_KINDS, Claim
from recommender.conditions import Facts, conditions
from recommender.estimators.histogram import Estimates, estimate
from recommender.explaining import explain_container
from recommender.history import ContainerHistory, History
from recommender.membership import Membership
from recommender.samples import OomKill, UsageSample
from recommender.settings import RecommenderSettings
from recommender.status import Published, recommendation, says_the_same


@dataclass(slots=True)
class Counts:
    """What became of samples."""

    counted: int = 0
    unclaimed: int = 0
    """Of pods that no VerticalPodAutoscaler of ours is for, or of containers that their pod does not have."""
    duplicate: int = 0
    implausible: int = 0
    """Far more than the largest node has."""


@dataclass(slots=True)
class _Known:
    """A claim and what is known about it besides its containers' history."""

    claim: Claim
    is_loaded: bool = False
    keeps_status: bool = True
    """Whether what its status recommends is of its target; False where it was turned to another since."""
    unusable: dict[str, str] = field(default_factory=dict)
    """Why a container's checkpoint could not be used."""
    kept: dict[str, ContainerRecommendation] = field(default_factory=dict)
    """What the status recommended before, for containers whose history is lost."""
    containers: tuple[Capped, ...] = ()
    told_caps: tuple[tuple[Cap, ...], ...] = ()
    """What capped the containers when the status was last as it should be."""

    @property
    def caps(self) -> tuple[tuple[Cap, ...], ...]:
        return tuple(one.caps for one in self.containers if one.caps)


_LEEWAY: Final = 1.25
"""A container may use some of what a node keeps for itself."""
_MOST_CONTAINERS: Final = 2000
"""As many fit into one object with room to spare (etcd takes 1.5 MiB)."""


class Recommendations:
    """The recommender's knowledge and judgement."""

    def __init__(self, settings: RecommenderSettings) -> None:
        self._settings = settings
        self.history = History(settings)
        self.members = Membership(self.history)
        self.counts = Counts()
        self._around = Surroundings(
            floor=Resources(settings.floor_cpu_millicores, settings.floor_memory_bytes),
            most=Resources(settings.max_allowed_cpu_millicores or None, settings.max_allowed_memory_bytes or None),
        )
        self._limit_ranges: dict[str, tuple[LimitRange, ...]] = {}
        self.source_problem = ""
        """Why no usage arrives, where none does."""
        self._published = Published(settings)
        self._known: dict[str, _Known] = {}
        self._by_workload: dict[Workload, set[str]] = {}
        self._was_confident = np.zeros(0, dtype=bool)
        self._was_lost = np.zeros(0, dtype=bool)
        self._dirty: set[str] = set()
        self._moved: set[str] = set()
        """Of the dirty ones, those whose numbers moved far enough to be written as they are."""
        self._estimates: Estimates | None = None

    # What is asked of us.

    def unloaded(self) -> list[Claim]:
        """Claims whose saved history has not been looked at."""
        return [known.claim for known in self._known.values() if not known.is_loaded]

    def unloaded_keys(self) -> set[str]:
        return {key for key, known in self._known.items() if not known.is_loaded}

    def claim(self, key: str) -> Claim | None:
        known = self._known.get(key)
        return None if known is None else known.claim

    def claims_of(self, workload: Workload) -> list[str]:
        """The keys of the claims on a workload."""
        return sorted(self._by_workload.get(workload, ()))

    def set_limit_ranges(self, namespace: str, found: tuple[LimitRange, ...]) -> None:
        """The LimitRanges of a namespace are these now."""
        self._limit_ranges[namespace] = found
        self._mark(key for key, known in self._known.items() if known.claim.namespace == namespace)

    def set_largest_node(self, largest: Resources) -> None:
        """The largest node is this large now."""
        if largest != self._around.largest_node:
            self._around = replace(self._around, largest_node=largest)
            self._mark(self._known)

    def wrote(self, key: str, status: AutoscalerStatus) -> None:
        """The status stands in the cluster, whether or not the watch has shown it yet."""
        known = self._known[key]
        known.claim = structs.replace(known.claim, status=status)

    def set_claim(self, key: str, claim: Claim | None) -> None:
        """A claim of ours appeared, changed or is gone. Its history stays for the workload's next one."""
        known = self._known.get(key)
        if known is not None and known.claim.target is not None:
            holders = self._by_workload.get(known.claim.target, set())
            holders.discard(key)
            self._mark(holders)
            if not holders:
                self._by_workload.pop(known.claim.target, None)
                self.members.unclaim(known.claim.target)
        if claim is None:
            self._known.pop(key, None)
            self.settled(key)
        elif known is None or known.claim.uid != claim.uid or known.claim.target != claim.target:
            is_turned = known is not None and known.claim.uid == claim.uid
            self._known[key] = _Known(claim, keeps_status=not is_turned)
            self._dirty.add(key)
        else:
            known.claim = claim
            self._dirty.add(key)
        if claim is not None and claim.target is not None:
            holders = self._by_workload.setdefault(claim.target, set())
            holders.add(key)
            self._mark(holders)
            if self._known[key].is_loaded:
                self.members.claim(claim.target)

    def loaded(
        self, key: str, saved: dict[str, ContainerHistory], unusable: dict[str, str], *, keeps_status: bool = True
    ) -> None:
        """The saved histories of a claim's containers, and why others could not be used.

        `keeps_status` is False where the status recommends for another workload.
        """
        known = self._known.get(key)
        if known is None:
            return
        target = known.claim.target
        if target is not None:
            for container, history in saved.items():
                self.history.restore(ContainerKey(target, container), history)
        known.is_loaded = True
        known.keeps_status = known.keeps_status and keeps_status
        known.unusable = unusable
        before = known.claim.status.recommendation
        for one in (before.container_recommendations if before and known.keeps_status else None) or ():
            if one.container_name not in saved:
                known.kept[one.container_name] = one
        self._dirty.add(key)
        if target is not None:
            self.members.claim(target)

    def mark(self, keys: Iterable[str]) -> None:
        """Look at these claims again."""
        self._mark(keys)

    # Learning.

    def learn(self, samples: list[UsageSample], now: float) -> None:
        """Count what was used."""
        place = self.members.place
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
        node = self._around.largest_node
        for values, most in ((cores, node.cpu / 1000), (amounts, float(node.memory))):
            if most:
                is_too_large = values > most * _LEEWAY
                self.counts.implausible += int(is_too_large.sum())
                values[is_too_large] = nan
        self.counts.counted += len(self.history.add(places[picked], stamps, cores, amounts, now))

    def learn_kill(self, kill: OomKill) -> bool:
        """Take an OOM kill as evidence; False where it says nothing new or is nobody's."""
        keys = self._by_workload.get(kill.workload)
        if not keys or not any(self._known[key].is_loaded for key in keys):
            return False
        policy = self._known[min(keys)].claim.policy(kill.container)
        is_new = self.history.add_oom(kill, bump_ratio=policy.oom_bump_ratio, min_bump_bytes=policy.oom_min_bump_bytes)
        if is_new:
            self._mark(keys)
        return is_new

    # Deciding.

    def decide(self, now: float) -> set[str]:
        """The claims whose status should be looked at; they stay on the list until `settled`."""
        for workload in self.members.changed:
            self._mark(self._by_workload.get(workload, ()))
        self.members.changed.clear()
        self._estimates = found = estimate(self.history, self._settings)
        moved = self._published.moved(found, self.members.requests())
        is_confident = found.confidence >= self._settings.enough_confidence
        is_lost = self._lost(now)
        size = self.history.size
        moved |= is_confident != np.pad(self._was_confident, (0, size - len(self._was_confident)))
        moved |= is_lost != np.pad(self._was_lost, (0, size - len(self._was_lost)))
        self._was_confident, self._was_lost = is_confident, is_lost
        rows = np.flatnonzero(moved)
        for row in rows.tolist():
            key = self.history.key(row)
            if key is not None:
                self._mark(self._by_workload.get(key.workload, ()))
                self._moved.update(self._by_workload.get(key.workload, ()))
        self._published.write(found, rows)
        return set(self._dirty)

    def expire(self, now: float) -> list[ContainerKey]:
        """Forget containers that no pod has and that were last heard of longer ago than history is kept."""
        for row in self.history.expire_oom():
            key = self.history.key(row)
            if key is not None:
                self._mark(self._by_workload.get(key.workload, ()))
        gone = []
        for key, row in self.history.rows():
            heard_at = self.history.last_heard_at(row)
            is_claimed = key.workload in self._by_workload
            if is_claimed and any(pod.container(key.container) for pod in self.members.pods(key.workload)):
                continue
            if heard_at is None or now - heard_at > self._settings.history_seconds:
                self.history.forget(key)
                self._published.forget(row)
                gone.append(key)
        return gone

    def settled(self, key: str) -> None:
        """The claim's status says what it should."""
        self._dirty.discard(key)
        self._moved.discard(key)
        if (known := self._known.get(key)) is not None:
            known.told_caps = known.caps

    def is_worth_writing(self, key: str, status: AutoscalerStatus, *, is_first: bool) -> bool:
        """Whether a status differs from what stands there by enough.

        After a start, and where only a pod came or went, small differences of numbers are none; what has come to be
        capped otherwise is exact.
        """
        known = self._known[key]
        is_exact = known.caps != known.told_caps or (key in self._moved and not is_first)
        settings = self._settings
        tolerances = (0.0, 0.0) if is_exact else (settings.target_tolerance, settings.bound_tolerance)
        return not says_the_same(known.claim.status, status, *tolerances)

    def status(self, key: str, now: float) -> AutoscalerStatus:
        """What the status of a claim should say."""
        known = self._known[key]
        claim, target = known.claim, known.claim.target
        known.containers = self._containers(known, target) if target is not None else ()
        found = recommendation(known.containers)
        before = claim.status.recommendation
        if known.keeps_status and not (known.is_loaded and (found or self._has_pods(target))):
            found = before
        facts = self._facts(known, target, found is not None)
        return AutoscalerStatus(
            recommendation=found,
            conditions=list(conditions(facts, tuple(claim.status.conditions or ()), claim.generation, now)),
            observed_generation=claim.generation or None,
        )

    def explain(self, workload: Workload, now: float) -> dict[str, Any]:
        """What is known and recommended for a workload's containers, and by which way it came about."""
        estimates = self._estimates
        keys = self.claims_of(workload)
        containers = []
        for name in self.members.containers(workload):
            row = self.history.row(ContainerKey(workload, name))
            if row is not None and estimates is not None and row < len(estimates.confidence):
                capped = [one for key in keys for one in self._known[key].containers if one.container == name]
                containers.append(explain_container(name, row, self.history, estimates, capped, now))
        return {
            "workload": str(workload),
            "autoscalers": keys,
            "containers": containers,
            "problems": [problem for key in keys for problem in self._known[key].claim.problems],
            "metrics": self.source_problem or "arriving",
        }

    def _containers(self, known: _Known, target: Workload) -> tuple[Capped, ...]:
        if not known.is_loaded:
            return ()
        around = replace(self._around, limit_ranges=self._limit_ranges.get(target.namespace, ()))
        shown = self.members.containers(target)
        found = []
        for name, container in sorted(shown.items())[:_MOST_CONTAINERS]:
            wanted = self._wanted(known, target, name)
            found.append(cap(wanted, known.claim.policy(name), container, around))
        return cap_pod(found, [one for one in shown.values() if one is not None], around)

    def _wanted(self, known: _Known, target: Workload, name: str) -> Capped:
        """A container's estimate; what stood there before while a lost history is being learned anew."""
        row = self.history.row(ContainerKey(target, name))
        estimates = self._estimates
        if row is None or estimates is None or row >= len(estimates.confidence):
            return _kept(known.kept.get(name), Capped(name, None, None), 0.0)
        interval = known.claim.policy(name).memory_interval_seconds
        self.history.memory_interval[row] = interval or self._settings.memory_interval_seconds
        cpu, memory = estimates.cpu.values[row].tolist(), estimates.memory.values[row].tolist()
        fresh = Capped(name, range_of(cpu, 1000.0), range_of(memory, 1.0))
        before = known.kept.get(name)
        if before is None:
            return fresh
        if estimates.confidence[row] >= self._settings.enough_confidence:
            del known.kept[name]
            known.unusable.pop(name, None)
            return fresh
        return _kept(before, fresh, float(self.history.oom_floor[row]))

    def _facts(self, known: _Known, target: Workload | None, is_provided: bool) -> Facts:
        claim = known.claim
        has_pods = self._has_pods(target)
        problems = list(claim.problems)
        is_found = True
        if target is not None:
            is_found = self.members.exists(target) or has_pods or target.kind not in WELL_KNOWN_KINDS
            if target.kind not in WELL_KNOWN_KINDS and not has_pods:
                problems.append(f"spec.targetRef: no pod's highest known owner is a {target.kind} of that name")
            if len(known.containers) >= _MOST_CONTAINERS:
                problems.append(f"only the first {_MOST_CONTAINERS} containers fit into the status")
            owner = self.members.owner_of(target)
            if owner is not None:
                problems.append(
                    f"spec.targetRef: {target.kind} {target.name} is controlled by {owner.kind} {owner.name}; name that"
                )
        others = [] if target is None else [one for one in self.claims_of(target) if one != claim.key]
        rows = [] if target is None else self._rows(target)
        names = [] if target is None else self.members.containers(target)
        confidence = (
            min((float(self._estimates.confidence[row]) for row in rows), default=0.0) if self._estimates else 0
        )
        return Facts(
            is_provided=is_provided,
            has_pods=has_pods,
            is_off=bool(names) and all(claim.policy(name).is_off for name in names),
            is_target_found=is_found,
            is_confident=confidence >= self._settings.enough_confidence,
            is_history_loaded=known.is_loaded,
            unusable_history="; ".join(f"{name}: {why}" for name, why in sorted(known.unusable.items())),
            metrics_lost=self._lost_since(rows),
            problems=tuple(problems),
            rivals=tuple(others),
        )

    def _rows(self, target: Workload) -> list[int]:
        size = 0 if self._estimates is None else len(self._estimates.confidence)
        found = (self.history.row(ContainerKey(target, name)) for name in self.members.containers(target))
        return [row for row in found if row is not None and row < size]

    def _has_pods(self, target: Workload | None) -> bool:
        return target is not None and bool(self.members.pods(target))

    def _lost(self, now: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Rows with running pods and no usable sample for too long."""
        size = self.history.size
        live_since = self.members.live_since()
        heard = np.fmax(self.history.last_sample_at[:size], live_since)
        with np.errstate(invalid="ignore"):
            lost: np.ndarray[Any, np.dtype[np.bool_]] = now - heard > self._settings.metrics_lost_seconds
        return lost & ~np.isnan(live_since)

    def _lost_since(self, rows: list[int]) -> str:
        lost = [row for row in rows if row < len(self._was_lost) and self._was_lost[row]]
        if not lost:
            return ""
        heard = [float(self.history.last_sample_at[row]) for row in lost]
        known = [at for at in heard if not math.isnan(at)]
        since = f"since {to_rfc3339(min(known))}" if known else "since the pods started"
        return f"no usage sample {since}" + (f": {self.source_problem}" if self.source_problem else "")

    def _mark(self, keys: Iterable[str]) -> None:
        self._dirty.update(keys)


def _kept(before: ContainerRecommendation | None, fresh: Capped, oom_floor: float) -> Capped:
    """What was recommended before, and more memory where a kill asks for it."""
    if before is None:
        return fresh
    try:
        target, lower = resources(before.target), resources(before.lower_bound)
    except ValueError:
        return fresh

    def span(target: int | None, lower: int | None, new: Range | None, least: int) -> Range | None:
        if not target:
            return new
        target = max(target, least)
        return Range(min(max(lower or 0, least), target), target, None, target)

    return replace(
        fresh,
        cpu=span(target.cpu_millicores, lower.cpu_millicores, fresh.cpu, 0),
        memory=span(target.memory_bytes, lower.memory_bytes, fresh.memory, math.ceil(oom_floor)),
    )
