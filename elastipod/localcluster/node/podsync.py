"""One pod brought to where it shall be: containers started and stopped, sizes put in force.

Owns the effects on the runtime. What to do is decided by lifecycle.py and actuation.py; admission has happened before.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from elastipod.clock import Clock
from elastipod.localcluster.node import actuation, lifecycle
from elastipod.localcluster.node.hands import GroupLimits
from elastipod.localcluster.node.kubelet import Admitted, Kubelet
from elastipod.localcluster.node.lifecycle import Do, Ending, Track
from elastipod.localcluster.node.localpod import LocalPod, container_id, ending_of
from elastipod.localcluster.node.manifests import USAGE_MODEL
from elastipod.localcluster.node.recorder import Recorder
from elastipod.localcluster.node.runtime import ContainerSpec, Run, Runtime, RuntimeFailure, StartError
from elastipod.localcluster.node.sizes import Size, pod_group_limits, resizable
from elastipod.localcluster.node.statuses import requirements
from elastipod.quantities import Resources

_RETRY_SECONDS: Final = 10.0
_START_FAILED: Final = 128


@dataclass(frozen=True, slots=True)
class Synced:
    """What became of a pod; `look_again_at` is when time alone changes something."""

    look_again_at: float | None = None
    has_changed_size: bool = False


class PodSync:
    """Effects on the pods of one node."""

    def __init__(
        self, runtime: Runtime, kubelet: Kubelet, recorder: Recorder, clock: Clock, store: Callable[[], None]
    ) -> None:
        self._runtime = runtime
        self._kubelet = kubelet
        self._recorder = recorder
        self._clock = clock
        self._store = store

    def note_end(self, pod: LocalPod, run: Run) -> None:
        """A run has ended: remember how. What is kept of it stays until the API knows."""
        track = pod.tracks.get(run.spec.name)
        if track is None or track.container_id != run.spec.container_id or not track.is_running:
            return
        lifecycle.note_end(track, ending_of(run), on_purpose=track.restarts_for_resize)
        pod.to_forget.append(run.spec.container_id)

    async def sync(self, pod: LocalPod) -> Synced:
        """Take the next steps of a pod that is admitted."""
        now = self._clock.now()
        entry = self._kubelet.admitted[pod.row.uid]
        is_ending = pod.end_by is not None
        was_resizing = entry.progress is not None
        if is_ending:
            grace = max((pod.end_by or now) - now, 0.0)
            plan = lifecycle.plan_end(pod.row, pod.tracks, now, grace)
        else:
            plan = lifecycle.plan(pod.row, pod.tracks, now)
        for name, at in plan.kill_at.items():
            pod.tracks[name].kill_at = at
        for action, name in plan.actions:
            await self._do(action, pod, entry, pod.tracks[name])
        changed = False
        if not is_ending and (entry.actuated != entry.allocated or entry.progress is not None):
            changed = await self._actuate(pod, entry)
            if entry.progress is not None and entry.progress.error:
                plan.wait_until(now + _RETRY_SECONDS)
        if was_resizing and entry.progress is None:
            await self._recorder.normal(pod.subject, "ResizeCompleted", told(pod, "completed"))
        for track in pod.tracks.values():
            if track.kill_at is not None and track.is_running:
                plan.wait_until(max(track.kill_at, now))
        return Synced(plan.look_again_at, changed)

    def sizes_in_force(self, pod: LocalPod, entry: Admitted) -> dict[str, Size]:
        """What the kernel has for each running container."""
        found = {}
        for name, track in pod.tracks.items():
            limits = self._runtime.limits(track.container_id) if track.is_running else None
            if limits is not None:
                found[name] = actuation.read_back(entry.allocated[name], limits)
        return found

    async def _do(self, action: Do, pod: LocalPod, entry: Admitted, track: Track) -> None:
        match action:
            case Do.START:
                await self._start(pod, entry, track)
            case Do.STOP:
                await self._recorder.normal(pod.subject, "Killing", f"Stopping container {track.name}")
                self._runtime.stop(track.container_id, kill=False)
            case Do.KILL:
                self._runtime.stop(track.container_id, kill=True)

    async def _start(self, pod: LocalPod, entry: Admitted, track: Track) -> None:
        command = pod.manifest.commands[track.name]
        attempt = track.attempts
        identity = container_id(pod.row.uid, track.name, attempt)
        spec = ContainerSpec(
            pod.sandbox,
            track.name,
            identity,
            attempt,
            command.argv,
            command.environment,
            command.working_folder,
            command.problem,
            pod.row.annotations.get(USAGE_MODEL, ""),
        )
        size = entry.allocated[track.name]
        track.before, track.ended = track.ended or track.before, None
        track.attempts, track.container_id = attempt + 1, identity
        track.restarts_for_resize = False
        # Stored first: to whoever comes after a kill, a run with the new size would still wait for its restart.
        self._kubelet.actuated(pod.row.uid, {**entry.actuated, track.name: size})
        self._store()
        try:
            run = await self._runtime.start(spec, pod_group_limits(pod.row, entry.allocated), size.group_limits)
        except StartError as error:
            now = self._clock.now()
            # What can not be started is not tried again at once.
            track.crashes = max(track.crashes, 1)
            ending = Ending("StartError", _START_FAILED, identity, now, now, 0, str(error))
            lifecycle.note_end(track, ending, on_purpose=False)
            await self._recorder.warning(pod.subject, "Failed", f"Error: {error}")
            return
        track.started_at, track.process_id = run.started_at, run.process_id
        await self._recorder.normal(pod.subject, "Started", f"Container started: {track.name}")

    async def _actuate(self, pod: LocalPod, entry: Admitted) -> bool:
        """Put what is allocated in force; True when it all is and something was changed."""
        row, uid, now = pod.row, pod.row.uid, self._clock.now()
        before = {**entry.allocated, **entry.actuated}
        self._skip_those_not_running(pod, entry, before)
        restarting = await self._restart_where_asked(pod, entry, before)
        running = {one.name for one in resizable(row) if pod.tracks[one.name].is_running} - restarting
        start = {name: entry.allocated[name] if name in restarting else size for name, size in before.items()}
        problem = self._refused_shrink(pod, entry, start, running)
        done = dict(before)
        try:
            if problem:
                raise RuntimeFailure(problem)
            for step in actuation.steps(row, start, entry.allocated):
                if not step.container:
                    self._runtime.set_pod_limits(pod.sandbox, step.limits)
                elif step.container in running:
                    self._runtime.set_limits(pod.tracks[step.container].container_id, step.limits)
                    done[step.container] = _reached(done[step.container], entry.allocated[step.container], step.limits)
        except RuntimeFailure as error:
            self._kubelet.actuated(uid, done)
            if entry.progress is None or entry.progress.error != str(error):
                await self._recorder.warning(pod.subject, "ResizeError", told(pod, "error", str(error)))
            self._kubelet.failed(uid, str(error), now)
            return False
        done |= {name: entry.allocated[name] for name in running}
        self._kubelet.actuated(uid, done)
        return entry.actuated == entry.allocated

    def _skip_those_not_running(self, pod: LocalPod, entry: Admitted, before: dict[str, Size]) -> None:
        """What does not run takes its new size when it starts."""
        for one in pod.row.containers:
            if not pod.tracks[one.name].is_running:
                before[one.name] = entry.allocated[one.name]

    async def _restart_where_asked(self, pod: LocalPod, entry: Admitted, before: dict[str, Size]) -> set[str]:
        restarting = set()
        for one in resizable(pod.row):
            track = pod.tracks[one.name]
            if not track.is_running or not actuation.needs_restart(one, before[one.name], entry.allocated[one.name]):
                continue
            restarting.add(one.name)
            if not track.restarts_for_resize:
                track.restarts_for_resize = True
                track.kill_at = self._clock.now() + pod.manifest.grace_seconds
                await self._recorder.normal(pod.subject, "Killing", f"Container {one.name} resize requires restart")
                self._runtime.stop(track.container_id, kill=False)
        return restarting

    def _refused_shrink(self, pod: LocalPod, entry: Admitted, before: dict[str, Size], running: set[str]) -> str:
        usage: dict[str, int | None] = {}
        used_by_pod = 0
        for name in running:
            used = self._runtime.usage(pod.tracks[name].container_id)
            usage[name] = None if used is None else used.memory_bytes
            used_by_pod += used.memory_bytes if used is not None else 0
        return actuation.refused_shrink(pod.row, before, entry.allocated, usage, used_by_pod)


def told(pod: LocalPod, what: str, error: str = "") -> str:
    """A resize in an Event's words: `Pod resize started: {...}`."""
    row = pod.row
    facts: dict[str, Any] = {
        "containers": [
            {"name": one.name, "resources": requirements(Size(one.requests, one.limits))} for one in resizable(row)
        ],
        "generation": row.generation,
    }
    if error:
        facts["error"] = error
    return f"Pod resize {what}: {msgspec.json.encode(facts).decode()}"


def _reached(before: Size, goal: Size, in_force: GroupLimits) -> Size:
    """How far a container is after one step."""
    size = before
    if in_force.memory_limit_bytes == goal.group_limits.memory_limit_bytes:
        size = Size(
            Resources(size.requests.cpu_millicores, goal.requests.memory_bytes),
            Resources(size.limits.cpu_millicores, goal.limits.memory_bytes),
        )
    wanted = goal.group_limits
    if replace(in_force, memory_limit_bytes=wanted.memory_limit_bytes) == wanted:
        size = Size(
            Resources(goal.requests.cpu_millicores, size.requests.memory_bytes),
            Resources(goal.limits.cpu_millicores, size.limits.memory_bytes),
        )
    return size
