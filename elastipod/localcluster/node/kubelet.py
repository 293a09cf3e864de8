"""What a kubelet admits: pods and resizes, one at a time.

Owns desired against allocated against actuated, the tests for infeasible and for fit, and the queue of those that wait.
Rules: kubelet's allocation manager of 1.37. It stores nothing and puts nothing in force; callers store what is
allocated before any effect.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from elastipod.localcluster.node.sizes import Size, desired_sizes, pod_requests, reported_sizes, was_admitted
from elastipod.pods import PendingReason, Pod, QosClass
from elastipod.quantities import Resources

_NOTHING: Final = Resources(0, 0)


@dataclass(frozen=True, slots=True)
class Pending:
    """A resize that is not admitted."""

    reason: PendingReason
    message: str
    generation: int
    since: float
    sequence: int
    cause: str = ""
    """In the Event's words: `OutOfcpu`, `Infeasible`."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A resize that is admitted and not in force."""

    generation: int
    since: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a new pod is not taken in; it fails with this."""

    reason: str
    message: str


@dataclass(slots=True)
class Admitted:
    """A pod that counts on this node."""

    pod: Pod
    allocated: dict[str, Size]
    actuated: dict[str, Size]
    pending: Pending | None = None
    progress: Progress | None = None
    looked_at_generation: int = 0
    """The generation that was decided on last by this process."""


class Kubelet:
    """The admission decisions of one node. Every call is one decision; there is no other way in."""

    def __init__(self, allocatable: Resources, most_pods: int = 110) -> None:
        self.allocatable = allocatable
        self.most_pods = most_pods
        self.admitted: dict[str, Admitted] = {}
        self.revision = 0
        """Another one whenever something else is allocated or actuated."""
        self._counted: dict[str, Resources] = {}
        """By pod, what is given away to it."""
        self._sum = _NOTHING
        self._sequence = count(1)

    def readmit(self, pod: Pod, allocated: dict[str, Size] | None, actuated: dict[str, Size] | None) -> None:
        """Take a pod back in after a restart, with what was allocated, or with what its status says was."""
        known = allocated or reported_sizes(pod)
        sizes = {name: known.get(name, size) for name, size in desired_sizes(pod).items()}
        entry = Admitted(pod, sizes, dict(actuated or {}))
        if pod.resize_pending is not None:
            reason = PendingReason.INFEASIBLE if pod.resize_pending.reason == "Infeasible" else PendingReason.DEFERRED
            told = pod.resize_pending
            entry.pending = Pending(reason, told.message, told.observed_generation, told.since, next(self._sequence))
        if pod.resize_in_progress is not None:
            entry.progress = Progress(pod.resize_in_progress.observed_generation, pod.resize_in_progress.since)
        self._take_in(entry)

    def admit(self, pod: Pod) -> Rejection | None:
        """Take a new pod in with what it desires, or say why not."""
        if pod.uid in self.admitted:
            return None
        if was_admitted(pod):
            self.readmit(pod, None, None)
            return None
        counted = [one for one in self.admitted.values() if not one.pod.is_terminal]
        if len(counted) >= self.most_pods:
            told = f"requested: 1, used: {len(counted)}, capacity: {self.most_pods}"
            return Rejection("OutOfpods", f"Pod was rejected: Node didn't have enough resource: pods, {told}")
        sizes = desired_sizes(pod)
        lack = self._lack(pod, sizes)
        if lack is not None:
            resource, message = lack
            return Rejection(f"OutOf{resource}", f"Pod was rejected: {message}")
        self._take_in(Admitted(pod, sizes, {}, looked_at_generation=pod.generation))
        return None

    def observe(self, pod: Pod) -> None:
        """Know the pod as it is now."""
        entry = self.admitted.get(pod.uid)
        if entry is not None and entry.pod is not pod:
            entry.pod = pod
            self._count(entry)

    def resize(self, uid: str, now: float) -> bool:
        """Look at what the pod desires; True when something new was allocated.

        What was found infeasible is looked at again only for a new generation, or after a restart.
        """
        entry = self.admitted[uid]
        pod = entry.pod
        wanted = desired_sizes(pod)
        waits = entry.pending
        if wanted == entry.allocated:
            entry.pending = None
            entry.looked_at_generation = pod.generation
            return False
        is_known_infeasible = waits is not None and waits.reason is PendingReason.INFEASIBLE
        if is_known_infeasible and entry.looked_at_generation == pod.generation:
            return False
        entry.looked_at_generation = pod.generation
        refusal = self._refusal(pod, wanted)
        if refusal is not None:
            reason, message, lack = refusal
            self._wait(entry, reason, message, now, lack)
            return False
        self._allocate(entry, wanted)
        entry.pending = None
        entry.progress = Progress(pod.generation, now)
        return True

    def take_back(self, uid: str, allocated: dict[str, Size], why: str, now: float) -> None:
        """Undo a decision that could not be stored; it waits."""
        entry = self.admitted[uid]
        self._allocate(entry, allocated)
        entry.progress = entry.progress if allocated != entry.actuated else None
        self._wait(entry, PendingReason.DEFERRED, why, now)

    def waiting(self) -> list[str]:
        """Deferred resizes in the order in which they are tried; a failure of one blocks no other."""
        deferred = [
            entry
            for entry in self.admitted.values()
            if entry.pending is not None and entry.pending.reason is PendingReason.DEFERRED
        ]
        return [entry.pod.uid for entry in sorted(deferred, key=_order)]

    def in_order(self, uids: Iterable[str]) -> list[str]:
        """These pods and all that wait, in the order in which their resizes are looked at."""
        entries = (self.admitted[uid] for uid in dict.fromkeys((*uids, *self.waiting())))
        return [entry.pod.uid for entry in sorted(entries, key=_order)]

    def actuated(self, uid: str, sizes: dict[str, Size]) -> None:
        """Note what is in force; a resize ends when it is all that was allocated."""
        entry = self.admitted[uid]
        self.revision += sizes != entry.actuated
        entry.actuated = sizes
        if sizes == entry.allocated:
            entry.progress = None

    def failed(self, uid: str, error: str, now: float) -> None:
        """Note that a resize could not be put in force; it is tried again."""
        entry = self.admitted[uid]
        progress = entry.progress or Progress(entry.pod.generation, now)
        entry.progress = replace(progress, error=error)

    def forget(self, uid: str) -> None:
        """Let go of a pod that is gone."""
        if self.admitted.pop(uid, None) is not None:
            self._sum -= self._counted.pop(uid)
            self.revision += 1

    def allocated_sum(self, but: str = "") -> Resources:
        """What is given away: allocated requests of all pods that are not over."""
        return self._sum - self._counted.get(but, _NOTHING)

    def _take_in(self, entry: Admitted) -> None:
        self.admitted[entry.pod.uid] = entry
        self._allocate(entry, entry.allocated)

    def _allocate(self, entry: Admitted, sizes: dict[str, Size]) -> None:
        entry.allocated = sizes
        self.revision += 1
        self._count(entry)

    def _count(self, entry: Admitted) -> None:
        """Count anew what is given away to a pod."""
        counts = _NOTHING if entry.pod.is_terminal else pod_requests(entry.pod, entry.allocated)
        self._sum += counts - self._counted.get(entry.pod.uid, _NOTHING)
        self._counted[entry.pod.uid] = counts

    def _wait(self, entry: Admitted, reason: PendingReason, message: str, now: float, lack: str = "") -> None:
        before = entry.pending
        since, sequence = (before.since, before.sequence) if before is not None else (now, next(self._sequence))
        cause = f"OutOf{lack}" if lack else str(reason)
        entry.pending = Pending(reason, message, entry.pod.generation, since, sequence, cause)

    def _refusal(self, pod: Pod, wanted: dict[str, Size]) -> tuple[PendingReason, str, str] | None:
        """Reason, message, and the resource that is lacking now."""
        if pod.is_mirror:
            return PendingReason.INFEASIBLE, "In-place resize of static-pods is not supported", ""
        if pod.has_pod_level_resources:
            return PendingReason.INFEASIBLE, "In-place resize of pods with pod-level resources is not supported", ""
        asked = pod_requests(pod, wanted)
        for name, amount, most in (
            ("memory", asked.memory, self.allocatable.memory),
            ("cpu", asked.cpu, self.allocatable.cpu),
        ):
            if amount > most:
                text = f"Node didn't have enough capacity: {name}, requested: {amount}, capacity: {most}"
                return PendingReason.INFEASIBLE, text, ""
        lack = self._lack(pod, wanted)
        return None if lack is None else (PendingReason.DEFERRED, lack[1], lack[0])

    def _lack(self, pod: Pod, sizes: dict[str, Size]) -> tuple[str, str] | None:
        asked, used = pod_requests(pod, sizes), self.allocated_sum(but=pod.uid)
        for name, amount, taken, most in (
            ("cpu", asked.cpu, used.cpu, self.allocatable.cpu),
            ("memory", asked.memory, used.memory, self.allocatable.memory),
        ):
            if amount > 0 and amount + taken > most:
                told = f"requested: {amount}, used: {taken}, capacity: {most}"
                return name, f"Node didn't have enough resource: {name}, {told}"
        return None


def _order(entry: Admitted) -> tuple[bool, int, bool, float, int]:
    """Resizes that ask for no more first, then by priority, class and age (kubelet's sortPendingResizes)."""
    pending = entry.pending
    since, sequence = (pending.since, pending.sequence) if pending is not None else (math.inf, 0)
    return _grows(entry), -entry.pod.priority, entry.pod.qos_class is not QosClass.GUARANTEED, since, sequence


def _grows(entry: Admitted) -> bool:
    has = pod_requests(entry.pod, entry.allocated)
    wants = pod_requests(entry.pod, desired_sizes(entry.pod))
    return wants.cpu > has.cpu or wants.memory > has.memory
