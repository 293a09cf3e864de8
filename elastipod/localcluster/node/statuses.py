"""A pod's status, as a kubelet writes it.

Owns the shape of the JSON: phase, conditions, container states, sizes allocated and in force. Decides nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from elastipod.clock import to_rfc3339
from elastipod.localcluster.node.kubelet import Admitted, Rejection
from elastipod.localcluster.node.lifecycle import Ending, Track, restarts
from elastipod.localcluster.node.manifests import Manifest
from elastipod.localcluster.node.sizes import Size
from elastipod.pods import Container, ContainerKind, Pod
from elastipod.quantities import Resources, format_cpu, format_memory

Json = dict[str, Any]

CONTAINER_ID_SCHEME: Final = "containerd://"
_RESIZE: Final = ("PodResizePending", "PodResizeInProgress")


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a node and its pods are said to be."""

    host: str = "127.0.0.1"
    pod: str = "127.0.0.1"


def pod_status(
    manifest: Manifest,
    entry: Admitted,
    tracks: Mapping[str, Track],
    in_force: Mapping[str, Size],
    phase: str,
    now: float,
    addresses: Addresses,
    started_at: float,
) -> Json:
    """The whole status; fields that are absent now are null, so that a merge patch takes them away."""
    row = manifest.row
    states: dict[bool, list[Json]] = {True: [], False: []}
    for container in row.containers:
        track = tracks[container.name]
        size = entry.allocated[container.name]
        states[container.kind is ContainerKind.APP].append(
            _container_status(
                track,
                manifest.commands[container.name].image,
                size,
                in_force.get(container.name, size),
                now,
                is_init=container.kind is ContainerKind.INIT,
                is_starting=phase == "Pending",
                comes_again=_comes_again(row, container, track, phase),
            )
        )
    over = phase in ("Succeeded", "Failed")
    inits = [one for one in row.containers if one.kind is not ContainerKind.APP]
    initialized = all(
        _is_done(tracks[one.name]) if one.kind is ContainerKind.INIT else bool(tracks[one.name].attempts)
        for one in inits
    )
    ready = phase == "Running" and all(tracks[one.name].is_running for one in row.sized_containers)
    why = "PodCompleted" if over else "ContainersNotReady"
    wanted = {
        "PodReadyToStartContainers": (not over, ""),
        "Initialized": (initialized, "" if initialized else "ContainersNotInitialized"),
        "Ready": (ready, "" if ready else why),
        "ContainersReady": (ready, "" if ready else why),
    }
    conditions = [_condition(manifest, name, *wanted[name], now) for name in wanted]
    conditions += [one for one in manifest.conditions if one.get("type") not in (*wanted, *_RESIZE)]
    conditions += _resize_conditions(entry)
    return {
        "observedGeneration": entry.looked_at_generation or row.generation,
        "phase": phase,
        "conditions": conditions,
        "hostIP": addresses.host,
        "hostIPs": [{"ip": addresses.host}],
        "podIP": addresses.pod,
        "podIPs": [{"ip": addresses.pod}],
        "startTime": to_rfc3339(started_at),
        "initContainerStatuses": states[False] or None,
        "containerStatuses": states[True],
        "reason": None,
        "message": None,
    }


def rejected_status(manifest: Manifest, rejection: Rejection, now: float) -> Json:
    """Of a pod that was not taken in."""
    return {
        "observedGeneration": manifest.row.generation,
        "phase": "Failed",
        "reason": rejection.reason,
        "message": rejection.message,
        "startTime": to_rfc3339(now),
    }


def amounts(of: Resources) -> Json:
    """`{"cpu": "250m", "memory": "64Mi"}`, only what is set."""
    found = {}
    if of.cpu_millicores is not None:
        found["cpu"] = format_cpu(of.cpu_millicores)
    if of.memory_bytes is not None:
        found["memory"] = format_memory(of.memory_bytes)
    return found


def requirements(size: Size) -> Json:
    """A ResourceRequirements; `{}` where nothing is set."""
    found = {"requests": amounts(size.requests), "limits": amounts(size.limits)}
    return {part: given for part, given in found.items() if given}


def _container_status(
    track: Track,
    image: str,
    allocated: Size,
    in_force: Size,
    now: float,
    *,
    is_init: bool,
    is_starting: bool,
    comes_again: bool,
) -> Json:
    ended = track.ended
    state: Json
    if track.started_at is not None:
        state = {"running": {"startedAt": to_rfc3339(track.started_at)}}
    elif ended is not None and not (comes_again and track.may_start_at > now):
        state = {"terminated": _terminated(ended)}
    elif ended is not None:
        wait = max(int(track.may_start_at - ended.finished_at), 0)
        text = f"back-off {_span(wait)} restarting failed container={track.name}"
        state = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}
    else:
        state = {"waiting": {"reason": "PodInitializing" if is_starting else "ContainerCreating"}}
    waits = "waiting" in state
    last = ended if waits else track.before
    running = track.is_running
    found: Json = {
        "name": track.name,
        "state": state,
        "lastState": {"terminated": _terminated(last)} if last is not None else {},
        "ready": _is_done(track) if is_init else running,
        "restartCount": track.restart_count,
        "image": image,
        "imageID": "",
        "started": running,
        "resources": requirements(in_force if running else allocated),
    }
    if track.container_id:
        found["containerID"] = f"{CONTAINER_ID_SCHEME}{track.container_id}"
    if allocated.requests.cpu_millicores is not None or allocated.requests.memory_bytes is not None:
        found["allocatedResources"] = amounts(allocated.requests)
    return found


def _comes_again(pod: Pod, container: Container, track: Track, phase: str) -> bool:
    return phase not in ("Succeeded", "Failed") and track.ended is not None and restarts(pod, container, track.ended)


def _is_done(track: Track) -> bool:
    return track.ended is not None and track.ended.exit_code == 0


def _terminated(ending: Ending) -> Json:
    found: Json = {
        "exitCode": ending.exit_code,
        "reason": ending.reason,
        "startedAt": to_rfc3339(ending.started_at),
        "finishedAt": to_rfc3339(ending.finished_at),
        "containerID": f"{CONTAINER_ID_SCHEME}{ending.container_id}",
    }
    if ending.signal:
        found["signal"] = ending.signal
    if ending.message:
        found["message"] = ending.message
    return found


def _condition(manifest: Manifest, name: str, is_true: bool, reason: str, now: float) -> Json:
    told = "True" if is_true else "False"
    since = _since(manifest, name, told, now)
    found = {"type": name, "status": told, "lastProbeTime": None, "lastTransitionTime": since}
    return found | {"reason": reason} if reason else found


def _since(manifest: Manifest, name: str, told: str, now: float) -> str:
    for one in manifest.conditions:
        if one.get("type") == name and one.get("status") == told and one.get("lastTransitionTime"):
            return str(one["lastTransitionTime"])
    return to_rfc3339(now)


def _resize_conditions(entry: Admitted) -> list[Json]:
    found: list[Json] = []
    if entry.pending is not None:
        pending = entry.pending
        found.append(
            {
                "type": "PodResizePending",
                "status": "True",
                "observedGeneration": pending.generation,
                "lastProbeTime": None,
                "lastTransitionTime": to_rfc3339(pending.since),
                "reason": str(pending.reason),
                "message": pending.message,
            }
        )
    if entry.progress is not None:
        progress = entry.progress
        condition: Json = {
            "type": "PodResizeInProgress",
            "status": "True",
            "observedGeneration": progress.generation,
            "lastProbeTime": None,
            "lastTransitionTime": to_rfc3339(progress.since),
        }
        if progress.error:
            condition |= {"reason": "Error", "message": progress.error}
        found.append(condition)
    return found


def _span(seconds: int) -> str:
    """As Go writes a duration: `10s`, `1m20s`, `5m0s`."""
    return f"{seconds}s" if seconds < 60 else f"{seconds // 60}m{seconds % 60}s"
