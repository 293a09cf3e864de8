"""The parts of elastipod, and other helpers, as child processes beside a local cluster.

Owns starting them, starting them again when they die, and ending them; also those that an earlier cluster left behind.
Which parts there are, and how they are called, is the caller's matter.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from elastipod.backoff import Backoff
from elastipod.clock import Clock
from elastipod.localcluster.node.runfolder import started_ticks
from elastipod.telemetry import get_logger

log = get_logger(__name__)

_AGAIN: Final = Backoff(first_seconds=0.2, most_seconds=10.0)
_CALM_SECONDS: Final = 30.0
_TERM_SECONDS: Final = 5.0
_FILE: Final = "parts.json"


@dataclass(frozen=True, slots=True)
class PartCommand:
    """A process that shall run."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


class _Remembered(msgspec.Struct):
    name: str
    pid: int
    ticks: int


class Supervisor:
    """Keeps child processes running, each with its output in `<folder>/logs/<name>.log`."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.restarts: dict[str, int] = {}

    @property
    def process_ids(self) -> dict[str, int]:
        """By part, those that run."""
        return {name: process.pid for name, process in self._running.items() if process.returncode is None}

    def start(self, commands: Sequence[PartCommand]) -> None:
        """Run them from now on."""
        (self._folder / "logs").mkdir(mode=0o700, exist_ok=True)
        self._tasks = [asyncio.create_task(self._keep(one), name=f"part {one.name}") for one in commands]

    async def stop(self) -> None:
        """End them all: SIGTERM, then SIGKILL."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        alive = [process for process in self._running.values() if process.returncode is None]
        for process in alive:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        try:
            async with asyncio.timeout(_TERM_SECONDS):
                await asyncio.gather(*(process.wait() for process in alive))
        except TimeoutError:
            for process in alive:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            await asyncio.gather(*(process.wait() for process in alive))
        self._running.clear()
        (self._folder / _FILE).unlink(missing_ok=True)

    async def _keep(self, command: PartCommand) -> None:
        failures = 0
        while True:
            began = self._clock.monotonic()
            path = self._folder / "logs" / f"{command.name}.log"
            try:
                process = await self._spawn(command, path)
                end = f"exit code {await process.wait()}"
            except OSError as error:
                end = str(error)
            if self._clock.monotonic() - began > _CALM_SECONDS:
                failures = 0
            failures += 1
            self.restarts[command.name] = self.restarts.get(command.name, 0) + 1
            delay = _AGAIN.delay_seconds(failures)
            log.warning("part ended", part=command.name, end=end, next_try_seconds=delay, log=str(path))
            await self._clock.sleep(delay)

    async def _spawn(self, command: PartCommand, path: Path) -> asyncio.subprocess.Process:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        spawning = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *command.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                env={**os.environ, **command.environment},
                start_new_session=True,
            )
        )
        try:
            return await asyncio.shield(spawning)
        finally:
            try:
                # Told to end meanwhile: what was begun is known all the same, so that it is ended too.
                self._running[command.name] = await spawning
                self._remember()
            finally:
                os.close(descriptor)

    def _remember(self) -> None:
        known = [_Remembered(name, pid, started_ticks(pid) or 0) for name, pid in self.process_ids.items()]
        temporary = self._folder / f".{_FILE}"
        temporary.write_bytes(msgspec.json.encode(known))
        os.replace(temporary, self._folder / _FILE)


async def end_left_parts(folder: Path, clock: Clock) -> None:
    """End the processes that an earlier supervisor of this folder has left."""
    try:
        known = msgspec.json.decode((folder / _FILE).read_bytes(), type=list[_Remembered])
    except (OSError, msgspec.DecodeError):
        return
    left = [one for one in known if started_ticks(one.pid) == one.ticks]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for one in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, number)
        until = clock.monotonic() + _TERM_SECONDS
        while left and clock.monotonic() < until:
            left = [one for one in left if started_ticks(one.pid) == one.ticks]
            await clock.sleep(0.02)
    (folder / _FILE).unlink(missing_ok=True)
