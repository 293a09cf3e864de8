"""Containers' memory in this machine's cgroups, on files that are kept open.

Owns which files tell and set memory on either version, v1's usage marks (eventfds) and v2's memory.events. Deciding is
rescue.py's matter; the way to a file is cgroupfs.py's.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from actuator.cgroup import V1_UNLIMITED, CgroupWrite
from actuator.cgroupfs import CgroupFs, KeptFile
from actuator.memory import Target
from actuator.spikes import MemoryReading

_GONE: Final = (errno.ENOENT, errno.ENODEV, errno.EBADF)
_NEAR: Final = 0.7
_RECLAIMABLE_V1: Final = (b"total_inactive_file", b"total_active_file")
_RECLAIMABLE_V2: Final = (b"inactive_file", b"active_file", b"slab_reclaimable")


@dataclass(slots=True)
class _Files:
    """One container's kept files; `pod_...` are its pod's. On v1 `swap` is the limit of memory+swap."""

    target: Target
    usage: KeptFile
    limit: KeptFile
    stat: KeptFile
    pod_limit: KeptFile
    high: KeptFile | None = None
    tasks: KeptFile | None = None
    events: KeptFile | None = None
    swap: KeptFile | None = None
    pod_swap: KeptFile | None = None
    marks_fd: int = -1
    others_bytes: int | None = None
    """The limits of the pod's other containers, once a raise had to know them."""

    def close(self) -> None:
        for file in (self.usage, self.limit, self.stat, self.pod_limit, self.high, self.tasks, self.events, self.swap,
                     self.pod_swap):  # fmt: skip
            if file is not None:
                file.close()
        if self.marks_fd >= 0:
            os.close(self.marks_fd)
            self.marks_fd = -1


@dataclass
class KernelMemory:
    """`Memory` on cgroups. `on_close(fd)` is called before a descriptor that was listened to is closed."""

    fs: CgroupFs
    on_close: Callable[[int], None] = lambda _: None
    meminfo: str = "/proc/meminfo"
    _files: dict[str, _Files] = field(default_factory=dict)
    _meminfo: KeptFile | None = None

    @property
    def enforcement(self) -> str:
        return f"cgroup v{self.fs.version}"

    @property
    def holds(self) -> bool:
        return self.fs.version == 2

    def open(self, target: Target) -> None:
        self._files[target.key] = self._open_v2(target) if self.holds else self._open_v1(target)

    def arm(self, group: str, marks: tuple[int, ...]) -> int:
        """An eventfd that fires when usage passes one of these marks (v1). Takes the kernel 4 ms a mark."""
        efd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            usage = self.fs.open(group, "memory.usage_in_bytes", os.O_RDONLY)
            try:
                for mark in marks:
                    self.fs.write(CgroupWrite(group, "cgroup.event_control", f"{efd} {usage} {mark}"))
            finally:
                os.close(usage)
        except OSError:
            os.close(efd)
            raise
        return efd

    def rearm(self, key: str, efd: int) -> None:
        """Listen to other marks from now on."""
        files = self._files.get(key)
        if files is None:
            os.close(efd)
            return
        if files.marks_fd >= 0:
            self.on_close(files.marks_fd)
            os.close(files.marks_fd)
        files.marks_fd = efd

    def event_fd(self, key: str) -> int:
        """What to listen to for a container: eventfd (v1, readable) or memory.events (v2, priority); -1 if gone."""
        files = self._files.get(key)
        if files is None:
            return -1
        return files.events.fd if files.events is not None else files.marks_fd

    def close(self, key: str) -> None:
        files = self._files.pop(key, None)
        if files is not None:
            for fd in (files.marks_fd, files.events.fd if files.events is not None else -1):
                if fd >= 0:
                    self.on_close(fd)
            files.close()

    def usage(self, key: str) -> int:
        files = self._files.get(key)
        try:
            return (files.usage.number() or 0) if files is not None else 0
        except OSError:
            return 0

    def bounds(self, key: str) -> tuple[int | None, int | None]:
        files = self._files.get(key)
        if files is None:
            return None, None
        try:
            return self._in_force(files), files.high.number() if files.high is not None else None
        except OSError:
            return None, None

    def reading(self, key: str) -> MemoryReading | None:
        files = self._files.get(key)
        if files is None:
            return None
        try:
            limit, current = self._in_force(files), files.usage.number() or 0
            # memory.stat is dear, and matters near a mark only: none lies below three quarters of its limit.
            is_near = limit is not None and current >= _NEAR * limit
            return MemoryReading(
                current_bytes=current,
                limit_bytes=limit,
                high_bytes=files.high.number() if files.high is not None else None,
                reclaimable_bytes=reclaimable(files.stat.read(), v2=self.holds) if is_near else 0,
                tasks=(files.tasks.number() or 1) if files.tasks is not None else 1,
            )
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise

    def raise_limit(self, key: str, limit_bytes: int) -> None:
        files = self._files.get(key)
        if files is None:
            return
        now = files.limit.number()
        if now is None:
            return
        files.others_bytes = self._others_bytes(files.target)
        pod_now = _limit(files.pod_limit)
        if pod_now is not None and pod_now < limit_bytes + files.others_bytes:
            _raise(files.pod_limit, files.pod_swap, limit_bytes + files.others_bytes)
        if now < limit_bytes:
            _raise(files.limit, files.swap, limit_bytes)

    def _in_force(self, files: _Files) -> int | None:
        """The container's limit, or what its pod's leaves of it: a kubelet that is late lowers the pod's first."""
        limit, pod = _limit(files.limit), _limit(files.pod_limit)
        if limit is None or pod is None or files.others_bytes is None or pod - files.others_bytes >= limit:
            return limit
        files.others_bytes = self._others_bytes(files.target)
        return max(min(limit, pod - files.others_bytes), 0)

    def _others_bytes(self, target: Target) -> int:
        """The limits of the pod's other containers. The pod's own says nothing of them: the kubelet, on its way to the
        container, may have raised it already."""
        file = "memory.max" if self.holds else "memory.limit_in_bytes"
        total = 0
        for name in self.fs.children(target.pod_group):
            group = f"{target.pod_group}/{name}"
            if group != target.group:
                with suppress(OSError):
                    limit = self.fs.number(group, file)
                    total += limit if limit is not None and limit < V1_UNLIMITED else 0
        return total

    def set_high(self, key: str, high_bytes: int | None) -> None:
        files = self._files.get(key)
        if files is not None and files.high is not None:
            files.high.write("max" if high_bytes is None else str(high_bytes))

    def available_bytes(self) -> int:
        if self._meminfo is None:
            self._meminfo = KeptFile(os.open(self.meminfo, os.O_RDONLY | os.O_CLOEXEC))
        for line in self._meminfo.read().splitlines():
            if line.startswith(b"MemAvailable:"):
                return int(line.split()[1]) * 1024
        return 0

    def close_all(self) -> None:
        """Close every file; nothing is written."""
        for key in list(self._files):
            self.close(key)
        if self._meminfo is not None:
            self._meminfo.close()
            self._meminfo = None

    def _open_v1(self, target: Target) -> _Files:
        with _Opening(self.fs) as keep:
            return _Files(
                target,
                usage=keep(target.group, "memory.usage_in_bytes"),
                stat=keep(target.group, "memory.stat"),
                limit=keep(target.group, "memory.limit_in_bytes", writable=True),
                swap=keep.where_there(target.group, "memory.memsw.limit_in_bytes", writable=True),
                pod_limit=keep(target.pod_group, "memory.limit_in_bytes", writable=True),
                pod_swap=keep.where_there(target.pod_group, "memory.memsw.limit_in_bytes", writable=True),
            )

    def _open_v2(self, target: Target) -> _Files:
        with _Opening(self.fs) as keep:
            return _Files(
                target,
                usage=keep(target.group, "memory.current"),
                stat=keep(target.group, "memory.stat"),
                events=keep(target.group, "memory.events"),
                tasks=keep.where_there(target.group, "pids.current"),
                limit=keep(target.group, "memory.max", writable=True),
                high=keep(target.group, "memory.high", writable=True),
                pod_limit=keep(target.pod_group, "memory.max", writable=True),
            )


class _Opening:
    """Opens files, all or none."""

    def __init__(self, fs: CgroupFs) -> None:
        self._fs = fs
        self._opened: list[KeptFile] = []

    def __enter__(self) -> "_Opening":
        return self

    def __call__(self, group: str, file: str, *, writable: bool = False) -> KeptFile:
        self._opened.append(self._fs.keep(group, file, writable=writable))
        return self._opened[-1]

    def where_there(self, group: str, file: str, *, writable: bool = False) -> KeptFile | None:
        """The file, or nothing on a kernel that is built without it."""
        try:
            return self(group, file, writable=writable)
        except FileNotFoundError:
            return None

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if failed is not None:
            for kept in self._opened:
                kept.close()


def _limit(file: KeptFile) -> int | None:
    limit = file.number()
    return None if limit is None or limit >= V1_UNLIMITED else limit


def _raise(limit: KeptFile, swap: KeptFile | None, limit_bytes: int) -> None:
    """A v1 group's memory+swap first, or the kernel refuses; it may stand above already."""
    if swap is not None and (swap.number() or 0) < limit_bytes:
        swap.write(str(limit_bytes))
    limit.write(str(limit_bytes))


def reclaimable(stat: bytes, *, v2: bool) -> int:
    """Of a memory.stat, what the kernel takes back without harm: file pages, which tmpfs is not, and slab caches."""
    wanted = _RECLAIMABLE_V2 if v2 else _RECLAIMABLE_V1
    total = 0
    for name in wanted:
        start = stat.find(b"\n" + name + b" ")
        if start < 0 and not stat.startswith(name + b" "):
            continue
        start = max(start + 1, 0) + len(name) + 1
        end = stat.find(b"\n", start)
        total += int(stat[start : end if end >= 0 else None])
    return total
