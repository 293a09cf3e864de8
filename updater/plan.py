"""Which pods are resized, to what, and in what order.

Owns the decision for one pod (`decide`), the way from a goal to the step that is taken now (`next_step`) and the order
of all (`in_order`). Whether a node has room, and when to ask again, are ledger.py's and attempts.py's matter.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from elastipod.api import RESOURCES_ANNOTATION
from elastipod.limitmodes import LimitMode
from elastipod.pods import Pod, QosClass
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from updater.boosted import boosted
from updater.facts import DEFAULT_RULES, Facts, Rules, Urgency
from updater.precheck import limit_range_problem
from updater.shape import kept_apart, modes_of
from updater.sizes import Size, Sizes, size_of
from updater.steps import lowers_memory, lowers_memory_limit, stepped, with_held_memory
from updater.wishes import Wish, wish_of


class Resize(Struct, frozen=True, gc=False):
    """A change of a running pod's sizes: the step for now, and where it leads."""

    key: str
    uid: str
    sizes: dict[str, Size]
    """Only the containers that change."""
    goal: dict[str, Size]
    reason: Reason
    urgency: Urgency
    gain: float = 0.0
    """How far off the request is, as a fraction of itself; larger goes first among equals."""

    @property
    def is_last_step(self) -> bool:
        return self.sizes == self.goal


class Decision(Struct, frozen=True, gc=False):
    """What is to be done with a pod, and why."""

    key: str
    reason: Reason
    """Why it is resized, or why it is left as it is."""
    resize: Resize | None = None
    notes: tuple[Reason, ...] = ()
    """What cut the size down, lifted it or held it back."""
    message: str = ""
    look_again_at: float | None = None
    needs_usage: bool = False
    """Memory would be lowered, and no fresh usage sample is at hand."""

    def says_the_same(self, other: "Decision") -> bool:
        """Whether a reader sees no difference."""
        return (self.reason, self.message) == (other.reason, other.message)


def decide(pod: Pod, facts: Facts, now: float, rules: Rules = DEFAULT_RULES) -> Decision:
    """What to do with one pod. Every way out names its reason."""
    if facts.namespace_off:
        return Decision(pod.key, Reason.NAMESPACE_OFF)
    if not facts.stated and not facts.stated_problem and facts.advice is None and not boosted(pod):
        return Decision(pod.key, unclaimed(facts), message=facts.conflict or facts.foreign)
    obstacle = cannot_resize(pod)
    if obstacle is not None:
        return Decision(pod.key, obstacle)
    if facts.stated_problem:
        return Decision(pod.key, Reason.BAD_VALUE, message=facts.stated_problem)
    notes: list[Reason] = []
    wish = wish_of(pod, facts, now, rules, notes)
    if not wish.goal:
        unknown = _unknown_container(pod, facts.stated)
        reason = Reason.BAD_VALUE if unknown else wish.reason
        return Decision(pod.key, reason, None, tuple(dict.fromkeys(notes)), unknown, wish.look_again_at)
    step = next_step(pod, wish.goal, facts, now, rules)
    return _decision(pod, step, wish, notes)


def _unknown_container(pod: Pod, stated: Sizes) -> str:
    """What is wrong where a size is stated for a container that the pod lacks; what is stated for others holds."""
    known = [one.name for one in pod.sized_containers]
    for name in stated:
        if name not in known:
            return (
                f"{RESOURCES_ANNOTATION}.{name[:63]}: the pod has no such container to resize, only {', '.join(known)}"
            )
    return ""


def _decision(pod: Pod, step: "Step", wish: Wish, notes: list[Reason]) -> Decision:
    resize = None
    if step.sizes:
        resize = Resize(pod.key, pod.uid, step.sizes, step.goal, wish.reason, wish.urgency, wish.gain)
    return Decision(
        pod.key,
        step.refusal or wish.reason,
        resize,
        tuple(dict.fromkeys([*notes, *step.notes])),
        step.message,
        step.look_again_at,
        step.needs_usage,
    )


def decide_for(pod: Pod, wish: Wish, facts: Facts, now: float, rules: Rules = DEFAULT_RULES) -> Decision:
    """What to do with a pod that shall have sizes wished for elsewhere: by a person, a donor, a waiting neighbour."""
    obstacle = cannot_resize(pod)
    if obstacle is not None:
        return Decision(pod.key, obstacle)
    return _decision(pod, next_step(pod, wish.goal, facts, now, rules), wish, [])


class Step(Struct, frozen=True, gc=False):
    """What of a goal can be asked for now."""

    sizes: dict[str, Size] = {}
    goal: dict[str, Size] = {}
    refusal: Reason | None = None
    notes: tuple[Reason, ...] = ()
    message: str = ""
    look_again_at: float | None = None
    needs_usage: bool = False


def next_step(pod: Pod, goal: Sizes, facts: Facts, now: float, rules: Rules = DEFAULT_RULES) -> Step:
    """The step towards a goal: memory as far down as is safe, QoS class kept, LimitRanges held.

    A memory limit that goes down travels alone, so that its failure holds nothing else back.
    """
    kept = kept_apart(pod, goal, facts.stated)
    if kept is None:
        return Step(refusal=Reason.QOS_CLASS, message=f"the pod is {pod.qos_class} and would not stay so")
    notes = [Reason.KEPT_QOS_CLASS] if kept != goal else []
    sizes: dict[str, Size] = {}
    needs_usage, look_again_at = False, None
    for container in pod.containers:
        size = kept.get(container.name)
        if size is None:
            continue
        waits_until = (facts.resized_at or 0.0) + rules.step_seconds
        if lowers_memory_limit(container, size) and now < waits_until:
            notes.append(Reason.COOLING_DOWN)
            look_again_at = waits_until
            size = _memory_kept(pod, container.name, size)
        elif lowers_memory(container, size):
            is_apart = modes_of(pod, facts.modes).memory is not LimitMode.PROPORTIONAL
            used = facts.usage.get(container.name)
            size, held_back = stepped(container, size, used, now, rules.shrink, is_apart=is_apart)
            if held_back is not None:
                notes.append(held_back)
                needs_usage |= held_back is Reason.STALE_DATA
                look_again_at = now + rules.step_seconds
        sizes[container.name] = with_held_memory(container, size)
    sizes = _changed(pod, sizes)
    calm = {name: _memory_kept(pod, name, size) for name, size in sizes.items()}
    calm = _changed(pod, calm)
    if calm and calm != sizes:
        sizes = calm
    parted = kept if sizes == kept else kept_apart(pod, sizes, facts.stated)
    if parted is None:
        return Step(refusal=Reason.QOS_CLASS, message="no step towards this size keeps the QoS class")
    sizes = _changed(pod, parted)
    problem = limit_range_problem(pod, sizes, facts.limit_ranges) if sizes else ""
    if problem:
        return Step(refusal=Reason.LIMIT_RANGE, message=problem, notes=tuple(notes))
    refusal = None
    if not sizes:
        refusal = notes[-1] if notes else Reason.WITHIN_BOUNDS
    return Step(sizes, dict(kept), refusal, tuple(notes), "", look_again_at, needs_usage)


def cannot_resize(pod: Pod) -> Reason | None:
    """What forbids any resize of this pod in place; rules of RESIZE validation, 1.33 to 1.37."""
    if pod.is_mirror:
        return Reason.MIRROR_POD
    if pod.is_windows or pod.has_pod_level_resources:
        return Reason.UNSUPPORTED_POD
    if not pod.is_running:
        return Reason.NOT_RUNNING
    if pod.qos_class is QosClass.BEST_EFFORT:
        return Reason.BEST_EFFORT
    for container in pod.containers:
        if container.is_running:
            return Reason.UNSUPPORTED_NODE if container.actual_requests is None else None
    return None


def in_order(resizes: Iterable[Resize], priorities: Mapping[str, int]) -> list[Resize]:
    """Most urgent first; among equals the pod of higher priority, then the one that is further off, then by name."""
    return sorted(resizes, key=lambda one: (one.urgency, -priorities.get(one.key, 0), -one.gain, one.key))


def restarts(pod: Pod, sizes: Sizes) -> bool:
    """Whether a container's own resizePolicy restarts it for this change."""
    for container in pod.containers:
        size = sizes.get(container.name)
        if size is None or not (container.cpu_restart or container.memory_restart):
            continue
        old = size_of(container)
        if container.cpu_restart and _cpu(size) != _cpu(old):
            return True
        if container.memory_restart and _memory(size) != _memory(old):
            return True
    return False


def unclaimed(facts: Facts) -> Reason:
    """Why a pod is left as it is that no autoscaler of ours speaks for."""
    if facts.namespace_off:
        return Reason.NAMESPACE_OFF
    if facts.conflict:
        return Reason.CONFLICT
    return Reason.NOT_OURS if facts.foreign else Reason.NO_RECOMMENDATION


def _changed(pod: Pod, sizes: Sizes) -> dict[str, Size]:
    return {
        one.name: sizes[one.name] for one in pod.containers if one.name in sizes and sizes[one.name] != size_of(one)
    }


def _memory_kept(pod: Pod, name: str, size: Size) -> Size:
    """The size with memory as it is, where its limit would go down."""
    container = pod.container(name)
    if container is None or not lowers_memory_limit(container, size):
        return size
    return with_held_memory(
        container,
        Size(
            Resources(size.requests.cpu_millicores, container.requests.memory_bytes),
            Resources(size.limits.cpu_millicores, container.limits.memory_bytes),
        ),
    )


def _cpu(size: Size) -> tuple[int | None, int | None]:
    return size.requests.cpu_millicores, size.limits.cpu_millicores


def _memory(size: Size) -> tuple[int | None, int | None]:
    return size.requests.memory_bytes, size.limits.memory_bytes
