"""Evictions: what a PodDisruptionBudget allows.

Owns the check of the eviction subresource, the spending of one allowed disruption and the condition that tells of it.
Budgets' status is kept by their controller; the pod is deleted by the caller.
"""

from typing import Any

from elastipod.clock import to_rfc3339
from elastipod.localcluster.api.failures import bad_request, too_many_requests, unnamed
from elastipod.localcluster.api.kinds import DISRUPTION_BUDGET
from elastipod.localcluster.api.selectors import selector_of
from elastipod.localcluster.api.store import Entry, Store

Json = dict[str, Any]

_EVICTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def check_body(body: Json, pod: Entry) -> None:
    """That the body is an Eviction of this pod. Raises ApiFailure."""
    stated = (body.get("apiVersion") or "policy/v1", body.get("kind") or "Eviction")
    if stated != ("policy/v1", "Eviction"):
        raise bad_request(f"{str(stated)[:120]} can not be handled as a policy/v1 Eviction")
    meta = body.get("metadata") or {}
    for field in ("metadata", "deleteOptions"):
        if not isinstance(body.get(field, {}), dict | None):
            raise bad_request(f'Eviction in version "v1" cannot be handled as a Eviction: {field} is no JSON object')
    for field, wanted in (("name", pod.name), ("namespace", pod.namespace)):
        if meta.get(field) and meta[field] != wanted:
            raise bad_request(f"the {field} in the body ({str(meta[field])[:80]}) does not match the pod's ({wanted})")


def marked_as_evicted(pod: Json, at: str) -> Json:
    """The pod with the condition that says why it goes."""
    status = pod.get("status") or {}
    rest = [one for one in status.get("conditions") or () if one.get("type") != "DisruptionTarget"]
    return {**pod, "status": {**status, "conditions": [*rest, {**_EVICTED, "lastTransitionTime": at}]}}


def spend_budget(store: Store, pod: Entry, now: float, *, dry_run: bool) -> None:
    """Take one disruption from the pod's budget. Raises ApiFailure: 429 where there is none left."""
    status = pod.json.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed", "Pending") or pod.json["metadata"].get("deletionTimestamp"):
        return
    budgets = [one for one in store.of_kind(DISRUPTION_BUDGET, pod.namespace) if _covers(one, pod)]
    if len(budgets) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise unnamed(message)
    if not budgets:
        return
    budget = budgets[0]
    if _is_free(budget.json, status):
        return
    left = budget.json.get("status") or {}
    if left.get("observedGeneration", 0) < budget.json["metadata"].get("generation", 0):
        message = f"The disruption budget {budget.name} is still being processed by the server."
        raise too_many_requests(_REFUSED, 10, [{"reason": "DisruptionBudget", "message": message}])
    if left.get("disruptionsAllowed", 0) <= 0:
        message = (
            f"The disruption budget {budget.name} needs {left.get('desiredHealthy', 0)} healthy pods"
            f" and has {left.get('currentHealthy', 0)} currently"
        )
        raise too_many_requests(_REFUSED, 0, [{"reason": "DisruptionBudget", "message": message}])
    if not dry_run:
        spent = {
            **left,
            "disruptionsAllowed": left["disruptionsAllowed"] - 1,
            "disruptedPods": {**(left.get("disruptedPods") or {}), pod.name: to_rfc3339(now)},
        }
        store.put(DISRUPTION_BUDGET, {**budget.json, "status": spent})


def _covers(budget: Entry, pod: Entry) -> bool:
    selector = selector_of(budget.json["spec"].get("selector"))
    return selector is not None and selector.matches(pod.json["metadata"].get("labels") or {})


def _is_free(budget: dict[str, Any], pod_status: dict[str, Any]) -> bool:
    """A pod that is not ready may go whenever the budget's policy says so (IfHealthyBudget is the default)."""
    if any(one.get("type") == "Ready" and one.get("status") == "True" for one in pod_status.get("conditions") or ()):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    left = budget.get("status") or {}
    return bool(left.get("desiredHealthy", 0) > 0 and left.get("currentHealthy", 0) >= left["desiredHealthy"])
