"""Which containers of a pod are protected, and within which bounds.

Owns the way from a pod and the policies to targets, and the reason for each container that is left out. Opens nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from actuator.memory import Target
from actuator.settings import ActuatorSettings
from elastipod.api import ElasticPolicy
from elastipod.owners import workload_told_by
from elastipod.pods import Container, Pod, QosClass, ResizeProgress
from elastipod.policy import EffectivePolicy, SpikeMode, effective_policy
from elastipod.quantities import QuantityError, stated_memory
from elastipod.reasons import Reason

SPIKE_MAX_ANNOTATION: Final = "elastipod.io/memory-spike-max"
"""On a pod: no spike raises a container of it above this amount. It can only narrow."""

_SYSTEM_NODE_CRITICAL: Final = 2_000_001_000
_PROBE_SHARE: Final = 0.8
_UNDER_WAY: Final = (ResizeProgress.UNSEEN, ResizeProgress.IN_PROGRESS, ResizeProgress.ERROR)

Locate = Callable[[Pod, Container], tuple[str, str] | None]
"""The groups of a container's pod and of itself; None where they are not there (yet)."""


@dataclass(frozen=True, slots=True)
class Memo:
    """What is remembered of a container over restarts of ours; kept in its lease."""

    base_bytes: int = 0
    ours_bytes: int = 0
    """The highest limit we asked of the API or wrote."""
    pending_bytes: int = 0
    """A limit that we asked for and that the spec has not shown yet; 0 for none."""
    rescues: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a container stands: under protection, or why not."""

    container: str
    target: Target | None = None
    reason: Reason | None = None
    message: str = ""


def target_key(pod: Pod, container: Container) -> str:
    """What names one run of a container here."""
    return f"{pod.uid}/{container.name}/{container.container_id.rpartition('/')[2]}"


def standings(
    pod: Pod, policies: Sequence[ElasticPolicy], settings: ActuatorSettings, locate: Locate, memos: Mapping[str, Memo]
) -> list[Standing]:
    """Each container of the pod with a memory limit that runs."""
    found: list[Standing] = []
    if not pod.is_running or pod.is_windows:
        return found
    policy = effective_policy(pod, workload_told_by(pod), policies, settings.ceiling)
    most, problem = _stated_most(pod)
    problems = "; ".join((*policy.problems, *((problem,) if problem else ())))
    for container in pod.sized_containers:
        if not container.is_running or not container.container_id or not container.limits.memory_bytes:
            continue
        if pod.namespace in settings.namespaces_off:
            found.append(Standing(container.name, reason=Reason.NAMESPACE_OFF, message="setting namespaces_off"))
            continue
        reason = _why_not(pod, container, policy)
        if reason is not None:
            found.append(Standing(container.name, reason=reason, message=problems or policy.spike_source))
            continue
        groups = locate(pod, container)
        if groups is None:
            found.append(Standing(container.name, reason=Reason.NOT_RUNNING, message="its cgroup was not found"))
            continue
        memo = memos.get(target_key(pod, container), Memo())
        target = _target(pod, container, groups, memo, settings, _least(policy.spike_max_bytes, most))
        found.append(Standing(container.name, target, message=problems))
    return found


def _why_not(pod: Pod, container: Container, policy: EffectivePolicy) -> Reason | None:
    if policy.spike is SpikeMode.OFF:
        return Reason.MODE_OFF
    if pod.is_mirror:
        return Reason.MIRROR_POD
    if pod.qos_class is QosClass.BEST_EFFORT:
        return Reason.BEST_EFFORT
    # A raise would restart it; and the node's own daemons, ours included, are the kubelet's matter.
    if container.memory_restart or pod.priority >= _SYSTEM_NODE_CRITICAL or pod.has_pod_level_resources:
        return Reason.UNSUPPORTED_POD
    return None


def _target(
    pod: Pod,
    container: Container,
    groups: tuple[str, str],
    memo: Memo,
    settings: ActuatorSettings,
    most: int | None,
) -> Target:
    spec = container.limits.memory
    # A limit that is not of our making is a new beginning.
    is_ours = spec in (memo.base_bytes, memo.ours_bytes) or spec < memo.pending_bytes
    base = memo.base_bytes if memo.base_bytes and is_ours else spec
    ceiling = _least(int(base * settings.memory_spike_max_factor), most)
    patience = container.liveness_seconds
    deadline = settings.hold_seconds if patience is None else min(settings.hold_seconds, _PROBE_SHARE * patience)
    return Target(
        key=target_key(pod, container),
        pod_uid=pod.uid,
        container=container.name,
        container_id=container.container_id.rpartition("/")[2],
        pod_group=groups[0],
        group=groups[1],
        spec_bytes=spec,
        ceiling_bytes=ceiling or spec,
        base_bytes=base,
        deadline_seconds=deadline,
        priority=pod.priority,
        siblings=tuple(one.container_id for one in pod.sized_containers if one is not container and one.container_id),
        written_bytes=memo.pending_bytes,
        in_force_bytes=None if container.actual_limits is None else container.actual_limits.memory_bytes,
        is_resizing=pod.resize_progress in _UNDER_WAY,
        rescues=memo.rescues,
        is_leased=bool(memo.base_bytes),
    )


def _stated_most(pod: Pod) -> tuple[int | None, str]:
    text = pod.annotations.get(SPIKE_MAX_ANNOTATION)
    if text is None:
        return None, ""
    try:
        most = stated_memory(text)
    except QuantityError as error:
        return None, f"annotation {SPIKE_MAX_ANNOTATION}: {error}"
    if most <= 0:
        return None, f"annotation {SPIKE_MAX_ANNOTATION} is {text[:40]!r}: write an amount such as 2Gi"
    return most, ""


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)
