"""One good object of every kind that both servers serve."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from elastipod.kube import resources as kube
from elastipod.kube.resources import ResourceType
from tests.build import container_json, deployment_json, job_json, node_json, pod_json, template_json

Json = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """A kind, how one of it is made by name and namespace, and what a server keeps count of."""

    resource: ResourceType
    make: Callable[[str, str], Json]
    has_generation: bool = False
    is_custom: bool = False

    def __str__(self) -> str:
        return self.resource.plural


def _object(resource: ResourceType, name: str, namespace: str, **rest: Any) -> Json:
    meta: Json = {"name": name}
    if resource.namespaced:
        meta["namespace"] = namespace
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, **rest}


def _event(name: str, namespace: str) -> Json:
    about = {"kind": "Pod", "namespace": namespace, "name": "web-0", "uid": "1"}
    return _object(
        kube.EVENTS, name, namespace, involvedObject=about, reason="Resized", message="m", type="Normal",
        source={"component": "elastipod"}, count=1,
        firstTimestamp="2026-11-29T12:00:00Z", lastTimestamp="2026-11-29T12:00:00Z",
    )  # fmt: skip


def _replicated(resource: ResourceType) -> Callable[[str, str], Json]:
    def make(name: str, namespace: str) -> Json:
        labels = {"app": name}
        spec: Json = {"selector": {"matchLabels": labels}, "template": template_json(labels)}
        return _object(resource, name, namespace, spec=spec)

    return make


def _cron_job(name: str, namespace: str) -> Json:
    template = {"spec": {"template": template_json({}, restartPolicy="Never")}}
    return _object(kube.CRON_JOBS, name, namespace, spec={"schedule": "0 3 * * *", "jobTemplate": template})


def _scaler(name: str, namespace: str) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    use = {"type": "Utilization", "averageUtilization": 60}
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": use}}]
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3, "metrics": metrics}
    return _object(kube.HORIZONTAL_POD_AUTOSCALERS, name, namespace, spec=spec)


def autoscaler(name: str, namespace: str, **spec: Any) -> Json:
    """A VerticalPodAutoscaler."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return _object(kube.AUTOSCALERS, name, namespace, spec={"targetRef": target, **spec})


def budget(name: str, namespace: str, **spec: Any) -> Json:
    """A PodDisruptionBudget of the pods with the label `app: web`."""
    wanted = spec or {"minAvailable": 1}
    selector = {"matchLabels": {"app": "web"}}
    return _object(kube.POD_DISRUPTION_BUDGETS, name, namespace, spec={"selector": selector, **wanted})


def limit_range(namespace: str, name: str = "limits", *, kind: str = "Container", **amounts: Any) -> Json:
    """A LimitRange of one item."""
    return _object(kube.LIMIT_RANGES, name, namespace, spec={"limits": [{"type": kind, **amounts}]})


def quota(namespace: str, name: str = "quota", **hard: str) -> Json:
    """A ResourceQuota; `__` in a key stands for a dot."""
    return _object(
        kube.RESOURCE_QUOTAS, name, namespace, spec={"hard": {key.replace("__", "."): v for key, v in hard.items()}}
    )


def config_map(name: str, namespace: str, **more: Any) -> Json:
    """A ConfigMap."""
    made = _object(kube.CONFIG_MAPS, name, namespace, data={"a": "1", "b": "2"})
    made["metadata"].update(more)
    return made


def _lease(name: str, namespace: str) -> Json:
    times = {"acquireTime": "2026-11-29T12:00:00.000000Z", "renewTime": "2026-11-29T12:00:00.000000Z"}
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0, **times}
    return _object(kube.LEASES, name, namespace, spec=spec)


def _checkpoint(name: str, namespace: str) -> Json:
    return _object(kube.CHECKPOINTS, name, namespace, spec={"vpaObjectName": "web", "containerName": "app"})


SAMPLES = (
    Sample(kube.NAMESPACES, lambda name, ns: _object(kube.NAMESPACES, name, ns)),
    Sample(kube.NODES, lambda name, ns: node_json(name)),
    Sample(kube.PODS, pod_json, has_generation=True),
    Sample(kube.EVENTS, _event),
    Sample(kube.CONFIG_MAPS, config_map),
    Sample(kube.LIMIT_RANGES, lambda name, ns: limit_range(ns, name, max={"cpu": "2"})),
    Sample(kube.RESOURCE_QUOTAS, lambda name, ns: quota(ns, name, pods="5")),
    Sample(
        kube.SERVICES,
        lambda name, ns: _object(kube.SERVICES, name, ns, spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}),
    ),
    Sample(kube.DEPLOYMENTS, deployment_json, has_generation=True),
    Sample(kube.REPLICA_SETS, _replicated(kube.REPLICA_SETS), has_generation=True),
    Sample(kube.STATEFUL_SETS, _replicated(kube.STATEFUL_SETS), has_generation=True),
    Sample(kube.DAEMON_SETS, _replicated(kube.DAEMON_SETS), has_generation=True),
    Sample(kube.JOBS, job_json, has_generation=True),
    Sample(kube.CRON_JOBS, _cron_job, has_generation=True),
    Sample(kube.HORIZONTAL_POD_AUTOSCALERS, _scaler, has_generation=True),
    Sample(kube.POD_DISRUPTION_BUDGETS, budget, has_generation=True),
    Sample(
        kube.PRIORITY_CLASSES, lambda name, ns: _object(kube.PRIORITY_CLASSES, name, ns, value=7), has_generation=True
    ),
    Sample(kube.LEASES, _lease),
    Sample(kube.AUTOSCALERS, autoscaler, has_generation=True, is_custom=True),
    Sample(kube.CHECKPOINTS, _checkpoint, has_generation=True, is_custom=True),
    Sample(
        kube.ELASTIC_POLICIES,
        lambda name, ns: _object(kube.ELASTIC_POLICIES, name, ns, spec={"memorySpike": {"mode": "Pause"}}),
        has_generation=True,
        is_custom=True,
    ),
    Sample(
        kube.ELASTIC_NODES,
        lambda name, ns: _object(kube.ELASTIC_NODES, name, ns, spec={}),
        has_generation=True,
        is_custom=True,
    ),
)

__all__ = ["SAMPLES", "Sample", "autoscaler", "budget", "config_map", "container_json", "limit_range", "quota"]
