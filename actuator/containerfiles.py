"""One container's files of memory, kept open.

Owns which files there are on either version. Opening a file of a cgroup waits while others are made and removed on the
node, a tenth of a second at times; so it is set apart from what is done in a spike, and may be done in any thread.
"""

import os
from contextlib import suppress
from dataclasses import dataclass

from actuator.cgroup import limit_told
from actuator.cgroupfs import CgroupFs, KeptFile
from actuator.memory import Target


@dataclass(slots=True)
class ContainerFiles:
    """One container's kept files; `pod_...` are its pod's. On v1 `swap` is the limit of memory+swap."""

    usage: KeptFile
    limit: KeptFile
    stat: KeptFile
    pod_limit: KeptFile
    high: KeptFile | None = None
    tasks: KeptFile | None = None
    events: KeptFile | None = None
    swap: KeptFile | None = None
    pod_swap: KeptFile | None = None
    control: KeptFile | None = None
    marks_fd: int = -1
    others: tuple[KeptFile, ...] = ()
    """The limits of the pod's other containers."""
    was_raised: bool = False

    def close(self) -> None:
        for file in (self.usage, self.limit, self.stat, self.pod_limit, self.high, self.tasks, self.events, self.swap,
                     self.pod_swap, self.control, *self.others):  # fmt: skip
            if file is not None:
                file.close()
        if self.marks_fd >= 0:
            os.close(self.marks_fd)
            self.marks_fd = -1

    @property
    def others_bytes(self) -> int:
        """The sum of these. The pod's own limit says nothing of them: the kubelet, on its way to the container, may
        have raised it already."""
        total = 0
        for file in self.others:
            with suppress(OSError):
                total += limit_of(file) or 0
        return total


class Arming:
    """Usage marks to be set (v1), on descriptors of its own."""

    def __init__(self, files: ContainerFiles) -> None:
        assert files.control is not None
        self._usage_fd, self._control_fd = os.dup(files.usage.fd), os.dup(files.control.fd)

    def arm(self, marks: tuple[int, ...]) -> int:
        """An eventfd that fires when usage passes one of these marks. Takes the kernel 4 ms a mark."""
        efd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            for mark in marks:
                os.write(self._control_fd, f"{efd} {self._usage_fd} {mark}".encode())
        except OSError:
            os.close(efd)
            raise
        finally:
            os.close(self._usage_fd)
            os.close(self._control_fd)
        return efd


def open_files(fs: CgroupFs, target: Target) -> ContainerFiles:
    """A container's files, and those of the limits beside it in its pod."""
    return _open_v2(fs, target) if fs.version == 2 else _open_v1(fs, target)


def limit_of(file: KeptFile) -> int | None:
    """The amount a file of a limit holds; None where it sets none."""
    return limit_told(file.number())


def _open_v1(fs: CgroupFs, target: Target) -> ContainerFiles:
    with _Opening(fs) as keep:
        return ContainerFiles(
            usage=keep(target.group, "memory.usage_in_bytes"),
            stat=keep(target.group, "memory.stat"),
            limit=keep(target.group, "memory.limit_in_bytes", os.O_RDWR),
            swap=keep.where_there(target.group, "memory.memsw.limit_in_bytes", os.O_RDWR),
            pod_limit=keep(target.pod_group, "memory.limit_in_bytes", os.O_RDWR),
            pod_swap=keep.where_there(target.pod_group, "memory.memsw.limit_in_bytes", os.O_RDWR),
            control=keep(target.group, "cgroup.event_control", os.O_WRONLY),
            others=keep.others(target, "memory.limit_in_bytes"),
        )


def _open_v2(fs: CgroupFs, target: Target) -> ContainerFiles:
    with _Opening(fs) as keep:
        return ContainerFiles(
            usage=keep(target.group, "memory.current"),
            stat=keep(target.group, "memory.stat"),
            events=keep(target.group, "memory.events"),
            tasks=keep.where_there(target.group, "pids.current"),
            limit=keep(target.group, "memory.max", os.O_RDWR),
            high=keep(target.group, "memory.high", os.O_RDWR),
            pod_limit=keep(target.pod_group, "memory.max", os.O_RDWR),
            others=keep.others(target, "memory.max"),
        )


class _Opening:
    """Opens files, all or none."""

    def __init__(self, fs: CgroupFs) -> None:
        self._fs = fs
        self._opened: list[KeptFile] = []

    def __enter__(self) -> "_Opening":
        return self

    def __call__(self, group: str, file: str, flags: int = os.O_RDONLY) -> KeptFile:
        self._opened.append(self._fs.keep(group, file, flags))
        return self._opened[-1]

    def others(self, target: Target, file: str) -> tuple[KeptFile, ...]:
        """This file of the pod's other containers, of those that are still there when it is opened."""
        groups = (f"{target.pod_group}/{name}" for name in self._fs.children(target.pod_group))
        return tuple(kept for group in groups if group != target.group and (kept := self.where_there(group, file)))

    def where_there(self, group: str, file: str, flags: int = os.O_RDONLY) -> KeptFile | None:
        """The file, or nothing on a kernel that is built without it."""
        try:
            return self(group, file, flags)
        except FileNotFoundError:
            return None

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if failed is not None:
            for kept in self._opened:
                kept.close()
