"""The kinds of object we speak of, and where they lie in the API."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ResourceType:
    """A kind and its place: `/api/v1/...` for the core group, `/apis/<group>/<version>/...` for others."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """The URL path of a collection, an object or its subresource. Names are the caller's to have checked."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace is not None and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


NAMESPACES: Final = ResourceType("", "v1", "namespaces", "Namespace", namespaced=False)
NODES: Final = ResourceType("", "v1", "nodes", "Node", namespaced=False)
PODS: Final = ResourceType("", "v1", "pods", "Pod")
EVENTS: Final = ResourceType("", "v1", "events", "Event")
CONFIG_MAPS: Final = ResourceType("", "v1", "configmaps", "ConfigMap")
LIMIT_RANGES: Final = ResourceType("", "v1", "limitranges", "LimitRange")
RESOURCE_QUOTAS: Final = ResourceType("", "v1", "resourcequotas", "ResourceQuota")
SERVICES: Final = ResourceType("", "v1", "services", "Service")
DEPLOYMENTS: Final = ResourceType("apps", "v1", "deployments", "Deployment")
REPLICA_SETS: Final = ResourceType("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS: Final = ResourceType("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS: Final = ResourceType("apps", "v1", "daemonsets", "DaemonSet")
JOBS: Final = ResourceType("batch", "v1", "jobs", "Job")
CRON_JOBS: Final = ResourceType("batch", "v1", "cronjobs", "CronJob")
POD_DISRUPTION_BUDGETS: Final = ResourceType("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
PRIORITY_CLASSES: Final = ResourceType("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
LEASES: Final = ResourceType("coordination.k8s.io", "v1", "leases", "Lease")
HORIZONTAL_POD_AUTOSCALERS: Final = ResourceType(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"
)
AUTOSCALERS: Final = ResourceType("autoscaling.k8s.io", "v1", "verticalpodautoscalers", "VerticalPodAutoscaler")
CHECKPOINTS: Final = ResourceType(
    "autoscaling.k8s.io", "v1", "verticalpodautoscalercheckpoints", "VerticalPodAutoscalerCheckpoint"
)
ELASTIC_POLICIES: Final = ResourceType("elastipod.io", "v1alpha1", "elasticpolicies", "ElasticPolicy")
ELASTIC_NODES: Final = ResourceType("elastipod.io", "v1alpha1", "elasticnodes", "ElasticNode", namespaced=False)
POD_METRICS: Final = ResourceType("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
NODE_METRICS: Final = ResourceType("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)
