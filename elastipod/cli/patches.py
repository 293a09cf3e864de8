"""Recommended sizes as patches of workloads' templates, ready for `kubectl apply --server-side`.

Owns their form, what becomes of limits, and which rows are worth a patch; the others are named with the reason. What
people have capped is obeyed, and the need beside it is told.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from textwrap import wrap
from typing import Any, Final

import yaml

from elastipod.cli.output import shown
from elastipod.nodeclass import parted
from elastipod.pods import Workload
from elastipod.quantities import format_cpu, format_memory

_APPS: Final = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
_FIXED: Final = ("Job", "Node", "Pod")
_MIB: Final = 1024**2
_WRITTEN: Final = (("cpu", "cpu_millicores", format_cpu), ("memory", "memory_bytes", format_memory))
_ENOUGH: Final = "enough"
_HEAD: Final = (
    "# Apply with: kubectl apply --server-side --force-conflicts --field-manager=elastipod -f FILE\n"
    "# Pods are made anew when their template changes.\n"
)

_WIDTH: Final = 110
_NONE_KNOWN: Final[Mapping[Workload, Collection[str]]] = {}

Row = dict[str, Any]


def patches(
    rows: Iterable[Row], notes: Iterable[str] = (), templates: Mapping[Workload, Collection[str]] = _NONE_KNOWN
) -> Iterator[str]:
    """YAML documents, a patch for each workload that has something to gain; notes are of all of them.

    `templates` are the names of the containers in those that are known.
    """
    yield _HEAD
    for note in notes:
        yield "".join(f"# {line}\n" for line in wrap(shown(note), _WIDTH))
    by_workload: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_workload.setdefault((row["namespace"], row["workload"]), []).append(row)
    for (namespace, workload), found in by_workload.items():
        kind, _, name = workload.partition("/")
        owner = Workload(namespace, kind, name)
        for row in found:
            if why_not := _why_not(kind, row, templates.get(owner)):
                yield f"# {shown(namespace)}/{shown(workload)}, {shown(row['container'])}: {shown(why_not)}\n"
        if text := patch_of(owner, found, templates.get(owner)):
            yield "---\n" + text


def patch_of(owner: Workload, rows: Iterable[Row], template: Collection[str] | None = None) -> str:
    """One workload's patch as a YAML document; nothing where it has nothing to gain."""
    rows = list(rows)
    worth = [row for row in rows if not _why_not(owner.kind, row, template)]
    if not worth:
        return ""
    if whole := _pod_resources(worth[0]):
        # The pod is to request what all its containers come to.
        worth = [row for row in rows if _has_target(row) and _stands_in(template, row)]
    doubts = "".join(
        f"# Not known: whether {shown(row['container'])} is a native sidecar; if so, it belongs under initContainers.\n"
        for row in worth
        if row.get("is_sidecar", False) is None
    )
    return "".join((doubts, *map(_held_down, worth))) + yaml.safe_dump(_manifest(owner, worth, whole), sort_keys=False)


def _held_down(row: Row) -> str:
    """Where a cap holds its targets below what it needs: a cap is obeyed, and that is said."""
    needed = row.get("needed", {})
    return "".join(
        f"# {shown(row['container'])} needs {resource} {written(needed[unit])}; a cap holds it down to "
        f"{written(row['target'][unit])}.\n"
        for resource, unit, written in _WRITTEN
        if row["target"][unit] is not None and (needed.get(unit) or 0) > row["target"][unit]
    )


def _why_not(kind: str, row: Row, template: Collection[str] | None) -> str:
    if not _has_target(row):
        return row["message"] or "there is no recommendation yet"
    if row["confidence"] != _ENOUGH:
        return "there is too little history to act on"
    if row.get("reason") == "WithinBounds":
        return "the requests lie within the recommended bounds"
    if parted(row["container"])[1]:
        return "a template has one size for all nodes, and this is for some"
    if not _stands_in(template, row):
        return "the template does not have it: something puts it into pods when they are made"
    if kind in _FIXED:
        return f"the template of a {kind} can not be changed"
    if kind not in (*_APPS, "CronJob"):
        return f"where the template of a {kind} stands is not known"
    return ""


def _stands_in(template: Collection[str] | None, row: Row) -> bool:
    return not parted(row["container"])[1] and (template is None or row["container"] in template)


def _has_target(row: Row) -> bool:
    return any(amount is not None for amount in row["target"].values())


def _pod_resources(row: Row) -> dict[str, dict[str, str]]:
    """What its pods should request as a whole; nothing where they do not."""
    whole = row.get("pod_target", {})
    found = {name: written(whole[unit]) for name, unit, written in _WRITTEN if whole.get(unit) is not None}
    return {"requests": found} if found else {}


def _resources(row: Row) -> dict[str, dict[str, str]]:
    """Requests, and limits that keep their ratio to them; within a pod that requests as a whole, that stay."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for resource, unit, _ in _WRITTEN:
        target, before, limit = row["target"][unit], row["requests"][unit], row["limits"][unit]
        if target is None:
            continue
        is_part = row.get("pod_target", {}).get(unit) is not None
        written = format_cpu if resource == "cpu" else _mib_below if is_part else _mib_above
        requests[resource] = written(target)
        if limit is None or (is_part and limit >= target):
            continue
        # Rounded alike, so that what was equal stays so: the QoS class hangs on it.
        least = -(-target * max(limit, before) // before) if before and not is_part else max(limit, target)
        limits[resource] = written(least)
    return {"requests": requests} | ({"limits": limits} if limits else {})


def _mib_above(memory_bytes: int) -> str:
    return format_memory(-(-memory_bytes // _MIB) * _MIB)


def _mib_below(memory_bytes: int) -> str:
    """So that containers together never come to more than their pod."""
    return format_memory(memory_bytes // _MIB * _MIB or memory_bytes)


def _manifest(owner: Workload, rows: list[Row], whole: Row) -> Row:
    spec: Row = {"resources": whole} if whole else {}
    for row in rows:
        # A native sidecar stands among the init containers.
        where = "initContainers" if row.get("is_sidecar") else "containers"
        spec.setdefault(where, []).append({"name": row["container"], "resources": _resources(row)})
    template: Row = {"template": {"spec": spec}}
    is_app = owner.kind in _APPS
    return {
        "apiVersion": "apps/v1" if is_app else "batch/v1",
        "kind": owner.kind,
        "metadata": {"name": owner.name, "namespace": owner.namespace},
        "spec": template if is_app else {"jobTemplate": {"spec": template}},
    }
