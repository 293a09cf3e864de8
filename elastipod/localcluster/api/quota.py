"""ResourceQuota: what a namespace may use in all, and what it uses.

Owns usage per pod (the largest of spec, allocated and in force, as the 1.37 evaluator counts), the check of a write
and the quota's status.
"""

from collections.abc import Mapping
from typing import Any, Final

from elastipod.localcluster.api.failures import forbidden
from elastipod.localcluster.api.kinds import POD, RESOURCE_QUOTA
from elastipod.localcluster.api.podspec import amounts_of, containers_of, largest, nano, pod_amounts, show_amount
from elastipod.localcluster.api.store import Change, Entry, Store

Json = dict[str, Any]

_ONE: Final = 1_000_000_000
_AMOUNTS: Final = {
    "cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    "requests.cpu": ("requests", "cpu"),
    "requests.memory": ("requests", "memory"),
    "limits.cpu": ("limits", "cpu"),
    "limits.memory": ("limits", "memory"),
}
_COUNTS: Final = ("pods", "count/pods")
COUNTED: Final = (*_AMOUNTS, *_COUNTS)
"""What a quota can limit here."""


class Quotas:
    """The quotas of all namespaces of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._usage: dict[tuple[str, str], tuple[int, dict[str, int]]] = {}
        store.subscribe(POD, self._see)
        store.subscribe(RESOURCE_QUOTA, self._see)

    def check(self, pod: Json, old: Entry | None) -> None:
        """Refuse a pod, or its change, that the namespace has no room for. Raises ApiFailure."""
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        for quota in sorted(self._store.of_kind(RESOURCE_QUOTA, namespace), key=lambda one: one.name):
            hard = _hard(quota)
            if lacking := _unstated(pod["spec"], hard):
                raise forbidden("pods", name, f"failed quota: {quota.name}: must specify {lacking}")
            after, before = pod_usage(pod), pod_usage(old.json) if old else {}
            more = {key: after.get(key, 0) - before.get(key, 0) for key in hard}
            used = self._used(namespace, hard)
            over = [key for key in hard if more[key] > 0 and used[key] + more[key] > hard[key]]
            if over:
                requested, limited = _shown(over, more), _shown(over, hard)
                figures = f"requested: {requested}, used: {_shown(over, used)}, limited: {limited}"
                why = f"exceeded quota: {quota.name}, {figures}"
                raise forbidden("pods", name, why)

    def _see(self, change: Change) -> None:
        """Within a write of a pod or a quota: bring the status of the namespace's quotas up to date."""
        if change.type == "DELETED":
            self._usage.pop((change.entry.namespace, change.entry.name), None)
        for quota in self._store.of_kind(RESOURCE_QUOTA, change.entry.namespace):
            hard = _hard(quota)
            used = self._used(quota.namespace, hard)
            stated = quota.json["spec"].get("hard") or {}
            status = {"hard": stated, "used": {key: show_amount(key, used[key]) for key in stated if key in used}}
            if quota.json.get("status") != status:
                self._store.put(RESOURCE_QUOTA, {**quota.json, "status": status})

    def _used(self, namespace: str, hard: Mapping[str, int]) -> dict[str, int]:
        used = dict.fromkeys(hard, 0)
        for pod in self._store.of_kind(POD, namespace):
            for key, amount in self._usage_of(pod).items():
                if key in used:
                    used[key] += amount
        return used

    def _usage_of(self, pod: Entry) -> dict[str, int]:
        known = self._usage.get((pod.namespace, pod.name))
        if known is None or known[0] != pod.version:
            known = (pod.version, pod_usage(pod.json))
            self._usage[(pod.namespace, pod.name)] = known
        return known[1]


def pod_usage(pod: Json) -> dict[str, int]:
    """What a pod counts for; nothing once it has ended."""
    status = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return {}
    usage = dict.fromkeys(_COUNTS, _ONE)
    sums = {part: pod_amounts(pod["spec"], part, _in_force(status, part)) for part in ("requests", "limits")}
    for key, (part, resource) in _AMOUNTS.items():
        usage[key] = sums[part].get(resource, 0)
    return usage


def _in_force(status: Json, part: str) -> dict[str, dict[str, int]]:
    """By container: what was allocated or is in force."""
    found: dict[str, dict[str, int]] = {}
    for field in ("initContainerStatuses", "containerStatuses"):
        for one in status.get(field) or ():
            amounts = amounts_of(one.get("resources"), part)
            if part == "requests":
                allocated = {key: nano(text) for key, text in (one.get("allocatedResources") or {}).items()}
                amounts = largest(amounts, allocated)
            if amounts:
                found[one.get("name", "")] = amounts
    return found


def _hard(quota: Entry) -> dict[str, int]:
    return {key: nano(text) for key, text in (quota.json["spec"].get("hard") or {}).items()}


def _unstated(spec: Json, hard: Mapping[str, int]) -> str:
    """What a quota obliges every container to state and one does not, as the API server shows it."""
    missing = []
    for key in sorted(hard):
        if key in _COUNTS:
            continue
        part, resource = _AMOUNTS[key]
        if resource in amounts_of(spec.get("resources"), part):
            continue
        names = sorted(
            one.get("name", "") for one in containers_of(spec) if resource not in amounts_of(one.get("resources"), part)
        )
        if names:
            missing.append(f"{key} for: {','.join(names)}")
    return "; ".join(missing)


def _shown(keys: list[str], amounts: Mapping[str, int]) -> str:
    return ",".join(f"{key}={show_amount(key, amounts[key])}" for key in sorted(keys))
