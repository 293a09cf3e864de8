"""Which pods belong to which workload, and where their containers stand in the history.

Owns the way from a sample's names to a place in the history, kept up by changes of pods and of their owners. Membership
is by ownerReferences; labels never decide it. Above Kubernetes' own controllers a claim decides which owner counts.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from elastipod.api import BOOST_ANNOTATION, ElasticPolicy
from elastipod.eligible import GROUP_KIND, Eligible, chosen, eligible, group_of
from elastipod.nodeclass import parted
from elastipod.owners import Owned
from elastipod.pods import Container, ContainerKey, OwnerReference, Pod, Workload
from recommender.histogram import Floats
from recommender.history import History, InstanceKey

_MOST_LEVELS: Final = 8
"""Of owners."""


@dataclass(slots=True)
class _Member:
    """A pod as it was last seen, and its workload."""

    pod: Pod
    workload: Workload


class Membership:
    """Pods by workload; places in the history for the containers of claimed workloads."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._members: dict[str, _Member] = {}
        self._workloads: dict[Workload, set[str]] = {}
        self._owned: dict[str, Owned] = {}
        self._uids: dict[Workload, str] = {}
        """Owners that exist, by what they are."""
        self._last_run: dict[Workload, Pod] = {}
        """Of claimed ones whose pods end, the pod that ended and was taken away last."""
        self._heirs: dict[str, set[str]] = {}
        """By an owner's UID: the keys of the pods and the UIDs of the owners that name it as theirs."""
        self._claimed: set[Workload] = set()
        self._policies: dict[str, tuple[ElasticPolicy, ...]] = {}
        """By namespace, those that say which pods are sized as one."""
        self._eligible = Eligible()
        self._places: dict[tuple[str, str, str], int] = {}
        self._ended: set[str] = set()
        """Keys of pods that ended and still have their places, as usage of their last minute may yet be told."""
        self._requests = np.zeros((0, 4))
        self._limits = np.zeros((0, 2))
        self._live_since = np.zeros(0)
        self.changed: set[Workload] = set()
        """Workloads whose pods, requests or existence changed; the reader empties it."""

    def place(self, namespace: str, pod: str, container: str) -> int:
        """The instance of a sample; -1 where it is nobody's that is claimed."""
        return self._places.get((namespace, pod, container), -1)

    def pod(self, namespace: str, name: str) -> Pod | None:
        """A pod as it was last seen."""
        member = self._members.get(f"{namespace}/{name}")
        return None if member is None else member.pod

    def let_go(self, before: float) -> None:
        """Take nothing more for pods that ended before this time."""
        for key in list(self._ended):
            member = self._members.get(key)
            if member is None or not member.pod.is_terminal:
                self._ended.discard(key)
            elif _ended_at(member.pod) < before:
                self._ended.discard(key)
                self._drop_places(member.pod)

    def everyone(self) -> list[tuple[Pod, Workload]]:
        """Every pod that is known, claimed or not, and its workload."""
        return [(member.pod, member.workload) for member in self._members.values()]

    def all_places(self) -> dict[tuple[str, str, str], int]:
        """The instance of each container that is remembered, by namespace, pod and container."""
        return dict(self._places)

    def workload(self, pod_key: str) -> Workload | None:
        """The workload of a pod."""
        member = self._members.get(pod_key)
        return None if member is None else member.workload

    def node(self, namespace: str, pod: str) -> str:
        """Where a pod runs; nothing where that is not known."""
        member = self._members.get(f"{namespace}/{pod}")
        return "" if member is None else member.pod.node_name

    def resolve(self, pod: Pod) -> Workload:
        """The workload of a pod, whether or not it is among those known."""
        return chosen(self._sized_as(pod), self._claimed)

    def owners(self, workload: Workload) -> tuple[Workload, ...]:
        """A workload, and what its pods might be sized as in its place."""
        pod = next((self._members[key].pod for key in sorted(self._workloads.get(workload, ()))), None)
        return (workload,) if pod is None else tuple(dict.fromkeys((workload, *self._sized_as(pod))))

    def sized_for(self, workload: Workload) -> set[Workload]:
        """What pods are sized as that might be sized as this workload."""
        return {workload, *(self._members[key].workload for key in self._eligible.pods(workload))}

    def pods(self, workload: Workload) -> list[Pod]:
        """The pods of a workload, newest first."""
        found = [self._members[key].pod for key in self._workloads.get(workload, ())]
        return sorted(found, key=lambda pod: (-pod.created_at, pod.name))

    def controllers(self, workload: Workload) -> list[Owned]:
        """What controls a workload's pods up to itself, nearest first. A ReplicaSet only copies its Deployment's."""
        if workload.kind == GROUP_KIND:
            return []
        pods = self.pods(workload) or [one for one in (self._last_run.get(workload),) if one is not None]
        found: list[Owned] = []
        reference = pods[0].owner if pods else None
        while reference is not None and reference.uid in self._owned and len(found) < _MOST_LEVELS:
            found.append(self._owned[reference.uid])
            reference = found[-1].owner
        own = self._owned.get(self._uids.get(workload, ""))
        if own is not None and own not in found:
            found.append(own)
        return [one for one in found if one.kind != "ReplicaSet" or one.owner is None]

    def exists(self, workload: Workload) -> bool:
        """Whether the workload's own object is there."""
        if workload.kind == GROUP_KIND:
            return any(group_of(one) == workload for one in self.policies(workload.namespace))
        return workload in self._uids or (workload.kind == "Pod" and bool(self.pods(workload)))

    def owner_of(self, workload: Workload) -> OwnerReference | None:
        """What controls a workload, where something does."""
        uid = self._uids.get(workload)
        return None if uid is None else self._owned[uid].owner

    def containers(self, workload: Workload) -> dict[str, Container | None]:
        """The containers that count for a workload, as the newest pod has them.

        Those of living pods; where none lives, as between two runs of a job, those of the last, or of the history.
        """
        pods = self.pods(workload)
        if not pods and workload in self._last_run:
            pods = [self._last_run[workload]]
        living = [pod for pod in pods if not pod.is_terminal]
        found: dict[str, Container | None] = {}
        for pod in living or pods[:1]:
            for container in pod.sized_containers:
                found.setdefault(container.name, container)
        if not found:
            found = {name: None for name in self._history.containers(workload) if not parted(name)[1]}
        return found

    def longest_run_seconds(self, workload: Workload) -> float | None:
        """Of the pods that were to end and did, the longest; where none is left, the last that was."""
        keys = self._workloads.get(workload, ())
        runs = [seconds for key in keys if (seconds := _run_seconds(self._members[key].pod)) is not None]
        last = self._last_run.get(workload)
        return max(runs, default=None if last is None else _run_seconds(last))

    def requests(self) -> Floats:
        """Per row: least and most cores, least and most bytes that living pods ask; NaN where none asks."""
        self._reserve(self._history.size)
        return self._requests[: self._history.size]

    def limits(self) -> Floats:
        """Per row: the limits in force in all its living pods, cores and bytes; NaN where none is, or they differ."""
        self._reserve(self._history.size)
        return self._limits[: self._history.size]

    def live_since(self) -> Floats:
        """Per row: since when one of its pods has been running; NaN where none is."""
        self._reserve(self._history.size)
        return self._live_since[: self._history.size]

    def claim(self, workload: Workload) -> None:
        """Remember the usage of this workload too."""
        if workload not in self._claimed:
            self._claimed.add(workload)
            self._choose_again(workload)
            self._place_all(workload)

    def unclaim(self, workload: Workload) -> None:
        """Remember its usage no longer."""
        if workload in self._claimed:
            self._claimed.remove(workload)
            self._last_run.pop(workload, None)
            for pod in self.pods(workload):
                self._drop_places(pod)
            self._choose_again(workload)

    def set_pod(self, key: str, pod: Pod | None) -> None:
        """A pod appeared, changed or is gone."""
        old = self._members.get(key)
        if old is not None and (pod is None or pod.uid != old.pod.uid):
            self._remove(key, old)
            old = None
        if pod is None:
            return
        choices = self._sized_as(pod)
        workload = chosen(choices, self._claimed)
        if old is not None and old.workload != workload:
            self._leave(key, old)
        if old is not None and old.pod.owner != pod.owner:
            self._disown(key, old.pod.owner)
        self._eligible.set(key, choices)
        self._members[key] = _Member(pod, workload)
        self._workloads.setdefault(workload, set()).add(key)
        if pod.owner is not None:
            self._heirs.setdefault(pod.owner.uid, set()).add(key)
        self.changed.add(workload)
        if workload in self._claimed:
            self._place_pod(pod, workload)
            self._measure(workload)

    def set_owned(self, old: Owned | None, new: Owned | None) -> None:
        """An owner appeared, changed or is gone. What is gone still counts for the pods that name it."""
        if new is None:
            if old is not None:
                workload = Workload(old.namespace, old.kind, old.name)
                if self._uids.get(workload) == old.uid:
                    del self._uids[workload]
                self.changed.add(workload)
                if old.uid in self._owned and not self._heirs.get(old.uid):
                    self._forget_owned(old.uid)
            return
        workload = Workload(new.namespace, new.kind, new.name)
        if workload not in self._uids:
            self.changed.add(workload)
        self._uids[workload] = new.uid
        known = self._owned.get(new.uid)
        self._owned[new.uid] = new
        if known is not None and known.annotations != new.annotations:
            under = (self._members[key].workload for key in self._pods_under(new.uid, _MOST_LEVELS))
            self.changed.update((workload, *under))
        if known is not None and known.owner != new.owner:
            self._disown(new.uid, known.owner)
        if new.owner is not None:
            self._heirs.setdefault(new.owner.uid, set()).add(new.uid)
        if known is None or known.owner != new.owner:
            for key in self._pods_under(new.uid, _MOST_LEVELS):
                self.set_pod(key, self._members[key].pod)

    def set_policies(self, changed: Mapping[str, tuple[ElasticPolicy, ...]]) -> None:
        """The ElasticPolicies of these namespaces are these now."""
        for namespace, policies in changed.items():
            if policies:
                self._policies[namespace] = policies
            else:
                self._policies.pop(namespace, None)
        for key in [key for key, member in self._members.items() if member.pod.namespace in changed]:
            self.set_pod(key, self._members[key].pod)

    def policies(self, namespace: str) -> tuple[ElasticPolicy, ...]:
        """The ElasticPolicies of a namespace."""
        return self._policies.get(namespace, ())

    def _sized_as(self, pod: Pod) -> tuple[Workload, ...]:
        return eligible(pod, self._owned, self.policies(pod.namespace))

    def _choose_again(self, workload: Workload) -> None:
        for key in self._eligible.pods(workload):
            self.set_pod(key, self._members[key].pod)

    def _pods_under(self, uid: str, levels: int) -> list[str]:
        found: list[str] = []
        for heir in sorted(self._heirs.get(uid, ())):
            if heir in self._members:
                found.append(heir)
            elif levels > 1:
                found += self._pods_under(heir, levels - 1)
        return found

    def _remove(self, key: str, member: _Member) -> None:
        self._leave(key, member)
        self._eligible.set(key, ())
        self._disown(key, member.pod.owner)

    def _leave(self, key: str, member: _Member) -> None:
        """A pod is no longer of its workload."""
        if member.workload in self._claimed and _run_seconds(member.pod) is not None:
            self._last_run[member.workload] = member.pod
        self._drop_places(member.pod)
        del self._members[key]
        known = self._workloads[member.workload]
        known.discard(key)
        if not known:
            del self._workloads[member.workload]
        self.changed.add(member.workload)
        if member.workload in self._claimed:
            self._measure(member.workload)

    def _disown(self, key: str, owner: OwnerReference | None) -> None:
        """A pod, or who owns pods, no longer names its owner; one that is gone, and that none names, is forgotten."""
        if owner is not None and owner.uid in self._heirs:
            self._heirs[owner.uid].discard(key)
            if not self._heirs[owner.uid]:
                del self._heirs[owner.uid]
                gone = self._owned.get(owner.uid)
                if gone is not None and self._uids.get(Workload(gone.namespace, gone.kind, gone.name)) != gone.uid:
                    self._forget_owned(owner.uid)

    def _forget_owned(self, uid: str) -> None:
        """It is gone, and nothing names it any more."""
        self._disown(uid, self._owned.pop(uid).owner)

    def _place_all(self, workload: Workload) -> None:
        for pod in self.pods(workload):
            self._place_pod(pod, workload)
        self._measure(workload)

    def _place_pod(self, pod: Pod, workload: Workload) -> None:
        if pod.is_terminal:
            self._ended.add(pod.key)
        for container in pod.sized_containers:
            row = self._history.ensure_row(ContainerKey(workload, container.name))
            if BOOST_ANNOTATION not in pod.annotations:
                self._history.see_requests(row, container.requests)
            place = self._history.ensure_instance(InstanceKey(pod.uid, container.name), row)
            self._places[pod.namespace, pod.name, container.name] = place

    def _drop_places(self, pod: Pod) -> None:
        for container in pod.sized_containers:
            self._places.pop((pod.namespace, pod.name, container.name), None)
            self._history.forget_instance(InstanceKey(pod.uid, container.name))

    def _measure(self, workload: Workload) -> None:
        """Take down what the living pods of a workload ask and since when they run."""
        by_name: dict[str, list[tuple[Pod, Container]]] = {}
        for pod in self.pods(workload):
            for container in pod.sized_containers:
                by_name.setdefault(container.name, []).append((pod, container))
        for name, shown in by_name.items():
            row = self._history.row(ContainerKey(workload, name))
            if row is None:
                continue
            self._reserve(row + 1)
            living = [(pod, container) for pod, container in shown if not pod.is_terminal]
            cores = [one.requests.cpu_millicores / 1000 for _, one in living if one.requests.cpu_millicores is not None]
            amounts = [float(one.requests.memory_bytes) for _, one in living if one.requests.memory_bytes is not None]
            self._requests[row] = (*_ends(cores), *_ends(amounts))
            limits = [one.actual_limits or one.limits for _, one in living]
            self._limits[row] = (
                _common(one.cpu_millicores for one in limits) / 1000,
                _common(one.memory_bytes for one in limits),
            )
            running = [one.started_at or pod.created_at for pod, one in living if one.is_running]
            self._live_since[row] = min(running, default=math.nan)

    def _reserve(self, rows: int) -> None:
        if rows > len(self._live_since):
            more = max(rows, len(self._live_since) * 5 // 4 + 64) - len(self._live_since)
            self._requests = np.pad(self._requests, ((0, more), (0, 0)), constant_values=np.nan)
            self._limits = np.pad(self._limits, ((0, more), (0, 0)), constant_values=np.nan)
            self._live_since = np.pad(self._live_since, (0, more), constant_values=np.nan)


def _ended_at(pod: Pod) -> float:
    ends = (one.termination.finished_at for one in pod.containers if one.termination is not None)
    return max((end for end in ends if end is not None), default=0.0)


def _ends(amounts: Iterable[float]) -> tuple[float, float]:
    found = list(amounts)
    return (min(found), max(found)) if found else (math.nan, math.nan)


def _common(amounts: Iterable[int | None]) -> float:
    """The amount that all have; NaN where they differ, or have none."""
    found = set(amounts)
    amount = found.pop() if len(found) == 1 else None
    return math.nan if amount is None else float(amount)


def _run_seconds(pod: Pod) -> float | None:
    """How long a pod took that was to end and did; None for another."""
    if not pod.is_terminal or pod.restart_policy == "Always":
        return None
    ended = [one.termination for one in pod.sized_containers if one.termination is not None]
    runs = [
        one.finished_at - one.started_at for one in ended if one.finished_at is not None and one.started_at is not None
    ]
    return max(runs, default=None)
