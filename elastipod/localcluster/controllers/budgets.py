"""PodDisruptionBudgets: how many of their pods may be disturbed now."""

from collections.abc import Callable, Iterable
from typing import Final

from elastipod.kube.resources import POD_DISRUPTION_BUDGETS
from elastipod.localcluster.api.selectors import selector_of
from elastipod.localcluster.controllers.actions import Decision, Json, instant, is_active, is_ready, name_of, share

_FORGET_SECONDS: Final = 120.0
"""An eviction that was allowed and did not come about is forgotten after this long."""


def decide(budget: Json, all_pods: Iterable[Json], expected_of: Callable[[Json], int], now: float) -> Decision:
    """The budget's status. `expected_of` is how many pods the controller of a pod means to have."""
    found = Decision()
    spec, status = budget["spec"], budget.get("status") or {}
    selector = selector_of(spec.get("selector"))
    namespace = budget["metadata"]["namespace"]
    pods = {
        name_of(pod): pod
        for pod in all_pods
        if pod["metadata"]["namespace"] == namespace
        and selector is not None
        and selector.matches(pod["metadata"].get("labels") or {})
        and is_active(pod)
    }
    disrupted = {
        name: at
        for name, at in (status.get("disruptedPods") or {}).items()
        if name in pods and now < instant(at) + _FORGET_SECONDS
    }
    healthy = sum(is_ready(pod) for name, pod in pods.items() if name not in disrupted)
    expected = _expected(spec, pods.values(), expected_of)
    if "maxUnavailable" in spec:
        desired = max(expected - share(spec["maxUnavailable"], expected, round_up=True), 0)
    else:
        desired = share(spec.get("minAvailable", 0), expected, round_up=True)
    told = {
        "observedGeneration": budget["metadata"].get("generation", 1),
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": max(healthy - desired, 0) if expected else 0,
    }
    # A merge patch takes away only what it names.
    gone = {name: None for name in status.get("disruptedPods") or {} if name not in disrupted}
    if gone:
        told["disruptedPods"] = gone
    found.set_status(POD_DISRUPTION_BUDGETS, budget, told)
    if disrupted:
        found.look_again_at = min(instant(at) for at in disrupted.values()) + _FORGET_SECONDS
    return found


def _expected(spec: Json, pods: Iterable[Json], expected_of: Callable[[Json], int]) -> int:
    pods = list(pods)
    if "maxUnavailable" not in spec and isinstance(spec.get("minAvailable"), int):
        return len(pods)
    by_owner = {}
    for pod in pods:
        references = [one["uid"] for one in pod["metadata"].get("ownerReferences") or () if one.get("controller")]
        by_owner[references[0] if references else name_of(pod)] = expected_of(pod)
    return sum(by_owner.values())
