"""Which pods belong to which workload, and what of that the recommender has yet to take in.

Owns what follows from a pod, an owner or a claim that changed: which containers have a place in the history
(instances.py), and which workloads are to be judged anew. Whose pod it is is elastipod/members.py's rule.
"""

from collections.abc import Iterable, Mapping

from elastipod.api import ElasticPolicy
from elastipod.eligible import GROUP_KIND, group_of
from elastipod.members import Members
from elastipod.nodeclass import parted
from elastipod.owners import Owned
from elastipod.pods import Container, OwnerReference, Pod, Workload
from recommender.history import History
from recommender.instances import Instances


class Membership:
    """Pods by workload; places in the history for the containers of claimed workloads."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._members = Members(self._moved)
        self.instances = Instances(history)
        self._last_run: dict[Workload, Pod] = {}
        """Of claimed ones whose pods end, the pod that ended and was taken away last."""
        self.changed: set[Workload] = set()
        """Workloads whose pods, requests or existence changed; the reader empties it."""

    # What changes.

    def set_pod(self, key: str, pod: Pod | None) -> None:
        """A pod appeared, changed or is gone."""
        old = self._members.pods.get(key)
        if old is not None and (pod is None or pod.uid != old.uid):
            workload, _ = self._members.placed(key)
            self._members.put_pod(key, None)
            self._left(old, workload)
        if pod is not None:
            self._members.put_pod(key, pod)
            self._take_in((key,))

    def set_owned(self, old: Owned | None, new: Owned | None) -> None:
        """An owner appeared, changed or is gone. What is gone still counts for the pods that name it."""
        one = new or old
        if one is None:
            return
        workload = Workload(one.namespace, one.kind, one.name)
        known = self._members.controller(workload)
        below = self._members.put_owned(old, new)
        if new is None or known is None or known.annotations != new.annotations:
            self.changed.add(workload)
        self._take_in(below)

    def set_policies(self, changed: Mapping[str, tuple[ElasticPolicy, ...]]) -> None:
        """The ElasticPolicies of these namespaces are these now."""
        self._take_in(self._members.group(changed))

    def claim(self, workload: Workload) -> None:
        """Remember the usage of this workload too."""
        if not self._members.is_claimed(workload):
            self._take_in(self._members.claim(workload, is_claimed=True))

    def unclaim(self, workload: Workload) -> None:
        """Remember its usage no longer."""
        if self._members.is_claimed(workload):
            self._last_run.pop(workload, None)
            for pod in self.pods(workload):
                self.instances.drop(pod)
            self.instances.measure(workload, ())
            self._take_in(self._members.claim(workload, is_claimed=False))

    # What is known.

    def pod(self, namespace: str, name: str) -> Pod | None:
        """A pod as it was last seen."""
        return self._members.pods.get(f"{namespace}/{name}")

    def everyone(self) -> list[tuple[Pod, Workload]]:
        """Every pod that is known, claimed or not, and its workload."""
        return list(self._members.each())

    def workload(self, pod_key: str) -> Workload | None:
        """The workload of a pod."""
        return self._members.workload(pod_key)

    def node(self, namespace: str, pod: str) -> str:
        """Where a pod runs; nothing where that is not known."""
        known = self.pod(namespace, pod)
        return "" if known is None else known.node_name

    def resolve(self, pod: Pod) -> Workload:
        """The workload of a pod, whether or not it is among those known."""
        return self._members.resolve(pod)[0]

    def owners(self, workload: Workload) -> tuple[Workload, ...]:
        """A workload, and what its pods might be sized as in its place."""
        key = min(self._members.keys(workload), default=None)
        choices = () if key is None else self._members.resolve(self._members.pods[key])[1]
        return tuple(dict.fromkeys((workload, *choices)))

    def sized_for(self, workload: Workload) -> set[Workload]:
        """What pods are sized as that might be sized as this workload."""
        return {workload, *(self._members.placed(key)[0] for key in self._members.might_be(workload))}

    def pods(self, workload: Workload) -> list[Pod]:
        """The pods of a workload, newest first."""
        found = [self._members.pods[key] for key in self._members.keys(workload)]
        return sorted(found, key=lambda pod: (-pod.created_at, pod.name))

    def policies(self, namespace: str) -> tuple[ElasticPolicy, ...]:
        """The ElasticPolicies of a namespace."""
        return self._members.policies(namespace)

    def controllers(self, workload: Workload) -> list[Owned]:
        """What controls a workload's pods up to itself, nearest first."""
        if workload.kind == GROUP_KIND:
            return []
        pods = self.pods(workload) or [one for one in (self._last_run.get(workload),) if one is not None]
        found = list(self._members.owners(pods[0])) if pods else []
        own = self._members.controller(workload)
        if own is not None and own not in found:
            found.append(own)
        return [one for one in found if not one.only_copies]

    def exists(self, workload: Workload) -> bool:
        """Whether the workload's own object is there."""
        if workload.kind == GROUP_KIND:
            return any(group_of(one) == workload for one in self.policies(workload.namespace))
        if self._members.controller(workload) is not None:
            return True
        return workload.kind == "Pod" and bool(self._members.keys(workload))

    def owner_of(self, workload: Workload) -> OwnerReference | None:
        """What controls a workload, where something does."""
        own = self._members.controller(workload)
        return None if own is None else own.owner

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
        runs = [seconds for pod in self.pods(workload) if (seconds := _run_seconds(pod)) is not None]
        last = self._last_run.get(workload)
        return max(runs, default=None if last is None else _run_seconds(last))

    # What follows.

    def _moved(self, key: str, before: Workload) -> None:
        self._left(self._members.pods[key], before)

    def _left(self, pod: Pod, workload: Workload) -> None:
        """A pod is no longer of its workload."""
        self.instances.drop(pod)
        self.changed.add(workload)
        if self._members.is_claimed(workload):
            if _run_seconds(pod) is not None:
                self._last_run[workload] = pod
            self.instances.measure(workload, self.pods(workload))

    def _take_in(self, keys: Iterable[str]) -> None:
        """These pods changed, or whose they are."""
        workloads = set()
        for key in keys:
            workload, _ = self._members.placed(key)
            workloads.add(workload)
            if self._members.is_claimed(workload):
                self.instances.put(self._members.pods[key], workload)
        self.changed |= workloads
        for workload in workloads:
            if self._members.is_claimed(workload):
                self.instances.measure(workload, self.pods(workload))


def _run_seconds(pod: Pod) -> float | None:
    """How long a pod took that was to end and did; None for another."""
    if not pod.is_terminal or pod.restart_policy == "Always":
        return None
    ended = [one.termination for one in pod.sized_containers if one.termination is not None]
    runs = [
        one.finished_at - one.started_at for one in ended if one.finished_at is not None and one.started_at is not None
    ]
    return max(runs, default=None)
