"""What one container should have that it does not, and how urgent that is.

Owns the triggers of advice: a request outside its bounds, one that drifted from its target, a limit that did, an OOM
kill; and what a container has been through that speaks against advice. What becomes of a pod is wishes.py's matter.
"""

import msgspec
from msgspec import Struct

from elastipod.api import BOOST_ANNOTATION
from elastipod.limitmodes import LimitMode, LimitModes
from elastipod.pods import Container, Pod
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from updater.boosted import boosted
from updater.facts import Facts, Rules, Urgency
from updater.shape import PROPORTIONAL, Bounds, advised_size
from updater.sizes import ContainerAdvice, Size

_Weight = tuple[Urgency, float]
"""How urgent it is that an amount moves, and how far off it is, as a fraction of itself."""
_Weights = tuple[_Weight | None, _Weight | None]
"""Of CPU and of memory; None where it may stay."""


class Want(Struct, frozen=True, gc=False):
    """The requests that a container should have; None where one may stay, and its limit with it."""

    container: Container
    advice: ContainerAdvice
    requests: Resources
    urgency: Urgency
    gain: float


def want_of(
    container: Container, advice: ContainerAdvice, facts: Facts, modes: LimitModes, rules: Rules, notes: list[Reason]
) -> Want | None:
    """What a container should have that it does not; None where it may stay as it is."""
    band = 0.0 if facts.on_the_way else rules.dead_band_fraction
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
    return Want(container, advice, wanted, min(one[0] for one in weights), max(one[1] for one in weights))


def advice_now(
    pod: Pod, container: Container, advice: ContainerAdvice, facts: Facts, now: float, notes: list[Reason]
) -> ContainerAdvice:
    """The advice with regard to what the container has been through: a kill after a shrink, a boost at its start."""
    if container.name in facts.relapsed:
        advice = _raised(advice, facts.relapsed[container.name])
    boost = boosted(pod).get(container.name) if BOOST_ANNOTATION in pod.annotations else None
    if boost is None or advice.target.cpu_millicores is None or not boost.is_on(container):
        return advice
    if now >= boost.ends_at(pod):
        # Not an amount that drifted: it goes at once.
        return msgspec.structs.replace(advice, upper=_with_cpu(advice.upper, advice.target.cpu_millicores))
    notes.append(Reason.BOOSTED)
    most = max(advice.target.cpu, container.requests.cpu)
    return msgspec.structs.replace(
        advice,
        target=_with_cpu(advice.target, most),
        lower=_with_cpu(advice.lower, None),
        upper=_with_cpu(advice.upper, None),
    )


def _with_cpu(amounts: Resources, cpu_millicores: int | None) -> Resources:
    return Resources(cpu_millicores, amounts.memory_bytes)


def _raised(advice: ContainerAdvice, had: Size) -> ContainerAdvice:
    """The advice with no less memory than a container had; what it does not say stays unsaid."""
    if advice.target.memory_bytes is None:
        return advice

    def at_least(amounts: Resources, memory: int) -> Resources:
        return Resources(amounts.cpu_millicores, max(amounts.memory, memory))

    upper = advice.upper
    return msgspec.structs.replace(
        advice,
        target=at_least(advice.target, had.requests.memory),
        lower=at_least(advice.lower, had.requests.memory),
        upper=upper if upper.memory_bytes is None else at_least(upper, max(had.requests.memory, had.limits.memory)),
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
