"""Where a pod could run.

Owns the part of a scheduler's judgement that we need to make room on a node that is worth it, and to tell which nodes
would be empty: readiness, node selector and required node affinity, taints, the count of pods, and required
anti-affinity. Room is fit.py's matter; volumes are the scheduler's, and room made in vain is given back.
"""

from collections.abc import Iterable

from elastipod.pods import Node, Pod, Taint, Toleration


def may_run(pod: Pod, node: Node, pods_there: int) -> bool:
    """Whether the node would take the pod if it had the room and nobody stood in its way."""
    if not node.is_ready or node.is_unschedulable or pods_there >= node.allocatable_pods:
        return False
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    if pod.affinity.nodes is not None and not any(
        all(one.holds(node.labels) for one in term) for term in pod.affinity.nodes
    ):
        return False
    return all(
        taint.effect == "PreferNoSchedule" or any(_tolerates(one, taint) for one in pod.tolerations)
        for taint in node.taints
    )


def keep_apart(pod: Pod, others: Iterable[Pod]) -> bool:
    """Whether the pod, or one of the others on the same node, wants no such neighbour."""
    if not pod.affinity.apart:
        # As most pods, of which there are many.
        return any(_keeps_away(other, pod) for other in others if other.affinity.apart)
    return any(_keeps_away(pod, other) or _keeps_away(other, pod) for other in others)


def _keeps_away(pod: Pod, other: Pod) -> bool:
    return any(
        (other.namespace in apart.namespaces if apart.namespaces else other.namespace == pod.namespace)
        and apart.selector.selects(other.labels)
        for apart in pod.affinity.apart
    )


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.key == taint.key and toleration.value == taint.value
