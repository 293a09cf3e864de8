"""What a pod should have that it does not have: the wish, its reason and its urgency.

Owns how what is stated, what is advised and the end of a boost become one wish. What a container wants is weighing.py's
matter, how a wish is reached safely plan.py's.
"""

from typing import Final

import msgspec
from msgspec import Struct

from elastipod.api import BOOST_ANNOTATION, UpdateMode
from elastipod.pods import ContainerKind, Pod, QosClass
from elastipod.reasons import Reason
from updater.boosted import boosted
from updater.facts import Facts, Rules, Urgency
from updater.shape import advised_size, modes_of, stated_size
from updater.sizes import Advice, Size, size_of
from updater.weighing import advice_now, want_of


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
    if BOOST_ANNOTATION in pod.annotations:
        advised = _unboosted(pod, facts, advised, now)
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


def _unboosted(pod: Pod, facts: Facts, advised: Wish, now: float) -> Wish:
    """The wish, and the CPU that was for the start taken off where the start is over and no advice decides."""
    goal, ends = dict(advised.goal), []
    for name, one in boosted(pod).items():
        container = pod.container(name)
        if container is None or name in facts.stated or not one.is_on(container):
            continue
        if now < one.ends_at(pod):
            ends.append(one.ends_at(pod))
        elif not _decides_cpu(facts.advice, name):
            goal[name] = one.taken_off(goal.get(name) or size_of(container))
    if goal == advised.goal:
        ends += [advised.look_again_at] if advised.look_again_at is not None else []
        return msgspec.structs.replace(advised, look_again_at=min(ends, default=None))
    if advised.goal:
        return msgspec.structs.replace(advised, goal=goal)
    return Wish(goal, Reason.BOOST_ENDED, Urgency.SAVING, 1.0)


def _decides_cpu(advice: Advice | None, name: str) -> bool:
    found = advice.containers.get(name) if advice is not None and advice.mode.may_resize else None
    return found is not None and found.target.cpu_millicores is not None


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
    wants = []
    for container in pod.containers:
        found = advice.containers.get(container.name)
        if found is None or container.name in facts.stated or container.kind is ContainerKind.INIT:
            continue
        found = advice_now(pod, container, found, facts, now, notes)
        want = want_of(container, found, facts, modes, rules, notes)
        if want is not None:
            wants.append(want)
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
