"""StatefulSets: pods with names that stay, one after the other."""

from collections.abc import Iterable

from elastipod.kube.resources import PODS, STATEFUL_SETS
from elastipod.localcluster.controllers.actions import (
    Create,
    Decision,
    Delete,
    Json,
    is_active,
    is_ending,
    is_ready,
    name_of,
    owned_by,
    phase_of,
    pod_of,
    template_hash,
)

_REVISION = "controller-revision-hash"


def decide(stateful: Json, all_pods: Iterable[Json]) -> Decision:
    """The next pod to make, to end or to replace."""
    found = Decision()
    replicas = int(stateful["spec"].get("replicas", 1))
    revision = f"{name_of(stateful)[:40]}-{template_hash(stateful['spec']['template'])}"
    pods = {name_of(pod): pod for pod in owned_by(stateful, all_pods)}
    if not is_ending(stateful):
        _keep(stateful, pods, replicas, revision, found)
    _tell(stateful, pods, replicas, revision, found)
    return found


def _keep(stateful: Json, pods: dict[str, Json], replicas: int, revision: str, found: Decision) -> None:
    one_by_one = stateful["spec"].get("podManagementPolicy") != "Parallel"
    wanted = [f"{name_of(stateful)}-{ordinal}" for ordinal in range(replicas)]
    for name in wanted:
        pod = pods.get(name)
        if pod is None:
            labels = {_REVISION: revision, "statefulset.kubernetes.io/pod-name": name}
            labels["apps.kubernetes.io/pod-index"] = name.rpartition("-")[2]
            found.actions.append(Create(PODS, pod_of(STATEFUL_SETS, stateful, name, labels)))
        elif phase_of(pod) in ("Failed", "Succeeded") and not is_ending(pod):
            found.actions.append(Delete(PODS, pod))
        elif is_active(pod) and is_ready(pod):
            continue
        if one_by_one:
            return
    surplus = sorted((pod for name, pod in pods.items() if name not in wanted), key=_ordinal, reverse=True)
    if surplus:
        gone = surplus[:1] if one_by_one else surplus
        found.actions += [Delete(PODS, pod) for pod in gone if not is_ending(pod)]
        return
    if (stateful["spec"].get("updateStrategy") or {}).get("type") == "OnDelete":
        return
    rolling = (stateful["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    outdated = [
        pod
        for pod in pods.values()
        if _revision(pod) != revision and _ordinal(pod) >= int(rolling.get("partition") or 0)
    ]
    if outdated and all(is_active(pod) and is_ready(pod) for pod in pods.values()):
        found.actions.append(Delete(PODS, max(outdated, key=_ordinal)))


def _tell(stateful: Json, pods: dict[str, Json], replicas: int, revision: str, found: Decision) -> None:
    active = [pod for pod in pods.values() if is_active(pod)]
    ready = sum(is_ready(pod) for pod in active)
    updated = sum(_revision(pod) == revision for pod in active)
    before = (stateful.get("status") or {}).get("currentRevision") or revision
    is_done = updated == len(active) == replicas
    status = {
        "observedGeneration": stateful["metadata"].get("generation", 1),
        "replicas": len(active),
        "readyReplicas": ready or None,
        "availableReplicas": ready,
        "updatedReplicas": updated or None,
        "currentReplicas": (updated if is_done else len(active) - updated) or None,
        "currentRevision": revision if is_done else before,
        "updateRevision": revision,
    }
    found.set_status(STATEFUL_SETS, stateful, status)


def _ordinal(pod: Json) -> int:
    number = name_of(pod).rpartition("-")[2]
    return int(number) if number.isdigit() else -1


def _revision(pod: Json) -> str:
    return str((pod["metadata"].get("labels") or {}).get(_REVISION) or "")
