"""ReplicaSets: as many pods as stated."""

from collections.abc import Iterable

from elastipod.kube.resources import PODS, REPLICA_SETS
from elastipod.localcluster.controllers.actions import (
    Create,
    Decision,
    Delete,
    Json,
    free_name,
    instant,
    is_active,
    is_ending,
    is_ready,
    name_of,
    owned_by,
    pod_of,
)


def decide(replica_set: Json, all_pods: Iterable[Json]) -> Decision:
    """What is missing and what is too much."""
    found = Decision()
    pods = owned_by(replica_set, all_pods)
    active = [pod for pod in pods if is_active(pod)]
    wanted = replica_set["spec"].get("replicas", 1)
    if not is_ending(replica_set):
        taken = {name_of(pod) for pod in pods}
        for _ in range(wanted - len(active)):
            name = free_name(replica_set, taken)
            taken.add(name)
            found.actions.append(Create(PODS, pod_of(REPLICA_SETS, replica_set, name)))
        for pod in sorted(active, key=_goes_first)[: max(len(active) - wanted, 0)]:
            found.actions.append(Delete(PODS, pod))
    ready = sum(is_ready(pod) for pod in active)
    status = {
        "replicas": len(active),
        "fullyLabeledReplicas": len(active),
        "readyReplicas": ready or None,
        "availableReplicas": ready or None,
        "observedGeneration": replica_set["metadata"].get("generation", 1),
    }
    found.set_status(REPLICA_SETS, replica_set, status)
    return found


def _goes_first(pod: Json) -> tuple[bool, bool, float, str]:
    """Unplaced, then not ready, then newest."""
    created = instant(pod["metadata"].get("creationTimestamp"))
    return bool(pod["spec"].get("nodeName")), is_ready(pod), -created, name_of(pod)
