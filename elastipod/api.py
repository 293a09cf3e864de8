"""The custom resources: VPA's, field for field, and our own.

Owns their shape as JSON and their reading into values. Amounts stay text in the JSON shapes, as users wrote them, and
become Resources through `resources`. Unknown fields are kept out of the way here; the API server refuses them.
"""

from enum import StrEnum
from typing import Any, Final

from msgspec import Struct, field

from elastipod.quantities import NOTHING, Resources, format_cpu, format_memory, parse_cpu, parse_memory

ResourceList = dict[str, str | int | float]
"""`{"cpu": "250m", "memory": "128Mi"}`; people also write bare numbers."""

CHECKPOINT_VERSION: Final = "v3"
RESOURCES_ANNOTATION: Final = "elastipod.io/resources"
"""On a workload or pod: the size its containers shall have.

JSON `{"container": {"requests": {...}, "limits": {...}}}`.
"""
SPIKE_ANNOTATION: Final = "elastipod.io/memory-spike"
"""On a pod: `Pause` or `Off`."""
BOOST_ANNOTATION: Final = "elastipod.io/startup-boost"
"""On a pod that was created with more CPU: by container what it has without it, what it has with it, and how long."""


class UpdateMode(StrEnum):
    """How recommendations are applied."""

    OFF = "Off"
    INITIAL = "Initial"
    RECREATE = "Recreate"
    IN_PLACE_OR_RECREATE = "InPlaceOrRecreate"
    IN_PLACE = "InPlace"
    AUTO = "Auto"

    @property
    def may_resize(self) -> bool:
        """Whether running pods are resized in place."""
        return self in (UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.IN_PLACE, UpdateMode.AUTO)


def resources(amounts: ResourceList | None) -> Resources:
    """The amounts of CPU and memory in a resource list; others are left out. Raises QuantityError."""
    if not amounts:
        return NOTHING
    cpu, memory = amounts.get("cpu"), amounts.get("memory")
    return Resources(
        None if cpu is None else parse_cpu(str(cpu)),
        None if memory is None else parse_memory(str(memory)),
    )


def resource_list(amounts: Resources) -> ResourceList:
    """The JSON form, only of what is set."""
    result: ResourceList = {}
    if amounts.cpu_millicores is not None:
        result["cpu"] = format_cpu(amounts.cpu_millicores)
    if amounts.memory_bytes is not None:
        result["memory"] = format_memory(amounts.memory_bytes)
    return result


class _Api(Struct, rename="camel", omit_defaults=True, frozen=True):
    """A JSON object of the API."""


class OwnerReferenceJson(_Api, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(_Api, frozen=True):
    """metadata, as far as we read it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReferenceJson] | None = None


class TargetRef(_Api, frozen=True):
    kind: str = ""
    name: str = ""
    api_version: str = ""


class UpdatePolicy(_Api, frozen=True):
    update_mode: str | None = None
    min_replicas: int | None = None
    eviction_requirements: list[Any] | None = None
    evict_after_oom_seconds: int | None = field(name="evictAfterOOMSeconds", default=None)


class ContainerPolicy(_Api, frozen=True):
    """Constraints of one container, or of all without an entry of their own (`*`)."""

    container_name: str = ""
    mode: str | None = None
    min_allowed: ResourceList | None = None
    max_allowed: ResourceList | None = None
    controlled_resources: list[str] | None = None
    controlled_values: str | None = None
    oom_bump_up_ratio: str | int | float | None = None
    oom_min_bump_up: str | int | float | None = None
    memory_aggregation_interval_seconds: int | None = None
    memory_aggregation_interval_count: int | None = None
    startup_boost: Any = None


class ResourcePolicy(_Api, frozen=True):
    container_policies: list[ContainerPolicy] | None = None


class RecommenderChoice(_Api, frozen=True):
    name: str = ""


class AutoscalerSpec(_Api, frozen=True):
    target_ref: TargetRef | None = None
    update_policy: UpdatePolicy | None = None
    resource_policy: ResourcePolicy | None = None
    recommenders: list[RecommenderChoice] | None = None
    startup_boost: Any = None


class ContainerRecommendation(_Api, frozen=True):
    """One container's recommendation; amounts are resource lists of text."""

    container_name: str = ""
    target: ResourceList | None = None
    lower_bound: ResourceList | None = None
    upper_bound: ResourceList | None = None
    uncapped_target: ResourceList | None = None


class Recommendation(_Api, frozen=True):
    container_recommendations: list[ContainerRecommendation] | None = None


class Condition(_Api, frozen=True):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""
    observed_generation: int | None = None


class AutoscalerStatus(_Api, frozen=True):
    recommendation: Recommendation | None = None
    conditions: list[Condition] | None = None
    observed_generation: int | None = None


class Autoscaler(_Api, frozen=True):
    """A VerticalPodAutoscaler."""

    api_version: str = "autoscaling.k8s.io/v1"
    kind: str = "VerticalPodAutoscaler"
    metadata: ObjectMeta = ObjectMeta()
    spec: AutoscalerSpec = AutoscalerSpec()
    status: AutoscalerStatus | None = None

    @property
    def mode(self) -> UpdateMode:
        """The update mode; Recreate where none is stated, as upstream. Raises ValueError."""
        policy = self.spec.update_policy
        return UpdateMode(policy.update_mode) if policy and policy.update_mode else UpdateMode.RECREATE

    @property
    def recommender(self) -> str:
        """The recommender it chose."""
        return self.spec.recommenders[0].name if self.spec.recommenders else "default"

    def container_policy(self, container: str) -> ContainerPolicy | None:
        """The policy of a container: its own, else `*`; the two are not merged, as upstream."""
        policies = (self.spec.resource_policy and self.spec.resource_policy.container_policies) or []
        by_name = {policy.container_name: policy for policy in reversed(policies)}
        return by_name.get(container) or by_name.get("*")


class HistogramCheckpoint(_Api, frozen=True):
    """A histogram in upstream's v3 form: weights scaled so that the largest is 10000."""

    reference_timestamp: str | None = None
    bucket_weights: dict[str, int] | None = None
    total_weight: float = 0.0


class CheckpointSpec(_Api, frozen=True):
    vpa_object_name: str = field(name="vpaObjectName", default="")
    container_name: str = ""


class CheckpointStatus(_Api, frozen=True):
    last_update_time: str | None = None
    version: str = ""
    cpu_histogram: HistogramCheckpoint | None = None
    memory_histogram: HistogramCheckpoint | None = None
    first_sample_start: str | None = None
    last_sample_start: str | None = None
    total_samples_count: int = 0


class Checkpoint(_Api, frozen=True):
    """A VerticalPodAutoscalerCheckpoint."""

    api_version: str = "autoscaling.k8s.io/v1"
    kind: str = "VerticalPodAutoscalerCheckpoint"
    metadata: ObjectMeta = ObjectMeta()
    spec: CheckpointSpec = CheckpointSpec()
    status: CheckpointStatus | None = None


class WorkloadSelector(_Api, frozen=True):
    """Which workloads a policy speaks of: by kind, by name, by label; what is left out does not narrow."""

    kind: str | None = None
    name: str | None = None
    match_labels: dict[str, str] | None = None


class SpikePolicy(_Api, frozen=True):
    """What happens when memory leaps towards the limit."""

    mode: str | None = None
    """`Pause` or `Off`."""
    max_allowed: str | int | None = None
    """No spike raises a container's memory limit above this."""


class LimitModesJson(_Api, frozen=True):
    """How the limit of each resource is found: `Proportional`, `Independent` or `Unset`."""

    cpu: str | None = None
    memory: str | None = None


class ElasticPolicySpec(_Api, frozen=True):
    """What VPA's object has no word for. Everything may be left out."""

    selector: WorkloadSelector | None = None
    memory_spike: SpikePolicy | None = None
    donate: bool | None = None
    """Whether these pods may give room they do not use to others."""
    horizontal_scaling: str | None = None
    """`Hold` or `Ignore`: whether a request is left alone whose utilization a HorizontalPodAutoscaler scales on."""
    estimator: str | None = None
    """`Auto` or `Histogram`: whether an estimator that does better than VPA's rule may speak; Auto where left out."""
    limit_modes: LimitModesJson | None = None
    sizes: str | None = None
    """`ByNodeClass` or `Same`: whether pods on nodes of each class have a size of their own; Same where left out."""


class ElasticPolicy(_Api, frozen=True):
    """An ElasticPolicy, `elastipod.io/v1alpha1`, namespaced."""

    api_version: str = "elastipod.io/v1alpha1"
    kind: str = "ElasticPolicy"
    metadata: ObjectMeta = ObjectMeta()
    spec: ElasticPolicySpec = ElasticPolicySpec()


class ElasticNodeContainer(_Api, frozen=True):
    """A container's sizes as the node has them: wanted (spec), allocated, actuated, actual (status)."""

    namespace: str = ""
    pod: str = ""
    uid: str = ""
    container: str = ""
    requests: ResourceList | None = None
    limits: ResourceList | None = None
    reason: str = ""
    message: str = ""


class ElasticNodeSpec(_Api, frozen=True):
    wanted: list[ElasticNodeContainer] | None = None


class ElasticNodeStatus(_Api, frozen=True):
    """What the actuator reports of its node."""

    cgroup_version: str = ""
    spike_protection: str = ""
    address: str = ""
    message: str = ""
    last_heartbeat: str | None = None
    allocated: list[ElasticNodeContainer] | None = None
    actual: list[ElasticNodeContainer] | None = None


class ElasticNode(_Api, frozen=True):
    """An ElasticNode, `elastipod.io/v1alpha1`, named as its node."""

    api_version: str = "elastipod.io/v1alpha1"
    kind: str = "ElasticNode"
    metadata: ObjectMeta = ObjectMeta()
    spec: ElasticNodeSpec = ElasticNodeSpec()
    status: ElasticNodeStatus | None = None
