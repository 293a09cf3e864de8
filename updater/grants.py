"""Room that was promised and does not show yet.

Owns what was granted on a node, and from a namespace's quota, between the decision and the moment the cluster shows it.
Without it two resizes decided in the same instant would both be given the same room.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from elastipod.pods import Pod
from elastipod.quantities import Resources


class Grant(Struct, frozen=True, gc=False):
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
        self._on_nodes: dict[str, tuple[Resources, Resources]] = {}
        self._of_quotas: dict[str, dict[str, int]] = {}

    def give(self, uid: str, grant: Grant) -> None:
        """Promise; an older promise to the same pod is void."""
        self.void(uid)
        self._by_uid[uid] = grant
        self._add(grant, 1)

    def shown(self, pod: Pod) -> None:
        """The pod was seen: a promise that its spec now shows is over."""
        grant = self._by_uid.get(pod.uid)
        if grant is not None and (pod.generation > grant.generation or pod.is_terminal or pod.node_name != grant.node):
            self.void(pod.uid)

    def void(self, uid: str) -> None:
        """The request failed or the pod is gone."""
        grant = self._by_uid.pop(uid, None)
        if grant is not None:
            self._add(grant, -1)

    def on_node(self, node: str) -> tuple[Resources, Resources]:
        """What is promised on a node, in the scheduler's and in the kubelet's view; never less than nothing."""
        return self._on_nodes.get(node, _NOTHING)

    def of_quota(self, namespace: str) -> Mapping[str, int]:
        """What is promised from a namespace's quota."""
        return self._of_quotas.get(namespace, {})

    def __len__(self) -> int:
        return len(self._by_uid)

    def _add(self, grant: Grant, sign: int) -> None:
        for_scheduler, for_kubelet = self._on_nodes.get(grant.node, _NOTHING)
        self._on_nodes[grant.node] = (
            for_scheduler + _growth(grant.more_for_scheduler, sign),
            for_kubelet + _growth(grant.more_for_kubelet, sign),
        )
        of_namespace = self._of_quotas.setdefault(grant.namespace, {})
        for key, amount in grant.quota.items():
            if amount > 0:
                of_namespace[key] = of_namespace.get(key, 0) + sign * amount


_NOTHING: Final = (Resources(0, 0), Resources(0, 0))


def _growth(more: Resources, sign: int) -> Resources:
    """What shrinks frees nothing before it shows."""
    return Resources(sign * max(more.cpu, 0), sign * max(more.memory, 0))
