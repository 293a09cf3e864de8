"""What containers ask for against what they should ask for, without anything that watches them.

Owns the way from histories and present sizes to advice with its reason. Asks nothing; patches and tables are made of it
elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from msgspec import structs

from elastipod.pods import Container, ContainerKey, Pod, Workload
from elastipod.quantities import NOTHING, Resources
from elastipod.reasons import Reason
from recommender.capping import Surroundings, cap
from recommender.estimators.histogram import Estimates, estimate
from recommender.history import ContainerHistory, History
from recommender.oom import after_kill
from recommender.podcapping import cap_shapes, shapes_of
from recommender.policies import SizePolicy
from recommender.ranges import Capped, Range, Resource, range_of
from recommender.settings import RecommenderSettings

_DRIFT: Final = 0.1


@dataclass(slots=True)
class Sized:
    """A container of a workload as it is now: the largest of what its living pods ask for."""

    pods: int = 0
    requests: Resources = NOTHING
    limits: Resources = NOTHING
    is_sidecar: bool | None = None
    """Whether it is a native sidecar; None where nobody tells."""
    is_killed: bool = False
    """Whether one of them was killed for memory."""
    odd: set[Resource] = field(default_factory=set)
    """What one of them asks for of these is told as no amount, as NaN."""

    @property
    def is_told(self) -> bool:
        """Whether anything tells what it asks for, be it nothing."""
        return self.is_sidecar is not None or not self.requests.is_empty

    def tells(self, resource: Resource) -> bool:
        """Whether anything tells how much of it it asks for, be it nothing."""
        return self.is_told and resource not in self.odd


@dataclass(slots=True)
class Surveyed:
    """What was found of a cluster."""

    containers: dict[ContainerKey, Sized] = field(default_factory=dict)
    histories: dict[ContainerKey, ContainerHistory] = field(default_factory=dict)
    pods: list[tuple[Pod, Workload]] = field(default_factory=list)
    """Those that are not over, each with its own sizes."""
    largest_node: Resources = NOTHING
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Advice:
    """What a container has and what it should have."""

    key: ContainerKey
    has: Sized
    wants: Capped
    confidence: float
    """Days of history, one sample a minute."""
    is_confident: bool
    reason: Reason
    message: str


def advise(surveyed: Surveyed, settings: RecommenderSettings, now: float) -> list[Advice]:
    """Advice for each container, sorted by workload."""
    history = History(settings)
    for key, found in surveyed.histories.items():
        history.restore(key, _with_kill(found, surveyed.containers.get(key, Sized()), settings, now))
    estimates = estimate(history, settings)
    around = Surroundings(
        floor=Resources(settings.floor_cpu_millicores, settings.floor_memory_bytes),
        most=Resources(settings.max_allowed_cpu_millicores or None, settings.max_allowed_memory_bytes or None),
        largest_node=surveyed.largest_node,
    )
    pods: dict[Workload, list[Pod]] = {}
    for pod, workload in surveyed.pods:
        pods.setdefault(workload, []).append(pod)
    capped: dict[ContainerKey, Capped] = {}
    for workload, keys in groupby(sorted(surveyed.containers), key=lambda key: key.workload):
        shown = [_shown(key, surveyed.containers[key]) for key in keys]
        wanted = [
            cap(_raw(history.row(ContainerKey(workload, one.name)), one.name, estimates), SizePolicy(), one, around)
            for one in shown
        ]
        shapes = shapes_of(pods.get(workload, ()), {one.name: one for one in shown})
        capped |= {ContainerKey(workload, one.container): one for one in cap_shapes(wanted, shapes, around)}
    found_advice: list[Advice] = []
    for key, wants in capped.items():
        row, has = history.row(key), surveyed.containers[key]
        confidence = 0.0 if row is None else float(estimates.confidence[row])
        is_confident = confidence >= settings.enough_confidence
        reason, message = _why(has, wants, is_confident=is_confident)
        found_advice.append(Advice(key, has, wants, confidence, is_confident, reason, message))
    return found_advice


def _shown(key: ContainerKey, has: Sized) -> Container:
    return Container(key.container, requests=has.requests, limits=has.limits)


def _raw(row: int | None, container: str, estimates: Estimates) -> Capped:
    """What usage asks for, before anything caps it."""
    if row is None:
        return Capped(container, None, None)
    cpu, memory = estimates.cpu.values[row].tolist(), estimates.memory.values[row].tolist()
    return Capped(container, range_of(cpu, 1000.0), range_of(memory, 1.0))


def _with_kill(found: ContainerHistory, has: Sized, settings: RecommenderSettings, now: float) -> ContainerHistory:
    """A kill proves a need above the limit, which usage can not show."""
    if not has.is_killed:
        return found
    proven = float(has.limits.memory_bytes or has.requests.memory_bytes or 0)
    evidence = after_kill(found.oom, "seen", now, proven, settings.oom_bump_ratio, settings.oom_min_bump_bytes)
    return structs.replace(found, oom=evidence) if proven else found


def _why(has: Sized, wants: Capped, *, is_confident: bool) -> tuple[Reason, str]:
    """The reason that weighs most, and a sentence with the amounts it rests on."""
    told: dict[Reason, list[str]] = {}
    for resource in Resource:
        span = wants.of(resource)
        if span is not None and resource in has.odd:
            told.setdefault(Reason.REQUESTS_UNKNOWN, []).append(f"{resource}: {Reason.REQUESTS_UNKNOWN.explanation}")
        elif span is not None:
            reason, message = _judged(resource, resource.of(has.requests), span)
            told.setdefault(reason, []).append(message)
    capped = [f"{one.resource}: {one.reason.explanation}" for one in wants.caps]
    if not told:
        return Reason.NO_RECOMMENDATION, "; ".join(capped) or "no usage of it is known"
    if not has.pods:
        return Reason.NOT_RUNNING, "; ".join(["no pod of it lives, so what it asks for is not known", *capped])
    if not is_confident:
        return Reason.LOW_CONFIDENCE, "; ".join([Reason.LOW_CONFIDENCE.explanation, *capped])
    if not has.is_told:
        return Reason.REQUESTS_UNKNOWN, "; ".join([Reason.REQUESTS_UNKNOWN.explanation, *capped])
    for reason in (Reason.OUTSIDE_BOUNDS, Reason.DRIFTED, Reason.REQUESTS_UNKNOWN, Reason.WITHIN_BOUNDS):
        if reason in told:
            killed = has.is_killed and reason in (Reason.OUTSIDE_BOUNDS, Reason.DRIFTED)
            return Reason.OOM_KILLED if killed else reason, "; ".join([*told[reason], *capped])
    raise AssertionError(told)


def _judged(resource: Resource, request: int | None, span: Range) -> tuple[Reason, str]:
    if request is None:
        return Reason.OUTSIDE_BOUNDS, f"{resource}: no request"
    if request < span.lower:
        return Reason.OUTSIDE_BOUNDS, f"{resource}: the request is below the lower bound"
    if span.upper is not None and request > span.upper:
        return Reason.OUTSIDE_BOUNDS, f"{resource}: the request is above the upper bound"
    if abs(request - span.target) > _DRIFT * span.target:
        return Reason.DRIFTED, f"{resource}: the request is more than a tenth off its target"
    return Reason.WITHIN_BOUNDS, f"{resource}: the request is near its target"


def totals(advice: list[Advice]) -> Mapping[str, Resources]:
    """What all pods ask for, and what they should; a container without advice counts as it is.

    One of which nobody tells what it asks for is in neither.
    """
    has, wants = Resources(0, 0), Resources(0, 0)
    for one in advice:
        asked = one.has.requests
        cpu = one.wants.cpu.target if one.wants.cpu and one.has.tells(Resource.CPU) else asked.cpu
        memory = one.wants.memory.target if one.wants.memory and one.has.tells(Resource.MEMORY) else asked.memory
        has = Resources(has.cpu + asked.cpu * one.has.pods, has.memory + asked.memory * one.has.pods)
        wants = Resources(wants.cpu + cpu * one.has.pods, wants.memory + memory * one.has.pods)
    return {"requested": has, "recommended": wants}
