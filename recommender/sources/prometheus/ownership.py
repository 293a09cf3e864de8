"""Which workload a pod belongs to, or belonged to when it is gone.

Owns the way from a pod's name up its owners as kube-state-metrics told them, and else from its name alone: controllers
name their pods by rule. Asks nothing.
"""

import re
from collections.abc import Iterable
from typing import Final

from elastipod.pods import Workload

_RANDOM: Final = "[bcdfghjklmnpqrstvwxz2456789]"
"""What Kubernetes makes endings of names from."""
_BASE: Final = 58
"""A longer name is cut to so much before its random ending."""
_KINDS: Final = (
    ("Deployment", re.compile(rf"(.+)-{_RANDOM}{{6,10}}-?{_RANDOM}{{5}}")),
    ("CronJob", re.compile(rf"(.+)-\d{{8}}(?:-\d+)?-{_RANDOM}{{5}}")),
    ("StatefulSet", re.compile(r"(.+)-\d+")),
    ("DaemonSet", re.compile(rf"(.+)-{_RANDOM}{{5}}")),
)


class Owners:
    """Owners of pods, those that are gone included."""

    def __init__(self) -> None:
        self._owners: dict[Workload, Workload] = {}

    def add(self, one: Workload, owner: Workload) -> None:
        """`owner` controls `one`. Of two that were told, the first stays."""
        if owner.kind and owner.name and owner.kind != "<none>":
            self._owners.setdefault(one, owner)

    def topmost(self, namespace: str, pod: str) -> Workload | None:
        """The highest owner of a pod; None where none was told."""
        found = self._owners.get(Workload(namespace, "Pod", pod))
        seen: set[Workload] = set()
        while found is not None and found not in seen:
            seen.add(found)
            above = self._owners.get(found)
            if above is None:
                return found
            found = above
        return found


class Matching:
    """Pods to the workloads that are asked about, by owner and else by name."""

    def __init__(self, workloads: Iterable[Workload], owners: Owners) -> None:
        self._owners = owners
        self._wanted = set(workloads)
        self._of_custom_kinds = {Workload(one.namespace, one.plain_kind, one.name): one for one in self._wanted}
        """kube-state-metrics tells the kind of an owner and not its group."""
        self._by_namespace: dict[str, list[Workload]] = {}
        for workload in sorted(self._wanted, key=lambda one: (-len(one.name), one)):
            self._by_namespace.setdefault(workload.namespace, []).append(workload)

    def of(self, namespace: str, pod: str) -> Workload | None:
        """The workload of a pod, or None: what is told of owners counts, names only where nothing is told."""
        told = self._owners.topmost(namespace, pod)
        if told is not None:
            return told if told in self._wanted else self._of_custom_kinds.get(told)
        return next((one for one in self._by_namespace.get(namespace, ()) if is_named_by(pod, one)), None)


def is_named_by(pod: str, workload: Workload) -> bool:
    """Whether a workload of this kind and name would call a pod so."""
    name = workload.name
    if not pod.startswith(name[: _BASE - 12]):
        return False
    random, base = f"{_RANDOM}{{5}}", re.escape(name)
    match workload.plain_kind:
        case "Pod":
            return pod == name
        case "Deployment":
            # The ReplicaSet's name may be cut before the pod's ending is put to it.
            replica_set = re.fullmatch(rf"(.*){random}", pod)
            cut = replica_set is not None and len(replica_set[1]) == _BASE and replica_set[1].startswith(f"{name}-")
            return cut or re.fullmatch(rf"{base}-{_RANDOM}{{6,10}}-{random}", pod) is not None
        case "StatefulSet":
            return re.fullmatch(rf"{base}-\d+", pod) is not None
        case "CronJob":
            return re.fullmatch(rf"{base}-\d{{8,10}}(-\d+)?-{random}", pod) is not None
        case "Job":
            return re.fullmatch(rf"{re.escape(name[: _BASE - 1])}-(\d+-)?{random}", pod) is not None
        case "DaemonSet" | "ReplicaSet" | "ReplicationController":
            return re.fullmatch(rf"{re.escape(name[: _BASE - 1])}-{random}", pod) is not None
    return False


def guessed_workload(namespace: str, pod: str) -> Workload:
    """The workload that a pod's name speaks of, for want of better; the pod itself where it speaks of none."""
    for kind, pattern in _KINDS:
        found = pattern.fullmatch(pod)
        if found is not None:
            return Workload(namespace, kind, found[1])
    return Workload(namespace, "Pod", pod)
