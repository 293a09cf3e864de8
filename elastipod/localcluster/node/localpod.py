"""What a node remembers of one pod, and how that is found again after a restart.

Owns the joining of a pod's status in the API with the runs that are still there.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from elastipod.clock import from_rfc3339
from elastipod.kube.events import Subject
from elastipod.localcluster.node.kubelet import Pending, Rejection
from elastipod.localcluster.node.lifecycle import Ending, Track
from elastipod.localcluster.node.manifests import Manifest
from elastipod.localcluster.node.runtime import Run, RunState, Sandbox
from elastipod.pods import Pod

Json = dict[str, Any]


@dataclass(slots=True)
class LocalPod:
    """One pod of this node."""

    manifest: Manifest
    tracks: dict[str, Track]
    started_at: float
    rejection: Rejection | None = None
    is_gone: bool = False
    """No longer in the API."""
    is_removed: bool = False
    """Nothing of it is left on the node."""
    end_by: float | None = None
    told: Json | None = None
    """The status last written."""
    told_pending: Pending | None = None
    """The waiting resize last told in an Event."""
    failures: int = 0
    to_forget: list[str] = field(default_factory=list)
    """Runs that ended, until the API has been told how."""

    @property
    def row(self) -> Pod:
        return self.manifest.row

    @property
    def sandbox(self) -> Sandbox:
        row = self.row
        return Sandbox(row.uid, row.namespace, row.name, row.qos_class)

    @property
    def subject(self) -> Subject:
        return Subject("Pod", self.row.namespace, self.row.name, self.row.uid)

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it runs."""
        return not any(track.is_running for track in self.tracks.values())


def container_id(pod_uid: str, container: str, attempt: int) -> str:
    """64 hexadecimal digits, the same for the same run."""
    return hashlib.sha256(f"{pod_uid}/{container}/{attempt}".encode()).hexdigest()


def ending_of(run: Run) -> Ending:
    """How a run ended, in a kubelet's words."""
    code = 128 + run.signal if run.signal else run.exit_code
    reason = "OOMKilled" if run.oom_killed and code else "Error" if code else "Completed"
    return Ending(reason, code, run.spec.container_id, run.started_at, run.finished_at, run.signal, run.message)


def new_local_pod(manifest: Manifest, now: float) -> LocalPod:
    """A pod that was never here."""
    return LocalPod(manifest, {one.name: Track(one.name) for one in manifest.row.containers}, now)


def recovered(manifest: Manifest, runs: Iterable[Run], now: float) -> LocalPod:
    """A pod that ran under an earlier node process."""
    pod = new_local_pod(manifest, manifest.row.started_at or now)
    statuses = [
        *(manifest.status.get("initContainerStatuses") or ()),
        *(manifest.status.get("containerStatuses") or ()),
    ]
    for status in statuses:
        track = pod.tracks.get(status.get("name", ""))
        if track is not None:
            _recall(track, status)
    for run in sorted(runs, key=lambda one: one.spec.attempt):
        if run.state is RunState.EXITED:
            pod.to_forget.append(run.spec.container_id)
        track = pod.tracks.get(run.spec.name)
        if track is None or run.spec.attempt + 1 < track.attempts:
            continue
        if run.spec.attempt + 1 > track.attempts:
            track.before = track.ended or track.before
        track.attempts, track.container_id = run.spec.attempt + 1, run.spec.container_id
        track.started_at, track.process_id, track.ended = run.started_at, run.process_id, None
        if run.state is RunState.EXITED:
            track.started_at, track.ended = None, ending_of(run)
    known = {run.spec.container_id for run in runs}
    for track in pod.tracks.values():
        if track.is_running and track.container_id not in known:
            began = track.started_at or now
            text = "The container could not be located when the node started again"
            lost = Ending("ContainerStatusUnknown", 137, track.container_id, began, now, 0, text)
            track.started_at, track.ended = None, lost
    return pod


def _recall(track: Track, status: Json) -> None:
    track.container_id = str(status.get("containerID") or "").rpartition("//")[2]
    if not track.container_id:
        return
    track.attempts = int(status.get("restartCount") or 0) + 1
    track.crashes = track.attempts - 1
    state = status.get("state") or {}
    last = _ending((status.get("lastState") or {}).get("terminated"))
    if "running" in state:
        track.started_at = _instant(state["running"].get("startedAt"))
        track.before = last
    elif "terminated" in state:
        track.ended, track.before = _ending(state["terminated"]), last
    else:
        track.ended = last


def _ending(terminated: Json | None) -> Ending | None:
    if not terminated:
        return None
    return Ending(
        str(terminated.get("reason") or "Error"),
        int(terminated.get("exitCode") or 0),
        str(terminated.get("containerID") or "").rpartition("//")[2],
        _instant(terminated.get("startedAt")),
        _instant(terminated.get("finishedAt")),
        int(terminated.get("signal") or 0),
        str(terminated.get("message") or ""),
    )


def _instant(text: Any) -> float:
    try:
        return from_rfc3339(str(text))
    except ValueError:
        return 0.0
