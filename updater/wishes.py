"""What a pod should have that it does not have: the wish, its reason and its urgency.

Owns the triggers: a stated size, an OOM kill, a request outside its bounds, one that drifted from its target. How a
wish is reached safely is plan.py's matter.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import msgspec
from msgspec import Struct

from elastipod.api import UpdateMode
from elastipod.limitmodes import LimitMode, LimitModes
from elastipod.limits import LimitRange
from elastipod.pods import Container, ContainerKind, Pod, QosClass
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from updater.shape import FREE, PROPORTIONAL, Bounds, advised_size, modes_of, stated_size
from updater.sizes import Advice, ContainerAdvice, Size, Sizes, size_of
from updater.steps import ShrinkRules, Usage


class Urgency(IntEnum):
    """What goes first; smaller is sooner."""

    KILLED = 0
    OWED = 1
    """A donor needs back what it gave."""
    ASKED = 2
    STARVED = 3
    STATED = 4
    SAVING = 5
    DRIFTED = 6
    """Within its bounds and off its target; subject to the cool-down."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that decide."""

    dead_band_fraction: float = 0.1
    cool_down_seconds: float = 3600.0
    step_seconds: float = 30.0
    shrink: ShrinkRules = field(default_factory=ShrinkRules)


class Facts(Struct, frozen=True, gc=False):
    """What the cluster says that concerns one pod, besides the pod."""

    advice: Advice | None = None
    conflict: str = ""
    """The autoscalers that claim the pod, where more than one does and so none holds."""
    foreign: str = ""
    """The recommender of an autoscaler that is not ours and claims the pod."""
    stated: Sizes = {}
    stated_problem: str = ""
    asked: bool = False
    """A person stated the size, with `elastipod resize`."""
    limit_ranges: tuple[LimitRange, ...] = ()
    bounds: Bounds = FREE
    """What the LimitRanges leave a container."""
    modes: LimitModes = PROPORTIONAL
    """How its limits are found."""
    resized_at: float | None = None
    on_the_way: bool = False
    """A resize of this pod has taken a step and has not reached its goal."""
    given: Mapping[str, Resources] = {}
    """Requests that the pod went down to for another's sake, by container; not raised before it needs them."""
    usage: Mapping[str, Usage] = {}
    relapsed: Sizes = {}
    """What containers had before a shrink that they were killed for; they get it back and keep it for a while."""


DEFAULT_RULES: Final = Rules()


_Weight = tuple[Urgency, float]
"""How urgent it is that an amount moves, and how far off it is, as a fraction of itself."""
_Weights = tuple[_Weight | None, _Weight | None]
"""Of CPU and of memory; None where it may stay."""


class _Want(Struct, frozen=True, gc=False):
    container: Container
    advice: ContainerAdvice
    requests: Resources
    urgency: Urgency
    gain: float


class Wish(Struct, frozen=True, gc=False):
    """The sizes wanted, of the containers that should change, and why."""

    goal: dict[str, Size]
    reason: Reason
    urgency: Urgency = Urgency.SAVING
    gain: float = 0.0
    look_again_at: float | None = None


def wish_of(pod: Pod, facts: Facts, now: float, rules: Rules, notes: list[Reason]) -> Wish:
    """What the pod should have: what is stated, and what is advised for all that nothing is stated for.

    An empty goal tells why nothing is wanted. What bounded the sizes is added to `notes`.
    """
    stated, advised = _stated(pod, facts), _advised(pod, facts, now, rules, notes)
    if not stated.goal:
        return advised
    goal = {**advised.goal, **stated.goal}
    leading = advised if advised.goal and advised.urgency < stated.urgency else stated
    return Wish(goal, leading.reason, leading.urgency, leading.gain)


def _stated(pod: Pod, facts: Facts) -> Wish:
    goal: dict[str, Size] = {}
    for container in pod.sized_containers if facts.stated else ():
        stated = facts.stated.get(container.name)
        if stated is not None:
            size = stated_size(container, stated)
            if size != size_of(container):
                goal[container.name] = size
    if facts.asked:
        return Wish(goal, Reason.ASKED_BY_PERSON, Urgency.ASKED, 1.0)
    return Wish(goal, Reason.STATED_ON_WORKLOAD, Urgency.STATED, 1.0)


def _left_alone(advice: Advice | None) -> Reason | None:
    if advice is None:
        return Reason.WITHIN_BOUNDS
    if not advice.mode.may_resize:
        # Recreate acts by evicting only, as upstream.
        return Reason.MODE_OFF if advice.mode is UpdateMode.OFF else Reason.MODE_INITIAL
    return None if advice.containers else Reason.NO_RECOMMENDATION


def _advised(pod: Pod, facts: Facts, now: float, rules: Rules, notes: list[Reason]) -> Wish:
    advice = facts.advice
    left_alone = _left_alone(advice)
    if advice is None or left_alone is not None:
        return Wish({}, left_alone or Reason.WITHIN_BOUNDS)
    modes = modes_of(pod, facts.modes)
    wants = [
        want
        for container in pod.containers
        if (found := advice.containers.get(container.name)) is not None
        and container.name not in facts.stated
        and container.kind is not ContainerKind.INIT
        and (want := _want(container, found, facts, modes, rules, notes)) is not None
    ]
    if not wants:
        return Wish({}, Reason.WITHIN_BOUNDS)
    urgency = min(want.urgency for want in wants)
    if urgency is Urgency.DRIFTED and not facts.on_the_way:
        since = max(pod.started_at or pod.created_at, facts.resized_at or 0.0)
        if now - since < rules.cool_down_seconds:
            return Wish({}, Reason.COOLING_DOWN, look_again_at=since + rules.cool_down_seconds)
    if modes != facts.modes:
        notes.append(Reason.KEPT_QOS_CLASS)
    goal: dict[str, Size] = {}
    for want in wants:
        if pod.qos_class is QosClass.GUARANTEED and not want.advice.moves_limits:
            notes.append(Reason.KEPT_QOS_CLASS)
            continue
        size = advised_size(want.container, want.advice, want.requests, facts.bounds, notes, modes)
        if size != size_of(want.container):
            goal[want.container.name] = size
    if not goal:
        return Wish({}, notes[-1] if notes else Reason.WITHIN_BOUNDS)
    return Wish(goal, _REASON[urgency], urgency, max(want.gain for want in wants))


_REASON: Final = {
    Urgency.KILLED: Reason.OOM_KILLED,
    Urgency.STARVED: Reason.OUTSIDE_BOUNDS,
    Urgency.SAVING: Reason.OUTSIDE_BOUNDS,
    Urgency.DRIFTED: Reason.DRIFTED,
}


def _want(
    container: Container, advice: ContainerAdvice, facts: Facts, modes: LimitModes, rules: Rules, notes: list[Reason]
) -> _Want | None:
    """What a container should have that it does not; None where it may stay as it is."""
    band = 0.0 if facts.on_the_way else rules.dead_band_fraction
    if container.name in facts.relapsed:
        advice = _raised(advice, facts.relapsed[container.name])
    now, target, lower, upper = container.requests, advice.target, advice.lower, advice.upper
    cpu = _weigh(now.cpu_millicores, target.cpu_millicores, lower.cpu_millicores, upper.cpu_millicores, band)
    memory = _weigh(now.memory_bytes, target.memory_bytes, lower.memory_bytes, upper.memory_bytes, band)
    if container.name in facts.given:
        notes.append(Reason.DONATED)
        cpu = None if target.cpu > now.cpu else cpu
        memory = None if target.memory > now.memory else memory
    if memory is not None and target.memory > now.memory and _was_killed(container):
        memory = Urgency.KILLED, memory[1]
    by_request = cpu, memory
    if modes is not PROPORTIONAL and container.name not in facts.given:
        cpu, memory = _with_limits(container, advice, by_request, facts.bounds, modes, band)
    if cpu is None and memory is None:
        if _is_at_cap(now, advice):
            notes.append(Reason.CAPPED_BY_MAX)
        return None
    weights = [one for one in (cpu, memory) if one is not None]
    asked = _asked(now, target, by_request)
    wanted = Resources(None if cpu is None else asked.cpu_millicores, None if memory is None else asked.memory_bytes)
    return _Want(container, advice, wanted, min(one[0] for one in weights), max(one[1] for one in weights))


def _raised(advice: ContainerAdvice, had: Size) -> ContainerAdvice:
    """The advice with no less memory than a container had."""
    if advice.target.memory_bytes is None:
        return advice

    def at_least(amounts: Resources, memory: int) -> Resources:
        return Resources(amounts.cpu_millicores, max(amounts.memory, memory))

    return msgspec.structs.replace(
        advice,
        target=at_least(advice.target, had.requests.memory),
        lower=at_least(advice.lower, had.requests.memory),
        upper=at_least(advice.upper, max(had.requests.memory, had.limits.memory)),
    )


def _with_limits(
    container: Container,
    advice: ContainerAdvice,
    weights: _Weights,
    bounds: Bounds,
    modes: LimitModes,
    band: float,
) -> _Weights:
    """The weights, with those of limits that have to move while what is requested may stay."""
    cpu, memory = weights
    asked = _asked(container.requests, advice.target, weights)
    now, wanted = container.limits, advised_size(container, advice, asked, bounds, [], modes).limits
    if cpu is None and advice.target.cpu_millicores is not None and modes.cpu is LimitMode.INDEPENDENT:
        cpu = _weigh(now.cpu_millicores, wanted.cpu_millicores, None, None, band)
    if memory is None and advice.target.memory_bytes is not None and modes.memory is LimitMode.INDEPENDENT:
        memory = _weigh(now.memory_bytes, wanted.memory_bytes, None, None, band)
        if memory is not None and wanted.memory > now.memory and _was_killed(container):
            memory = Urgency.KILLED, memory[1]
    return cpu, memory


def _asked(now: Resources, target: Resources, weights: _Weights) -> Resources:
    """What is requested once that which has a weight has moved."""
    cpu, memory = weights
    return Resources(
        now.cpu_millicores if cpu is None else target.cpu_millicores,
        now.memory_bytes if memory is None else target.memory_bytes,
    )


def _was_killed(container: Container) -> bool:
    ended = container.last_termination
    return ended is not None and ended.is_oom_kill


def _weigh(
    request: int | None, target: int | None, lower: int | None, upper: int | None, band: float
) -> _Weight | None:
    """How urgent it is that a request becomes its target, and how far off it is; None where it may stay."""
    if target is None or request == target:
        return None
    if not request:
        return Urgency.STARVED, 1.0
    off = abs(request - target) / request
    if lower is not None and request < lower:
        return Urgency.STARVED, off
    if upper is not None and request > upper:
        return Urgency.SAVING, off
    return (Urgency.DRIFTED, off) if off >= band else None


def _is_at_cap(requests: Resources, advice: ContainerAdvice) -> bool:
    most, target = advice.max_allowed, advice.target
    return (most.cpu_millicores is not None and requests.cpu == most.cpu == target.cpu) or (
        most.memory_bytes is not None and requests.memory == most.memory == target.memory
    )
