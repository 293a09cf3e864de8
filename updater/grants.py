"""Room that was promised and does not show yet.

Owns what was granted on a node, and from a namespace's quota, between the decision and the moment the cluster shows it.
Without it two resizes decided in the same instant would both be given the same room.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from elastipod.pods import Pod
from elastipod.quantities import Resources


@dataclass(frozen=True, slots=True)
class Grant:
    """What one pod was promised beyond what it holds."""

    node: str
    namespace: str
    more_for_scheduler: Resources
    more_for_kubelet: Resources
    quota: Mapping[str, int]
    generation: int
    """The pod's generation when it was granted; a newer one shows it."""


class Grants:
    """All promises that are open, one for each pod at most."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Grant] = {}

    def give(self, uid: str, grant: Grant) -> None:
        """Promise; an older promise to the same pod is void."""
        self._by_uid[uid] = grant

    def shown(self, pod: Pod) -> None:
        """The pod was seen: a promise that its spec now shows is over."""
        grant = self._by_uid.get(pod.uid)
        if grant is not None and (pod.generation > grant.generation or pod.is_terminal or pod.node_name != grant.node):
            del self._by_uid[pod.uid]

    def void(self, uid: str) -> None:
        """The request failed or the pod is gone."""
        self._by_uid.pop(uid, None)

    def is_open(self, uid: str) -> bool:
        """Whether something is promised to the pod."""
        return uid in self._by_uid

    def on_node(self, node: str) -> tuple[Resources, Resources]:
        """What is promised on a node, in the scheduler's and in the kubelet's view; never less than nothing."""
        for_scheduler = for_kubelet = Resources(0, 0)
        for grant in self._by_uid.values():
            if grant.node == node:
                for_scheduler += _growth(grant.more_for_scheduler)
                for_kubelet += _growth(grant.more_for_kubelet)
        return for_scheduler, for_kubelet

    def of_quota(self, namespace: str) -> dict[str, int]:
        """What is promised from a namespace's quota."""
        total: dict[str, int] = {}
        for grant in self._by_uid.values():
            if grant.namespace == namespace:
                for key, amount in grant.quota.items():
                    total[key] = total.get(key, 0) + max(amount, 0)
        return total

    def __len__(self) -> int:
        return len(self._by_uid)


def _growth(more: Resources) -> Resources:
    """What shrinks frees nothing before it shows."""
    return Resources(max(more.cpu, 0), max(more.memory, 0))
