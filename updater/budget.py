"""How many pods of a workload may be restarted at once.

Owns the arithmetic for resizes whose resizePolicy restarts a container: PodDisruptionBudgets, the policy's minReplicas
and a share of the replicas. A resize without a restart is no disruption and is not asked about here.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Final

from msgspec import Struct

from elastipod.kube.decoding import whole
from elastipod.reasons import Reason
from elastipod.selectors import LabelSelector


class _Meta(Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Spec(Struct, frozen=True, gc=False):
    selector: LabelSelector | None = None


class _Status(Struct, frozen=True, gc=False, rename="camel"):
    disruptions_allowed: int = 0


class DisruptionLimit(Struct, frozen=True, gc=False):
    """A PodDisruptionBudget, as far as we read it."""

    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether it speaks of a pod with these labels (policy/v1: an empty selector speaks of all)."""
        selector = self.spec.selector
        return namespace == self.metadata.namespace and selector is not None and selector.selects(labels)


decode_disruption_limit: Final = whole(DisruptionLimit)


@dataclass(frozen=True, slots=True)
class Replicas:
    """The pods of a workload: how many are wanted, and which are well."""

    wanted: int
    ready: Set[str]
    min_replicas: int
    restarting: Set[str] = frozenset()
    """Told to restart and not yet seen to have."""


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """The share of a workload that may be disturbed at once; at least one pod."""

    fraction: float = 0.5

    def obstacle(
        self, key: str, replicas: Replicas, limits: Iterable[DisruptionLimit], *, asked: bool = False
    ) -> tuple[Reason, str] | None:
        """Why the pod may not be restarted now; None where it may.

        A pod that is not ready disturbs nobody. What a person asked for by name is not held to minReplicas.
        """
        if key not in replicas.ready:
            return None
        if not asked and len(replicas.ready) < replicas.min_replicas:
            message = f"{len(replicas.ready)} replicas are ready, the policy asks for {replicas.min_replicas}"
            return Reason.MIN_REPLICAS, message
        most = max(int(replicas.wanted * self.fraction), 1)
        disturbed = max(replicas.wanted - len(replicas.ready), 0) + len(replicas.restarting & replicas.ready - {key})
        if disturbed >= most:
            return Reason.DISRUPTION_BUDGET, f"{disturbed} of {replicas.wanted} replicas are disturbed, {most} may be"
        for limit in limits:
            allowed = limit.status.disruptions_allowed - len(replicas.restarting & replicas.ready - {key})
            if allowed <= 0:
                message = f"PodDisruptionBudget {limit.metadata.name} allows no disruption now"
                return Reason.DISRUPTION_BUDGET, message
        return None
