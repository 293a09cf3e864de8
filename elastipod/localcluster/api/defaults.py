"""What the server fills in for an object: at creation and at each change.

Owns which status and which defaults each kind begins with. Pods' own rules are podspec.py's.
"""

from collections.abc import Callable
from typing import Any, Final

from elastipod.localcluster.api.kinds import NAMESPACE, NODE, POD, PRIORITY_CLASS, Kind
from elastipod.localcluster.api.podspec import (
    canonical_amounts,
    qos_class,
    set_pod_defaults,
    set_pod_level_amounts,
    set_resource_defaults,
)

Json = dict[str, Any]

_WORKLOADS: Final = frozenset(
    {"deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch"}
)
_WITH_SPEC: Final = _WORKLOADS | {
    *("pods", "cronjobs.batch", "horizontalpodautoscalers.autoscaling", "limitranges", "resourcequotas", "services"),
    *("poddisruptionbudgets.policy", "leases.coordination.k8s.io", "nodes"),
}
_GATED: Final = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
_JOB_DEFAULTS: Final = (
    ("parallelism", 1),
    ("backoffLimit", 6),
    ("suspend", False),
    ("completionMode", "NonIndexed"),
    ("manualSelector", False),
    ("podReplacementPolicy", "TerminatingOrFailed"),
)
_REPLICATED: Final = frozenset({"deployments.apps", "replicasets.apps", "statefulsets.apps"})


def prepare_new(kind: Kind, json: Json) -> None:
    """Before mutating admission: what decoding fills in, and what a new object can not state."""
    _have_spec(kind, json)
    if kind is POD:
        set_pod_defaults(json["spec"])
        json["status"] = {"phase": "Pending"}
        json["spec"].setdefault("enableServiceLinks", True)
        if json["spec"].get("schedulingGates"):
            json["status"]["conditions"] = [{**_GATED, "lastTransitionTime": json["metadata"]["creationTimestamp"]}]
    elif kind is NAMESPACE:
        json["spec"] = {"finalizers": ["kubernetes"]}
        json["status"] = {"phase": "Active"}
    elif kind.has_status and kind is not NODE:
        json.pop("status", None)
    complete_change(kind, json)


def complete_new(kind: Kind, json: Json) -> None:
    """After mutating admission."""
    if kind is POD:
        set_resource_defaults(json["spec"])
        set_pod_level_amounts(json["spec"])
        json["status"]["qosClass"] = qos_class(json["spec"])
    elif kind.id == "jobs.batch" and not json["spec"].get("manualSelector"):
        _set_job_selector(json)


def kept_status(kind: Kind, old: Json | None, new: Json | None) -> Json | None:
    """A reported status with what no report can take away, a pod's QoS class, and with both forms of its address."""
    if kind is not POD or new is None:
        return new
    if old is not None and not new.get("qosClass") and old.get("qosClass"):
        new = {**new, "qosClass": old["qosClass"]}
    address, addresses = new.get("podIP"), new.get("podIPs") or []
    if address and (not addresses or addresses[0].get("ip") != address):
        return {**new, "podIPs": [{"ip": address}]}
    return {**new, "podIP": addresses[0]["ip"]} if addresses and addresses[0].get("ip") and not address else new


def complete_change(kind: Kind, json: Json) -> None:
    """What decoding fills in at any time."""
    _have_spec(kind, json)
    if kind is NAMESPACE:
        labels = (json["metadata"].get("labels") or {}) | {"kubernetes.io/metadata.name": json["metadata"]["name"]}
        json["metadata"]["labels"] = labels
    elif kind is PRIORITY_CLASS:
        json.setdefault("preemptionPolicy", "PreemptLowerPriority")
    if kind is POD:
        set_resource_defaults(json["spec"])
    elif kind.id in _OTHERS:
        _OTHERS[kind.id](json["spec"])
    if kind.id not in _WORKLOADS:
        return
    spec = json["spec"]
    if kind.id in _REPLICATED:
        spec.setdefault("replicas", 1)
    if kind.id == "deployments.apps":
        _set_rollout_defaults(spec)
    elif kind.id == "statefulsets.apps":
        _set_stateful_defaults(spec)
    elif kind.id == "daemonsets.apps":
        _set_daemon_defaults(spec)
    elif kind.id == "jobs.batch":
        _set_job_defaults(spec)
    template = spec.get("template")
    if isinstance(template, dict) and template.get("spec"):
        set_pod_defaults(template["spec"])


def _set_stateful_defaults(spec: Json) -> None:
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})
    spec.setdefault("revisionHistoryLimit", 10)
    _set_update_strategy(spec, partition=0, maxUnavailable=1)


def _set_daemon_defaults(spec: Json) -> None:
    spec.setdefault("revisionHistoryLimit", 10)
    _set_update_strategy(spec, maxUnavailable=1, maxSurge=0)


def _set_update_strategy(spec: Json, **rolling: int) -> None:
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy["rollingUpdate"] = rolling | (strategy.get("rollingUpdate") or {})


def _have_spec(kind: Kind, json: Json) -> None:
    if kind.id in _WITH_SPEC:
        json.setdefault("spec", {})


def _set_job_defaults(spec: Json) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    for field, value in _JOB_DEFAULTS:
        spec.setdefault(field, value)


def _set_cron_job_defaults(spec: Json) -> None:
    defaults = (("concurrencyPolicy", "Allow"), ("suspend", False), ("successfulJobsHistoryLimit", 3))
    for field, value in (*defaults, ("failedJobsHistoryLimit", 1)):
        spec.setdefault(field, value)
    template = ((spec.get("jobTemplate") or {}).get("spec") or {}).get("template") or {}
    if template.get("spec"):
        set_pod_defaults(template["spec"])


def _set_scaler_defaults(spec: Json) -> None:
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def _set_service_defaults(spec: Json) -> None:
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port", 0))


def _set_range_defaults(spec: Json) -> None:
    """A container's default limit is the most it may have, its default request that limit or the least."""
    for item in spec.get("limits") or ():
        for part in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            if item.get(part):
                item[part] = canonical_amounts(item[part])
        if item.get("type") == "Container":
            limits = {**(item.get("max") or {}), **(item.get("default") or {})}
            requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
            item.update({"default": limits} if limits else {}, **({"defaultRequest": requests} if requests else {}))


def _drop_what_leases_do_not_have(spec: Json) -> None:
    """Fields of a feature that is off."""
    for field in ("strategy", "preferredHolder"):
        spec.pop(field, None)


def _set_quota_defaults(spec: Json) -> None:
    if spec.get("hard"):
        spec["hard"] = canonical_amounts(spec["hard"])


_OTHERS: Final[dict[str, Callable[[Json], None]]] = {
    "cronjobs.batch": _set_cron_job_defaults,
    "horizontalpodautoscalers.autoscaling": _set_scaler_defaults,
    "services": _set_service_defaults,
    "limitranges": _set_range_defaults,
    "resourcequotas": _set_quota_defaults,
    "leases.coordination.k8s.io": _drop_what_leases_do_not_have,
}


def _set_rollout_defaults(spec: Json) -> None:
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("progressDeadlineSeconds", 600)
    spec.setdefault("revisionHistoryLimit", 10)


def _set_job_selector(json: Json) -> None:
    """A job's pods are told apart by the job's uid."""
    name, uid = json["metadata"]["name"], json["metadata"]["uid"]
    template = json["spec"].setdefault("template", {})
    meta = template.get("metadata") or {}
    ours = {
        f"{prefix}{key}": value
        for prefix in ("", "batch.kubernetes.io/")
        for key, value in (("controller-uid", uid), ("job-name", name))
    }
    template["metadata"] = {**meta, "labels": {**(meta.get("labels") or {}), **ours}}
    if not json["metadata"].get("labels"):
        json["metadata"]["labels"] = dict(template["metadata"]["labels"])
    stated = (json["spec"].get("selector") or {}).get("matchLabels") or {}
    json["spec"]["selector"] = {"matchLabels": {**stated, "batch.kubernetes.io/controller-uid": uid}}
