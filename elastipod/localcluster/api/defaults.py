"""What the server fills in for an object: at creation and at each change.

Owns which status and which defaults each kind begins with. Pods' own rules are podspec.py's.
"""

from typing import Any, Final

from elastipod.localcluster.api.kinds import NAMESPACE, NODE, POD, Kind
from elastipod.localcluster.api.podspec import qos_class, set_pod_defaults, set_resource_defaults

Json = dict[str, Any]

_WORKLOADS: Final = frozenset(
    {"deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch"}
)
_REPLICATED: Final = frozenset({"deployments.apps", "replicasets.apps", "statefulsets.apps"})


def prepare_new(kind: Kind, json: Json) -> None:
    """Before mutating admission: what decoding fills in, and what a new object can not state."""
    if kind is POD:
        set_pod_defaults(json["spec"])
        json["status"] = {"phase": "Pending"}
    elif kind is NAMESPACE:
        json["status"] = {"phase": "Active"}
        labels = (json["metadata"].get("labels") or {}) | {"kubernetes.io/metadata.name": json["metadata"]["name"]}
        json["metadata"]["labels"] = labels
    elif kind.has_status and kind is not NODE:
        json.pop("status", None)
    complete_change(kind, json)


def complete_new(kind: Kind, json: Json) -> None:
    """After mutating admission."""
    if kind is POD:
        set_resource_defaults(json["spec"])
        json["status"]["qosClass"] = qos_class(json["spec"])
    elif kind.id == "jobs.batch" and not json["spec"].get("manualSelector"):
        _set_job_selector(json)


def kept_status(kind: Kind, old: Json | None, new: Json | None) -> Json | None:
    """A reported status with what no report can take away: a pod's QoS class."""
    if kind is POD and new is not None and old is not None and not new.get("qosClass") and old.get("qosClass"):
        return {**new, "qosClass": old["qosClass"]}
    return new


def complete_change(kind: Kind, json: Json) -> None:
    """What decoding fills in at any time."""
    if kind is POD:
        set_resource_defaults(json.get("spec") or {})
        return
    if kind.id not in _WORKLOADS:
        return
    spec = json.setdefault("spec", {})
    if kind.id in _REPLICATED:
        spec.setdefault("replicas", 1)
    if kind.id == "deployments.apps":
        _set_rollout_defaults(spec)
    elif kind.id == "statefulsets.apps":
        spec.setdefault("podManagementPolicy", "OrderedReady")
        spec.setdefault("updateStrategy", {"type": "RollingUpdate"})
    elif kind.id == "jobs.batch":
        for field, value in (("parallelism", 1), ("completions", 1), ("backoffLimit", 6)):
            spec.setdefault(field, value)
        spec.setdefault("suspend", False)
    template = spec.get("template")
    if isinstance(template, dict) and template.get("spec"):
        set_pod_defaults(template["spec"])


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
    template = json["spec"]["template"]
    meta = template.get("metadata") or {}
    ours = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name, "job-name": name}
    template["metadata"] = {**meta, "labels": {**(meta.get("labels") or {}), **ours}}
    json["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
