"""The only reader and writer of cgroup files.

Owns the way to a file: below one root, folder by folder without following a link, in the right hierarchy on v1 or the
one of v2, each write with one call whose answer is looked at. What to write, and in which order, is cgroup.py's matter.
Every failure is an OSError.
"""

import errno
import os
import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from actuator.cgroup import CgroupWrite

_NAME: Final = re.compile(r"[0-9A-Za-z_.:-]{1,255}", re.ASCII)
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_BYTES: Final = 65_536
_CONTROLLERS_V2: Final = ("memory", "cpu", "pids")
_KUBEPODS: Final = ("kubepods.slice", "kubepods")


class BadGroup(OSError):
    """A group's name that must not become a path."""

    def __init__(self, group: str) -> None:
        super().__init__(errno.EINVAL, f"{group[:200]!r} is not a path of plain names")


class NoCgroups(OSError):
    """There is no usable cgroup hierarchy; the message says where it was looked for."""


class KeptFile:
    """An open file of a group, read and written in place; it names the group it was opened in for ever."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def read(self) -> bytes:
        """What the file holds now."""
        return os.pread(self.fd, _MOST_BYTES, 0)

    def number(self) -> int | None:
        """The number it holds; None for `max`. OSError too where it holds another thing."""
        return _number(os.pread(self.fd, 64, 0))

    def write(self, value: str) -> None:
        """Replace what it holds."""
        _write_all(self.fd, value)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class CgroupFs:
    """The cgroups below `root` (where they are mounted) and `parent` (a folder in each hierarchy, ours alone).

    `version` is 1 or 2; a hybrid mount counts as 1, where memory is. Of a hierarchy, it is enough to have the part that
    holds pods at its place below `root`. Raises NoCgroups.
    """

    def __init__(self, root: str | Path = "/sys/fs/cgroup", parent: str = "") -> None:
        self.root = Path(root)
        self.parent = parent
        self._parts = _parts(parent) if parent else []
        tops = (self.root, *(self.root.joinpath(*self._parts, name) for name in _KUBEPODS))
        self.version = 2 if any((top / "cgroup.controllers").is_file() for top in tops) else 1
        self._hierarchies = self._find_hierarchies()

    def _find_hierarchies(self) -> dict[str, Path]:
        if self.version == 2:
            return {"": self.root}
        found: dict[str, Path] = {}
        for controller in ("memory", "cpu", "cpuacct", "pids"):
            for folder in (controller, "cpu,cpuacct", "cpuacct,cpu"):
                if controller in folder.split(",") and (self.root / folder).is_dir():
                    found[controller] = (self.root / folder).resolve()
                    break
        if "memory" not in found:
            raise NoCgroups(errno.ENOENT, f"{self.root} holds neither cgroup v2 nor v1's memory hierarchy")
        return found

    # Files.

    def text(self, group: str, file: str) -> str:
        """A file's text."""
        fd = self.open(group, file, os.O_RDONLY)
        try:
            return os.pread(fd, _MOST_BYTES, 0).decode("ascii", "replace")
        finally:
            os.close(fd)

    def number(self, group: str, file: str) -> int | None:
        """The number in a file; None for `max`. OSError too where it holds another thing."""
        return _number(self.text(group, file).encode())

    def write(self, write: CgroupWrite) -> None:
        """One value. A file that may lack and does is passed over."""
        try:
            fd = self.open(write.group, write.file, os.O_WRONLY | os.O_TRUNC)
        except FileNotFoundError:
            if write.may_lack and self.exists(write.group):
                return
            raise
        try:
            _write_all(fd, write.value)
        finally:
            os.close(fd)

    def write_all(self, writes: Iterable[CgroupWrite]) -> None:
        """Values in their order; the first failure ends it."""
        for write in writes:
            self.write(write)

    def open(self, group: str, file: str, flags: int) -> int:
        """A file descriptor of a group's file."""
        with self._folder(group, self._controller(file)) as folder:
            return os.open(_checked(file), flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)

    def keep(self, group: str, file: str, flags: int = os.O_RDONLY) -> KeptFile:
        """A file held open, for what must be quick."""
        return KeptFile(self.open(group, file, flags))

    def folder(self, group: str, file: str) -> int:
        """A descriptor of the folder that a group's file lies in: of this group, and of none made later there."""
        with self._folder(group, self._controller(file)) as folder:
            return os.dup(folder)

    # Groups.

    def exists(self, group: str) -> bool:
        """Whether there is such a group, for memory."""
        try:
            with self._folder(group, "memory"):
                return True
        except (FileNotFoundError, NotADirectoryError):
            return False

    def inode(self, group: str) -> int:
        """What tells a group from another that was made later at the same path."""
        with self._folder(group, "memory") as folder:
            return os.fstat(folder).st_ino

    def create(self, group: str) -> None:
        """The group and those above it, in every hierarchy; on v2 with the controllers we use."""
        parts = self._parts + _parts(group)
        for base in dict.fromkeys(self._hierarchies.values()):
            folder = os.open(base, _FOLDER)
            try:
                for part in parts:
                    if self.version == 2:
                        _enable(folder)
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=folder)
                    folder, above = os.open(part, _FOLDER, dir_fd=folder), folder
                    os.close(above)
            finally:
                os.close(folder)

    def step_aside(self, leaf: str) -> None:
        """Move this process out of `root` into a folder there: v2 divides only what no process is in itself."""
        if self.version == 2:
            base = os.open(self.root, _FOLDER)
            try:
                with suppress(FileExistsError):
                    os.mkdir(_checked(leaf), 0o755, dir_fd=base)
                folder = os.open(leaf, _FOLDER, dir_fd=base)
            finally:
                os.close(base)
            try:
                fd = os.open("cgroup.procs", os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            finally:
                os.close(folder)
            try:
                _write_all(fd, str(os.getpid()))
            finally:
                os.close(fd)

    def remove(self, group: str) -> None:
        """The group and all below it, in every hierarchy. OSError EBUSY while processes are in it."""
        for controller in self._each():
            with suppress(FileNotFoundError):
                for name in self._names(group, controller):
                    self._remove_in(f"{group}/{name}", controller)
                self._remove_in(group, controller)

    def remove_parent(self) -> None:
        """All that lies in `parent`, and the last folder of it; without a parent, nothing."""
        for controller in self._each() if self._parts else ():
            *above, last = self._parts
            with suppress(FileNotFoundError):
                with self._walk(self._parts, controller) as folder, os.scandir(folder) as entries:
                    names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
                for name in names:
                    self._remove_in(name, controller)
                with self._walk(above, controller) as folder:
                    os.rmdir(last, dir_fd=folder)

    def _remove_in(self, group: str, controller: str) -> None:
        with suppress(FileNotFoundError):
            for name in self._names(group, controller):
                self._remove_in(f"{group}/{name}", controller)
            *above, last = self._parts + _parts(group)
            with self._walk(above, controller) as folder:
                os.rmdir(last, dir_fd=folder)

    def children(self, group: str) -> list[str]:
        """The names of the groups directly below; none where the group is gone."""
        try:
            return self._names(group, "memory")
        except FileNotFoundError:
            return []

    def _names(self, group: str, controller: str) -> list[str]:
        with self._folder(group, controller) as folder, os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))

    # Processes.

    def add_process(self, group: str, pid: int) -> None:
        """Move a process into the group, in every hierarchy."""
        for controller in self._each():
            with self._folder(group, controller) as folder:
                fd = os.open("cgroup.procs", os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                try:
                    _write_all(fd, str(pid))
                finally:
                    os.close(fd)

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

    # The way.

    def _controller(self, file: str) -> str:
        kind = file.split(".", 1)[0]
        return kind if kind in self._hierarchies else "memory"

    def _each(self) -> list[str]:
        """One controller of each hierarchy."""
        return list({path: controller for controller, path in self._hierarchies.items()}.values())

    @contextmanager
    def _folder(self, group: str, controller: str) -> Iterator[int]:
        with self._walk(self._parts + _parts(group), controller) as folder:
            yield folder

    @contextmanager
    def _walk(self, parts: list[str], controller: str) -> Iterator[int]:
        base = self._hierarchies.get(controller) or self._hierarchies.get("", self.root)
        folder = os.open(base, _FOLDER)
        try:
            for part in parts:
                folder, above = os.open(part, _FOLDER, dir_fd=folder), folder
                os.close(above)
            yield folder
        finally:
            os.close(folder)


def _parts(group: str) -> list[str]:
    """A group's folders. Nothing is resolved: a name that could lead elsewhere is refused."""
    parts = group.split("/")
    if any(part in (".", "..") or not _NAME.fullmatch(part) for part in parts):
        raise BadGroup(group)
    return parts


def _checked(file: str) -> str:
    if "/" in file or file.startswith(".") or not _NAME.fullmatch(file):
        raise BadGroup(file)
    return file


def _write_all(fd: int, value: str) -> None:
    data = value.encode("ascii") + b"\n"
    # A cgroup file takes a value with one call, or not at all.
    if os.pwrite(fd, data, 0) != len(data):
        raise OSError(errno.EIO, f"only a part of {value!r} was taken")


def _enable(folder: int) -> None:
    """Let a v2 group's children have the controllers we use, as far as it has them itself."""
    fd = os.open("cgroup.controllers", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        available = os.read(fd, 4096).decode("ascii").split()
    finally:
        os.close(fd)
    wanted = " ".join(f"+{one}" for one in _CONTROLLERS_V2 if one in available)
    if not wanted:
        return
    fd = os.open("cgroup.subtree_control", os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.write(fd, wanted.encode("ascii"))
    finally:
        os.close(fd)


def _number(text: bytes) -> int | None:
    line = text.partition(b"\n")[0]
    try:
        return None if line == b"max" else int(line)
    except ValueError:
        raise OSError(errno.EIO, f"{line[:40]!r} is no number") from None
