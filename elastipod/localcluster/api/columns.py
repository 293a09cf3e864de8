"""Which columns `kubectl get` prints of each kind, and what its cells hold.

Owns the table of columns; a kind without an entry shows name and age. Pods' cells are podcells.py's.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from elastipod.localcluster.api.cells import NONE, UNKNOWN, Column, Since, at, condition, field, labels_shown
from elastipod.localcluster.api.podcells import POD_COLUMNS

Json = dict[str, Any]


def name_of(json: Json) -> str:
    """An object's name."""
    return str(json["metadata"]["name"])


def _node_status(json: Json) -> str:
    ready = {"True": "Ready", None: "Unknown"}.get(condition("Ready", None)(json), "NotReady")
    return f"{ready},SchedulingDisabled" if at(json, "spec.unschedulable") else ready


def _node_address(kind: str) -> Callable[[Json], str]:
    def shown(json: Json) -> str:
        found = (one.get("address", "") for one in at(json, "status.addresses", []) if one.get("type") == kind)
        return next(found, "") or NONE

    return shown


def _kernel(json: Json) -> str:
    kernel, architecture = at(json, "status.nodeInfo.kernelVersion"), at(json, "status.nodeInfo.architecture")
    return f"{kernel or UNKNOWN} ({architecture})" if architecture else kernel or UNKNOWN


def _node_roles(json: Json) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = json["metadata"].get("labels") or {}
    return ",".join(sorted(key[len(prefix) :] for key in labels if key.startswith(prefix))) or NONE


def _of(done: str, wanted: str) -> Callable[[Json], str]:
    return lambda json: f"{at(json, done, 0)}/{at(json, wanted, 0)}"


def _selector(json: Json) -> str:
    return labels_shown(at(json, "spec.selector.matchLabels", {}))


def _job_status(json: Json) -> str:
    def holds(name: str) -> bool:
        return condition(name)(json) == "True"

    ending = ["Terminating"] if json["metadata"].get("deletionTimestamp") else []
    later = ("Suspended", "FailureTarget", "SuccessCriteriaMet")
    words = [one for one in ("Complete", "Failed") if holds(one)] + ending + [one for one in later if holds(one)]
    return words[0] if words else "Running"


def _completions(json: Json) -> str:
    done, wanted, parallel = (
        at(json, "status.succeeded", 0),
        at(json, "spec.completions", None),
        at(json, "spec.parallelism", 0),
    )
    return f"{done}/{wanted}" if wanted is not None else f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _targets(json: Json) -> str:
    """Of each metric of a HorizontalPodAutoscaler what is and what shall be."""
    current = {
        (one.get("resource") or {}).get("name"): (one.get("resource") or {}).get("current") or {}
        for one in at(json, "status.currentMetrics", None) or ()
    }
    shown = []
    for one in at(json, "spec.metrics", []):
        metric = one.get("resource") or {}
        name, target = metric.get("name"), metric.get("target") or {}
        is_now = current.get(name, {})
        if target.get("averageValue") is not None:
            shown.append(f"{name}: {is_now.get('averageValue', UNKNOWN)}/{target['averageValue']}")
        else:
            use = is_now.get("averageUtilization")
            shown.append(f"{name}: {UNKNOWN if use is None else f'{use}%'}/{target.get('averageUtilization')}%")
    more = f" + {len(shown) - 2} more..." if len(shown) > 2 else ""
    return ", ".join(shown[:2]) + more or NONE


def _ports(json: Json) -> str:
    ports = at(json, "spec.ports", [])
    return ",".join(f"{one.get('port')}/{one.get('protocol', 'TCP')}" for one in ports) or NONE


def _custom(path: str) -> Callable[[Json], Any]:
    """A cell of a custom kind: nothing where there is nothing."""
    return field(path, None)


def _quota(*, of_limits: bool) -> Callable[[Json], str]:
    def shown(json: Json) -> str:
        hard: Mapping[str, Any] = at(json, "status.hard", {})
        used = at(json, "status.used", {})
        keys = [key for key in sorted(hard) if key.startswith("limits.") is of_limits]
        return ", ".join(f"{key}: {used.get(key, 0)}/{hard[key]}" for key in keys)

    return shown


def _event_object(json: Json) -> str:
    about = json.get("involvedObject") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _target(resource: str) -> Callable[[Json], str | None]:
    def shown(json: Json) -> str | None:
        found = at(json, "status.recommendation.containerRecommendations", [])
        return (found[0].get("target") or {}).get(resource) if found else None

    return shown


def _usage(resource: str) -> Callable[[Json], str]:
    def shown(json: Json) -> str:
        found = [one.get("usage") or {} for one in json.get("containers") or ()] or [json.get("usage") or {}]
        return "+".join(str(one.get(resource, "")) for one in found)

    return shown


def _each_container(path: str, key: str) -> Callable[[Json], str]:
    return lambda json: ",".join(one.get(key, "") for one in at(json, path, []))


def _workload_wide(before: str = "") -> tuple[Column, ...]:
    path = f"{before or ''}spec.template.spec.containers"
    selector = _selector if not before else lambda _: NONE
    return (
        Column("Containers", _each_container(path, "name"), wide=True),
        Column("Images", _each_container(path, "image"), wide=True),
        Column("Selector", selector, wide=True),
    )


AGE: Final = Column("Age", lambda json: Since(json["metadata"].get("creationTimestamp")))
COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {
    "pods": POD_COLUMNS,
    "nodes": (
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", field("status.nodeInfo.kubeletVersion")),
        Column("Internal-IP", _node_address("InternalIP"), wide=True),
        Column("External-IP", _node_address("ExternalIP"), wide=True),
        Column("OS-Image", lambda json: at(json, "status.nodeInfo.osImage") or UNKNOWN, wide=True),
        Column("Kernel-Version", _kernel, wide=True),
        Column(
            "Container-Runtime", lambda json: at(json, "status.nodeInfo.containerRuntimeVersion") or UNKNOWN, wide=True
        ),
    ),
    "namespaces": (Column("Status", field("status.phase")), AGE),
    "events": (
        Column("Last Seen", lambda json: Since(json.get("lastTimestamp") or json.get("eventTime"))),
        Column("Type", field("type")),
        Column("Reason", field("reason")),
        Column("Object", _event_object),
        Column("Subobject", field("involvedObject.fieldPath"), wide=True),
        Column("Source", lambda json: at(json, "source.component") or json.get("reportingComponent", ""), wide=True),
        Column("Message", lambda json: str(json.get("message", "")).strip()),
        Column("First Seen", lambda json: Since(json.get("firstTimestamp") or json.get("eventTime")), wide=True),
        Column("Count", lambda json: json.get("count") or 1, wide=True, type="integer"),
        Column("Name", name_of, wide=True),
    ),
    "configmaps": (Column("Data", lambda json: len(json.get("data") or {}), type="integer"), AGE),
    "limitranges": (Column("Created At", field("metadata.creationTimestamp")),),
    "resourcequotas": (Column("Request", _quota(of_limits=False)), Column("Limit", _quota(of_limits=True)), AGE),
    "services": (
        Column("Type", field("spec.type", "ClusterIP")),
        Column("Cluster-IP", field("spec.clusterIP", NONE)),
        Column("External-IP", lambda _: NONE),
        Column("Port(s)", _ports),
        AGE,
        Column("Selector", lambda json: labels_shown(at(json, "spec.selector", {})), wide=True),
    ),
    "deployments.apps": (
        Column("Ready", _of("status.readyReplicas", "spec.replicas")),
        Column("Up-to-date", field("status.updatedReplicas", 0), type="integer"),
        Column("Available", field("status.availableReplicas", 0), type="integer"),
        AGE,
        *_workload_wide(),
    ),
    "replicasets.apps": (
        Column("Desired", field("spec.replicas", 0), type="integer"),
        Column("Current", field("status.replicas", 0), type="integer"),
        Column("Ready", field("status.readyReplicas", 0), type="integer"),
        AGE,
        *_workload_wide(),
    ),
    "statefulsets.apps": (
        Column("Ready", _of("status.readyReplicas", "spec.replicas")),
        AGE,
        *_workload_wide()[:2],
    ),
    "daemonsets.apps": (
        Column("Desired", field("status.desiredNumberScheduled", 0), type="integer"),
        Column("Current", field("status.currentNumberScheduled", 0), type="integer"),
        Column("Ready", field("status.numberReady", 0), type="integer"),
        Column("Up-to-date", field("status.updatedNumberScheduled", 0), type="integer"),
        Column("Available", field("status.numberAvailable", 0), type="integer"),
        Column("Node Selector", lambda json: labels_shown(at(json, "spec.template.spec.nodeSelector", {}))),
        AGE,
        *_workload_wide(),
    ),
    "jobs.batch": (
        Column("Status", _job_status),
        Column("Completions", _completions),
        Column("Duration", lambda json: Since(at(json, "status.startTime"), at(json, "status.completionTime"), "")),
        AGE,
        *_workload_wide(),
    ),
    "cronjobs.batch": (
        Column("Schedule", field("spec.schedule")),
        Column("Timezone", field("spec.timeZone", NONE)),
        Column("Suspend", lambda json: str(bool(at(json, "spec.suspend", False))), type="boolean"),
        Column("Active", lambda json: len(at(json, "status.active", [])), type="integer"),
        Column("Last Schedule", lambda json: Since(at(json, "status.lastScheduleTime"), None, NONE)),
        AGE,
        *_workload_wide("spec.jobTemplate."),
    ),
    "poddisruptionbudgets.policy": (
        Column("Min Available", lambda json: str(at(json, "spec.minAvailable", "N/A"))),
        Column("Max Unavailable", lambda json: str(at(json, "spec.maxUnavailable", "N/A"))),
        Column("Allowed Disruptions", field("status.disruptionsAllowed", 0), type="integer"),
        AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        Column("Value", field("value", 0), type="integer"),
        Column("Global-Default", lambda json: bool(json.get("globalDefault")), type="boolean"),
        AGE,
        Column("PreemptionPolicy", field("preemptionPolicy", "PreemptLowerPriority")),
    ),
    "leases.coordination.k8s.io": (Column("Holder", field("spec.holderIdentity")), AGE),
    "horizontalpodautoscalers.autoscaling": (
        Column(
            "Reference", lambda json: f"{at(json, 'spec.scaleTargetRef.kind')}/{at(json, 'spec.scaleTargetRef.name')}"
        ),
        Column("Targets", _targets),
        Column("MinPods", lambda json: str(at(json, "spec.minReplicas", "<unset>"))),
        Column("MaxPods", field("spec.maxReplicas", 0)),
        Column("Replicas", field("status.currentReplicas", 0)),
        AGE,
    ),
    "verticalpodautoscalers.autoscaling.k8s.io": (
        Column("Mode", _custom("spec.updatePolicy.updateMode")),
        Column("CPU", _target("cpu")),
        Column("Mem", _target("memory")),
        Column("Provided", condition("RecommendationProvided", None)),
        AGE,
        Column("MinReplicas", _custom("spec.updatePolicy.minReplicas"), wide=True, type="integer"),
        Column("OOMSeconds", _custom("spec.updatePolicy.evictAfterOOMSeconds"), wide=True, type="integer"),
    ),
    "elasticnodes.elastipod.io": (
        Column("Cgroup", _custom("status.cgroupVersion")),
        Column("Spikes", _custom("status.spikeProtection")),
        Column("Message", _custom("status.message"), wide=True),
        AGE,
    ),
    "elasticpolicies.elastipod.io": (Column("Spikes", _custom("spec.memorySpike.mode")), AGE),
    "pods.metrics.k8s.io": (
        Column("CPU", _usage("cpu")),
        Column("Memory", _usage("memory")),
        Column("Window", field("window")),
    ),
    "nodes.metrics.k8s.io": (
        Column("CPU", _usage("cpu")),
        Column("Memory", _usage("memory")),
        Column("Window", field("window")),
    ),
}
