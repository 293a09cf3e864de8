"""The thread that waits for memory events.

Owns epoll, the sweep beside it (v1's marks do not see kernel memory), and the heartbeat for the guard. Decides nothing.
Opening files and arming usage marks take the kernel long and so have a thread each.
"""

import asyncio
import errno
import os
import select
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Final

from actuator.budget import NodeBudget
from actuator.containerfiles import Arming, ContainerFiles
from actuator.heartbeat import Heartbeat
from actuator.kernelmemory import KernelMemory
from actuator.memory import GONE, Target
from actuator.outcomes import Failed, Gone, OnOutcome, Outcome
from actuator.priority import run_first
from actuator.rescue import Rescue
from actuator.spikerules import SpikeRules
from actuator.spikewords import Accepted, Refused
from elastipod.clock import Clock

_BEAT_SECONDS: Final = 0.1
_SLICES: Final = 2
_BEATS_PER_SLICE: Final = 5
_CLOSELY_EVERY: Final = 4
_SWITCH_SECONDS: Final = 0.0005


class Watcher:
    """Watches containers in a thread from `start` to `stop`. `on_outcome` is called in that thread."""

    def __init__(
        self, memory: KernelMemory, rules: SpikeRules, budget: NodeBudget, clock: Clock, heartbeat: Heartbeat | None
    ) -> None:
        self.enforcement, self.holds = memory.enforcement, memory.holds
        self.on_outcome: OnOutcome = lambda _key, _outcome: None
        self.scheduling = "normal"
        """How the thread is scheduled, for those who ask."""
        self._memory, self._clock, self._heartbeat = memory, clock, heartbeat
        self._rescue = Rescue(memory, rules, budget, clock, self._tell)
        self._rescue.on_rearm = self._ask_for_marks
        self._epoll = select.epoll()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake_fd, select.EPOLLIN)
        self._changes = memory.changes
        if self._changes is not None:
            self._epoll.register(self._changes.fd, select.EPOLLIN)
        self._keys_by_fd: dict[int, str] = {}
        memory.on_close = self._unlisten
        self._commands: deque[Callable[[float], None]] = deque()
        self._to_open: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._to_arm: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._opening: Counter[str] = Counter()
        self._arming: set[str] = set()
        self._targets: dict[str, Target] = {}
        self._is_complete = self._is_beating = self._stopping = False
        self._failure: Exception | None = None
        self._on_end: Callable[[], object] = lambda: None
        self._threads = (
            threading.Thread(target=self._run, name="watcher", daemon=True),
            threading.Thread(target=self._work, args=(self._to_open,), name="files", daemon=True),
            threading.Thread(target=self._work, args=(self._to_arm,), name="marks", daemon=True),
        )

    async def run(self) -> None:
        """From start to stop, for an event loop's task. RuntimeError when the thread ends by itself."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        self._on_end = lambda: loop.call_soon_threadsafe(ended.set)
        self.start()
        try:
            await ended.wait()
            raise RuntimeError(f"the watcher's thread ended: {self._failure!r}")
        finally:
            self._on_end = lambda: None
            self.stop()

    # From any thread.

    def start(self) -> None:
        # The event loop's thread must not keep the interpreter from this one for long.
        sys.setswitchinterval(_SWITCH_SECONDS)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Leave nothing held, and end."""
        self._stopping = True
        self._to_open.put(None)
        self._to_arm.put(None)
        self._wake()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(5.0)

    def add(self, target: Target) -> None:
        self._command(lambda now: self._add(target, now))

    def complete(self) -> None:
        """All that is to be watched at the start was added: from here on the guard may leave it to us."""
        self._command(self._complete)

    def drop(self, key: str) -> None:
        self._command(lambda _: self._drop(key))

    def answer(self, key: str, answer: Accepted | Refused) -> None:
        self._command(lambda now: self._rescue.answer(key, answer, now))

    def is_armed(self, key: str) -> bool:
        """Whether events of a container are listened to."""
        return self._memory.event_fd(key) >= 0

    def _command(self, command: Callable[[float], None]) -> None:
        self._commands.append(command)
        self._wake()

    def _wake(self) -> None:
        with suppress(OSError):
            os.eventfd_write(self._wake_fd, 1)

    # In the thread.

    def _run(self) -> None:
        self.scheduling = run_first()
        try:
            self._watch()
            self._rescue.drop_all()
            self._memory.close_all()
            self._epoll.close()
            os.close(self._wake_fd)
        except Exception as error:
            # What is held stays leased: the guard sees the silence, and the process ends and starts anew.
            self._failure = error
            self._on_end()

    def _watch(self) -> None:
        beats = 0
        beat_at = self._clock.monotonic()
        while not self._stopping:
            now = self._clock.monotonic()
            until = min(beat_at + _BEAT_SECONDS, self._rescue.next_at())
            events = self._epoll.poll(max(until - now, 0.0), 64)
            now = self._clock.monotonic()
            keys = self._take(events)
            if keys:
                self._rescue.look(keys, now)
            while self._commands:
                self._commands.popleft()(now)
            due = self._rescue.due(now)
            if due:
                self._rescue.look(due, now)
            if now - beat_at >= _BEAT_SECONDS or self._may_begin_to_beat:
                beat_at = now
                self._beat(now)
                beats += 1
                if beats % _BEATS_PER_SLICE == 0:
                    number = beats // _BEATS_PER_SLICE
                    closely = number // _SLICES % _CLOSELY_EVERY == 0
                    self._rescue.sweep(self._rescue.keys[number % _SLICES :: _SLICES], now, closely=closely)

    def _complete(self, _now: float) -> None:
        self._is_complete = True

    @property
    def _may_begin_to_beat(self) -> bool:
        """Whether all that was there at the start is watched by now."""
        return not self._is_beating and self._is_complete and not self._arming and not self._opening

    def _beat(self, now: float) -> None:
        self._is_beating = self._is_beating or self._may_begin_to_beat
        if self._is_beating and self._heartbeat is not None:
            self._heartbeat.beat(now)

    def _take(self, events: list[tuple[int, int]]) -> list[str]:
        keys: list[str] = []
        for fd, _ in events:
            if self._changes is not None and fd == self._changes.fd:
                keys += self._changes.take()
                continue
            key = self._keys_by_fd.get(fd)
            if key is not None:
                keys.append(key)
            if key is None or not self.holds:
                with suppress(OSError):
                    os.eventfd_read(fd)
            else:
                # Reading it is what makes the next change an event again.
                try:
                    os.pread(fd, 512, 0)
                except OSError:
                    self._unlisten(fd)
        return keys

    def _add(self, target: Target, now: float) -> None:
        known = self._targets.get(target.key)
        self._targets[target.key] = target
        if known is None or known.siblings != target.siblings:
            self._opening[target.key] += 1
            self._to_open.put(partial(self._open, target))
        elif target.key not in self._opening:
            self._rescue.add(target, now)

    def _drop(self, key: str) -> None:
        self._targets.pop(key, None)
        self._rescue.drop(key)

    def _listen(self, key: str, kind: int) -> None:
        fd = self._memory.event_fd(key)
        if fd >= 0:
            self._keys_by_fd[fd] = key
            try:
                self._epoll.register(fd, kind)
            except OSError as error:
                # A plain file, in a copy of a tree, has no events; the sweep sees it.
                if error.errno != errno.EPERM:
                    raise

    def _unlisten(self, fd: int) -> None:
        if self._keys_by_fd.pop(fd, None) is not None:
            with suppress(OSError):
                self._epoll.unregister(fd)

    def _tell(self, key: str, outcome: Outcome) -> None:
        if isinstance(outcome, Gone | Failed) and key not in self._rescue.keys:
            self._targets.pop(key, None)
        self.on_outcome(key, outcome)

    # Files and usage marks: asked for in the thread, got in others.

    def _work(self, wanted: "SimpleQueue[Callable[[], None] | None]") -> None:
        while (work := wanted.get()) is not None and not self._stopping:
            work()

    def _open(self, target: Target) -> None:
        try:
            files = self._memory.prepare(target)
        except OSError as error:
            # One that ended just now is nothing to tell; one that is there and lacks a file is.
            is_gone = error.errno in GONE and not self._memory.fs.exists(target.group)
            self._command(partial(self._not_opened, target, None if is_gone else error))
        else:
            self._command(partial(self._opened, target.key, files))

    def _opened(self, key: str, files: ContainerFiles, now: float) -> None:
        self._end_opening(key)
        target = self._targets.get(key)
        if target is None:
            files.close()
            return
        if self._memory.adopt(key, files) and self.holds:
            self._listen(key, select.EPOLLPRI)
        self._rescue.add(target, now)

    def _not_opened(self, target: Target, error: OSError | None, _now: float) -> None:
        self._end_opening(target.key)
        self._targets.pop(target.key, None)
        if error is not None:
            self._tell(target.key, Failed(f"{target.group} can not be watched: {error}"))

    def _end_opening(self, key: str) -> None:
        self._opening[key] -= 1
        if not self._opening[key]:
            del self._opening[key]

    def _ask_for_marks(self, key: str, marks: tuple[int, ...]) -> None:
        try:
            arming = self._memory.arming(key) if key not in self._arming else None
        except OSError as error:
            self._not_armed(key, error, 0.0)
            return
        if arming is not None:
            self._arming.add(key)
            self._to_arm.put(partial(self._arm, key, arming, marks))

    def _arm(self, key: str, arming: Arming, marks: tuple[int, ...]) -> None:
        try:
            efd = arming.arm(marks)
        except OSError as error:
            self._command(partial(self._not_armed, key, error))
        else:
            self._command(partial(self._armed, key, marks, efd))

    def _armed(self, key: str, marks: tuple[int, ...], efd: int, now: float) -> None:
        self._arming.discard(key)
        self._memory.rearm(key, efd)
        self._listen(key, select.EPOLLIN)
        self._rescue.rearmed(key, marks, now)

    def _not_armed(self, key: str, error: OSError, _now: float) -> None:
        self._arming.discard(key)
        if error.errno not in GONE:
            self._tell(key, Failed(f"usage marks can not be set: {error.strerror or error}"))
