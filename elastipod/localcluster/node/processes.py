"""Containers that are real processes of this machine, each in a cgroup of its own.

Owns their start, end and recovery. Each has a shim for a parent (shim.py), so that it outlives this process; cgroups
are reached through the hands that are passed in. Groups are laid out as a kubelet lays them out.
"""

import asyncio
import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from elastipod.clock import Clock
from elastipod.localcluster.node.hands import CgroupHands, GroupLimits, GroupUsage
from elastipod.localcluster.node.runfolder import RunFile, RunFolders, exit_of, started_ticks
from elastipod.localcluster.node.runtime import ContainerSpec, Run, RunState, RuntimeFailure, Sandbox, StartError
from elastipod.pods import QosClass
from elastipod.telemetry import get_logger

log = get_logger(__name__)

ROOT_GROUP: Final = "kubepods"
_SHIM: Final = str(Path(__file__).with_name("shim.py"))
_ANSWER_SECONDS: Final = 10.0
_END_SECONDS: Final = 5.0
_LOST: Final = signal.SIGKILL
_QUOTA_TRIES: Final = 200
_QUOTA_SECONDS: Final = 0.01
_KEPT_RUNS: Final = 2
"""The run itself and the one before, for `kubectl logs --previous`."""


@dataclass(slots=True)
class _Process:
    """A run and the handles it is reached by."""

    run: Run
    folder: Path
    shim_handle: int = -1
    process_handle: int = -1


class ProcessRuntime:
    """Runs containers as processes. Needs a running event loop for starts and ends."""

    def __init__(self, folder: Path, hands: CgroupHands, clock: Clock) -> None:
        self.enforcement = hands.enforcement
        self.on_change: Callable[[], None] = lambda: None
        self._folders = RunFolders(folder)
        self._hands = hands
        self._clock = clock
        self._processes: dict[str, _Process] = {}
        self._ended: list[Run] = []

    def recover(self) -> list[Run]:
        for sandbox, told, folder in self._folders.runs():
            spec = ContainerSpec(sandbox, told.container, told.container_id, told.attempt, ())
            run = Run(spec, RunState.RUNNING, told.started_at, told.process_id)
            process = _Process(run, folder)
            self._processes[told.container_id] = process
            ended = exit_of(folder)
            if started_ticks(told.shim_id) == told.shim_started:
                # An end that is told all the same is that of a start before, which was cut short.
                self._watch(process, told.shim_id)
            elif ended is not None and ended[0].problem:
                # It never began, and nobody was told of it: it is started again as if it had not been.
                self.forget(told.container_id)
            else:
                self._note_end(process)
        self._ended.clear()
        self._sweep()
        return [one.run for one in self._processes.values()]

    def keep_only(self, pod_uids: set[str]) -> None:
        self._folders.keep_only(pod_uids)

    def next_change_at(self) -> float | None:
        return None

    def ended(self) -> list[Run]:
        ended, self._ended = self._ended, []
        return ended

    async def start(self, spec: ContainerSpec, pod: GroupLimits, limits: GroupLimits) -> Run:
        if spec.problem:
            raise StartError(spec.problem)
        group = container_group(spec.sandbox, spec.container_id)
        try:
            folder = self._folders.prepare(spec)
            self._folders.remove_run(spec.sandbox, spec.name, spec.attempt - _KEPT_RUNS)
            self._hands.create(pod_group(spec.sandbox))
            await self._limit_pod(spec.sandbox, pod)
            self._hands.create(group)
            self._hands.apply(group, limits)
        except (OSError, ValueError) as error:
            self.forget(spec.container_id)
            raise StartError(f"the container's cgroup could not be made: {error}") from None
        to_shim, from_shim, shim = _spawn(folder)
        try:
            pid = int((await self._answer(from_shim)).removeprefix("ready "))
            self._hands.add_process(group, pid)
            run = Run(spec, RunState.RUNNING, self._clock.now(), pid)
            self._folders.note(
                spec,
                RunFile(
                    spec.name, spec.container_id, spec.attempt, shim, started_ticks(shim) or 0, pid, run.started_at
                ),
            )
            process = _Process(run, folder)
            self._processes[spec.container_id] = process
            self._watch(process, shim)
            os.write(to_shim, b"go\n")
            answer = await self._answer(from_shim)
        except (OSError, ValueError, TimeoutError) as error:
            answer = f"error {error}"
        finally:
            os.close(to_shim)
            os.close(from_shim)
        if answer != "started":
            await self._give_up(spec, group)
            raise StartError(answer.removeprefix("error ") or "the container's supervisor ended")
        return run

    def set_pod_limits(self, sandbox: Sandbox, limits: GroupLimits) -> None:
        self._apply(pod_group(sandbox), limits, "pod")

    def set_limits(self, container_id: str, limits: GroupLimits) -> None:
        process = self._processes.get(container_id)
        if process is not None and process.run.state is RunState.RUNNING:
            self._apply(self._group(process), limits, f'container "{process.run.spec.name}"')

    def limits(self, container_id: str) -> GroupLimits | None:
        process = self._processes.get(container_id)
        if process is None or process.run.state is not RunState.RUNNING:
            return None
        try:
            return self._hands.read(self._group(process))
        except OSError:
            return None

    def usage(self, container_id: str) -> GroupUsage | None:
        process = self._processes.get(container_id)
        if process is None or process.run.state is not RunState.RUNNING:
            return None
        try:
            return self._hands.usage(self._group(process))
        except OSError:
            return None

    def stop(self, container_id: str, *, kill: bool) -> None:
        process = self._processes.get(container_id)
        if process is None or process.run.state is not RunState.RUNNING:
            return
        if kill:
            self._kill(process)
        else:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(process.process_handle, signal.SIGTERM)

    def forget(self, container_id: str) -> None:
        process = self._processes.pop(container_id, None)
        if process is None:
            return
        self._close(process)
        with contextlib.suppress(OSError):
            (process.folder / "run.json").unlink(missing_ok=True)
        self._remove_group(process.run.spec.sandbox, container_id, tries=50)

    async def remove_pod(self, sandbox: Sandbox) -> None:
        own = [one for one in self._processes.values() if one.run.spec.sandbox.uid == sandbox.uid]
        deadline = self._clock.monotonic() + _END_SECONDS
        while self._clock.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self._hands.kill(pod_group(sandbox))
            for one in own:
                self._kill(one)
            if not self._hands.processes(pod_group(sandbox)) and not any(_has_shim(one) for one in own):
                break
            await self._clock.sleep(0.01)
        for one in own:
            self._close(one)
            self._processes.pop(one.run.spec.container_id, None)
        while not _removed(self._hands, pod_group(sandbox)) and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.01)
        self._folders.remove_pod(sandbox)

    async def remove_all(self) -> None:
        """Leave nothing of any pod, and no group."""
        sandboxes = {one.run.spec.sandbox.uid: one.run.spec.sandbox for one in self._processes.values()}
        for sandbox in sandboxes.values():
            await self.remove_pod(sandbox)
        deadline = self._clock.monotonic() + _END_SECONDS
        while not _removed(self._hands, ROOT_GROUP) and self._clock.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self._hands.kill(ROOT_GROUP)
            await self._clock.sleep(0.02)

    def log_path(self, sandbox: Sandbox, container: str, attempt: int, /) -> str:
        path = self._folders.log_of(sandbox, container, attempt)
        return str(path) if path.exists() else ""

    def _group(self, process: _Process) -> str:
        return container_group(process.run.spec.sandbox, process.run.spec.container_id)

    def _kill(self, process: _Process) -> None:
        """All in its group; and the process itself, should it have been moved elsewhere."""
        with contextlib.suppress(OSError):
            self._hands.kill(self._group(process))
        if process.process_handle >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(process.process_handle, signal.SIGKILL)

    def _apply(self, group: str, limits: GroupLimits, whose: str) -> None:
        try:
            self._hands.apply(group, limits)
        except OSError as error:
            what = "the memory in use is above the new limit" if error.errno == errno.EBUSY else str(error)
            raise RuntimeFailure(f"cannot put limits of {whose} in force: {what}") from None

    async def _answer(self, descriptor: int) -> str:
        """One line from a shim. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        line = b""
        while not line.endswith(b"\n"):
            is_ready = asyncio.Event()
            loop.add_reader(descriptor, is_ready.set)
            try:
                await asyncio.wait_for(is_ready.wait(), _ANSWER_SECONDS)
            finally:
                loop.remove_reader(descriptor)
            piece = os.read(descriptor, 4096)
            if not piece:
                break
            line += piece
        return line.decode("utf-8", "replace").strip()

    def _watch(self, process: _Process, shim: int) -> None:
        """Be told when the shim ends."""
        try:
            process.shim_handle = os.pidfd_open(shim)
            process.process_handle = os.pidfd_open(process.run.process_id)
        except ProcessLookupError:
            if process.shim_handle < 0:
                self._note_end(process)
                return
        loop = asyncio.get_running_loop()
        loop.add_reader(process.shim_handle, self._on_shim_end, process, shim)

    def _on_shim_end(self, process: _Process, shim: int) -> None:
        asyncio.get_running_loop().remove_reader(process.shim_handle)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(shim, os.WNOHANG)
        self._note_end(process)
        self.on_change()

    def _note_end(self, process: _Process) -> None:
        group = self._group(process)
        told = exit_of(process.folder)
        ended = replace(process.run, state=RunState.EXITED, process_id=0)
        with contextlib.suppress(OSError):
            ended = replace(ended, oom_killed=self._hands.oom_kills(group) > 0)
        # Whatever the container left behind ends with it, as it would with its pid namespace.
        with contextlib.suppress(OSError):
            self._hands.kill(group)
        if told is None:
            text = "the container's supervisor ended before it"
            ended = replace(ended, finished_at=self._clock.now(), signal=int(_LOST), message=text)
        else:
            file, at = told
            ended = replace(ended, finished_at=at, exit_code=file.exit_code, signal=file.signal, message=file.problem)
        self._close(process)
        process.run = ended
        self._ended.append(ended)

    async def _give_up(self, spec: ContainerSpec, group: str) -> None:
        """A start that failed: nothing of it stays."""
        with contextlib.suppress(OSError):
            self._hands.kill(group)
        process = self._processes.get(spec.container_id)
        deadline = self._clock.monotonic() + _END_SECONDS
        while process is not None and _has_shim(process) and self._clock.monotonic() < deadline:
            await self._clock.sleep(0.01)
        self._ended = [run for run in self._ended if run.spec.container_id != spec.container_id]
        self.forget(spec.container_id)

    def _close(self, process: _Process) -> None:
        for handle in (process.shim_handle, process.process_handle):
            if handle >= 0:
                with contextlib.suppress(RuntimeError, ValueError):
                    asyncio.get_running_loop().remove_reader(handle)
                os.close(handle)
        process.shim_handle = process.process_handle = -1

    def _remove_group(self, sandbox: Sandbox, container_id: str, tries: int) -> None:
        """Processes that were killed take a moment to go."""
        if _removed(self._hands, container_group(sandbox, container_id)):
            if not self._hands.children(pod_group(sandbox)):
                _removed(self._hands, pod_group(sandbox))
        elif tries:
            asyncio.get_running_loop().call_later(0.05, self._remove_group, sandbox, container_id, tries - 1)
        else:
            log.warning("cgroup not removed", group=container_group(sandbox, container_id))

    async def _limit_pod(self, sandbox: Sandbox, limits: GroupLimits) -> None:
        """Limits for a pod in which a container is about to start. Raises OSError.

        The kernel (cgroup v1) refuses a pod a CPU quota below a child's, for some milliseconds after its removal too.
        """
        for one in self._processes.values():
            if one.run.spec.sandbox.uid == sandbox.uid and one.run.state is RunState.EXITED:
                _removed(self._hands, self._group(one))
        for left in reversed(range(_QUOTA_TRIES)):
            try:
                self._hands.apply(pod_group(sandbox), limits)
                return
            except OSError:
                if not left:
                    raise
            await self._clock.sleep(_QUOTA_SECONDS)

    def _sweep(self) -> None:
        """Groups that no run is known for are what a start left that was cut short."""
        known = {self._group(one) for one in self._processes.values()}
        for level in (ROOT_GROUP, *(f"{ROOT_GROUP}/{qos.lower()}" for qos in ("Burstable", "BestEffort"))):
            for pod in self._hands.children(level):
                for name in self._hands.children(f"{level}/{pod}") if pod.startswith("pod") else ():
                    group = f"{level}/{pod}/{name}"
                    if group not in known:
                        with contextlib.suppress(OSError):
                            self._hands.kill(group)
                        _removed(self._hands, group)


def pod_group(sandbox: Sandbox) -> str:
    """`kubepods/burstable/pod<uid>`; Guaranteed pods lie directly below kubepods."""
    level = "" if sandbox.qos_class is QosClass.GUARANTEED else f"/{sandbox.qos_class.lower()}"
    return f"{ROOT_GROUP}{level}/pod{sandbox.uid}"


def container_group(sandbox: Sandbox, container_id: str) -> str:
    """The group of one run."""
    return f"{pod_group(sandbox)}/{container_id}"


def _has_shim(process: _Process) -> bool:
    return process.shim_handle >= 0


def _removed(hands: CgroupHands, group: str) -> bool:
    try:
        hands.remove(group)
    except OSError:
        return False
    return True


def _spawn(folder: Path) -> tuple[int, int, int]:
    """A shim, in a session of its own and with none of our environment: (write end, read end, process id)."""
    shim_reads, to_shim = os.pipe()
    from_shim, shim_writes = os.pipe()
    try:
        shim = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-E", _SHIM, str(folder)],
            {"PATH": os.defpath},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, shim_reads, 0),
                (os.POSIX_SPAWN_DUP2, shim_writes, 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setsid=True,
        )
    finally:
        os.close(shim_reads)
        os.close(shim_writes)
    return to_shim, from_shim, shim
