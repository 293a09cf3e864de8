"""What a VerticalPodAutoscaler's status should say, of what was learned.

Owns the way from estimates to a status: caps, conditions, and what stays while a lost history is learned anew. Which
claims there are and which are to be looked at is recommending.py's matter. Reads and writes nothing.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from elastipod.api import AutoscalerStatus, ContainerRecommendation, Recommendation, resources
from elastipod.clock import to_rfc3339
from elastipod.eligible import GROUP_KIND
from elastipod.limits import LimitRange, Quota
from elastipod.nodeclass import on_class, parted
from elastipod.optout import OptOut, common, opted_out
from elastipod.pods import Container, ContainerKey, Pod, Workload
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from recommender.banks import Speaker
from recommender.capping import Hold, Surroundings, cap
from recommender.claims import WATCHED_KINDS, Claim
from recommender.classrows import ClassRows
from recommender.conditions import Facts, conditions
from recommender.dropping import Dropping
from recommender.estimating import Estimating
from recommender.estimators.histogram import Estimates
from recommender.explaining import explain_answers, explain_container
from recommender.groups import holds_for_scaling
from recommender.histogram import Ints
from recommender.history import History
from recommender.membership import Membership
from recommender.news import News, news
from recommender.nodeclasses import NodeClasses
from recommender.podcapping import cap_shapes, shapes_of
from recommender.ranges import Cap, Capped, Range, Resource, range_of
from recommender.settings import RecommenderSettings
from recommender.status import recommendation

_MOST_CONTAINERS: Final = 2000
"""As many fit into one object with room to spare (etcd takes 1.5 MiB)."""
_ONLY_TOLD: Final = frozenset({Reason.SIZED_AT_START, Reason.DIFFERS_BY_NODE_CLASS})


@dataclass(slots=True)
class Known:
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
        """Without the amounts of those that cut nothing: they move with the target."""
        found = (one.caps for one in self.containers if one.caps)
        return tuple(
            tuple(replace(one, amount=0) if one.reason in _ONLY_TOLD else one for one in caps) for caps in found
        )


class Judgement:
    """From what is known of a claim to its status. Whoever learns keeps its attributes as they are now."""

    def __init__(
        self,
        settings: RecommenderSettings,
        history: History,
        members: Membership,
        estimating: Estimating,
        node_classes: NodeClasses,
        class_rows: ClassRows,
    ) -> None:
        self.around = Surroundings(
            floor=Resources(settings.floor_cpu_millicores, settings.floor_memory_bytes),
            most=Resources(settings.max_allowed_cpu_millicores or None, settings.max_allowed_memory_bytes or None),
        )
        self.limit_ranges: dict[str, tuple[LimitRange, ...]] = {}
        self.quotas: dict[str, tuple[Quota, ...]] = {}
        self.holds: dict[Workload, tuple[Hold, ...]] = {}
        self.estimates: Estimates | None = None
        self.lost = np.zeros(0, dtype=np.int64)
        """Rows with running pods and no usable sample for too long: 1 of CPU, 2 of memory, 3 of either."""
        self.source_problem = ""
        """Why no usage arrives, where none does."""
        self.fetching: set[Workload] = set()
        """Workloads whose past usage is being fetched."""
        self.fetching_problem = ""
        """Why it does not come, and since when."""
        self.past_lacks: tuple[str, ...] = ()
        """What the source of past usage does not have."""
        self._settings = settings
        self._history = history
        self._members = members
        self._estimating = estimating
        self._node_classes = node_classes
        self._class_rows = class_rows

    def status(self, known: Known, rivals: tuple[str, ...], now: float) -> AutoscalerStatus:
        """What the status of a claim should say; rivals are the other claims on its target."""
        claim, target = known.claim, known.claim.target
        known.containers = self._containers(known, target) if target is not None else ()
        found = recommendation(known.containers)
        if known.keeps_status and not (known.is_loaded and (found or self._has_pods(target))):
            found = self._kept_status(claim)
        facts = self._facts(known, target, rivals, found is not None)
        return AutoscalerStatus(
            recommendation=found,
            conditions=list(conditions(facts, tuple(claim.status.conditions or ()), claim.generation, now)),
            observed_generation=claim.generation or None,
        )

    def news(self, known: Known, status: AutoscalerStatus, rivals: tuple[str, ...]) -> list[News]:
        """What a status just found says that the one in the cluster does not say."""
        before = known.claim.status.conditions or ()
        facts = self._facts(known, known.claim.target, rivals, status.recommendation is not None)
        return news(facts, before, status.conditions or ())

    def explain(self, target: Workload, claims: list[Known], dropping: Dropping, now: float) -> list[dict[str, Any]]:
        """What is known and recommended for a workload's containers, and by which way it came about."""
        estimates = self.estimates
        found = []
        sized = self._class_rows.sized(target) if self._estimating.stated(target).by_node_class else {}
        on_classes = [on_class(name, of) for of, names in sorted(sized.items()) for name in sorted(names)]
        for name in (*self._members.containers(target), *on_classes):
            row = self._history.row(ContainerKey(target, name))
            if row is not None and estimates is not None and row < len(estimates.confidence):
                capped = [one for known in claims for one in known.containers if one.container == name]
                facts = explain_container(name, row, self._history, estimates, capped, now)
                facts["dropped_samples"] = dropping.of(row)
                facts["used_by_node_class"] = self._node_classes.told(row)
                found.append({**facts, **explain_answers(self._estimating, target, row)})
        return found

    def lost_now(self, now: float) -> Ints:
        """What `lost` is now."""
        size = self._history.size
        live_since = self._members.instances.live_since()[:, np.newaxis]
        with np.errstate(invalid="ignore"):
            is_lost = now - np.fmax(self._history.heard_at[:size], live_since) > self._settings.metrics_lost_seconds
        found: Ints = (is_lost & ~np.isnan(live_since)) @ np.array([1, 2])
        return found

    def _kept_status(self, claim: Claim) -> Recommendation | None:
        """What stands in a status and still may; what was left out since is taken away also where nothing runs."""
        before = claim.status.recommendation
        if before is None or claim.target is None:
            return before
        out = self._opted_out(claim.target)
        kept = [
            one
            for one in before.container_recommendations or ()
            for container in (parted(one.container_name)[0],)
            if not claim.policy(container).is_off and not out.of(container)
        ]
        return Recommendation(container_recommendations=kept) if kept else None

    def _containers(self, known: Known, target: Workload) -> tuple[Capped, ...]:
        if not known.is_loaded:
            return ()
        around = replace(
            self.around,
            limit_ranges=self.limit_ranges.get(target.namespace, ()),
            quotas=self.quotas.get(target.namespace, ()),
            holds=(*self._holds(target), *_holds_of(self._opted_out(target))),
            limit_modes=self._estimating.stated(target).limits,
            in_place=known.claim.in_place,
            short_runs=self._short_runs(target),
        )
        living = [pod for pod in self._members.pods(target) if not pod.is_terminal]
        shown = self._members.containers(target)
        found = []
        for name, container in sorted(shown.items())[:_MOST_CONTAINERS]:
            wanted = self._held_to_limit(target, self._wanted(known, target, name), container)
            wanted = wanted.in_whole_cores() if name in known.claim.whole_cores else wanted
            capped = cap(wanted, known.claim.policy(name), container, around)
            found.append(self._told_of_node_classes(target, capped))
        together = cap_shapes(found, shapes_of(living, shown), around, living)
        on_classes = self._on_classes(known, target, shown, around, living)
        return together + on_classes[: max(_MOST_CONTAINERS - 1 - len(found), 0)]

    def _on_classes(
        self,
        known: Known,
        target: Workload,
        shown: dict[str, Container | None],
        around: Surroundings,
        living: list[Pod],
    ) -> tuple[Capped, ...]:
        """The same for pods on nodes of each class, where a policy asks for it: a class's pod fits its own nodes."""
        if not self._estimating.stated(target).by_node_class:
            return ()
        rows, found = self._class_rows, list[Capped]()
        sized = rows.sized(target)
        for kept, of in map(parted, known.kept):
            if of in rows.largest:
                sized.setdefault(of, set()).add(kept)
        for of, names in sorted(sized.items()):
            there = replace(around, largest_node=rows.largest.get(of, around.largest_node))
            pods = [pod for pod in living if self._node_classes.key_of(pod.node_name) == of]
            # As a pod there has them, for its limits may be others.
            own = shown | {one.name: one for pod in reversed(pods) for one in pod.sized_containers if one.name in shown}
            capped = []
            for name, container in sorted(own.items()):
                wanted = self._wanted(known, target, on_class(name, of) if name in names else name)
                wanted = replace(self._held_to_limit(target, wanted, container), container=name)
                wanted = wanted.in_whole_cores() if name in known.claim.whole_cores else wanted
                capped.append(cap(wanted, known.claim.policy(name), container, there))
            together = cap_shapes(capped, shapes_of(living, own), there, living)
            found += [replace(one, container=on_class(one.container, of)) for one in together if one.container in names]
        return tuple(found)

    def _wanted(self, known: Known, target: Workload, name: str) -> Capped:
        """A container's estimate; what stood there before while a lost history is being learned anew."""
        row = self._history.row(ContainerKey(target, name))
        estimates = self.estimates
        if row is None or estimates is None or row >= len(estimates.confidence):
            return _kept(known.kept.get(name), Capped(name, None, None), 0.0)
        interval = known.claim.policy(parted(name)[0]).memory_interval_seconds
        self._history.memory_interval[row] = interval or self._settings.memory_interval_seconds
        cpu, memory = estimates.cpu.values[row].tolist(), estimates.memory.values[row].tolist()
        fresh = Capped(name, range_of(cpu, 1000.0), range_of(memory, 1.0))
        if estimates.confidence[row] >= self._settings.enough_confidence:
            known.kept.pop(name, None)
            known.unusable.pop(name, None)
            return fresh
        before = known.kept.get(name)
        return fresh if before is None else _kept(before, fresh, float(self._history.oom_floor[row]))

    def _held_to_limit(self, target: Workload, wanted: Capped, shown: Container | None) -> Capped:
        """No more memory for what takes all that it is given, unless a kill asks for it."""
        row = self._history.row(ContainerKey(target, wanted.container))
        span, asked = wanted.memory, None if shown is None else shown.requests.memory_bytes
        if row is None or span is None or asked is None or not self._history.followers.follows(row):
            return wanted
        most = max(asked, math.ceil(self._history.oom_floor[row]))
        if span.target <= most:
            return wanted
        return wanted.changed(span.between(0, most), Cap(Resource.MEMORY, Reason.FOLLOWS_LIMIT, most, "its limit"))

    def _told_of_node_classes(self, target: Workload, found: Capped) -> Capped:
        """What is recommended, and that one size for nodes of all sizes does not suit."""
        row = self._history.row(ContainerKey(target, found.container))
        if self._estimating.stated(target).by_node_class:
            return found
        for resource in Resource:
            span = found.of(resource)
            by = "" if row is None else self._node_classes.differs(row, resource)
            if span is not None and by:
                # First, so that what did change the number is still the last that is told.
                told = Cap(resource, Reason.DIFFERS_BY_NODE_CLASS, span.target, by)
                found = replace(found, caps=(told, *found.caps))
        return found

    def _facts(self, known: Known, target: Workload | None, rivals: tuple[str, ...], is_provided: bool) -> Facts:
        claim = known.claim
        has_pods = self._has_pods(target)
        problems, notes = list(claim.problems), list[str]()
        is_found = True
        if target is not None:
            is_found = self._members.exists(target) or has_pods or target.kind not in (*WATCHED_KINDS, GROUP_KIND)
            if target.kind not in (*WATCHED_KINDS, GROUP_KIND) and not has_pods:
                problems.append(f"spec.targetRef: no pod's highest known owner is a {target.kind} of that name")
            if len(known.containers) >= _MOST_CONTAINERS:
                problems.append(f"only the first {_MOST_CONTAINERS} containers fit into the status")
            owner = self._members.owner_of(target)
            if owner is not None and has_pods:
                notes.append(f"{target.kind} {target.name} is sized by itself: {owner.kind} is no kind known here")
            elif owner is not None:
                problems.append(
                    f"spec.targetRef: {target.kind} {target.name} is controlled by {owner.kind} {owner.name}; name that"
                )
        rows = [] if target is None else self._rows(target)
        names = [] if target is None else self._members.containers(target)
        confidence = min((float(self.estimates.confidence[row]) for row in rows), default=0.0) if self.estimates else 0
        return Facts(
            is_provided=is_provided,
            has_pods=has_pods,
            opted_out="" if target is None else self._opted_out(target).by,
            is_off=bool(names) and all(claim.policy(name).is_off for name in names),
            is_target_found=is_found,
            is_confident=confidence >= self._settings.enough_confidence,
            is_history_loaded=known.is_loaded,
            fetching=self._fetching(target),
            unusable_history="; ".join(
                # One of a container that is not there is nobody's, or another autoscaler's by its name.
                f"{name}: {why}"
                for name, why in sorted(known.unusable.items())
                if not names or parted(name)[0] in names
            ),
            metrics_lost=self._lost_since(rows),
            problems=tuple(problems),
            rivals=rivals,
            notes=tuple(notes),
            speakers=tuple(self._speakers(target, names)),
            short_runs="" if target is None else self._short_runs(target),
            caps=tuple((one.container, why) for one in known.containers for why in one.caps),
        )

    def _speakers(self, target: Workload | None, names: Iterable[str]) -> Iterator[tuple[str, Resource, Speaker]]:
        """Who speaks, where that may be another than the histogram."""
        if target is not None and self._estimating.stated(target).only_histogram is None:
            for name in names:
                row = self._history.row(ContainerKey(target, name))
                for resource in Resource:
                    speaker = None if row is None else self._estimating.speaker(row, resource)
                    if speaker is not None:
                        yield name, resource, speaker

    def _opted_out(self, target: Workload) -> OptOut:
        """What of a workload is not to be sized."""
        said = common(pod.annotations for pod in self._members.pods(target) if not pod.is_terminal)
        owned = ((f"{one.kind} {one.name}", one.annotations) for one in self._members.controllers(target))
        return opted_out((("its pods", said), *owned))

    def _holds(self, target: Workload) -> tuple[Hold, ...]:
        """What something else acts on, whichever of its owners that was told to scale."""
        if not self.holds:
            return ()
        found = tuple(hold for owner in self._members.owners(target) for hold in self.holds.get(owner, ()))
        policies = self._members.policies(target.namespace)
        if not found or not policies:
            return found
        pods = self._members.pods(target)
        labels = pods[0].labels if pods else {}
        return found if holds_for_scaling(target, labels, policies) else ()

    def _short_runs(self, target: Workload) -> str:
        longest = self._members.longest_run_seconds(target)
        is_short = longest is not None and longest < self._settings.shortest_seen_seconds
        return f"runs of {longest:.0f} s at most" if is_short else ""

    def _rows(self, target: Workload) -> list[int]:
        size = 0 if self.estimates is None else len(self.estimates.confidence)
        found = (self._history.row(ContainerKey(target, name)) for name in self._members.containers(target))
        return [row for row in found if row is not None and row < size]

    def _has_pods(self, target: Workload | None) -> bool:
        return target is not None and bool(self._members.pods(target))

    def _fetching(self, target: Workload | None) -> str:
        if target not in self.fetching:
            return ""
        problem = self.fetching_problem
        return f"past usage can not be read {problem}" if problem else "past usage is being read"

    def _lost_since(self, rows: list[int]) -> str:
        """What is not heard of any more and since when, each resource by itself."""
        codes = {row: int(self.lost[row]) for row in rows if row < len(self.lost) and self.lost[row]}
        if not codes:
            return ""
        common = 0
        for code in codes.values():
            common |= code
        heard = [
            self._history.heard_at[row, place] for row, code in codes.items() for place in (0, 1) if code >> place & 1
        ]
        known = [float(at) for at in heard if not math.isnan(at)]
        since = f"since {to_rfc3339(min(known))}" if known else "since the pods started"
        what = ("", "cpu", "memory", "usage")[common]
        return f"no {what} sample {since}" + (f": {self.source_problem}" if self.source_problem else "")


def _holds_of(out: OptOut) -> list[Hold]:
    """What is left alone since somebody says so."""
    whose: list[tuple[str | None, str]] = [(None, out.by)] if out.by else list(out.containers.items())
    return [Hold(resource, by, name, Reason.OPTED_OUT) for name, by in whose for resource in Resource]


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
