"""Jobs: pods that run to their end, so many times, with so many failures."""

from collections.abc import Iterable
from typing import Final

from elastipod.backoff import Backoff
from elastipod.clock import to_rfc3339
from elastipod.kube.resources import JOBS, PODS
from elastipod.localcluster.controllers.actions import (
    Create,
    Decision,
    Delete,
    Json,
    free_name,
    instant,
    is_active,
    is_ending,
    is_ready,
    name_of,
    owned_by,
    phase_of,
    pod_of,
)

_AFTER_FAILURE: Final = Backoff(first_seconds=10.0, most_seconds=360.0)


def decide(job: Json, all_pods: Iterable[Json], now: float) -> Decision:
    """Start what is missing, end what failed too often, tell how far it is."""
    found = Decision()
    spec, status = job["spec"], job.get("status") or {}
    pods = owned_by(job, all_pods)
    active = [pod for pod in pods if is_active(pod)]
    # What was counted stays counted when its pod is deleted.
    succeeded = max(sum(phase_of(pod) == "Succeeded" for pod in pods), int(status.get("succeeded") or 0))
    failed = [pod for pod in pods if phase_of(pod) == "Failed"]
    failures = max(len(failed), int(status.get("failed") or 0))
    started_at = instant(status.get("startTime")) or now
    conditions = list(status.get("conditions") or ())
    completed_at = status.get("completionTime")
    if is_ending(job) or any(one.get("type") in ("Complete", "Failed") for one in conditions):
        found.actions += [Delete(PODS, pod) for pod in active]
    elif why := _failure(spec, pods, failures, started_at, now):
        found.actions += [Delete(PODS, pod) for pod in active]
        conditions += [_condition("FailureTarget", *why, now), _condition("Failed", *why, now)]
    elif succeeded >= _completions(spec) and not active:
        reached = ("CompletionsReached", "Reached expected number of succeeded pods")
        conditions += [_condition("SuccessCriteriaMet", *reached, now), _condition("Complete", *reached, now)]
        completed_at = to_rfc3339(now)
    elif spec.get("suspend"):
        found.actions += [Delete(PODS, pod) for pod in active]
    else:
        _start_missing(job, pods, active, succeeded, failed, now, found)
    if deadline := spec.get("activeDeadlineSeconds"):
        found.look_again_at = min(found.look_again_at or started_at + deadline, started_at + deadline)
        found.look_again_at = found.look_again_at if found.look_again_at > now else None
    told: Json = {
        "startTime": status.get("startTime") or to_rfc3339(started_at),
        "active": len(active) or None,
        "ready": sum(is_ready(pod) for pod in active),
        "terminating": sum(is_ending(pod) for pod in pods),
        "succeeded": succeeded or None,
        "failed": failures or None,
        "uncountedTerminatedPods": {},
        "completionTime": completed_at,
        "conditions": conditions or None,
    }
    found.set_status(JOBS, job, told)
    return found


def _start_missing(
    job: Json, pods: list[Json], active: list[Json], succeeded: int, failed: list[Json], now: float, found: Decision
) -> None:
    spec = job["spec"]
    parallel = int(spec.get("parallelism", 1))
    missing = min(parallel, _completions(spec) - succeeded) - len(active)
    for pod in active[: max(-missing, 0)]:
        found.actions.append(Delete(PODS, pod))
    if missing <= 0:
        return
    if failed:
        may_start_at = max(map(_ended_at, failed)) + _AFTER_FAILURE.delay_seconds(len(failed))
        if may_start_at > now:
            found.look_again_at = may_start_at
            return
    labels = {
        "job-name": name_of(job),
        "batch.kubernetes.io/job-name": name_of(job),
        "controller-uid": job["metadata"]["uid"],
        "batch.kubernetes.io/controller-uid": job["metadata"]["uid"],
    }
    taken = {name_of(pod) for pod in pods}
    for _ in range(missing):
        name = free_name(job, taken)
        taken.add(name)
        found.actions.append(Create(PODS, pod_of(JOBS, job, name, labels)))


def _failure(spec: Json, pods: list[Json], failures: int, started_at: float, now: float) -> tuple[str, str] | None:
    most = int(spec.get("backoffLimit", 6))
    if failures > most or _restarts(spec, pods) > most:
        return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and now >= started_at + deadline:
        return "DeadlineExceeded", "Job was active longer than specified deadline"
    return None


def _restarts(spec: Json, pods: list[Json]) -> int:
    """Restarts in place count as failures where the template asks for them."""
    if spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return 0
    statuses = [one for pod in pods for one in (pod.get("status") or {}).get("containerStatuses") or ()]
    return sum(int(one.get("restartCount") or 0) for one in statuses)


def _completions(spec: Json) -> int:
    return int(spec.get("completions") or 1)


def _ended_at(pod: Json) -> float:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    ends = [instant((one.get("state") or {}).get("terminated", {}).get("finishedAt")) for one in statuses]
    return max(ends, default=0.0) or instant(pod["metadata"].get("creationTimestamp"))


def _condition(kind: str, reason: str, message: str, now: float) -> Json:
    at = to_rfc3339(now)
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": at,
        "lastTransitionTime": at,
    }
