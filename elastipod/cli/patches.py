"""Recommended sizes as patches of workloads' templates, ready for `kubectl apply --server-side`.

Owns their form, what becomes of limits, and which rows are worth a patch; the others are named with the reason.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import yaml

from elastipod.cli.output import shown
from elastipod.pods import Workload
from elastipod.quantities import format_cpu, format_memory

_APPS: Final = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
_MIB: Final = 1024**2
_ENOUGH: Final = "enough"
_HEAD: Final = (
    "# Apply with: kubectl apply --server-side --force-conflicts --field-manager=elastipod -f FILE\n"
    "# Pods are made anew when their template changes.\n"
)

Row = dict[str, Any]


def patches(rows: Iterable[Row]) -> Iterator[str]:
    """YAML documents, a patch for each workload that has something to gain."""
    yield _HEAD
    by_workload: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_workload.setdefault((row["namespace"], row["workload"]), []).append(row)
    for (namespace, workload), found in by_workload.items():
        kind, _, name = workload.partition("/")
        worth = []
        for row in found:
            why_not = _why_not(kind, row)
            if why_not:
                yield f"# {shown(namespace)}/{shown(workload)}, {shown(row['container'])}: {shown(why_not)}\n"
            else:
                worth.append(row)
        if worth:
            yield "---\n" + yaml.safe_dump(_manifest(namespace, kind, name, worth), sort_keys=False)


def patch_of(owner: Workload, rows: Iterable[Row]) -> str:
    """One workload's patch as a YAML document; nothing where it has nothing to gain."""
    worth = [row for row in rows if not _why_not(owner.kind, row)]
    return yaml.safe_dump(_manifest(owner.namespace, owner.kind, owner.name, worth), sort_keys=False) if worth else ""


def _why_not(kind: str, row: Row) -> str:
    target = row["target"]
    if target["cpu_millicores"] is None and target["memory_bytes"] is None:
        return row["message"] or "there is no recommendation yet"
    if row["confidence"] != _ENOUGH:
        return "there is too little history to act on"
    if row.get("reason") == "WithinBounds":
        return "the requests lie within the recommended bounds"
    if kind not in (*_APPS, "CronJob"):
        return f"the template of a {kind} can not be changed"
    return ""


def _resources(row: Row) -> dict[str, dict[str, str]]:
    """Requests, and limits that keep their ratio to them."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for resource, unit, written in (("cpu", "cpu_millicores", format_cpu), ("memory", "memory_bytes", _whole_mib)):
        target, before, limit = row["target"][unit], row["requests"][unit], row["limits"][unit]
        if target is None:
            continue
        requests[resource] = written(target)
        if limit is not None:
            # Rounded alike, so that what was equal stays so: the QoS class hangs on it.
            least = target if not before else -(-target * max(limit, before) // before)
            limits[resource] = written(least if before else max(limit, target))
    return {"requests": requests} | ({"limits": limits} if limits else {})


def _whole_mib(memory_bytes: int) -> str:
    return format_memory(-(-memory_bytes // _MIB) * _MIB)


def _manifest(namespace: str, kind: str, name: str, rows: list[Row]) -> Row:
    spec: dict[str, list[Row]] = {}
    for row in rows:
        # A native sidecar stands among the init containers.
        where = "initContainers" if row.get("is_sidecar") else "containers"
        spec.setdefault(where, []).append({"name": row["container"], "resources": _resources(row)})
    template: Row = {"template": {"spec": spec}}
    is_app = kind in _APPS
    return {
        "apiVersion": "apps/v1" if is_app else "batch/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": template if is_app else {"jobTemplate": {"spec": template}},
    }
