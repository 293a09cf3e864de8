"""What the updater tells of one pod: has, wants, why, why not, since when, and when it tries next.

Owns the form for people and programs (`elastipod explain`). Decides nothing.
"""

from typing import Any

from elastipod.api import resource_list
from elastipod.clock import to_rfc3339
from elastipod.nodeclass import node_class
from elastipod.pods import Pod
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from updater.attempt import Attempt
from updater.fleet import Fleet
from updater.giving import Giving
from updater.plan import Decision
from updater.sizes import Advice, Size, Sizes, size_of


def explain_pod(
    pod: Pod, fleet: Fleet, decision: Decision | None, attempt: Attempt | None, giving: Giving, now: float
) -> dict[str, Any]:
    """JSON-able facts about a pod; what does not apply is left out."""
    advice, conflict, foreign = fleet.claim(pod.key)
    room = fleet.ledger.room(pod.node_name)
    debt = giving.debts.get(pod.key)
    found: dict[str, Any] = {
        "pod": pod.key,
        "uid": pod.uid,
        "at": to_rfc3339(now),
        "node": pod.node_name,
        "nodeClass": _node_class(fleet, pod, advice),
        "workload": str(fleet.workload(pod.key) or ""),
        "autoscaler": advice.name if advice else "",
        "mode": advice.mode.value if advice else "",
        "problems": list(advice.problems) if advice else [],
        "conflict": conflict,
        "otherRecommender": foreign,
        "has": _sizes({one.name: size_of(one) for one in pod.sized_containers}),
        "allocated": {one.name: resource_list(one.allocated or Resources()) for one in pod.sized_containers},
        "actual": _sizes(
            {
                one.name: Size(one.actual_requests or Resources(), one.actual_limits or Resources())
                for one in pod.sized_containers
            }
        ),
        "progress": pod.resize_progress.value,
        "decision": _decision(decision),
        "attempt": _attempt(attempt),
        "freeOnNode": resource_list(room.free) if room else None,
        "gave": {"had": _sizes(debt.had), "since": to_rfc3339(debt.since)} if debt else None,
    }
    return {name: value for name, value in found.items() if value not in (None, "", [], {}, False)}


def _node_class(fleet: Fleet, pod: Pod, advice: Advice | None) -> str:
    """The class of nodes that the pod's size is for; nothing where one size is for all."""
    node = fleet.ledger.nodes.get(pod.node_name)
    if node is None or advice is None or advice.on_node(node) is advice:
        return ""
    return node_class(node)


def _decision(decision: Decision | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    resize = decision.resize
    found: dict[str, Any] = {
        **_reason(decision.reason),
        "message": decision.message,
        "notes": [_reason(note) for note in decision.notes],
        "wantsNow": _sizes(resize.sizes) if resize else {},
        "wantsInTheEnd": _sizes(resize.goal) if resize else {},
        "lookAgainAt": to_rfc3339(decision.look_again_at) if decision.look_again_at else "",
    }
    return {name: value for name, value in found.items() if value}


def _attempt(attempt: Attempt | None) -> dict[str, Any] | None:
    if attempt is None:
        return None
    found: dict[str, Any] = {
        "state": attempt.state.value,
        **_reason(attempt.reason),
        "message": attempt.message,
        "because": attempt.resize.reason.value,
        "wants": _sizes(attempt.resize.sizes),
        "since": to_rfc3339(attempt.since),
        "firstWantedAt": to_rfc3339(attempt.first_at),
        "tries": attempt.tries,
        "nextTryAt": to_rfc3339(attempt.next_at) if attempt.next_at is not None else "",
        "generation": attempt.generation,
    }
    return {name: value for name, value in found.items() if value not in ("", {})}


def _reason(reason: Reason) -> dict[str, str]:
    return {"reason": reason.value, "explanation": reason.explanation}


def _sizes(sizes: Sizes) -> dict[str, Any]:
    return {
        name: {"requests": resource_list(size.requests), "limits": resource_list(size.limits)}
        for name, size in sizes.items()
    }
