"""Where a pending pod could run.

Owns the part of a scheduler's judgement that we need to make room on a node that is worth it: readiness, selector,
taints, the count of pods. Affinity and volumes are the scheduler's; room made in vain is given back.
"""

from elastipod.pods import Node, Pod, Taint, Toleration


def may_run(pod: Pod, node: Node, pods_there: int) -> bool:
    """Whether the node would take the pod if it had the room."""
    if not node.is_ready or node.is_unschedulable or pods_there >= node.allocatable_pods:
        return False
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    return all(
        taint.effect == "PreferNoSchedule" or any(_tolerates(one, taint) for one in pod.tolerations)
        for taint in node.taints
    )


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.key == taint.key and toleration.value == taint.value
