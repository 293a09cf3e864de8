"""How many pods of a workload may be restarted at once.

Owns the arithmetic for resizes whose resizePolicy restarts a container: PodDisruptionBudgets, the policy's minReplicas
and a share of the replicas. A resize without a restart is no disruption and is not asked about here.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass

from elastipod.kube.disruptions import DisruptionLimit
from elastipod.reasons import Reason


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
