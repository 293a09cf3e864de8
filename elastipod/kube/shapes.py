"""The JSON shapes of what we read: only the fields we need, so that the rest is skipped while decoding.

Owns nothing but field names. podrows.py and rows.py turn them into values.
"""

import msgspec
from msgspec import Struct

from elastipod.api import ResourceList
from elastipod.selectors import LabelSelector, Requirement

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Json(Struct, rename="camel", gc=False, frozen=True):
    """A JSON object, as far as we read it."""


class OwnerShape(Json, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class MetaShape(Json, frozen=True):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerShape] | None = None


class RequirementsShape(Json, frozen=True):
    requests: ResourceList | None = None
    limits: ResourceList | None = None


class ResizePolicyShape(Json, frozen=True):
    resource_name: str = ""
    restart_policy: str = ""


class ProbeShape(Json, frozen=True):
    period_seconds: int | None = None
    timeout_seconds: int | None = None
    failure_threshold: int | None = None


class ResourceFieldShape(Json, frozen=True):
    resource: str = ""
    container_name: str | None = None


class VariableSourceShape(Json, frozen=True):
    resource_field_ref: ResourceFieldShape | None = None


class VariableShape(Json, frozen=True):
    name: str
    value: str | None = None
    value_from: VariableSourceShape | None = None


class ContainerSpecShape(Json, frozen=True):
    name: str
    env: msgspec.Raw = msgspec.Raw(b"[]")
    """A list of VariableShape, as bytes."""
    command: list[str] | None = None
    args: list[str] | None = None
    resources: RequirementsShape | None = None
    resize_policy: list[ResizePolicyShape] | None = None
    restart_policy: str | None = None
    liveness_probe: ProbeShape | None = None


class NodeTermShape(Json, frozen=True):
    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None


class NodeTermsShape(Json, frozen=True):
    node_selector_terms: list[NodeTermShape] | None = None


class NodeAffinityShape(Json, frozen=True):
    required: NodeTermsShape | None = msgspec.field(name=_REQUIRED, default=None)


class PodTermShape(Json, frozen=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] | None = None


class PodAffinityShape(Json, frozen=True):
    required: list[PodTermShape] | None = msgspec.field(name=_REQUIRED, default=None)


class AffinityShape(Json, frozen=True):
    node_affinity: NodeAffinityShape | None = None
    pod_affinity: PodAffinityShape | None = None
    pod_anti_affinity: PodAffinityShape | None = None


class SpreadShape(Json, frozen=True):
    when_unsatisfiable: str = ""


class TolerationShape(Json, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class OsShape(Json, frozen=True):
    name: str = ""


class PodSpecShape(Json, frozen=True):
    containers: list[ContainerSpecShape] = []
    init_containers: list[ContainerSpecShape] | None = None
    node_name: str | None = None
    priority: int | None = None
    restart_policy: str | None = None
    preemption_policy: str | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[TolerationShape] | None = None
    affinity: msgspec.Raw = msgspec.Raw(b"null")
    """An AffinityShape, as bytes."""
    topology_spread_constraints: list[SpreadShape] | None = None
    overhead: ResourceList | None = None
    resources: RequirementsShape | None = None
    host_network: bool | None = None
    os: OsShape | None = None


class TerminatedShape(Json, frozen=True):
    exit_code: int = 0
    reason: str = ""
    container_id: str = msgspec.field(name="containerID", default="")
    started_at: str | None = None
    finished_at: str | None = None


class RunningShape(Json, frozen=True):
    started_at: str | None = None


class WaitingShape(Json, frozen=True):
    reason: str = ""


class StateShape(Json, frozen=True):
    running: RunningShape | None = None
    waiting: WaitingShape | None = None
    terminated: TerminatedShape | None = None


class ContainerStatusShape(Json, frozen=True):
    name: str
    ready: bool = False
    restart_count: int = 0
    container_id: str = msgspec.field(name="containerID", default="")
    state: StateShape | None = None
    last_state: StateShape | None = None
    allocated_resources: ResourceList | None = None
    resources: RequirementsShape | None = None


class ConditionShape(Json, frozen=True):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None
    observed_generation: int | None = None


class PodStatusShape(Json, frozen=True):
    phase: str = "Pending"
    qos_class: str | None = None
    observed_generation: int | None = None
    start_time: str | None = None
    conditions: list[ConditionShape] | None = None
    container_statuses: list[ContainerStatusShape] | None = None
    init_container_statuses: list[ContainerStatusShape] | None = None


class PodShape(Json, frozen=True):
    metadata: MetaShape
    spec: PodSpecShape = PodSpecShape()
    status: PodStatusShape = PodStatusShape()


class NodeSpecTaintShape(Json, frozen=True):
    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpecShape(Json, frozen=True):
    unschedulable: bool | None = None
    taints: list[NodeSpecTaintShape] | None = None


class NodeInfoShape(Json, frozen=True):
    kubelet_version: str = ""


class NodeStatusShape(Json, frozen=True):
    allocatable: ResourceList | None = None
    capacity: ResourceList | None = None
    conditions: list[ConditionShape] | None = None
    node_info: NodeInfoShape | None = None


class NodeShape(Json, frozen=True):
    metadata: MetaShape
    spec: NodeSpecShape = NodeSpecShape()
    status: NodeStatusShape = NodeStatusShape()


class OwnedSpecShape(Json, frozen=True):
    replicas: int | None = None
    parallelism: int | None = None


class OwnedShape(Json, frozen=True):
    metadata: MetaShape
    kind: str = ""
    spec: OwnedSpecShape = OwnedSpecShape()


class LimitRangeItemShape(Json, frozen=True):
    type: str = ""
    min: ResourceList | None = None
    max: ResourceList | None = None
    default: ResourceList | None = None
    default_request: ResourceList | None = None
    max_limit_request_ratio: ResourceList | None = None


class LimitRangeSpecShape(Json, frozen=True):
    limits: list[LimitRangeItemShape] | None = None


class LimitRangeShape(Json, frozen=True):
    metadata: MetaShape
    spec: LimitRangeSpecShape = LimitRangeSpecShape()


class QuotaAmountsShape(Json, frozen=True):
    hard: ResourceList | None = None
    used: ResourceList | None = None
    scopes: list[str] | None = None
    scope_selector: dict[str, object] | None = None


class QuotaShape(Json, frozen=True):
    metadata: MetaShape
    spec: QuotaAmountsShape = QuotaAmountsShape()
    status: QuotaAmountsShape = QuotaAmountsShape()
