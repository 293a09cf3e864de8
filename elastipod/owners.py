"""Which workload a pod belongs to.

Owns the way from a pod up its controlling owners. Labels never decide it.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from elastipod.pods import OwnerReference, Pod, Workload

OWN_KINDS: Final = {
    "Deployment": "apps",
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
    "DaemonSet": "apps",
    "Job": "batch",
    "CronJob": "batch",
    "ReplicationController": "",
}
"""Kubernetes' own controllers, with their API group."""
_MOST_LEVELS: Final = 8
_MOST_AGE_SECONDS: Final = 8 * 86_400.0
"""So long after the scheduled time a Job may still make pods: a run that was late, or a retry."""


class Owned(Struct, frozen=True, gc=False):
    """An object that may own pods, or own their owners."""

    kind: str
    namespace: str
    name: str
    uid: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    """Only ours (elastipod.io/...)."""
    owner: OwnerReference | None = None
    generation: int = 0
    replicas: int | None = None

    @property
    def only_copies(self) -> bool:
        """Whether what is stated on it is its owner's, as a Deployment's ReplicaSet has it."""
        return self.kind == "ReplicaSet" and self.owner is not None


def kind_in(api_version: str, kind: str) -> str:
    """A kind as a workload has it: with its group where a custom one has the name of one of Kubernetes' own.

    So OpenKruise's is `StatefulSet.apps.kruise.io`, as kubectl writes it. Kubernetes' own groups have no dot.
    """
    return f"{kind}.{api_version.rpartition('/')[0]}" if "." in api_version and kind in OWN_KINDS else kind


def topmost_workload(pod: Pod, owned_by_uid: Mapping[str, Owned]) -> Workload:
    """The highest controller that is known; a bare pod is its own workload.

    A chain is cut after eight levels and where it bites its tail. An owner that is not among `owned_by_uid` ends the
    chain and counts, as its kind and name stand in the reference.
    """
    return workloads(pod, owned_by_uid)[-1]


def workloads(pod: Pod, owned_by_uid: Mapping[str, Owned]) -> tuple[Workload, ...]:
    """What a pod may be sized as, nearest first: its highest controller of Kubernetes' own, and what controls that.

    Nothing is known of a custom kind, so it stands beside what it controls: whoever is named by a policy counts.
    """
    found = [Workload(pod.namespace, "Pod", pod.name)]
    reference = pod.owner
    seen: set[str] = set()
    while reference is not None and reference.uid not in seen and len(seen) < _MOST_LEVELS:
        seen.add(reference.uid)
        if is_known(reference):
            found.clear()
        found.append(Workload(pod.namespace, kind_in(reference.api_version, reference.kind), reference.name))
        owned = owned_by_uid.get(reference.uid)
        reference = owned.owner if owned is not None else None
    return tuple(found)


def is_known(reference: OwnerReference) -> bool:
    """Whether an owner is a controller of Kubernetes' own."""
    group, slash, _ = reference.api_version.rpartition("/")
    return reference.kind in OWN_KINDS and (not (slash or reference.api_version) or OWN_KINDS[reference.kind] == group)


def workload_told_by(pod: Pod) -> Workload:
    """The workload as far as the pod itself tells, for those who may not read its owners.

    A ReplicaSet named for its pod template is a Deployment's. A Job whose name ends in the minute it was scheduled for
    is a CronJob's.
    """
    workload = topmost_workload(pod, {})
    name, dash, ending = workload.name.rpartition("-")
    match workload.kind:
        case "ReplicaSet" if dash and ending == pod.labels.get("pod-template-hash"):
            return Workload(pod.namespace, "Deployment", name)
        case "Job" if name and _is_minute_before(ending, pod.created_at):
            return Workload(pod.namespace, "CronJob", name)
    return workload


def _is_minute_before(text: str, at: float) -> bool:
    """Whether a text is a time in whole minutes, a short while before; a date or a build's number is none."""
    return len(text) == 8 and text.isdecimal() and 0 <= at - int(text) * 60.0 <= _MOST_AGE_SECONDS
