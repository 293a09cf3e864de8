"""What the node's containers use, read every few seconds and kept by the minute.

Owns which containers are read and when, in a thread of its own: opening a cgroup's file can take the kernel long, and
the event loop has spikes to answer for. The sums are usage.py's matter, the files usagefiles.py's.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from actuator.cgroupfs import CgroupFs
from actuator.usage import Usage
from actuator.usagefiles import UsageFiles
from actuator.usagewords import NOTHING_YET
from elastipod.clock import Clock
from elastipod.minutes import MINUTE_SECONDS, MOST_ANSWER_BYTES, MOST_MINUTES, ContainerMinute
from elastipod.pods import Container, Pod
from elastipod.telemetry import get_logger

log = get_logger(__name__)

_SEARCH_SECONDS: Final = 60.0
"""So long a container's group is looked for: it appears a moment after its status, or lies where we can not see it."""


@dataclass(slots=True)
class _Run:
    """One run of a container, and the minute it is part of."""

    pod: Pod
    container: Container
    usage: Usage
    search_until: float
    files: UsageFiles | None = None
    has_ended: bool = False


class _Kept(NamedTuple):
    at: int
    closed_at: float
    containers: bytes


class Sampler:
    """Reads in a thread from `start` to `stop`. `locate` finds the groups of a container's pod and of itself."""

    def __init__(
        self,
        fs: CgroupFs,
        locate: Callable[[Pod, Container], tuple[str, str] | None],
        clock: Clock,
        node: str,
        every_seconds: float,
    ) -> None:
        self._fs, self._locate, self._clock, self._node, self._every = fs, locate, clock, node, every_seconds
        self._changes: deque[tuple[str, Pod | None]] = deque()
        self._runs: dict[str, dict[str, _Run]] = {}
        """By the pod's UID, then by the container's name."""
        self._kept: deque[_Kept] = deque(maxlen=MOST_MINUTES)
        self._last: dict[tuple[str, str], ContainerMinute] = {}
        self._next_at = self._closes_at = 0.0
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="samples", daemon=True)

    # From the event loop.

    async def run(self) -> None:
        """From start to stop, for an event loop's task."""
        self._thread.start()
        try:
            await asyncio.Event().wait()
        finally:
            self._stopping = True
            self._wake.set()
            self._thread.join(5.0)

    def note(self, old: Pod | None, new: Pod | None) -> None:
        """A pod of the node appeared, changed or is gone."""
        if old is not None and (new is None or new.uid != old.uid):
            self._changes.append((old.uid, None))
        if new is not None:
            self._changes.append((new.uid, new))
        self._wake.set()

    def answer(self, since: int) -> bytes:
        """The minutes that ended after the one of that name, as JSON; all that are kept where it is not known."""
        kept = list(self._kept)
        known = [number for number, one in enumerate(kept, start=1) if one.at == since]
        kept = kept[known[-1] :] if known else kept
        while sum(len(one.containers) for one in kept) > MOST_ANSWER_BYTES - 4096:
            kept.pop(0)
        now = self._clock.monotonic()
        minutes = [
            {"at": one.at, "ageSeconds": round(now - one.closed_at, 1), "containers": msgspec.Raw(one.containers)}
            for one in kept
        ]
        return msgspec.json.encode({"node": self._node, "minutes": minutes})

    def last_minute(self, uid: str, container: str) -> dict[str, Any] | None:
        """What a container used in the last whole minute, for people."""
        last = self._last.get((uid, container))
        if last is None:
            return None
        return {name: value for name, value in msgspec.to_builtins(last).items() if not isinstance(value, str)}

    # In the thread.

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(max(self._next_at - self._clock.monotonic(), 0.0))
            self._wake.clear()
            try:
                self.turn()
            except Exception:
                # Spikes are survived without it.
                log.exception("usage was not read")
                self._next_at = self._clock.monotonic() + self._every

    def turn(self) -> None:
        """Take up what changed; read where it is time; close the minute where that is over."""
        now = self._clock.monotonic()
        if not self._closes_at:
            self._closes_at = now + MINUTE_SECONDS
        while self._changes:
            self._take(*self._changes.popleft(), now)
        if now < self._next_at:
            return
        self._next_at = now + self._every
        for runs in self._runs.values():
            for run in runs.values():
                if run.files is not None:
                    self._read(run, run.files)
                elif not run.has_ended:
                    self._open(run, now)
        if now > self._closes_at - self._every / 2:
            self._close(now)
            while self._closes_at <= now + self._every / 2:
                self._closes_at += MINUTE_SECONDS

    def _take(self, uid: str, pod: Pod | None, now: float) -> None:
        running = {}
        if pod is not None and not pod.is_terminal and not pod.is_windows:
            running = {one.name: one for one in pod.sized_containers if one.is_running and one.container_id}
        runs = self._runs.setdefault(uid, {})
        for name, run in runs.items():
            if name not in running or running[name].container_id != run.container.container_id:
                self._end(run)
        for name, container in running.items():
            before = runs.get(name)
            if pod is not None and (before is None or before.container.container_id != container.container_id):
                usage = Usage.of(pod, name) if before is None else before.usage
                runs[name] = fresh = _Run(pod, container, usage, now + _SEARCH_SECONDS)
                self._open(fresh, now)

    def _open(self, run: _Run, now: float) -> None:
        """Begin to read a run. What began within this minute is counted from its start."""
        groups = self._locate(run.pod, run.container)
        if groups is None:
            run.has_ended = now >= run.search_until
            return
        try:
            run.files = files = UsageFiles(self._fs, groups[1])
            started_at = run.container.started_at
            age = self._clock.now() - started_at if started_at is not None else MINUTE_SECONDS
            if 0 <= age < MINUTE_SECONDS:
                run.usage.begin(now - age, 0.0, NOTHING_YET)
            else:
                run.usage.begin(now, files.cpu_seconds() or 0.0, files.totals())
            self._read(run, files)
        except (OSError, ValueError) as error:
            log.debug("usage can not be read", container=run.container.name, pod=run.pod.key, error=str(error))
            self._end(run)

    def _read(self, run: _Run, files: UsageFiles) -> None:
        try:
            self._count_cpu(run.usage, files)
            run.usage.held(files.working_set(run.usage.memory_peak_bytes))
        except (OSError, ValueError):
            # Its group is gone: what it had used by the last reading stays in the minute.
            self._end(run)

    def _end(self, run: _Run) -> None:
        run.has_ended = True
        files, run.files = run.files, None
        if files is not None:
            with suppress(OSError, ValueError):
                self._count_cpu(run.usage, files)
            with suppress(ValueError):
                run.usage.count(files.totals())
            files.close()

    def _count_cpu(self, usage: Usage, files: UsageFiles) -> None:
        seconds = files.cpu_seconds()
        if seconds is not None:
            usage.used(self._clock.monotonic(), seconds)

    def _close(self, now: float) -> None:
        minutes: dict[tuple[str, str], ContainerMinute] = {}
        for uid, runs in list(self._runs.items()):
            for name, run in list(runs.items()):
                if run.files is not None:
                    with suppress(ValueError):
                        run.usage.count(run.files.totals())
                told = run.usage.close()
                if told is not None:
                    minutes[uid, name] = told
                elif run.has_ended:
                    del runs[name]
            if not runs:
                del self._runs[uid]
        self._last = minutes
        self._kept.append(_Kept(int(self._clock.now()), now, msgspec.json.encode(list(minutes.values()))))
