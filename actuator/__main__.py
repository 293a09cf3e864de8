"""`python -m actuator`: the actuator of this node as a process."""

import errno
import gc
import os
import resource
import socket
import sys
from dataclasses import replace
from pathlib import Path

from actuator import guard
from actuator.budget import NodeBudget
from actuator.direct import DirectMode
from actuator.heartbeat import Heartbeat
from actuator.journal import Journal, Record, boot_id
from actuator.kernelmemory import KernelMemory
from actuator.lowering import Lowering
from actuator.nodehands import NodeHands
from actuator.places import Places
from actuator.priority import run_early
from actuator.sampling import Sampler
from actuator.service import Actuator
from actuator.settings import ActuatorSettings
from actuator.standby import take_note
from actuator.watcher import Watcher
from elastipod.clock import SystemClock
from elastipod.loop import clock_ticker
from elastipod.process import Program, Surroundings, run_process


class Node:
    """What one process holds of its node."""

    def __init__(self) -> None:
        self.heartbeat: Heartbeat | None = None

    def make(self, around: Surroundings[ActuatorSettings]) -> Actuator:
        """The actuator with the node's hands. Raises OSError where there is nothing it could act on."""
        settings = around.settings
        if not settings.node_name:
            settings = replace(settings, node_name=os.environ.get("NODE_NAME") or socket.gethostname())
        _open_files()
        # Who waits for a processor in the middle of its work keeps the interpreter from the watcher's thread.
        run_early()
        folder = Path(settings.state_folder)
        fs = NodeHands(settings.cgroup_root, settings.cgroup_parent)
        journal = Journal(folder, boot_id())
        self.heartbeat = Heartbeat(folder)
        budget = NodeBudget(settings.amount("node_reserve"))
        watcher = Watcher(KernelMemory(fs), settings.rules, budget, around.clock, self.heartbeat)
        every, node, locate = settings.sample_seconds, settings.node_name, Places(fs).locate
        actuator = Actuator(
            around.connection,
            around.clock,
            settings,
            watcher,
            locate,
            journal=journal,
            metrics=around.metrics,
            address=around.address,
            guard_restores=lambda: _restores(folder),
            guard_raises=lambda: take_note(settings.state_folder),
            direct=DirectMode(fs, journal, around.clock, settings.namespaces_off) if settings.direct else None,
            sampler=Sampler(fs, locate, around.clock, node, every) if every else None,
            lower=Lowering(fs, around.clock).step,
            lacks=around.lacks,
            release=lambda record: _release(settings.cgroup_root, record),
        )
        gc.freeze()
        return actuator

    def stop(self) -> None:
        """The watcher has let go of everything: tell the guard so."""
        if self.heartbeat is not None:
            self.heartbeat.stop()


def _open_files() -> None:
    """Each container takes up to nine files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _restores(folder: Path) -> int:
    try:
        return int((folder / "guard_restores").read_text("ascii"))
    except (OSError, ValueError):
        return 0


def _release(root: str, record: Record) -> None:
    group = record.get("group")
    if isinstance(group, str):
        guard.release(root, 2 if record.get("version") == 2 else 1, str(record.get("parent") or ""), group)


def main() -> int:
    """Run until told to stop; exit code 2 where the node can not be acted on."""
    node = Node()
    program = Program(
        "actuator",
        ActuatorSettings,
        node.make,
        elects_leader=False,
        ticker=clock_ticker(SystemClock()),
        answers=Actuator.answer,
    )
    try:
        return run_process(program)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL):
            raise
        sys.stderr.write(f"actuator: cannot act on this node: {error}\n")
        return 2
    finally:
        node.stop()


if __name__ == "__main__":
    sys.exit(main())
