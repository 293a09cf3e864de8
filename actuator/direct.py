"""Direct mode: sizes wanted in the ElasticNode, put in force where no kubelet does it.

Owns the order: one decision at a time, recorded before any effect, then the writes, then what the node reports. Whether
a wish fits is admitting.py's matter, how memory goes down lowering.py's.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from actuator.admitting import Size, Verdict, Wanted, decide, next_wish
from actuator.cgroup import safe_order, step_writes
from actuator.journal import Journal, Record
from actuator.lowering import Lowering
from actuator.nodehands import NodeHands
from actuator.shrinking import Wait
from elastipod.api import ElasticNode, ElasticNodeContainer, resource_list, resources
from elastipod.clock import Clock
from elastipod.localcluster.node.hands import GroupLimits
from elastipod.pods import Container, Pod
from elastipod.quantities import QuantityError, Resources
from elastipod.reasons import Reason

Locate = Callable[[Pod, Container], tuple[str, str] | None]


@dataclass(frozen=True, slots=True)
class Report:
    """What the node's status tells: what was admitted, and what is in force."""

    allocated: list[ElasticNodeContainer]
    actual: list[ElasticNodeContainer]


class DirectMode:
    """The sizes of one node's containers. Its calls read and write files: run them in a thread."""

    def __init__(self, hands: NodeHands, journal: Journal, clock: Clock, namespaces_off: Collection[str] = ()) -> None:
        self._hands, self._journal, self._off = hands, journal, namespaces_off
        self._lowering = Lowering(hands, clock)

    def run(self, pods: Iterable[Pod], node: ElasticNode, allocatable: Resources, locate: Locate) -> Report:
        """Decide on every wish, put in force what was admitted, report. OSError where nothing can be recorded."""
        running = {pod.uid: pod for pod in pods if pod.is_running}
        allocated = self._allocated(running, node)
        reasons = self._admit(node, allocated, allocatable, running)
        actual: list[ElasticNodeContainer] = []
        for pod in running.values():
            if pod.namespace not in self._off:
                actual += self._enforce(pod, allocated, locate, reasons)
        told = [
            _row(pod, one, allocated[key], reasons.get(key))
            for pod in running.values()
            for one in pod.sized_containers
            if (key := _key(pod, one)) in allocated and self._journal.records.get(f"size/{key}") is not None
        ]
        return Report(told, actual)

    def _allocated(self, pods: Mapping[str, Pod], node: ElasticNode) -> dict[str, Size]:
        """What each container holds: as recorded, else as the node last reported, else as its spec has it."""
        reported = {
            f"{one.uid}/{one.container}": one
            for one in (node.status and node.status.allocated) or []
            if one.uid in pods
        }
        found: dict[str, Size] = {}
        for pod in pods.values():
            for container in pod.sized_containers:
                key = _key(pod, container)
                size = _recorded(self._journal.records.get(f"size/{key}"))
                if size is None and key in reported:
                    size = _size(reported[key])
                found[key] = size or Size(container.requests, container.limits)
        gone = [key for key in self._journal.records if key.startswith("size/") and key.split("/")[1] not in pods]
        self._journal.put(dict.fromkeys(gone))
        return found

    def _admit(
        self, node: ElasticNode, allocated: dict[str, Size], allocatable: Resources, pods: Mapping[str, Pod]
    ) -> dict[str, Reason]:
        reasons: dict[str, Reason] = {}
        wishes: list[Wanted] = []
        for one in node.spec.wanted or []:
            key, size = f"{one.uid}/{one.container}", _size(one)
            if size is None:
                reasons[key] = Reason.BAD_VALUE
            elif one.uid in pods and pods[one.uid].namespace in self._off:
                reasons[key] = Reason.NAMESPACE_OFF
            elif one.uid in pods:
                wishes.append(Wanted(key, size, pods[one.uid].priority))
        while (wish := next_wish(wishes)) is not None:
            wishes.remove(wish)
            verdict: Verdict = decide(wish, allocated, allocatable)
            reasons[wish.key] = verdict.reason
            if verdict.reason is Reason.IN_PROGRESS:
                self._journal.put({f"size/{wish.key}": _record(verdict.size)})
                allocated[wish.key] = verdict.size
        return reasons

    def _enforce(
        self, pod: Pod, allocated: Mapping[str, Size], locate: Locate, reasons: dict[str, Reason]
    ) -> list[ElasticNodeContainer]:
        """Raises at once, memory down in steps; containers without a record keep what they have."""
        places = {one.name: groups for one in pod.sized_containers if (groups := locate(pod, one)) is not None}
        recorded = [one for one in pod.sized_containers
                    if one.name in places and f"size/{_key(pod, one)}" in self._journal.records]  # fmt: skip
        if not recorded:
            return []
        pod_group = places[recorded[0].name][0]
        now = {group: self._hands.read(group) for _, group in places.values()} | {
            pod_group: self._hands.read(pod_group)
        }
        goal = dict(now)
        for one in recorded:
            _, group = places[one.name]
            size = allocated[_key(pod, one)]
            wanted = GroupLimits(size.requests.cpu_millicores, size.limits.cpu_millicores, size.limits.memory_bytes)
            before = now[group].memory_limit_bytes
            shrinks = wanted.memory_limit_bytes is not None and (before is None or wanted.memory_limit_bytes < before)
            goal[group] = replace(wanted, memory_limit_bytes=before) if shrinks else wanted
            if shrinks and wanted.memory_limit_bytes is not None:
                step = self._lowering.step(pod_group, group, wanted.memory_limit_bytes)
                if isinstance(step, Wait):
                    reasons[_key(pod, one)] = step.reason
                now[group] = goal[group] = replace(goal[group], memory_limit_bytes=self._hands.memory_limit(group))
                now[group] = self._hands.read(group)
        now[pod_group] = self._hands.read(pod_group)
        goal[pod_group] = _pod_goal(now[pod_group], [goal[group] for _, group in places.values()])
        self._hands.write_all(step_writes(self._hands.version, now, safe_order(pod_group, now, goal)))
        found: list[ElasticNodeContainer] = []
        for one in recorded:
            limits = self._hands.read(places[one.name][1])
            size = Size(
                Resources(limits.cpu_request_millicores, allocated[_key(pod, one)].requests.memory_bytes),
                Resources(limits.cpu_limit_millicores, limits.memory_limit_bytes),
            )
            found.append(_row(pod, one, size, None))
        return found


def _pod_goal(now: GroupLimits, containers: list[GroupLimits]) -> GroupLimits:
    """A pod is limited where all its containers are."""
    memory = [one.memory_limit_bytes for one in containers]
    cpu = [one.cpu_limit_millicores for one in containers]
    return GroupLimits(
        sum(one.cpu_request_millicores or 0 for one in containers),
        sum(one or 0 for one in cpu) if all(cpu) else now.cpu_limit_millicores,
        sum(one or 0 for one in memory) if all(memory) else now.memory_limit_bytes,
    )


def _key(pod: Pod, container: Container) -> str:
    return f"{pod.uid}/{container.name}"


def _size(row: ElasticNodeContainer) -> Size | None:
    try:
        return Size(resources(row.requests), resources(row.limits))
    except QuantityError:
        return None


def _record(size: Size) -> Record:
    return {
        "requests": [size.requests.cpu_millicores, size.requests.memory_bytes],
        "limits": [size.limits.cpu_millicores, size.limits.memory_bytes],
    }


def _recorded(record: Record | None) -> Size | None:
    amounts: list[Resources] = []
    for name in ("requests", "limits"):
        pair = (record or {}).get(name)
        if not isinstance(pair, list) or len(pair) != 2 or not all(one is None or isinstance(one, int) for one in pair):
            return None
        amounts.append(Resources(*pair))
    return Size(*amounts)


def _row(pod: Pod, container: Container, size: Size, reason: Reason | None) -> ElasticNodeContainer:
    return ElasticNodeContainer(
        namespace=pod.namespace,
        pod=pod.name,
        uid=pod.uid,
        container=container.name,
        requests=resource_list(size.requests),
        limits=resource_list(size.limits),
        reason=reason.value if reason is not None else "",
        message=reason.explanation if reason is not None else "",
    )
