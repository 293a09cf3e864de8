"""A node of the local cluster: a small kubelet that is faithful where sizes are concerned.

Owns the order of things: admit one at a time, store what is allocated, then act, then tell. Decisions are kubelet.py's
and lifecycle.py's; effects on one pod are podsync.py's.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from elastipod.backoff import Backoff
from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.kube.reflector import Reflector
from elastipod.kube.resources import PODS
from elastipod.localcluster.api.logs import LogWish
from elastipod.localcluster.node import lifecycle
from elastipod.localcluster.node.checkpoint import Allocations, Checkpoint, MemoryCheckpoint
from elastipod.localcluster.node.kubelet import Admitted, Kubelet
from elastipod.localcluster.node.localpod import LocalPod, new_local_pod, recovered
from elastipod.localcluster.node.logs import read_log
from elastipod.localcluster.node.manifests import Manifest, decode_manifest
from elastipod.localcluster.node.podreports import PodReports
from elastipod.localcluster.node.podsync import PodSync, told
from elastipod.localcluster.node.recorder import Recorder
from elastipod.localcluster.node.registration import NodeSettings, Registration
from elastipod.localcluster.node.runtime import Run, Runtime, Sandbox
from elastipod.localcluster.node.sizes import Size, was_admitted
from elastipod.localcluster.node.statuses import Addresses, pod_status, rejected_status
from elastipod.localcluster.node.usage import NodeUsage
from elastipod.localcluster.waking import wait_for_wake
from elastipod.telemetry import get_logger

log = get_logger(__name__)

Json = dict[str, Any]

_PERIODIC_SECONDS: Final = 180.0
_FIRST_PERIODIC_SECONDS: Final = 30.0
_STEP_BACKOFF: Final = Backoff(first_seconds=0.5, most_seconds=30.0)
_STORE_RETRY_SECONDS: Final = 10.0
_LEAST_WAIT_SECONDS: Final = 0.01


class LocalNode:
    """One node. `run()` for ever, or `step()` by step."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        runtime: Runtime,
        settings: NodeSettings,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.settings = settings
        self.kubelet = Kubelet(settings.allocatable, settings.most_pods)
        self.pods: dict[str, LocalPod] = {}
        self.wake = asyncio.Event()
        self.usage = NodeUsage(self, runtime, clock)
        self.runtime = runtime
        self._connection = connection
        self._clock = clock
        self._checkpoint = checkpoint or MemoryCheckpoint()
        self._recorder = Recorder(connection, clock, "kubelet", settings.name)
        self._registration = Registration(connection, clock, settings, runtime.enforcement)
        self._reports = PodReports(connection, clock, runtime)
        self._sync = PodSync(runtime, self.kubelet, self._recorder, clock, self._store_effects)
        self._reflector = Reflector(
            connection,
            PODS,
            decode_manifest,
            clock,
            field_selector=f"spec.nodeName={settings.name}",
            on_change=self._on_change,
        )
        self._dirty: set[str] = set()
        self._due: dict[str, float] = {}
        self._recovered_runs: dict[str, list[Run]] = {}
        self._stored_revision = -1
        self._is_started = False
        self._periodic_at = clock.now() + _FIRST_PERIODIC_SECONDS
        runtime.on_change = self.wake.set

    async def run(self) -> None:
        """Register, then keep every pod of this node as it shall be."""
        tasks = [
            asyncio.create_task(self._reflector.run(), name=f"{self.settings.name} pods"),
            asyncio.create_task(self._registration.run(), name=f"{self.settings.name} heartbeats"),
            asyncio.create_task(self._work(), name=f"{self.settings.name} work"),
            asyncio.create_task(self.usage.run(), name=f"{self.settings.name} usage"),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def step(self) -> float | None:
        """Do all there is to do now; returns when there will be more to do by itself."""
        if not self._reflector.synced:
            return None
        if not self._is_started:
            self._start()
        now = self._clock.now()
        for run in self.runtime.ended():
            if (pod := self.pods.get(run.spec.sandbox.uid)) is not None:
                self._sync.note_end(pod, run)
                self.usage.note_end(pod.row.uid)
                self._dirty.add(pod.row.uid)
        self._dirty.update(uid for uid, at in self._due.items() if at <= now)
        dirty = sorted(self._dirty, key=self._age)
        self._dirty.clear()
        for uid in dirty:
            self._due.pop(uid, None)
        if dirty or self._periodic_at <= now:
            await self._decide(dirty, now)
        for uid in dirty:
            await self._bring(uid)
        return self._next_at()

    def log_path(self, namespace: str, name: str, container: str, *, previous: bool) -> str | None:
        """The file with a container's output; None where there is none."""
        pod = self._named(namespace, name)
        track = pod.tracks.get(container) if pod is not None else None
        attempt = -1 if track is None else track.attempts - (2 if previous else 1)
        return None if pod is None or attempt < 0 else self.runtime.log_path(pod.sandbox, container, attempt)

    def read_log(self, namespace: str, name: str, container: str, wish: LogWish) -> AsyncGenerator[bytes, None]:
        """A container's output. Raises FileNotFoundError with the first piece where there is none."""
        path = self.log_path(namespace, name, container, previous=wish.is_previous)

        def is_running() -> bool:
            pod = self._named(namespace, name)
            return pod is not None and container in pod.tracks and pod.tracks[container].is_running

        return read_log(path, wish, self._clock, is_running)

    def has_pod(self, namespace: str, name: str) -> bool:
        return self._named(namespace, name) is not None

    async def stop_all(self, grace_seconds: float) -> None:
        """End every container of this node and leave nothing of it."""
        for pod in self.pods.values():
            for track in pod.tracks.values():
                if track.is_running:
                    self.runtime.stop(track.container_id, kill=grace_seconds <= 0)
        deadline = self._clock.monotonic() + grace_seconds
        while self._clock.monotonic() < deadline and not all(pod.is_idle for pod in self.pods.values()):
            for run in self.runtime.ended():
                self._sync.note_end(self.pods[run.spec.sandbox.uid], run)
            await self._clock.sleep(0.05)
        for pod in self.pods.values():
            await self.runtime.remove_pod(pod.sandbox)

    async def _work(self) -> None:
        failures = 0
        while True:
            self.wake.clear()
            at: float | None
            try:
                at = await self.step()
                failures = 0
            except Exception:
                failures += 1
                log.exception("node step failed", node=self.settings.name)
                at = self._clock.now() + _STEP_BACKOFF.delay_seconds(failures)
            await self._wait(at)

    async def _wait(self, at: float | None) -> None:
        ends = [time for time in (at, self.runtime.next_change_at()) if time is not None]
        if not ends:
            await self.wake.wait()
            return
        await wait_for_wake(self.wake, self._clock, max(min(ends) - self._clock.now(), _LEAST_WAIT_SECONDS))

    def _on_change(self, _key: str, old: Manifest | None, new: Manifest | None) -> None:
        if old is not None and (new is None or new.row.uid != old.row.uid) and old.row.uid in self.pods:
            self.pods[old.row.uid].is_gone = True
            self._dirty.add(old.row.uid)
        if new is not None:
            uid = new.row.uid
            if uid in self.pods:
                self.pods[uid].manifest = new
            else:
                runs = self._recovered_runs.pop(uid, [])
                is_known = runs or was_admitted(new.row)
                now = self._clock.now()
                self.pods[uid] = recovered(new, runs, now) if is_known else new_local_pod(new, now)
            self._dirty.add(uid)
        self.wake.set()

    def _start(self) -> None:
        """Take back what an earlier process of this node has left."""
        stored = self._checkpoint.load()
        for run in self.runtime.recover():
            self._recovered_runs.setdefault(run.spec.sandbox.uid, []).append(run)
        now = self._clock.now()
        for uid, pod in list(self.pods.items()):
            runs = self._recovered_runs.pop(uid, [])
            allocated = stored.allocated.get(uid) if stored is not None else None
            if not (runs or allocated or was_admitted(pod.row)) or pod.row.is_terminal:
                continue
            self.pods[uid] = recovered(pod.manifest, runs, now)
            actuated = stored.actuated.get(uid) if stored is not None else None
            self.kubelet.readmit(pod.row, dict(allocated or {}) or None, dict(actuated or allocated or {}) or None)
        self.runtime.keep_only(set(self.pods) | set(self._recovered_runs))
        for uid, runs in self._recovered_runs.items():
            log.info("ending containers of a pod that is gone", uid=uid, containers=[run.spec.name for run in runs])
            self.pods[uid] = _orphan(runs)
            self._dirty.add(uid)
        self._recovered_runs.clear()
        self._dirty.update(self.pods)
        self._is_started = True

    def _age(self, uid: str) -> tuple[float, str, str]:
        row = self.pods[uid].row
        return row.created_at, row.key, uid

    async def _decide(self, dirty: Sequence[str], now: float) -> None:
        """All admissions of this step, then what waits, then the store: before any effect."""
        known = [uid for uid in dirty if self._is_known(uid)]
        before = {uid: self.kubelet.admitted[uid].allocated for uid in self.kubelet.in_order(known)}
        allocated = [uid for uid in before if self.kubelet.resize(uid, now)]
        new = [uid for uid in dirty if self._admit(self.pods[uid])]
        if self._periodic_at <= now:
            self._periodic_at = now + _PERIODIC_SECONDS
        try:
            self._store()
        except OSError as error:
            log.warning(
                "allocations not stored, so nothing new is allocated", node=self.settings.name, error=str(error)
            )
            self._take_back(new, before, f"allocations could not be stored: {error.strerror or error}", now)
            return
        for uid in allocated:
            self._dirty.add(uid)
            pod, entry = self.pods[uid], self.kubelet.admitted[uid]
            for name, size in entry.allocated.items():
                if size != before[uid].get(name):
                    lifecycle.forget_crashes(pod.tracks[name])
            if entry.progress is not None:
                await self._recorder.normal(pod.subject, "ResizeStarted", told(pod, "started"))
        for uid in (*before, *new):
            await self._tell_waiting(self.pods[uid], self.kubelet.admitted[uid])

    def _is_known(self, uid: str) -> bool:
        """Whether the pod is here and was admitted; what it desires is known from now on."""
        pod = self.pods[uid]
        self.kubelet.observe(pod.row)
        return uid in self.kubelet.admitted and not pod.is_gone

    def _admit(self, pod: LocalPod) -> bool:
        """Take a new pod in, or not; True where it was."""
        row = pod.row
        is_new = row.uid not in self.kubelet.admitted and pod.rejection is None and not pod.is_gone
        if not is_new or row.is_terminal or (row.deletion_at is not None and not was_admitted(row)):
            return False
        pod.rejection = self.kubelet.admit(row)
        return pod.rejection is None

    def _store(self) -> None:
        revision = self.kubelet.revision
        if revision == self._stored_revision:
            return
        entries = self.kubelet.admitted
        allocations = Allocations(
            {uid: entry.allocated for uid, entry in entries.items()},
            {uid: entry.actuated for uid, entry in entries.items()},
        )
        self._checkpoint.save(allocations)
        self._stored_revision = revision

    def _store_effects(self) -> None:
        """What fails here is stored with the next decision."""
        with suppress(OSError):
            self._store()

    def _take_back(self, new: Iterable[str], before: Mapping[str, dict[str, Size]], why: str, now: float) -> None:
        for uid in new:
            self.kubelet.forget(uid)
            self._due[uid] = now + _STORE_RETRY_SECONDS
        for uid, allocated in before.items():
            if self.kubelet.admitted[uid].allocated != allocated:
                self.kubelet.take_back(uid, allocated, why, now)
                self._due[uid] = now + _STORE_RETRY_SECONDS
                self._dirty.add(uid)

    async def _tell_waiting(self, pod: LocalPod, entry: Admitted) -> None:
        pending = entry.pending
        if pending == pod.told_pending:
            return
        pod.told_pending = pending
        self._dirty.add(pod.row.uid)
        if pending is not None:
            text = told(pod, pending.cause or str(pending.reason), pending.message)
            await self._recorder.warning(pod.subject, f"Resize{pending.reason}", text)

    async def _bring(self, uid: str) -> None:
        """One pod's effects and its status."""
        pod = self.pods[uid]
        now = self._clock.now()
        if pod.is_gone:
            await self._remove(pod)
            return
        if pod.rejection is not None:
            await self._tell(pod, rejected_status(pod.manifest, pod.rejection, pod.started_at))
            if pod.row.deletion_at is not None:
                await self._delete(pod)
            return
        if pod.row.deletion_at is not None:
            end_by = now + pod.manifest.grace_seconds if pod.end_by is None else pod.end_by
            pod.end_by = min(end_by, now + pod.manifest.grace_seconds)
        entry = self.kubelet.admitted.get(uid)
        if entry is None:
            if pod.row.deletion_at is not None:
                await self._delete(pod)
            return
        synced = await self._sync.sync(pod)
        if synced.look_again_at is not None:
            self._due[uid] = synced.look_again_at
        if synced.has_changed_size and self.kubelet.waiting():
            self._dirty.update(self.kubelet.waiting())
        self._store_effects()
        phase = pod.row.phase if pod.row.is_terminal else lifecycle.phase(pod.row, pod.tracks)
        status = pod_status(
            pod.manifest,
            entry,
            pod.tracks,
            self._sync.sizes_in_force(pod, entry),
            phase,
            self._clock.now(),
            Addresses(),
            pod.started_at,
        )
        await self._tell(pod, status)
        is_over = phase in ("Succeeded", "Failed") and pod.is_idle
        if is_over or (pod.end_by is not None and pod.is_idle):
            self.kubelet.forget(uid)
            self._dirty.update(self.kubelet.waiting())
            self._store_effects()
        if pod.end_by is not None and pod.is_idle:
            await self._delete(pod)

    async def _tell(self, pod: LocalPod, status: Json) -> None:
        self._again(pod, await self._reports.tell(pod, status))

    async def _delete(self, pod: LocalPod) -> None:
        self._again(pod, await self._reports.delete(pod))

    def _again(self, pod: LocalPod, at: float | None) -> None:
        if at is not None:
            self._due[pod.row.uid] = min(at, self._due.get(pod.row.uid, at))

    async def _remove(self, pod: LocalPod) -> None:
        """A pod that is no longer in the API: ended without grace."""
        if not pod.is_removed:
            await self.runtime.remove_pod(pod.sandbox)
        self.kubelet.forget(pod.row.uid)
        self.pods.pop(pod.row.uid, None)
        self._due.pop(pod.row.uid, None)
        self._dirty.discard(pod.row.uid)
        self._dirty.update(self.kubelet.waiting())
        self._store_effects()

    def _next_at(self) -> float:
        if self._dirty:
            return self._clock.now()
        return min([self._periodic_at, *self._due.values()])

    def _named(self, namespace: str, name: str) -> LocalPod | None:
        manifest = self._reflector.items.get(f"{namespace}/{name}")
        return self.pods.get(manifest.row.uid) if manifest is not None else None


def _orphan(runs: list[Run]) -> LocalPod:
    """A pod that only its runs remember."""
    sandbox: Sandbox = runs[0].spec.sandbox
    meta = {"namespace": sandbox.namespace, "name": sandbox.name, "uid": sandbox.uid}
    raw = {"metadata": meta, "spec": {"containers": []}, "status": {"qosClass": sandbox.qos_class, "phase": "Running"}}
    pod = new_local_pod(decode_manifest(msgspec.json.encode(raw)), 0.0)
    pod.is_gone = True
    return pod
