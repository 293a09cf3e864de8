"""Cgroups made, filled and taken away again: for who runs pods itself, where no kubelet does.

Owns the order in which groups come and go, in every hierarchy. The way to a file is cgroupfs.py's matter.
"""

import os
import signal
from contextlib import suppress
from typing import Final

from actuator.cgroup import CgroupWrite
from actuator.cgroupfs import FOLDER, CgroupFs, checked, parts_of, write_in

_CONTROLLERS_V2: Final = ("memory", "cpu", "pids")


class CgroupTree(CgroupFs):
    """CgroupFs that makes and removes groups, and puts processes into them or ends them."""

    def create(self, group: str) -> None:
        """The group and those above it, in every hierarchy; on v2 with the controllers we use."""
        parts = self._parts + parts_of(group)
        for base in dict.fromkeys(self._hierarchies.values()):
            folder = os.open(base, FOLDER)
            try:
                for part in parts:
                    if self.version == 2:
                        _enable(folder)
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=folder)
                    folder, above = os.open(part, FOLDER, dir_fd=folder), folder
                    os.close(above)
            finally:
                os.close(folder)

    def step_aside(self, leaf: str) -> None:
        """Move this process out of `root` into a folder there: v2 divides only what no process is in itself."""
        if self.version != 2:
            return
        base = os.open(self.root, FOLDER)
        try:
            with suppress(FileExistsError):
                os.mkdir(checked(leaf), 0o755, dir_fd=base)
            folder = os.open(leaf, FOLDER, dir_fd=base)
        finally:
            os.close(base)
        try:
            write_in(folder, "cgroup.procs", str(os.getpid()))
        finally:
            os.close(folder)

    def remove(self, group: str) -> None:
        """The group and all below it, in every hierarchy. OSError EBUSY while processes are in it."""
        self._remove(self._parts + parts_of(group))

    def remove_parent(self) -> None:
        """All that lies in `parent`, and the last folder of it; without a parent, nothing."""
        if self._parts:
            self._remove(self._parts)

    def _remove(self, parts: list[str]) -> None:
        for controller in self._each():
            self._remove_in(parts, controller)

    def _remove_in(self, parts: list[str], controller: str) -> None:
        with suppress(FileNotFoundError):
            for name in self._names(parts, controller):
                self._remove_in([*parts, name], controller)
            *above, last = parts
            with self._walk(above, controller) as folder:
                os.rmdir(last, dir_fd=folder)

    def add_process(self, group: str, pid: int) -> None:
        """Move a process into the group, in every hierarchy."""
        for controller in self._each():
            with self._folder(group, controller) as folder:
                write_in(folder, "cgroup.procs", str(pid))

    def processes(self, group: str) -> list[int]:
        """The processes in the group and below; none where the group is gone."""
        found: set[int] = set()
        with suppress(FileNotFoundError):
            found.update(int(line) for line in self.text(group, "cgroup.procs").split())
            for name in self.children(group):
                found.update(self.processes(f"{group}/{name}"))
        return sorted(found)

    def kill(self, group: str) -> None:
        """SIGKILL to every process in the group and below, until none is left to be seen."""
        if self.version == 2:
            with suppress(FileNotFoundError):
                self.write(CgroupWrite(group, "cgroup.kill", "1"))
                return
        for _ in range(50):
            pids = self.processes(group)
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not pids:
                return

    def _each(self) -> list[str]:
        """One controller of each hierarchy."""
        return list({path: controller for controller, path in self._hierarchies.items()}.values())


def _enable(folder: int) -> None:
    """Let a v2 group's children have the controllers we use, as far as it has them itself."""
    fd = os.open("cgroup.controllers", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        available = os.read(fd, 4096).decode("ascii").split()
    finally:
        os.close(fd)
    wanted = " ".join(f"+{one}" for one in _CONTROLLERS_V2 if one in available)
    if wanted:
        write_in(folder, "cgroup.subtree_control", wanted)
