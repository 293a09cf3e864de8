"""A person's size for a pod: what would become of it, told before anything is written.

Owns the judgement behind `elastipod resize`, by the same decisions as the updater's own, so that the two agree.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from elastipod.fit import NodeRoom
from elastipod.limits import LimitRange, Quota
from elastipod.pods import Node, Pod, ResizeProgress
from elastipod.quantities import format_cpu, show_memory
from elastipod.reasons import Reason
from updater.facts import DEFAULT_RULES, Facts, Rules, Urgency
from updater.ledger import fits
from updater.patches import is_in_force
from updater.plan import decide_for, restarts
from updater.precheck import growth, obstacle, quota_need
from updater.shape import container_bounds, stated_size
from updater.sizes import Size, size_of
from updater.steps import Usage
from updater.wishes import Wish


class Outlook(StrEnum):
    """What becomes of a request."""

    DONE = "done"
    READY = "ready"
    """It can be asked now."""
    WAITING = "waiting"
    """It is asked and not in force, or has to wait for something that may come."""
    REFUSED = "refused"
    """It can not be: another size, or another pod, is needed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What would become of a person's request for one pod."""

    pod: Pod
    outlook: Outlook
    reason: Reason
    message: str
    goal: Mapping[str, Size]
    sizes: Mapping[str, Size]
    """What of the goal can be asked for now."""
    restarts: bool = False


_WAITS = frozenset({Reason.STALE_DATA, Reason.COOLING_DOWN, Reason.NOT_RUNNING, Reason.KEPT_ABOVE_USAGE})


def answer_for(
    pod: Pod,
    stated: Mapping[str, Size],
    node: Node | None,
    room: NodeRoom | None,
    limit_ranges: Iterable[LimitRange],
    quotas: Iterable[Quota],
    usage: Mapping[str, Usage],
    now: float,
    rules: Rules = DEFAULT_RULES,
) -> Answer:
    """What would become of these stated sizes for one pod. Nothing is changed."""
    goal = {
        one.name: size
        for one in pod.sized_containers
        if one.name in stated and (size := stated_size(one, stated[one.name])) != size_of(one)
    }
    if not goal:
        return _standing(pod, stated)
    ranges = tuple(limit_ranges)
    facts = Facts(stated=stated, limit_ranges=ranges, bounds=container_bounds(ranges), usage=usage)
    wish = Wish(goal, Reason.ASKED_BY_PERSON, Urgency.ASKED, 1.0)
    decision = decide_for(pod, wish, facts, now, rules)
    resize = decision.resize
    if resize is None and decision.reason is Reason.KEPT_QOS_CLASS:
        return _standing(pod, stated)
    if resize is None:
        outlook = Outlook.WAITING if decision.reason in _WAITS else Outlook.REFUSED
        return Answer(pod, outlook, decision.reason, decision.message, goal, {})
    against = obstacle(pod, resize.sizes, node, quota_need(pod, resize.sizes), quotas, {})
    if against is not None:
        outlook = Outlook.REFUSED if against[0] is Reason.INFEASIBLE else Outlook.WAITING
        return Answer(pod, outlook, against[0], against[1], resize.goal, {})
    if room is None or not fits(room, *growth(pod, resize.sizes)):
        return Answer(pod, Outlook.WAITING, Reason.NO_ROOM, _free(room), resize.goal, {})
    message = "" if resize.is_last_step else "memory goes down in steps"
    return Answer(
        pod,
        Outlook.READY,
        Reason.ASKED_BY_PERSON,
        message,
        resize.goal,
        resize.sizes,
        restarts(pod, resize.sizes),
    )


def _standing(pod: Pod, stated: Mapping[str, Size]) -> Answer:
    """How a pod stands whose spec says what was asked for."""
    sizes = {one.name: size_of(one) for one in pod.sized_containers if one.name in stated}
    match pod.resize_progress:
        case ResizeProgress.DEFERRED:
            outlook, reason = Outlook.WAITING, Reason.DEFERRED
        case ResizeProgress.INFEASIBLE:
            outlook, reason = Outlook.REFUSED, Reason.INFEASIBLE
        case ResizeProgress.ERROR:
            outlook, reason = Outlook.WAITING, Reason.RESIZE_ERROR
        case ResizeProgress.NONE if pod.observed_generation or is_in_force(pod, sizes):
            outlook, reason = Outlook.DONE, Reason.DONE
        case _:
            outlook, reason = Outlook.WAITING, Reason.IN_PROGRESS
    condition = pod.resize_pending or pod.resize_in_progress
    return Answer(pod, outlook, reason, condition.message if condition else "", sizes, {})


def _free(room: NodeRoom | None) -> str:
    if room is None:
        return "its node is not known"
    free = room.free
    return f"node {room.node} has cpu {format_cpu(free.cpu)} and memory {show_memory(max(free.memory, 0))} free"
