"""What a pod is sized as, where it might be as several workloads.

Owns the one rule for all parts: which workloads are eligible, which of them counts, and the groups that an
ElasticPolicy makes of pods that no controller outlasts. A workload is claimed by whoever names it as a target.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from elastipod.api import Autoscaler, ElasticPolicy, TargetRef
from elastipod.owners import Owned, kind_in, workloads
from elastipod.pods import Pod, Workload
from elastipod.policy import selects

GROUP_KIND: Final = "ElasticPolicy"


def target_of(autoscaler: Autoscaler | None) -> Workload | None:
    """The workload that an autoscaler claims."""
    reference = autoscaler.spec.target_ref if autoscaler is not None else None
    return named_by(reference, autoscaler.metadata.namespace) if autoscaler and reference else None


def named_by(reference: TargetRef, namespace: str) -> Workload:
    """The workload that a reference means."""
    return Workload(namespace, kind_in(reference.api_version, reference.kind), reference.name)


def group_of(policy: ElasticPolicy) -> Workload:
    """The pods that a policy selects, as one workload."""
    return Workload(policy.metadata.namespace, GROUP_KIND, policy.metadata.name)


def eligible(
    pod: Pod, owned_by_uid: Mapping[str, Owned], policies: Iterable[ElasticPolicy] = ()
) -> tuple[Workload, ...]:
    """What a pod may be sized as: the groups it is in, then its owners, nearest first.

    A policy without a selector makes no group: it is the namespace.
    """
    owners = workloads(pod, owned_by_uid)
    groups = tuple(
        group_of(policy)
        for policy in policies
        if policy.spec.selector is not None and selects(policy, owners[-1], pod.labels)
    )
    return (*groups, *owners)


def chosen(choices: tuple[Workload, ...], claimed: Collection[Workload]) -> Workload:
    """The highest that is claimed; the highest of all where none is."""
    return next((one for one in reversed(choices) if one in claimed), choices[-1])


class Eligible:
    """What each pod might be sized as; a pod with one choice only is not remembered.

    By it a claim that comes or goes is followed at once.
    """

    def __init__(self) -> None:
        self._choices: dict[str, tuple[Workload, ...]] = {}
        self._pods: dict[Workload, set[str]] = {}

    def set(self, key: str, choices: tuple[Workload, ...]) -> None:
        """A pod might be sized as these now."""
        choices = choices if len(choices) > 1 else ()
        before = self._choices.pop(key, ())
        if choices:
            self._choices[key] = choices
        if choices == before:
            return
        for workload in before:
            self._pods[workload].discard(key)
            if not self._pods[workload]:
                del self._pods[workload]
        for workload in choices:
            self._pods.setdefault(workload, set()).add(key)

    def choices(self, key: str) -> tuple[Workload, ...]:
        """What a pod might be sized as; nothing where there is no choice."""
        return self._choices.get(key, ())

    def pods(self, workload: Workload) -> list[str]:
        """The keys of the pods that might be sized as this workload, and as another."""
        return sorted(self._pods.get(workload, ()))
