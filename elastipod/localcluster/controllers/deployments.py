"""Deployments: one ReplicaSet per template, rolled over within surge and unavailability."""

from collections.abc import Iterable

from elastipod.kube.resources import DEPLOYMENTS, REPLICA_SETS, ResourceType
from elastipod.localcluster.controllers.actions import (
    Create,
    Decision,
    Delete,
    Json,
    Patch,
    condition,
    instant,
    is_ending,
    name_of,
    owned_by,
    owner_reference,
    share,
    template_hash,
)

_HASH = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"


def decide(deployment: Json, all_sets: Iterable[Json], now: str) -> Decision:
    """The next step of a rollout, or none."""
    found = Decision()
    spec = deployment["spec"]
    sets = owned_by(deployment, all_sets)
    hashed = template_hash(spec["template"])
    newest = next((one for one in sets if (one["metadata"].get("labels") or {}).get(_HASH) == hashed), None)
    old = [one for one in sets if one is not newest]
    if not is_ending(deployment) and not spec.get("paused"):
        revision = max(map(_revision, old), default=0) + 1
        if newest is None:
            first = _replicas_at_first(spec, old)
            found.actions.append(Create(REPLICA_SETS, _new_set(deployment, hashed, first, revision)))
        else:
            _roll(spec, newest, old, found)
            revision = max(_revision(newest), revision)
            _number(REPLICA_SETS, newest, revision, found)
        _number(DEPLOYMENTS, deployment, revision, found)
        _drop_history(spec, old, found)
    _tell(deployment, newest, sets, found, now)
    return found


def _revision(json: Json) -> int:
    """Which template in a row it is; what `kubectl rollout undo` goes back by."""
    stated = (json["metadata"].get("annotations") or {}).get(_REVISION, "")
    return int(stated) if stated.isdecimal() else 0


def _number(resource: ResourceType, json: Json, revision: int, found: Decision) -> None:
    if _revision(json) != revision:
        body = {"metadata": {"annotations": {_REVISION: str(revision)}}}
        found.actions.append(Patch(resource, json, body, "status"))


def _replicas_at_first(spec: Json, old: list[Json]) -> int:
    running = sum(_stated(one) for one in old)
    if _is_recreate(spec):
        return 0 if running or any(_alive(one) for one in old) else int(spec["replicas"])
    replicas = int(spec["replicas"])
    return max(min(replicas, replicas + _surge(spec) - running), 0)


def _roll(spec: Json, newest: Json, old: list[Json], found: Decision) -> None:
    replicas = int(spec["replicas"])
    has_old = any(_stated(one) for one in old)
    if _is_recreate(spec):
        for one in old:
            _scale(one, 0, found)
        if not has_old and not any(_alive(one) for one in old):
            _scale(newest, replicas, found)
        return
    total = _stated(newest) + sum(_stated(one) for one in old)
    if _stated(newest) > replicas or not has_old:
        _scale(newest, replicas, found)
    else:
        grow = min(replicas - _stated(newest), max(replicas + _surge(spec) - total, 0))
        _scale(newest, _stated(newest) + grow, found)
    least_available = replicas - _unavailable(spec)
    not_yet = max(_stated(newest) - _available(newest), 0)
    shrink = max(total - least_available - not_yet, 0)
    # What does not run anyway goes first.
    for one in sorted(old, key=lambda each: (_available(each), name_of(each))):
        less = min(_stated(one), shrink)
        _scale(one, _stated(one) - less, found)
        shrink -= less


def _tell(deployment: Json, newest: Json | None, sets: list[Json], found: Decision, now: str) -> None:
    replicas = int(deployment["spec"]["replicas"])
    total = sum(_alive(one) for one in sets)
    available = sum(_available(one) for one in sets)
    updated = _alive(newest) if newest is not None else 0
    least = replicas - _unavailable(deployment["spec"])
    is_done = updated == total == replicas and available >= replicas
    old = deployment.get("status") or {}
    enough = ("MinimumReplicasAvailable", "Deployment has minimum availability.")
    too_few = ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    reached = ("NewReplicaSetAvailable", "The newest ReplicaSet has progressed.")
    going = ("ReplicaSetUpdated", "The newest ReplicaSet is progressing.")
    is_available = available >= least
    status = {
        "observedGeneration": deployment["metadata"].get("generation", 1),
        "replicas": total or None,
        "updatedReplicas": updated or None,
        "readyReplicas": available or None,
        "availableReplicas": available or None,
        "unavailableReplicas": max(max(total, replicas) - available, 0) or None,
        "conditions": [
            condition(old, "Available", is_available, *(enough if is_available else too_few), now),
            condition(old, "Progressing", True, *(reached if is_done else going), now),
        ],
    }
    found.set_status(DEPLOYMENTS, deployment, status)


def _drop_history(spec: Json, old: list[Json], found: Decision) -> None:
    idle = [one for one in old if not _stated(one) and not _alive(one)]
    idle.sort(key=lambda one: (instant(one["metadata"].get("creationTimestamp")), name_of(one)))
    for one in idle[: max(len(idle) - int(spec.get("revisionHistoryLimit", 10)), 0)]:
        found.actions.append(Delete(REPLICA_SETS, one))


def _new_set(deployment: Json, hashed: str, replicas: int, revision: int) -> Json:
    meta, spec = deployment["metadata"], deployment["spec"]
    template = dict(spec["template"])
    labels = {**((template.get("metadata") or {}).get("labels") or {}), _HASH: hashed}
    template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
    selector = dict(spec.get("selector") or {})
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _HASH: hashed}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{meta['name'][:240]}-{hashed}",
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": {_REVISION: str(revision)},
            "ownerReferences": [owner_reference(DEPLOYMENTS, deployment)],
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


def _scale(replica_set: Json, replicas: int, found: Decision) -> None:
    if _stated(replica_set) != replicas:
        found.actions.append(Patch(REPLICA_SETS, replica_set, {"spec": {"replicas": replicas}}))


def _is_recreate(spec: Json) -> bool:
    return bool((spec.get("strategy") or {}).get("type") == "Recreate")


def _surge(spec: Json) -> int:
    rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
    surge = share(rolling.get("maxSurge", "25%"), spec["replicas"], round_up=True)
    return surge if surge or _unavailable(spec) else 1


def _unavailable(spec: Json) -> int:
    if _is_recreate(spec):
        return int(spec["replicas"])
    rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
    return share(rolling.get("maxUnavailable", "25%"), spec["replicas"], round_up=False)


def _stated(replica_set: Json) -> int:
    return int(replica_set["spec"].get("replicas", 1))


def _alive(replica_set: Json) -> int:
    return int((replica_set.get("status") or {}).get("replicas") or 0)


def _available(replica_set: Json) -> int:
    return int((replica_set.get("status") or {}).get("availableReplicas") or 0)
