"""What a pod's containers do next: start, restart, wait, stop; and what phase that makes.

Owns the restart rules: init containers in order, sidecars, restart policies, back-off after crashes, grace at the end.
Rules: kuberuntime's computePodActions and kubelet's getPhase of 1.37. Starts nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from elastipod.backoff import Backoff
from elastipod.pods import Container, ContainerKind, Pod

CRASH_BACKOFF: Final = Backoff(first_seconds=10.0, most_seconds=300.0)
CALM_SECONDS: Final = 600.0
"""A run that lasted this long clears the back-off."""
_KILL_AGAIN_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended."""

    reason: str
    exit_code: int
    container_id: str
    started_at: float
    finished_at: float
    signal: int = 0
    message: str = ""


@dataclass(slots=True)
class Track:
    """What a node knows of one container of one pod."""

    name: str
    container_id: str = ""
    started_at: float | None = None
    """Set while it runs."""
    process_id: int = 0
    ended: Ending | None = None
    before: Ending | None = None
    """The run before the one that runs or ended."""
    attempts: int = 0
    """Runs begun."""
    crashes: int = 0
    may_start_at: float = 0.0
    kill_at: float | None = None
    """Set while it was asked to stop."""
    restarts_for_resize: bool = False
    """From when it was asked to stop until it starts again."""

    @property
    def is_running(self) -> bool:
        return self.started_at is not None

    @property
    def restart_count(self) -> int:
        return max(self.attempts - 1, 0)


class Do(StrEnum):
    """What to do with a container."""

    START = "start"
    STOP = "stop"
    KILL = "kill"


@dataclass(slots=True)
class Plan:
    """What to do now, and when to look again."""

    actions: list[tuple[Do, str]] = field(default_factory=list)
    kill_at: dict[str, float] = field(default_factory=dict)
    """When those that were asked to stop are killed."""
    look_again_at: float | None = None

    def wait_until(self, at: float) -> None:
        self.look_again_at = at if self.look_again_at is None else min(at, self.look_again_at)


def note_end(track: Track, ending: Ending, *, on_purpose: bool) -> None:
    """Remember that a run ended; crashes are waited out ever longer."""
    track.started_at, track.process_id, track.ended = None, 0, ending
    track.kill_at = None
    if on_purpose:
        track.may_start_at = ending.finished_at
        return
    if ending.finished_at - ending.started_at >= CALM_SECONDS:
        track.crashes = 0
    # The first restart is at once; kubelet's back-off begins with the second.
    delay = CRASH_BACKOFF.delay_seconds(track.crashes) if track.crashes else 0.0
    track.crashes += 1
    track.may_start_at = ending.finished_at + delay


def forget_crashes(track: Track) -> None:
    """A container of another size has crashed never: it starts at once, and its waits begin anew."""
    track.crashes, track.may_start_at = 0, 0.0


def plan(pod: Pod, tracks: Mapping[str, Track], now: float) -> Plan:
    """The next actions of a pod that is wanted."""
    found = Plan()
    if _is_over(pod, tracks):
        # Sidecars end after the others, however the pod ended.
        _stop_all(pod, tracks, found, now, (ContainerKind.SIDECAR,))
        return found
    for container in pod.containers:
        track = tracks[container.name]
        if container.kind is ContainerKind.APP:
            _keep(pod, container, track, found, now)
        elif container.kind is ContainerKind.SIDECAR:
            _keep(pod, container, track, found, now)
            if not track.attempts:
                break
        elif not _is_past(pod, tracks, track):
            _keep(pod, container, track, found, now)
            break
    return found


def plan_end(pod: Pod, tracks: Mapping[str, Track], now: float, grace_seconds: float) -> Plan:
    """The next actions of a pod that shall end: apps first, sidecars once they are gone, all within the grace."""
    found = Plan()
    others = (ContainerKind.APP, ContainerKind.INIT)
    if any(tracks[one.name].is_running for one in pod.containers if one.kind in others):
        _stop_all(pod, tracks, found, now, others, grace_seconds)
    else:
        _stop_all(pod, tracks, found, now, (ContainerKind.SIDECAR,), grace_seconds)
    return found


def phase(pod: Pod, tracks: Mapping[str, Track]) -> str:
    """Pending, Running, Succeeded or Failed; over it is once nothing of it runs."""
    apps = [tracks[one.name] for one in pod.containers if one.kind is ContainerKind.APP]
    if _is_over(pod, tracks) and not any(one.is_running for one in tracks.values()):
        well = all(one.ended is not None and one.ended.exit_code == 0 for one in apps)
        return "Succeeded" if well else "Failed"
    return "Running" if any(one.attempts for one in apps) else "Pending"


def restarts(pod: Pod, container: Container, ended: Ending) -> bool:
    """Whether a container that ended so runs again."""
    match container.kind:
        case ContainerKind.SIDECAR:
            return True
        case ContainerKind.INIT:
            return ended.exit_code != 0 and pod.restart_policy != "Never"
    return pod.restart_policy == "Always" or (pod.restart_policy == "OnFailure" and ended.exit_code != 0)


def _runs_again(pod: Pod, container: Container, track: Track) -> bool:
    return track.ended is None or track.restarts_for_resize or restarts(pod, container, track.ended)


def _is_past(pod: Pod, tracks: Mapping[str, Track], init: Track) -> bool:
    """Whether an init container has done its work; once an app has begun they all have."""
    if init.ended is not None and init.ended.exit_code == 0:
        return True
    return any(tracks[one.name].attempts for one in pod.containers if one.kind is ContainerKind.APP)


def _is_over(pod: Pod, tracks: Mapping[str, Track]) -> bool:
    if pod.is_terminal or _init_failed(pod, tracks):
        return True
    apps = [(one, tracks[one.name]) for one in pod.containers if one.kind is ContainerKind.APP]
    return bool(apps) and all(
        not track.is_running and not _runs_again(pod, container, track) for container, track in apps
    )


def _init_failed(pod: Pod, tracks: Mapping[str, Track]) -> bool:
    return pod.restart_policy == "Never" and any(
        (ended := tracks[one.name].ended) is not None and ended.exit_code != 0
        for one in pod.containers
        if one.kind is ContainerKind.INIT
    )


def _keep(pod: Pod, container: Container, track: Track, found: Plan, now: float) -> None:
    """Start it, start it again when it is time, or leave it."""
    if track.is_running:
        if track.kill_at is not None:
            _kill_when_due(track, track.kill_at, found, now)
        return
    if not _runs_again(pod, container, track):
        return
    if track.may_start_at > now:
        found.wait_until(track.may_start_at)
        return
    found.actions.append((Do.START, container.name))


def _stop_all(
    pod: Pod,
    tracks: Mapping[str, Track],
    found: Plan,
    now: float,
    kinds: Iterable[ContainerKind],
    grace_seconds: float = 30.0,
) -> None:
    for container in pod.containers:
        track = tracks[container.name]
        if container.kind not in kinds or not track.is_running:
            continue
        if track.kill_at is None:
            found.actions.append((Do.STOP if grace_seconds > 0 else Do.KILL, container.name))
            due = now + grace_seconds
        else:
            due = min(track.kill_at, now + grace_seconds)
        found.kill_at[container.name] = due
        _kill_when_due(track, due, found, now)


def _kill_when_due(track: Track, due: float, found: Plan, now: float) -> None:
    if due <= now and track.kill_at is not None:
        found.actions.append((Do.KILL, track.name))
        due = found.kill_at[track.name] = now + _KILL_AGAIN_SECONDS
    found.wait_until(due)
