"""The only reader and writer of cgroup files.

Owns the way to a file: below one root, folder by folder without following a link, in the right hierarchy on v1 or the
one of v2, each write with one call whose answer is looked at. What to write, and in which order, is cgroup.py's matter;
groups made and removed are cgrouptree.py's. Every failure is an OSError.
"""

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from actuator.cgroup import CgroupWrite

_NAME: Final = re.compile(r"[0-9A-Za-z_.:-]{1,255}", re.ASCII)
FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_BYTES: Final = 65_536


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
        self._parts = parts_of(parent) if parent else []
        slices = slices_of(parent).replace("/", "-")
        names = (f"{slices}-kubepods.slice",) if slices else ("kubepods.slice", "kubepods")
        tops = (self.root, *(self.root.joinpath(*self._parts, name) for name in names))
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
            return os.open(checked(file), flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)

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

    def children(self, group: str) -> list[str]:
        """The names of the groups directly below; none where the group is gone."""
        try:
            return self._names(self._parts + parts_of(group), "memory")
        except FileNotFoundError:
            return []

    def _names(self, parts: list[str], controller: str) -> list[str]:
        with self._walk(parts, controller) as folder, os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))

    # The way.

    def _controller(self, file: str) -> str:
        kind = file.split(".", 1)[0]
        return kind if kind in self._hierarchies else "memory"

    @contextmanager
    def _folder(self, group: str, controller: str) -> Iterator[int]:
        with self._walk(self._parts + parts_of(group), controller) as folder:
            yield folder

    @contextmanager
    def _walk(self, parts: list[str], controller: str) -> Iterator[int]:
        base = self._hierarchies.get(controller) or self._hierarchies.get("", self.root)
        folder = os.open(base, FOLDER)
        try:
            for part in parts:
                folder, above = os.open(part, FOLDER, dir_fd=folder), folder
                os.close(above)
            yield folder
        finally:
            os.close(folder)


def slices_of(parent: str) -> str:
    """The --cgroup-root of a kubelet whose slices lie in this folder, `kubelet` of `kubelet.slice`; else empty."""
    last = parent.rpartition("/")[2]
    return last.removesuffix(".slice").replace("-", "/") if last.endswith(".slice") else ""


def parts_of(group: str) -> list[str]:
    """A group's folders. Nothing is resolved: a name that could lead elsewhere is refused."""
    parts = group.split("/")
    if any(part in (".", "..") or not _NAME.fullmatch(part) for part in parts):
        raise BadGroup(group)
    return parts


def checked(file: str) -> str:
    """The name of a file in a group; what could lead elsewhere is refused."""
    if "/" in file or file.startswith(".") or not _NAME.fullmatch(file):
        raise BadGroup(file)
    return file


def _write_all(fd: int, value: str) -> None:
    data = value.encode("ascii") + b"\n"
    # A cgroup file takes a value with one call, or not at all.
    if os.pwrite(fd, data, 0) != len(data):
        raise OSError(errno.EIO, f"only a part of {value!r} was taken")


def write_in(folder: int, file: str, value: str) -> None:
    """One value into a file of an open folder."""
    fd = os.open(file, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        _write_all(fd, value)
    finally:
        os.close(fd)


def _number(text: bytes) -> int | None:
    line = text.partition(b"\n")[0]
    try:
        return None if line == b"max" else int(line)
    except ValueError:
        raise OSError(errno.EIO, f"{line[:40]!r} is no number") from None
