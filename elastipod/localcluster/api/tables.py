"""What `kubectl get` shows: rows and columns of each kind.

Owns the Table form and its columns; a kind without an entry shows name and age.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from elastipod.clock import from_rfc3339
from elastipod.localcluster.api.kinds import Kind
from elastipod.localcluster.api.store import Entry

Json = dict[str, Any]

_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its head, how a cell is read from an object, and whether only `-o wide` shows it."""

    name: str
    cell: Callable[[Json], Any]
    wide: bool = False
    is_number: bool = False


def is_wanted(accept: str) -> bool:
    """Whether the caller's first choice is a table."""
    return "as=Table" in accept.split(",", 1)[0]


def table(kind: Kind, entries: Sequence[Entry], now: float, include: str) -> Json:
    """A Table object; ages are as of `now`."""
    columns = (Column("Name", _name), *_COLUMNS.get(kind.id, (_AGE,)))
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": str(entries[-1].version) if entries else ""},
        "columnDefinitions": [
            {
                "name": one.name,
                "type": "integer" if one.is_number else "string",
                "format": "name" if one.name == "Name" else "",
                "description": one.name,
                "priority": int(one.wide),
            }
            for one in columns
        ],
        "rows": [
            {"cells": [_cell(one, entry.json, now) for one in columns], "object": _included(entry, include)}
            for entry in entries
        ],
    }


def _cell(column: Column, json: Json, now: float) -> Any:
    found = column.cell(json)
    if isinstance(found, _Since):
        return found.shown(now)
    return found


def _included(entry: Entry, include: str) -> Json:
    if include == "Object":
        return entry.json
    if include == "None":
        return {}
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": entry.json["metadata"]}


@dataclass(frozen=True, slots=True)
class _Since:
    """A span that begins at an instant and ends at another, or now."""

    begin: str | None
    end: str | None = None

    def shown(self, now: float) -> str:
        if not self.begin:
            return _UNKNOWN
        try:
            return human_span((from_rfc3339(self.end) if self.end else now) - from_rfc3339(self.begin))
        except ValueError:
            return "<invalid>"


def human_span(seconds: float) -> str:
    """As apimachinery's duration.HumanDuration: 45s, 3m20s, 5h, 2d3h."""
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole == -1 else "<invalid>"
    for below, size, unit, rest_size, rest_unit in _SPANS:
        if whole < below:
            rest = whole % size // rest_size if rest_unit else 0
            return f"{whole // size}{unit}{rest}{rest_unit}" if rest else f"{whole // size}{unit}"
    years, days = divmod(whole // 86400, 365)
    return f"{years}y{days}d" if days else f"{years}y"


_SPANS: Final = (
    (120, 1, "s", 1, ""),
    (600, 60, "m", 1, "s"),
    (10_800, 60, "m", 1, ""),
    (28_800, 3600, "h", 60, "m"),
    (172_800, 3600, "h", 1, ""),
    (691_200, 86_400, "d", 3600, "h"),
    (63_072_000, 86_400, "d", 1, ""),
)
"""Below so many seconds: the size and sign of the unit, and of what is left over, where it is shown."""


def _at(json: Json, path: str, otherwise: Any = "") -> Any:
    found: Any = json
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return otherwise if found is None else found


def _field(path: str, otherwise: Any = "") -> Callable[[Json], Any]:
    return lambda json: _at(json, path, otherwise)


def _name(json: Json) -> str:
    return str(json["metadata"]["name"])


def _pod_ready(json: Json) -> str:
    statuses = _at(json, "status.containerStatuses", [])
    return f"{sum(bool(one.get('ready')) for one in statuses)}/{len(json['spec']['containers'])}"


def _pod_restarts(json: Json) -> str:
    return str(sum(one.get("restartCount", 0) for one in _at(json, "status.containerStatuses", [])))


def _pod_status(json: Json) -> str:
    """As printPod: the phase, or what the last container that is not well says."""
    reason = _at(json, "status.reason") or _at(json, "status.phase") or "Unknown"
    statuses = _at(json, "status.containerStatuses", [])
    running = False
    for one in reversed(statuses):
        state = one.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            reason = ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"
        elif one.get("ready") and state.get("running") is not None:
            running = True
    if reason == "Completed" and running:
        reason = "Running"
    return "Terminating" if json["metadata"].get("deletionTimestamp") else str(reason)


def _condition(name: str) -> Callable[[Json], str]:
    def found(json: Json) -> str:
        return next(
            (one.get("status", "") for one in _at(json, "status.conditions", []) if one.get("type") == name), ""
        )

    return found


def _node_status(json: Json) -> str:
    ready = {"True": "Ready", "False": "NotReady"}.get(_condition("Ready")(json), "Unknown")
    return f"{ready},SchedulingDisabled" if _at(json, "spec.unschedulable") else ready


def _node_roles(json: Json) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = json["metadata"].get("labels") or {}
    return ",".join(sorted(key[len(prefix) :] for key in labels if key.startswith(prefix))) or _NONE


def _of(done: str, wanted: str) -> Callable[[Json], str]:
    return lambda json: f"{_at(json, done, 0)}/{_at(json, wanted, 0)}"


def _container_names(json: Json) -> str:
    return ",".join(one.get("name", "") for one in _at(json, "spec.template.spec.containers", []))


def _container_images(json: Json) -> str:
    return ",".join(one.get("image", "") for one in _at(json, "spec.template.spec.containers", []))


def _selector(json: Json) -> str:
    return ",".join(f"{k}={v}" for k, v in sorted(_at(json, "spec.selector.matchLabels", {}).items())) or _NONE


def _job_status(json: Json) -> str:
    for name, shown in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")):
        if _condition(name)(json) == "True":
            return shown
    return "Running"


def _quota(prefixes: tuple[str, ...]) -> Callable[[Json], str]:
    def shown(json: Json) -> str:
        hard: Mapping[str, Any] = _at(json, "status.hard", {}) or _at(json, "spec.hard", {})
        used = _at(json, "status.used", {})
        limits = [key for key in sorted(hard) if key.startswith("limits") is ("limits" in prefixes)]
        return ", ".join(f"{key}: {used.get(key, 0)}/{hard[key]}" for key in limits)

    return shown


def _event_object(json: Json) -> str:
    about = json.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _target(resource: str) -> Callable[[Json], str]:
    def shown(json: Json) -> str:
        found = _at(json, "status.recommendation.containerRecommendations", [])
        return str((found[0].get("target") or {}).get(resource, "")) if found else ""

    return shown


def _usage(resource: str) -> Callable[[Json], str]:
    def shown(json: Json) -> str:
        found = [one.get("usage") or {} for one in json.get("containers") or ()] or [json.get("usage") or {}]
        return "+".join(str(one.get(resource, "")) for one in found)

    return shown


def _workload_wide() -> tuple[Column, ...]:
    return (
        Column("Containers", _container_names, wide=True),
        Column("Images", _container_images, wide=True),
        Column("Selector", _selector, wide=True),
    )


_AGE: Final = Column("Age", lambda json: _Since(json["metadata"].get("creationTimestamp")))
_COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {
    "pods": (
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _pod_restarts),
        _AGE,
        Column("IP", _field("status.podIP", _NONE), wide=True),
        Column("Node", _field("spec.nodeName", _NONE), wide=True),
        Column("Nominated Node", _field("status.nominatedNodeName", _NONE), wide=True),
        Column("Readiness Gates", lambda _: _NONE, wide=True),
    ),
    "nodes": (
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        Column("Version", _field("status.nodeInfo.kubeletVersion")),
        Column("OS-Image", _field("status.nodeInfo.osImage", _UNKNOWN), wide=True),
        Column("Kernel-Version", _field("status.nodeInfo.kernelVersion", _UNKNOWN), wide=True),
        Column("Container-Runtime", _field("status.nodeInfo.containerRuntimeVersion", _UNKNOWN), wide=True),
    ),
    "namespaces": (Column("Status", _field("status.phase")), _AGE),
    "events": (
        Column("Last Seen", lambda json: _Since(json.get("lastTimestamp") or json.get("eventTime"))),
        Column("Type", _field("type")),
        Column("Reason", _field("reason")),
        Column("Object", _event_object),
        Column("Subobject", _field("involvedObject.fieldPath"), wide=True),
        Column("Source", lambda json: _at(json, "source.component") or json.get("reportingComponent", ""), wide=True),
        Column("Message", lambda json: str(json.get("message", "")).strip()),
        Column("First Seen", lambda json: _Since(json.get("firstTimestamp") or json.get("eventTime")), wide=True),
        Column("Count", lambda json: json.get("count") or 1, wide=True, is_number=True),
        Column("Name", _name, wide=True),
    ),
    "configmaps": (Column("Data", lambda json: len(json.get("data") or {}), is_number=True), _AGE),
    "limitranges": (Column("Created At", _field("metadata.creationTimestamp")),),
    "resourcequotas": (Column("Request", _quota(())), Column("Limit", _quota(("limits",))), _AGE),
    "services": (
        Column("Type", _field("spec.type", "ClusterIP")),
        Column("Cluster-IP", _field("spec.clusterIP", _NONE)),
        _AGE,
    ),
    "deployments.apps": (
        Column("Ready", _of("status.readyReplicas", "spec.replicas")),
        Column("Up-to-date", _field("status.updatedReplicas", 0), is_number=True),
        Column("Available", _field("status.availableReplicas", 0), is_number=True),
        _AGE,
        *_workload_wide(),
    ),
    "replicasets.apps": (
        Column("Desired", _field("spec.replicas", 0), is_number=True),
        Column("Current", _field("status.replicas", 0), is_number=True),
        Column("Ready", _field("status.readyReplicas", 0), is_number=True),
        _AGE,
        *_workload_wide(),
    ),
    "statefulsets.apps": (
        Column("Ready", _of("status.readyReplicas", "spec.replicas")),
        _AGE,
        *_workload_wide()[:2],
    ),
    "jobs.batch": (
        Column("Status", _job_status),
        Column("Completions", _of("status.succeeded", "spec.completions")),
        Column("Duration", lambda json: _Since(_at(json, "status.startTime"), _at(json, "status.completionTime"))),
        _AGE,
        *_workload_wide(),
    ),
    "cronjobs.batch": (
        Column("Schedule", _field("spec.schedule")),
        Column("Suspend", lambda json: str(bool(_at(json, "spec.suspend", False)))),
        _AGE,
    ),
    "poddisruptionbudgets.policy": (
        Column("Min Available", lambda json: str(_at(json, "spec.minAvailable", "N/A"))),
        Column("Max Unavailable", lambda json: str(_at(json, "spec.maxUnavailable", "N/A"))),
        Column("Allowed Disruptions", _field("status.disruptionsAllowed", 0), is_number=True),
        _AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        Column("Value", _field("value", 0), is_number=True),
        Column("Global-Default", lambda json: str(bool(json.get("globalDefault"))).lower()),
        _AGE,
        Column("PreemptionPolicy", _field("preemptionPolicy", "PreemptLowerPriority")),
    ),
    "leases.coordination.k8s.io": (Column("Holder", _field("spec.holderIdentity")), _AGE),
    "horizontalpodautoscalers.autoscaling": (
        Column(
            "Reference", lambda json: f"{_at(json, 'spec.scaleTargetRef.kind')}/{_at(json, 'spec.scaleTargetRef.name')}"
        ),
        Column("MinPods", _field("spec.minReplicas", 1), is_number=True),
        Column("MaxPods", _field("spec.maxReplicas", 0), is_number=True),
        _AGE,
    ),
    "verticalpodautoscalers.autoscaling.k8s.io": (
        Column("Mode", _field("spec.updatePolicy.updateMode", "Recreate")),
        Column("CPU", _target("cpu")),
        Column("Mem", _target("memory")),
        Column("Provided", _condition("RecommendationProvided")),
        _AGE,
        Column("MinReplicas", lambda json: str(_at(json, "spec.updatePolicy.minReplicas")), wide=True),
        Column("OOMSeconds", lambda json: str(_at(json, "spec.updatePolicy.evictAfterOOMSeconds")), wide=True),
    ),
    "elasticnodes.elastipod.io": (
        Column("Cgroup", _field("status.cgroupVersion")),
        Column("Spikes", _field("status.spikeProtection")),
        Column("Message", _field("status.message"), wide=True),
        _AGE,
    ),
    "elasticpolicies.elastipod.io": (Column("Spikes", _field("spec.memorySpike.mode")), _AGE),
    "pods.metrics.k8s.io": (
        Column("CPU", _usage("cpu")),
        Column("Memory", _usage("memory")),
        Column("Window", _field("window")),
    ),
    "nodes.metrics.k8s.io": (
        Column("CPU", _usage("cpu")),
        Column("Memory", _usage("memory")),
        Column("Window", _field("window")),
    ),
}
