"""The size of a pod that is being created.

Owns which statements count at creation and what stands against a size. How a wanted request becomes request and limit
is shape.py's matter, the same for running pods.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from elastipod.api import UpdateMode
from elastipod.limits import Quota
from elastipod.pods import Pod, QosClass
from elastipod.quantities import NOTHING, Resources
from elastipod.reasons import Reason
from updater.boosted import Boosted, boosted
from updater.facts import Facts
from updater.plan import unclaimed
from updater.precheck import limit_range_problem, limits_with, quota_problem, requests_with
from updater.shape import Bound, Bounds, advised_size, kept_apart, modes_of, qos_class, stated_size, with_sizes
from updater.sizes import ContainerAdvice, Size, Sizes, size_of

_MOST_ROUNDS: Final = 4


class Sizing(Struct, frozen=True, gc=False):
    """The sizes of the containers that change, and why; none where the pod stays as it is."""

    reason: Reason
    sizes: dict[str, Size] = {}
    message: str = ""
    notes: tuple[Reason, ...] = ()
    """What cut the sizes down or lifted them."""
    boosts: Mapping[str, Boosted] = {}
    """Containers that get more CPU while the pod starts; it is in their sizes."""


def size_at_creation(
    pod: Pod, facts: Facts, quotas: tuple[Quota, ...] = (), *, max_boost_millicores: int | None = None
) -> Sizing:
    """What a new pod gets: all it is advised or stated, or nothing. Asked again about its answer, it adds nothing.

    No boost takes a container's CPU above `max_boost_millicores`.
    """
    if boosted(pod):
        return Sizing(Reason.DONE)
    pod = _classed(pod)
    obstacle = _obstacle(pod, facts)
    if obstacle is not None:
        return obstacle
    notes: list[Reason] = []
    sized = pod
    for _ in range(_MOST_ROUNDS):
        goal = _goal(sized, facts, quotas, notes)
        kept = goal if sized.qos_class is QosClass.BEST_EFFORT else kept_apart(sized, goal, facts.stated)
        if kept is None:
            return Sizing(Reason.QOS_CLASS, message=f"the pod is {pod.qos_class} and would not stay so")
        before, sized = sized, _with(sized, kept)
        if sized == before:
            break
    else:
        return Sizing(Reason.QOS_CLASS, message=f"no size keeps the pod {pod.qos_class}")
    sizes = _changed(pod, sized)
    boosts = _boosts(sized, facts, notes, max_boost_millicores)
    larger = _changed(pod, _with(sized, {name: one.got for name, one in boosts.items()}))
    if boosts and _refusal(pod, larger, facts, quotas) is None:
        return Sizing(Reason.SIZED_AT_CREATION, larger, "", (*dict.fromkeys(notes), Reason.BOOSTED), boosts)
    if not sizes:
        return Sizing(_why_none(facts, notes), notes=tuple(dict.fromkeys(notes)))
    return _refusal(pod, sizes, facts, quotas) or Sizing(
        Reason.SIZED_AT_CREATION, sizes, notes=tuple(dict.fromkeys(notes))
    )


def _changed(pod: Pod, sized: Pod) -> dict[str, Size]:
    return {
        new.name: size_of(new)
        for old, new in zip(pod.containers, sized.containers, strict=True)
        if size_of(old) != size_of(new)
    }


def _boosts(pod: Pod, facts: Facts, notes: list[Reason], most: int | None) -> dict[str, Boosted]:
    """What containers get beside their sizes while the pod starts; nothing where CPU is stated or not requested."""
    found: dict[str, Boosted] = {}
    for container in pod.sized_containers:
        had, cpu = size_of(container), container.requests.cpu
        boost = facts.advice.boost(container.name) if facts.advice is not None else None
        if boost is None or not cpu or container.name in facts.stated:
            continue
        if pod.qos_class is QosClass.GUARANTEED and not boost.moves_limits:
            notes.append(Reason.KEPT_QOS_CLASS)
            continue
        free = ContainerAdvice(NOTHING, NOTHING, NOTHING, moves_limits=boost.moves_limits)
        larger = boost.of(cpu) if most is None else min(boost.of(cpu), most)
        got = advised_size(container, free, Resources(larger), facts.bounds, notes)
        if got.requests.cpu > cpu:
            found[container.name] = Boosted(had, got, boost.seconds)
    kept = kept_apart(pod, {name: one.got for name, one in found.items()}) if found else {}
    return {name: msgspec.structs.replace(found[name], got=got) for name, got in (kept or {}).items()}


def _obstacle(pod: Pod, facts: Facts) -> Sizing | None:
    if facts.stated_problem:
        return Sizing(Reason.BAD_VALUE, message=facts.stated_problem)
    if facts.advice is None and not facts.stated:
        return Sizing(unclaimed(facts), message=facts.conflict or facts.foreign)
    if pod.is_mirror:
        return Sizing(Reason.MIRROR_POD)
    if pod.has_pod_level_resources:
        return Sizing(Reason.UNSUPPORTED_POD, message="its resources are set for the pod as a whole")
    if len({one.name for one in pod.containers}) != len(pod.containers):
        return Sizing(Reason.BAD_VALUE, message="two containers have the same name")
    return None


def _goal(pod: Pod, facts: Facts, quotas: tuple[Quota, ...], notes: list[Reason]) -> dict[str, Size]:
    """The target, for each container that has one: a new pod has no usage yet that could speak against it."""
    modes = modes_of(pod, facts.modes)
    if modes != facts.modes:
        notes.append(Reason.KEPT_QOS_CLASS)
    bounds = Bounds(
        _bound(facts.bounds.cpu, quotas, "limits.cpu"), _bound(facts.bounds.memory, quotas, "limits.memory")
    )
    advised = facts.advice.containers if facts.advice is not None and facts.advice.mode is not UpdateMode.OFF else {}
    goal: dict[str, Size] = {}
    for container in pod.sized_containers:
        stated, advice = facts.stated.get(container.name), advised.get(container.name)
        if stated is not None:
            goal[container.name] = stated_size(container, stated)
        elif advice is None:
            continue
        elif pod.qos_class is QosClass.GUARANTEED and not advice.moves_limits:
            notes.append(Reason.KEPT_QOS_CLASS)
        else:
            goal[container.name] = advised_size(container, advice, advice.target, bounds, notes, modes, is_new=True)
    return goal


def _bound(bound: Bound, quotas: tuple[Quota, ...], key: str) -> Bound:
    """The bound with what a quota demands: where it counts limits, each container has to have one."""
    is_counted = any(key in quota.hard for quota in quotas)
    return msgspec.structs.replace(bound, demands_limit=True) if is_counted else bound


def _refusal(pod: Pod, sizes: Sizes, facts: Facts, quotas: tuple[Quota, ...]) -> Sizing | None:
    """Why the API server would refuse a pod of these sizes; nobody's pod shall fail for our sake."""
    problem = limit_range_problem(pod, sizes, facts.limit_ranges)
    if problem:
        return Sizing(Reason.LIMIT_RANGE, message=problem)
    requests, limits = requests_with(pod, sizes), limits_with(pod, sizes)
    need = {
        "requests.cpu": requests.cpu,
        "requests.memory": requests.memory,
        "limits.cpu": limits.cpu,
        "limits.memory": limits.memory,
    }
    problem = quota_problem(need, quotas, {})
    return Sizing(Reason.QUOTA_EXCEEDED, message=problem) if problem else None


def _why_none(facts: Facts, notes: list[Reason]) -> Reason:
    if facts.advice is None or facts.stated:
        return Reason.DONE
    if facts.advice.mode is UpdateMode.OFF:
        return Reason.MODE_OFF
    if not facts.advice.containers:
        return Reason.NO_RECOMMENDATION
    return notes[-1] if notes else Reason.DONE


def _with(pod: Pod, sizes: Sizes) -> Pod:
    """The pod with these sizes."""
    containers = tuple(
        one if size is None else msgspec.structs.replace(one, requests=size.requests, limits=size.limits)
        for one in pod.containers
        for size in (sizes.get(one.name),)
    )
    return _classed(msgspec.structs.replace(pod, containers=containers))


def _classed(pod: Pod) -> Pod:
    """The pod with the QoS class that its containers give it; a new pod's status says nothing that counts."""
    return msgspec.structs.replace(pod, qos_class=qos_class(with_sizes(pod, {})))
