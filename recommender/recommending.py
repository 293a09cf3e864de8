"""From samples and kills to the VerticalPodAutoscalers whose status should be looked at.

Owns which claims there are, and which of them are to be looked at: arrays for every container, Python only for the
claims that moved. Which samples count is learning.py's matter, what a status says judging.py's. Reads and writes
nothing.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from msgspec import structs

from elastipod.api import AutoscalerStatus, ElasticPolicy
from elastipod.limits import LimitRange, Quota
from elastipod.nodeclass import parted
from elastipod.pods import ContainerKey, Node, Workload
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from recommender.capping import Hold
from recommender.claims import Claim
from recommender.estimating import Estimating
from recommender.history import ContainerHistory, History
from recommender.joining import filled, joined
from recommender.judging import Judgement, Known
from recommender.learning import Learning
from recommender.membership import Membership
from recommender.news import News
from recommender.ranges import Capped, Resource
from recommender.samples import OomKill, UsageSample
from recommender.settings import RecommenderSettings
from recommender.sources.past import HistoryRequest, Unknown
from recommender.status import Published, says_the_same

_STALE_SECONDS: Final = 600.0
"""So much of the past is worth asking for."""


class Recommendations:
    """The recommender's knowledge and judgement."""

    def __init__(self, settings: RecommenderSettings) -> None:
        self._settings = settings
        self.history = History(settings)
        self.members = Membership(self.history)
        self.estimating = Estimating(settings, self.history, self.members)
        self.learning = Learning(self.history, self.members, self.estimating)
        self.judgement = Judgement(
            settings,
            self.history,
            self.members,
            self.estimating,
            self.learning.node_classes,
            self.learning.class_rows,
        )
        self._published = Published(settings)
        self._known: dict[str, Known] = {}
        self._by_workload: dict[Workload, set[str]] = {}
        self._foreign: dict[str, Workload] = {}
        """What acting claims of other recommenders name."""
        self._rivals_of: dict[Workload, set[str]] = {}
        self.caps: dict[tuple[Resource, Reason], int] = {}
        """How many recommendations were cut, lifted or withheld, by why."""
        self._was_confident = np.zeros(0, dtype=bool)
        self._dirty: set[str] = set()
        self._moved: set[str] = set()
        """Of the dirty ones, those whose numbers moved far enough to be written as they are."""

    # What is asked of us.

    def unloaded(self) -> list[Claim]:
        """Claims whose saved history has not been looked at."""
        return [known.claim for known in self._known.values() if not known.is_loaded]

    def unloaded_keys(self) -> set[str]:
        return {key for key, known in self._known.items() if not known.is_loaded}

    def claim(self, key: str) -> Claim | None:
        known = self._known.get(key)
        return None if known is None else known.claim

    def advice(self) -> list[tuple[Claim, tuple[Capped, ...]]]:
        """The claims, in no order, each with its containers' recommendations as they were last worked out."""
        return [(known.claim, known.containers) for known in self._known.values()]

    def claims_of(self, workload: Workload) -> list[str]:
        """The keys of the claims on a workload."""
        return sorted(self._by_workload.get(workload, ()))

    def set_limits(self, ranges: Mapping[str, tuple[LimitRange, ...]], quotas: Mapping[str, tuple[Quota, ...]]) -> None:
        """The LimitRanges and ResourceQuotas of these namespaces are these now."""
        self.judgement.limit_ranges.update(ranges)
        self.judgement.quotas.update(quotas)
        self._mark(
            key for key, known in self._known.items() if known.claim.namespace in (ranges.keys() | quotas.keys())
        )

    def set_policies(self, changed: Mapping[str, tuple[ElasticPolicy, ...]]) -> None:
        """The ElasticPolicies of these namespaces are these now."""
        self.members.set_policies(changed)
        self._mark(key for key, known in self._known.items() if known.claim.namespace in changed)

    def set_holds(self, holds: dict[Workload, tuple[Hold, ...]]) -> None:
        """What is left alone is this now."""
        before, self.judgement.holds = self.judgement.holds, holds
        for workload in before.keys() | holds.keys():
            if before.get(workload) != holds.get(workload):
                for sized in self.members.sized_for(workload):
                    self._mark(self._by_workload.get(sized, ()))

    def set_nodes(self, nodes: Mapping[str, Node], largest: Resources) -> None:
        """The nodes are these now, and the most that one of them has."""
        for workload in self.learning.set_nodes(nodes):
            self._mark(self._by_workload.get(workload, ()))
        if largest != self.judgement.around.largest_node:
            self.judgement.around = replace(self.judgement.around, largest_node=largest)
            self._mark(self._known)

    def wrote(self, key: str, status: AutoscalerStatus) -> None:
        """The status stands in the cluster, whether or not the watch has shown it yet."""
        known = self._known[key]
        known.claim = structs.replace(known.claim, status=status)

    def set_claim(self, key: str, claim: Claim | None) -> None:
        """A claim of ours appeared, changed or is gone. Its history stays for the workload's next one."""
        known = self._known.get(key)
        is_same = known is not None and claim is not None and claim.target == known.claim.target
        if known is not None and known.claim.target is not None and not is_same:
            # What runs in its pods is followed no longer; a claim that only changed must not come here.
            holders = self._by_workload.get(known.claim.target, set())
            holders.discard(key)
            self._mark(holders)
            if not holders:
                self._by_workload.pop(known.claim.target, None)
                self.estimating.unclaim(known.claim.target)
                self.members.unclaim(known.claim.target)
        if known is not None and (claim is None or not is_same or known.claim.uid != claim.uid):
            self._count_caps(known.containers, ())
        if claim is None:
            self._known.pop(key, None)
            self.settled(key)
        elif known is None or known.claim.uid != claim.uid or known.claim.target != claim.target:
            is_turned = known is not None and known.claim.uid == claim.uid
            self._known[key] = Known(claim, keeps_status=not is_turned)
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

    def set_foreign(self, key: str, claim: Claim | None) -> None:
        """A claim of another recommender appeared, changed or is gone. It is a rival where it acts."""
        before, now = self._foreign.pop(key, None), claim.target if claim is not None and claim.acts else None
        if before is not None:
            self._rivals_of[before].discard(key)
            self._mark(self._by_workload.get(before, ()))
        if now is not None:
            self._foreign[key] = now
            self._rivals_of.setdefault(now, set()).add(key)
            self._mark(self._by_workload.get(now, ()))

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
            for container, found in saved.items():
                self.take_up(ContainerKey(target, container), found)
        known.is_loaded = True
        known.keeps_status = known.keeps_status and keeps_status
        known.unusable = unusable
        before = known.claim.status.recommendation
        for one in (before.container_recommendations if before and known.keeps_status else None) or ():
            history = saved.get(one.container_name)
            if history is None or history.is_anew:
                known.kept[one.container_name] = one
        self._dirty.add(key)
        if target is not None:
            self.members.claim(target)

    def take_up(self, key: ContainerKey, saved: ContainerHistory) -> None:
        """Know a saved history, besides what is known of the container already."""
        row = self.history.row(key)
        if row is not None and self.history.last_heard_at(row) is not None:
            saved = joined(saved, self.history.export(row), self._settings.half_life_seconds)
        self.history.restore(key, saved)
        if saved.runs is not None:
            self.estimating.restore(key, saved.runs)

    def is_kept(self, key: str, container: str) -> bool:
        """Whether a claim's status recommends what it did before a history was lost."""
        known = self._known.get(key)
        return known is not None and container in known.kept

    def export(self, rows: Iterable[int]) -> dict[int, ContainerHistory]:
        """Histories of containers as they are to be saved."""
        found = self.history.export_many(rows)
        return {row: structs.replace(one, runs=self.estimating.record(row)) for row, one in found.items()}

    def past_wanted(self, target: Workload, now: float) -> HistoryRequest | None:
        """Which of a workload's times before now are not known; None as long as its containers are not either."""
        settings = self._settings
        shown = self.members.containers(target)
        if not shown:
            return None
        is_replayed = settings.estimator == "Auto" and bool(self.members.policies(target.namespace))
        unknown: dict[str, Unknown] = {}
        is_waited_for = False
        for name in shown:
            row = self.history.row(ContainerKey(target, name))
            first, last = (math.nan, math.nan) if row is None else self.history.heard_between(row)
            is_short = not last - first >= settings.confidence_interval_seconds or now - last > _STALE_SECONDS
            is_waited_for |= is_short
            if is_short or is_replayed:
                unknown[name] = Unknown(now) if math.isnan(last) else Unknown(now, first, last)
        pods = {pod.name: pod.uid for pod in self.members.pods(target) if not pod.is_terminal}
        asked = {name: one.requests for name, one in shown.items() if one}
        return HistoryRequest(target, unknown, pods, asked, is_waited_for, is_replayed)

    def fill(self, found: Mapping[ContainerKey, ContainerHistory]) -> None:
        """Know what was found of times that nothing was known of."""
        rows = {key: self.history.ensure_row(key) for key in found}
        ours, half_life = self.history.export_many(rows.values()), self._settings.half_life_seconds
        self.history.restore_many({key: filled(ours[rows[key]], one, half_life) for key, one in found.items()})
        for key in found:
            self.mark(self.claims_of(key.workload))

    def mark(self, keys: Iterable[str]) -> None:
        """Look at these claims again."""
        self._mark(keys)

    # Learning.

    def learn(self, samples: list[UsageSample], now: float) -> None:
        """Count what was used."""
        self.learning.learn(samples, self.judgement.around.largest_node, now)

    def learn_kill(self, kill: OomKill) -> bool:
        """Take an OOM kill as evidence; False where it says nothing new or is nobody's."""
        keys = self._by_workload.get(kill.workload)
        if not keys or not any(self._known[key].is_loaded for key in keys):
            return False
        policy = self._known[min(keys)].claim.policy(kill.container)
        is_new = self.learning.learn_kill(kill, policy)
        if is_new:
            self._mark(keys)
        return is_new

    # Deciding.

    def decide(self, now: float) -> set[str]:
        """The claims whose status should be looked at; they stay on the list until `settled`."""
        for workload in self.members.changed:
            self._mark(self._by_workload.get(workload, ()))
        self.members.changed.clear()
        for holder in self._dirty:
            known = self._known.get(holder)
            if known is not None and known.claim.target is not None:
                holders = self._by_workload.get(known.claim.target, ())
                claims = [self._known[key].claim for key in holders]
                in_place = all(one.in_place for one in [one for one in claims if one.acts] or claims)
                self.estimating.restate(known.claim.target, in_place=in_place)
                is_sized = self.estimating.stated(known.claim.target).by_node_class
                for name in self.history.containers(known.claim.target):
                    self.learning.know(ContainerKey(known.claim.target, name), is_sized=is_sized)
        for row in self.learning.node_classes.turned(now):
            if (key := self.history.key(row)) is not None:
                self._mark(self._by_workload.get(key.workload, ()))
        self.judgement.estimates = found = self.estimating.estimates(now)
        moved = self._published.moved(found, self.members.instances.requests())
        is_confident = found.confidence >= self._settings.enough_confidence
        lost = self.judgement.lost_now(now)
        size = self.history.size
        moved |= is_confident != np.pad(self._was_confident, (0, size - len(self._was_confident)))
        moved |= lost != np.pad(self.judgement.lost, (0, size - len(self.judgement.lost)))
        moved[self.estimating.turned] = True
        self._was_confident, self.judgement.lost = is_confident, lost
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
            if heard_at is not None and now - heard_at <= self._settings.history_seconds:
                continue
            is_claimed = key.workload in self._by_workload
            if is_claimed and self._is_in_a_pod(key):
                continue
            self.learning.forget(row)
            self.history.forget(key)
            self._published.forget(row)
            self.estimating.let_go(row)
            self._mark(self._by_workload.get(key.workload, ()))
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
        before = known.containers
        status = self.judgement.status(known, self._rivals(key, known.claim), now)
        self._count_caps(before, known.containers)
        return status

    def news(self, key: str, status: AutoscalerStatus) -> list[News]:
        """What a person should be told of a status that is to be written."""
        known = self._known[key]
        return self.judgement.news(known, status, self._rivals(key, known.claim))

    def explain(self, workload: Workload, now: float) -> dict[str, Any]:
        """What is known and recommended for a workload, and by which way it came about."""
        keys, clocks = self.claims_of(workload), self.learning.clocks
        claims = [self._known[key] for key in keys]
        return {
            "workload": str(workload),
            "autoscalers": keys,
            "containers": self.judgement.explain(workload, claims, self.learning.dropping, now),
            "problems": [problem for known in claims for problem in known.claim.problems],
            "clocks": {
                node: round(clocks[node])
                for node in sorted({pod.node_name for pod in self.members.pods(workload)})
                if node in clocks
            },
            "metrics": self.judgement.source_problem or "arriving",
            "past_usage": self.judgement.fetching_problem or "; ".join(self.judgement.past_lacks),
        }

    def _count_caps(self, before: Iterable[Capped], now: Iterable[Capped]) -> None:
        for containers, change in ((before, -1), (now, 1)):
            for one in containers:
                for resource, reason in {(why.resource, why.reason) for why in one.caps}:
                    self.caps[resource, reason] = self.caps.get((resource, reason), 0) + change

    def _rivals(self, key: str, claim: Claim) -> tuple[str, ...]:
        """Who else acts on what a claim acts on, whosever it is: then none does."""
        if claim.target is None or not claim.acts:
            return ()
        ours = [one for one in self.claims_of(claim.target) if one != key and self._known[one].claim.acts]
        return tuple(sorted({*ours, *self._rivals_of.get(claim.target, ())}))

    def _is_in_a_pod(self, key: ContainerKey) -> bool:
        """Whether a pod has the container; on a node of the class, where it is that on a class."""
        container, of = parted(key.container)
        return any(
            pod.container(container) is not None and (not of or self.learning.node_classes.key_of(pod.node_name) == of)
            for pod in self.members.pods(key.workload)
        )

    def _mark(self, keys: Iterable[str]) -> None:
        self._dirty.update(keys)
