"""Bytes of the API to a pod's row. Owns how pods are read: a strange amount or time inside one counts as not set."""

import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec

from elastipod.kube import shapes
from elastipod.kube.decoding import Decoder, decoded
from elastipod.kube.fields import NO_LABELS, amounts, controlling_owner, instant, interned, own_annotations
from elastipod.pods import (
    Affinity,
    Apart,
    Container,
    ContainerKind,
    Pod,
    QosClass,
    ResizeCondition,
    StartSize,
    Termination,
    Toleration,
)
from elastipod.quantities import NOTHING
from elastipod.selectors import Requirement
from elastipod.startsizes import TELLING_VARIABLES, Variable, start_sizes

_MOST_KEPT_BYTES: Final = 8192
"""A longer environment or affinity is not worth a place in a cache."""
_NODE_NAME: Final = b"metadata.name"
_HOSTNAME: Final = "kubernetes.io/hostname"
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
            ready_at = instant(condition.last_transition_time) if is_ready else None
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
        labels=interned(meta.labels),
        annotations=own_annotations(meta.annotations),
        owner=controlling_owner(meta.owner_references),
        created_at=instant(meta.creation_timestamp) or 0.0,
        deletion_at=instant(meta.deletion_timestamp),
        started_at=instant(status.start_time),
        is_ready=is_ready,
        ready_at=ready_at,
        is_unschedulable=is_unschedulable,
        is_mirror="kubernetes.io/config.mirror" in (meta.annotations or ()),
        is_windows=spec.os is not None and spec.os.name == "windows",
        has_pod_level_resources=spec.resources is not None,
        pod_requests=NOTHING if spec.resources is None else amounts(spec.resources.requests),
        pod_limits=NOTHING if spec.resources is None else amounts(spec.resources.limits),
        host_network=bool(spec.host_network),
        overhead=amounts(spec.overhead),
        node_selector=spec.node_selector or NO_LABELS,
        tolerations=tuple(
            Toleration(one.key or "", one.operator or "Equal", one.value or "", one.effect or "")
            for one in spec.tolerations or ()
        ),
        affinity=_affinity(spec),
        containers=tuple(containers),
        resize_pending=pending,
        resize_in_progress=progress,
    )


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
            amounts(wanted.requests),
            amounts(wanted.limits),
            cpu_restart="cpu" in restarts,
            memory_restart="memory" in restarts,
            liveness_seconds=_patience(spec.liveness_probe),
            start_sizes=_start_sizes(spec),
        )
    state = status.state or shapes.StateShape()
    return Container(
        name=sys.intern(spec.name),
        kind=kind,
        requests=amounts(wanted.requests),
        limits=amounts(wanted.limits),
        allocated=None if status.allocated_resources is None else amounts(status.allocated_resources),
        actual_requests=None if status.resources is None else amounts(status.resources.requests),
        actual_limits=None if status.resources is None else amounts(status.resources.limits),
        cpu_restart="cpu" in restarts,
        memory_restart="memory" in restarts,
        container_id=status.container_id,
        restart_count=status.restart_count,
        started_at=instant(state.running.started_at) if state.running else None,
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
        sys.intern(ended.reason),
        ended.exit_code,
        ended.container_id,
        instant(ended.started_at),
        instant(ended.finished_at),
    )


def _init_kind(spec: shapes.ContainerSpecShape) -> ContainerKind:
    return ContainerKind.SIDECAR if spec.restart_policy == "Always" else ContainerKind.INIT


def _resize_condition(condition: shapes.ConditionShape) -> ResizeCondition:
    return ResizeCondition(
        condition.reason or "",
        condition.message or "",
        condition.observed_generation or 0,
        instant(condition.last_transition_time) or 0.0,
    )


def _qos_class(stated: str | None, containers: Iterable[Container]) -> QosClass:
    """As the status has it; from the containers where it does not say (component-helpers qos.ComputePodQOS)."""
    known = _QOS_CLASSES.get(stated)
    if known is not None:
        return known
    sizes = [(one.requests, one.limits) for one in containers]
    if all(requests.is_empty and limits.is_empty for requests, limits in sizes):
        return QosClass.BEST_EFFORT
    for requests, limits in sizes:
        if limits.cpu_millicores is None or limits.memory_bytes is None or requests.or_else(limits) != limits:
            return QosClass.BURSTABLE
    return QosClass.GUARANTEED


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


decode_pod: Final = Decoder(shapes.PodShape, pod_row)
