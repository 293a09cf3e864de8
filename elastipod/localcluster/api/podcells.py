"""The row that `kubectl get pods` prints of a pod.

Owns what a pod's containers come to in one word, as printPod of Kubernetes has it.
"""

from typing import Any, Final

from elastipod.localcluster.api.cells import NONE, Column, Since, at, field
from elastipod.localcluster.api.podspec import is_sidecar

Json = dict[str, Any]


def _sidecars(json: Json) -> set[str]:
    return {one["name"] for one in json["spec"].get("initContainers") or () if is_sidecar(one)}


def _ready(json: Json) -> str:
    sidecars = _sidecars(json)
    _, initializing = _init_reason(json)
    ready = 0 if initializing else sum(_is_ready(one) for one in at(json, "status.containerStatuses", []))
    ready += sum(
        bool(one.get("name") in sidecars and one.get("started") and one.get("ready"))
        for one in at(json, "status.initContainerStatuses", [])
    )
    return f"{ready}/{len(json['spec']['containers']) + len(sidecars)}"


def _is_ready(status: Json) -> bool:
    return bool(status.get("ready")) and (status.get("state") or {}).get("running") is not None


def _restarts(json: Json) -> Any:
    """Those of containers and sidecars; of all init containers while these still run."""
    sidecars = _sidecars(json)
    _, initializing = _init_reason(json)
    statuses = [
        one for one in at(json, "status.initContainerStatuses", []) if initializing or one.get("name") in sidecars
    ]
    if not initializing:
        statuses += at(json, "status.containerStatuses", [])
    count = sum(one.get("restartCount", 0) for one in statuses)
    last = max(
        (((one.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or "" for one in statuses), default=""
    )
    return Since(last, shown_as=f"{count} ({{}} ago)") if count and last else str(count)


def _init_reason(json: Json) -> tuple[str, bool]:
    """What the first init container that is not done says, and whether there is one."""
    sidecars, total = _sidecars(json), len(json["spec"].get("initContainers") or ())
    for place, one in enumerate(at(json, "status.initContainerStatuses", [])):
        state = one.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if (ended is not None and not ended.get("exitCode")) or (one.get("name") in sidecars and one.get("started")):
            continue
        if ended is not None:
            return f"Init:{_ending(ended)}", True
        if waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}", True
        return f"Init:{place}/{total}", True
    return "", False


def _ending(ended: Json) -> str:
    signal = f"Signal:{ended['signal']}" if ended.get("signal") else ""
    return str(ended.get("reason") or signal or f"ExitCode:{ended.get('exitCode', 0)}")


def _status(json: Json) -> str:
    conditions = at(json, "status.conditions", [])
    phase = at(json, "status.phase") or "Unknown"
    reason = at(json, "status.reason") or phase
    if any(one.get("type") == "PodScheduled" and one.get("reason") == "SchedulingGated" for one in conditions):
        reason = "SchedulingGated"
    init, initializing = _init_reason(json)
    if not initializing or any(one.get("type") == "Initialized" and one.get("status") == "True" for one in conditions):
        reason = _containers_reason(json, reason, conditions)
    else:
        reason = init
    if not json["metadata"].get("deletionTimestamp"):
        return str(reason)
    if at(json, "status.reason") == "NodeLost":
        return "Unknown"
    return str(reason) if phase in ("Succeeded", "Failed") else "Terminating"


def _containers_reason(json: Json, reason: str, conditions: list[Json]) -> str:
    """The phase, or what the first container that is not well says."""
    running, failed = False, ""
    for one in reversed(at(json, "status.containerStatuses", [])):
        state = one.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            reason = _ending(ended)
            failed = reason if ended.get("exitCode") else failed
        elif _is_ready(one):
            running = True
    if reason != "Completed":
        return reason
    if running and any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions):
        return "Running"
    return failed or ("NotReady" if running else reason)


def _readiness_gates(json: Json) -> str:
    wanted = [one.get("conditionType") for one in json["spec"].get("readinessGates") or ()]
    held = {one.get("type") for one in at(json, "status.conditions", []) if one.get("status") == "True"}
    return f"{sum(one in held for one in wanted)}/{len(wanted)}" if wanted else NONE


POD_COLUMNS: Final = (
    Column("Ready", _ready),
    Column("Status", _status),
    Column("Restarts", _restarts),
    Column("Age", lambda json: Since(json["metadata"].get("creationTimestamp"))),
    Column("IP", field("status.podIP", NONE), wide=True),
    Column("Node", lambda json: json["spec"].get("nodeName") or NONE, wide=True),
    Column("Nominated Node", field("status.nominatedNodeName", NONE), wide=True),
    Column("Readiness Gates", _readiness_gates, wide=True),
)
