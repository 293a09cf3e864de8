"""Bytes of the API to slim rows.

Owns how pods, nodes, owners, LimitRanges and quotas are read: a strange amount or time inside one counts as not set.
"""

import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

import msgspec

from elastipod.api import Autoscaler, ElasticNode, ElasticPolicy, ResourceList
from elastipod.clock import from_rfc3339
from elastipod.kube import shapes
from elastipod.kube.decoding import Decoder, decoded, whole
from elastipod.limits import LimitRange, LimitRangeItem, Quota
from elastipod.owners import Owned
from elastipod.pods import (
    OWN_PREFIX,
    STAYING,
    Affinity,
    Apart,
    Container,
    ContainerKind,
    Node,
    OwnerReference,
    Pod,
    QosClass,
    ResizeCondition,
    StartSize,
    Taint,
    Termination,
    Toleration,
)
from elastipod.quantities import NOTHING, QuantityError, Resources, parse_cpu, parse_memory
from elastipod.selectors import Requirement
from elastipod.startsizes import TELLING_VARIABLES, Variable, start_sizes

_KEPT_ANNOTATIONS: Final = frozenset({"vpaUpdates", "vpaObservedContainers", "vpaInPlaceUpdated", *STAYING})
_MOST_ANNOTATION: Final = 65_536
_MOST_KEPT: Final = 64
"""A longer quantity is not worth a place in a cache."""
_MOST_KEPT_BYTES: Final = 8192
"""Nor is a longer environment or affinity."""
_SHOWN_OF_ANNOTATION: Final = 256
_NODE_NAME: Final = b"metadata.name"
_HOSTNAME: Final = "kubernetes.io/hostname"
_NO_LABELS: Final[dict[str, str]] = {}
_QOS_CLASSES: Final[dict[str | None, QosClass]] = {one.value: one for one in QosClass}

_affinities: Final = msgspec.json.Decoder(shapes.AffinityShape | None)
_variables: Final = msgspec.json.Decoder(list[shapes.VariableShape] | None)


def pod_row(pod: shapes.PodShape) -> Pod:
    """The slim value of a decoded pod."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    statuses = {one.name: one for one in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))}
    containers = [_container(one, _init_kind(one), statuses.get(one.name)) for one in spec.init_containers or ()]
    containers += [_container(one, ContainerKind.APP, statuses.get(one.name)) for one in spec.containers]
    pending = progress = None
    is_ready = is_unschedulable = False
    ready_at = None
    for condition in status.conditions or ():
        if condition.type == "Ready":
            is_ready = condition.status == "True"
            ready_at = _time(condition.last_transition_time) if is_ready else None
        elif condition.type == "PodScheduled":
            is_unschedulable = condition.status == "False" and condition.reason == "Unschedulable"
        elif condition.type == "PodResizePending" and condition.status == "True":
            pending = _resize_condition(condition)
        elif condition.type == "PodResizeInProgress" and condition.status == "True":
            progress = _resize_condition(condition)
    return Pod(
        namespace=sys.intern(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation or 0,
        observed_generation=status.observed_generation or 0,
        node_name=sys.intern(spec.node_name or ""),
        phase=sys.intern(status.phase),
        qos_class=_qos_class(status.qos_class, containers),
        priority=spec.priority or 0,
        restart_policy=sys.intern(spec.restart_policy or "Always"),
        preempts=spec.preemption_policy != "Never",
        labels=_interned(meta.labels),
        annotations=_own_annotations(meta.annotations),
        owner=_owner(meta.owner_references),
        created_at=_time(meta.creation_timestamp) or 0.0,
        deletion_at=_time(meta.deletion_timestamp),
        started_at=_time(status.start_time),
        is_ready=is_ready,
        ready_at=ready_at,
        is_unschedulable=is_unschedulable,
        is_mirror="kubernetes.io/config.mirror" in (meta.annotations or ()),
        is_windows=spec.os is not None and spec.os.name == "windows",
        has_pod_level_resources=spec.resources is not None,
        pod_requests=NOTHING if spec.resources is None else _amounts(spec.resources.requests),
        pod_limits=NOTHING if spec.resources is None else _amounts(spec.resources.limits),
        host_network=bool(spec.host_network),
        overhead=_amounts(spec.overhead),
        node_selector=spec.node_selector or _NO_LABELS,
        tolerations=tuple(
            Toleration(one.key or "", one.operator or "Equal", one.value or "", one.effect or "")
            for one in spec.tolerations or ()
        ),
        affinity=_affinity(spec),
        containers=tuple(containers),
        resize_pending=pending,
        resize_in_progress=progress,
    )


def _node_row(node: shapes.NodeShape) -> Node:
    ready = next((one for one in node.status.conditions or () if one.type == "Ready"), None)
    is_ready = ready is not None and ready.status == "True"
    allocatable = node.status.allocatable or node.status.capacity or {}
    return Node(
        name=node.metadata.name,
        uid=node.metadata.uid,
        resource_version=node.metadata.resource_version,
        allocatable=_amounts(allocatable),
        capacity=_amounts(node.status.capacity),
        allocatable_pods=_count(allocatable.get("pods"), 110),
        is_ready=is_ready,
        not_ready_since=None if is_ready or ready is None else _time(ready.last_transition_time),
        is_unschedulable=bool(node.spec.unschedulable),
        labels=node.metadata.labels or _NO_LABELS,
        taints=tuple(Taint(taint.key, taint.effect, taint.value or "") for taint in node.spec.taints or ()),
        kubelet_version=node.status.node_info.kubelet_version if node.status.node_info else "",
    )


def _limit_range_row(found: shapes.LimitRangeShape) -> LimitRange:
    return LimitRange(
        found.metadata.namespace,
        found.metadata.name,
        tuple(
            LimitRangeItem(
                item.type,
                _amounts(item.min),
                _amounts(item.max),
                _amounts(item.default),
                _amounts(item.default_request),
                _ratio(item.max_limit_request_ratio, "cpu"),
                _ratio(item.max_limit_request_ratio, "memory"),
            )
            for item in found.spec.limits or ()
        ),
    )


def _quota_row(found: shapes.QuotaShape) -> Quota:
    hard = _quota_amounts(found.spec.hard) or _quota_amounts(found.status.hard)
    is_scoped = bool(found.spec.scopes or found.spec.scope_selector)
    return Quota(found.metadata.namespace, found.metadata.name, hard, _quota_amounts(found.status.used), is_scoped)


def _container(
    spec: shapes.ContainerSpecShape, kind: ContainerKind, status: shapes.ContainerStatusShape | None
) -> Container:
    policies = spec.resize_policy or ()
    restarts = [one.resource_name for one in policies if one.restart_policy == "RestartContainer"]
    wanted = spec.resources or shapes.RequirementsShape()
    if status is None:
        return Container(
            sys.intern(spec.name),
            kind,
            _amounts(wanted.requests),
            _amounts(wanted.limits),
            cpu_restart="cpu" in restarts,
            memory_restart="memory" in restarts,
            liveness_seconds=_patience(spec.liveness_probe),
            start_sizes=_start_sizes(spec),
        )
    state = status.state or shapes.StateShape()
    return Container(
        name=sys.intern(spec.name),
        kind=kind,
        requests=_amounts(wanted.requests),
        limits=_amounts(wanted.limits),
        allocated=None if status.allocated_resources is None else _amounts(status.allocated_resources),
        actual_requests=None if status.resources is None else _amounts(status.resources.requests),
        actual_limits=None if status.resources is None else _amounts(status.resources.limits),
        cpu_restart="cpu" in restarts,
        memory_restart="memory" in restarts,
        container_id=status.container_id,
        restart_count=status.restart_count,
        started_at=_time(state.running.started_at) if state.running else None,
        is_running=state.running is not None,
        is_ready=status.ready,
        waiting_reason=state.waiting.reason if state.waiting else "",
        liveness_seconds=_patience(spec.liveness_probe),
        termination=_termination(state.terminated),
        last_termination=_termination(status.last_state.terminated) if status.last_state else None,
        start_sizes=_start_sizes(spec),
    )


def _start_sizes(spec: shapes.ContainerSpecShape) -> tuple[StartSize, ...]:
    raw = bytes(spec.env)
    read = _shared_environment if len(raw) <= _MOST_KEPT_BYTES else _read_environment
    environment = read(raw, spec.name)
    if not environment and not spec.command and not spec.args:
        return ()
    return start_sizes(environment, (*(spec.command or ()), *(spec.args or ())))


def _read_environment(raw: bytes, container: str) -> tuple[Variable, ...]:
    """What tells of sizes. Raises BadObject."""
    variables = decoded(_variables.decode, raw) or ()
    telling = [one for one in variables if one.value_from is not None or one.name in TELLING_VARIABLES]
    return tuple(Variable(one.name, one.value or "", _follows(one, container)) for one in telling)


_shared_environment: Final = lru_cache(maxsize=1024)(_read_environment)
"""The pods of a workload have the same, and stand together in a list."""


def _follows(variable: shapes.VariableShape, container: str) -> str:
    field = variable.value_from.resource_field_ref if variable.value_from is not None else None
    return field.resource if field is not None and field.container_name in (None, "", container) else ""


def _patience(probe: shapes.ProbeShape | None) -> float | None:
    """The shortest silence that a probe kills for: the last of its failures times out."""
    if probe is None:
        return None
    return float((probe.failure_threshold or 3) - 1) * (probe.period_seconds or 10) + (probe.timeout_seconds or 1)


def _termination(ended: shapes.TerminatedShape | None) -> Termination | None:
    if ended is None:
        return None
    return Termination(
        sys.intern(ended.reason), ended.exit_code, ended.container_id, _time(ended.started_at), _time(ended.finished_at)
    )


def _init_kind(spec: shapes.ContainerSpecShape) -> ContainerKind:
    return ContainerKind.SIDECAR if spec.restart_policy == "Always" else ContainerKind.INIT


def _resize_condition(condition: shapes.ConditionShape) -> ResizeCondition:
    return ResizeCondition(
        condition.reason or "",
        condition.message or "",
        condition.observed_generation or 0,
        _time(condition.last_transition_time) or 0.0,
    )


def _qos_class(stated: str | None, containers: Iterable[Container]) -> QosClass:
    """As the status has it; from the containers where it does not say (component-helpers qos.ComputePodQOS)."""
    known = _QOS_CLASSES.get(stated)
    if known is not None:
        return known
    amounts = [(one.requests, one.limits) for one in containers]
    if all(requests.is_empty and limits.is_empty for requests, limits in amounts):
        return QosClass.BEST_EFFORT
    for requests, limits in amounts:
        if limits.cpu_millicores is None or limits.memory_bytes is None or requests.or_else(limits) != limits:
            return QosClass.BURSTABLE
    return QosClass.GUARANTEED


def _owned_row(found: shapes.OwnedShape, kind: str) -> Owned:
    meta = found.metadata
    return Owned(
        kind=found.kind or kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        labels=_interned(meta.labels),
        annotations=_own_annotations(meta.annotations),
        owner=_owner(meta.owner_references),
        generation=meta.generation or 0,
        replicas=found.spec.replicas if found.spec.replicas is not None else found.spec.parallelism,
    )


def _owner(references: list[shapes.OwnerShape] | None) -> OwnerReference | None:
    for one in references or ():
        if one.controller:
            return _shared_owner(one.kind, one.name, one.uid, one.api_version)
    return None


@lru_cache(maxsize=4096)
def _shared_owner(kind: str, name: str, uid: str, api_version: str) -> OwnerReference:
    """One value for all that an owner has: they stand together in a list."""
    return OwnerReference(sys.intern(kind), name, uid, sys.intern(api_version))


def bound_node(spec: shapes.PodSpecShape) -> str:
    """Where a pod runs, or is to run and nowhere else, as a DaemonSet's pod from its start; nothing where it is free.

    Raises BadObject.
    """
    if spec.node_name or _NODE_NAME not in bytes(spec.affinity):
        return spec.node_name or ""
    found = decoded(_affinities.decode, bytes(spec.affinity))
    nodes = None if found is None or found.node_affinity is None else found.node_affinity.required
    terms = () if nodes is None else nodes.node_selector_terms or ()
    names = {_named_node(one.match_fields or ()) for one in terms}
    return names.pop() if len(names) == 1 else ""


def _named_node(fields: tuple[Requirement, ...]) -> str:
    named = [one.values for one in fields if one.key == "metadata.name" and one.operator == "In" and one.values]
    return named[0][0] if len(named) == 1 and len(named[0]) == 1 else ""


def _affinity(spec: shapes.PodSpecShape) -> Affinity:
    has_more = any(one.when_unsatisfiable == "DoNotSchedule" for one in spec.topology_spread_constraints or ())
    raw = bytes(spec.affinity)
    read = _shared_affinity if len(raw) <= _MOST_KEPT_BYTES else _read_affinity
    return read(raw, has_more)


def _read_affinity(raw: bytes, has_more: bool) -> Affinity:
    """What is required. Raises BadObject."""
    found = decoded(_affinities.decode, raw) or shapes.AffinityShape()
    nodes = found.node_affinity.required if found.node_affinity is not None else None
    terms = [] if nodes is None else nodes.node_selector_terms or []
    near = found.pod_affinity is not None and bool(found.pod_affinity.required)
    apart = found.pod_anti_affinity.required if found.pod_anti_affinity is not None else None
    return Affinity(
        None if nodes is None else tuple(one.match_expressions or () for one in terms),
        tuple(Apart(one.label_selector, one.namespaces or ()) for one in apart or () if one.label_selector is not None),
        has_more
        or near
        or any(one.match_fields for one in terms)
        or any(
            one.topology_key != _HOSTNAME or one.namespace_selector is not None or one.match_label_keys
            for one in apart or ()
        ),
    )


_shared_affinity: Final = lru_cache(maxsize=1024)(_read_affinity)
"""One value for the pods of a workload."""


def _own_annotations(annotations: dict[str, str] | None) -> dict[str, str]:
    """Ours, VPA's and STAYING; of one that is absurdly long only the start is kept, to be refused by name."""
    if not annotations:
        return _NO_LABELS
    kept = {
        key: value if len(value) <= _MOST_ANNOTATION else value[:_SHOWN_OF_ANNOTATION]
        for key, value in annotations.items()
        if key in _KEPT_ANNOTATIONS or key.startswith(OWN_PREFIX)
    }
    return kept or _NO_LABELS


def _interned(labels: dict[str, str] | None) -> dict[str, str]:
    return {sys.intern(key): sys.intern(value) for key, value in labels.items()} if labels else _NO_LABELS


def _amounts(amounts: ResourceList | None) -> Resources:
    if not amounts:
        return NOTHING
    cpu, memory = amounts.get("cpu"), amounts.get("memory")
    if (isinstance(cpu, str) and len(cpu) > _MOST_KEPT) or (isinstance(memory, str) and len(memory) > _MOST_KEPT):
        return _parsed_amounts(cpu, memory)
    return _shared_amounts(cpu, memory)


def _parsed_amounts(cpu: str | int | float | None, memory: str | int | float | None) -> Resources:
    return Resources(_amount(parse_cpu, cpu), _amount(parse_memory, memory))


_shared_amounts: Final = lru_cache(maxsize=65_536)(_parsed_amounts)
"""One value for all containers of the same size: most of a cluster's are."""


def _amount(parse: Callable[[str], int], text: str | int | float | None) -> int | None:
    if text is None:
        return None
    try:
        return parse(str(text))
    except QuantityError:
        return None


def _quota_amounts(amounts: ResourceList | None) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, text in (amounts or {}).items():
        scope, _, resource = key.rpartition(".")
        if resource in ("cpu", "memory") and scope in ("", "requests", "limits"):
            amount = _amount(parse_cpu if resource == "cpu" else parse_memory, text)
            if amount is not None:
                found[f"{scope or 'requests'}.{resource}"] = amount
    return found


def _ratio(amounts: ResourceList | None, resource: str) -> float | None:
    millionths = _amount(parse_cpu, (amounts or {}).get(resource))
    return None if millionths is None else millionths / 1000


def _count(text: str | int | float | None, otherwise: int) -> int:
    found = _amount(parse_memory, text)
    return otherwise if found is None else found


def _time(text: str | None) -> float | None:
    if not text:
        return None
    try:
        return from_rfc3339(text)
    except ValueError:
        return None


decode_pod: Final = Decoder(shapes.PodShape, pod_row)
decode_node: Final = Decoder(shapes.NodeShape, _node_row)
decode_limit_range: Final = Decoder(shapes.LimitRangeShape, _limit_range_row)
decode_quota: Final = Decoder(shapes.QuotaShape, _quota_row)

decode_autoscaler: Final = whole(Autoscaler)
decode_policy: Final = whole(ElasticPolicy)
decode_elastic_node: Final = whole(ElasticNode)


def metadata_decoder(kind: str) -> Decoder[Owned]:
    """For the controllers of one kind, as owners of pods: items of a list carry no kind."""
    return Decoder(shapes.OwnedShape, lambda found: _owned_row(found, kind))
