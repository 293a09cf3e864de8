"""Containers' memory in this machine's cgroups, on files that are kept open.

Owns how memory is read and set on either version, v1's usage marks (eventfds) and v2's memory.events. Deciding is
rescue.py's matter; the files, and opening them, are containerfiles.py's.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from actuator.cgroupfs import CgroupFs, KeptFile
from actuator.changes import Changes
from actuator.containerfiles import Arming, ContainerFiles, limit_of, open_files
from actuator.memory import GONE, Target
from actuator.spikewords import MemoryReading
from elastipod.telemetry import get_logger

log = get_logger(__name__)

_UNHEARD: Final = "what others write to a hold is seen by sweeps only"
_NEAR: Final = 0.7
# What the kernel takes back without harm: file pages, which tmpfs is not, and slab caches.
RECLAIMABLE_V1: Final = (b"total_inactive_file", b"total_active_file")
RECLAIMABLE_V2: Final = (b"inactive_file", b"active_file", b"slab_reclaimable")
_HUGE_V2: Final = (b"anon_thp",)


@dataclass
class KernelMemory:
    """`Memory` on cgroups. `on_close(fd)` is called before a descriptor that was listened to is closed."""

    fs: CgroupFs
    on_close: Callable[[int], None] = lambda _: None
    meminfo: str = "/proc/meminfo"
    changes: Changes | None = None
    """Who else writes to a hold; None where there is none, or the kernel does not tell."""
    _files: dict[str, ContainerFiles] = field(default_factory=dict)
    _meminfo: KeptFile | None = None

    def __post_init__(self) -> None:
        if self.holds:
            try:
                self.changes = Changes()
            except OSError as error:
                log.warning(_UNHEARD, error=str(error))

    @property
    def enforcement(self) -> str:
        return f"cgroup v{self.fs.version}"

    @property
    def holds(self) -> bool:
        return self.fs.version == 2

    def open(self, target: Target) -> None:
        self.adopt(target.key, self.prepare(target))

    def prepare(self, target: Target) -> ContainerFiles:
        """Open a container's files, in any thread."""
        return open_files(self.fs, target)

    def adopt(self, key: str, files: ContainerFiles) -> bool:
        """Use these from now on; False where only the pod's other containers were new."""
        known = self._files.get(key)
        if known is None:
            self._files[key] = files
            if self.changes is not None and files.high is not None:
                try:
                    self.changes.add(key, files.high.fd)
                except OSError as error:
                    log.warning(_UNHEARD, key=key, error=str(error))
            return True
        known.others, files.others = files.others, known.others
        files.close()
        return False

    def arming(self, key: str) -> Arming | None:
        """To arm a container's marks, in any thread; None where it is gone."""
        files = self._files.get(key)
        return Arming(files) if files is not None else None

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
            if self.changes is not None:
                self.changes.drop(key)
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
            stat = files.stat.read() if limit is not None and current >= _NEAR * limit else b""
            return MemoryReading(
                current_bytes=current,
                limit_bytes=limit,
                high_bytes=files.high.number() if files.high is not None else None,
                reclaimable_bytes=amounts(stat, RECLAIMABLE_V2 if self.holds else RECLAIMABLE_V1),
                huge_bytes=amounts(stat, _HUGE_V2) if self.holds else 0,
                tasks=(files.tasks.number() or 1) if files.tasks is not None else 1,
            )
        except OSError as error:
            if error.errno in GONE:
                return None
            raise

    def raise_limit(self, key: str, limit_bytes: int) -> None:
        files = self._files.get(key)
        if files is None:
            return
        now = files.limit.number()
        if now is None:
            return
        files.was_raised = True
        pod_now, others = limit_of(files.pod_limit), files.others_bytes
        if pod_now is not None and pod_now < limit_bytes + others:
            _raise(files.pod_limit, files.pod_swap, limit_bytes + others)
        if now < limit_bytes:
            _raise(files.limit, files.swap, limit_bytes)

    def _in_force(self, files: ContainerFiles) -> int | None:
        """The container's limit, or what its pod's leaves of it: a kubelet that is late lowers the pod's first."""
        limit = limit_of(files.limit)
        pod = limit_of(files.pod_limit) if files.was_raised else None
        if limit is None or pod is None or pod >= limit + files.others_bytes:
            return limit
        return max(pod - files.others_bytes, 0)

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
        if self.changes is not None:
            self.changes.close()
            self.changes = None


def _raise(limit: KeptFile, swap: KeptFile | None, limit_bytes: int) -> None:
    """A v1 group's memory+swap first, or the kernel refuses; it may stand above already."""
    if swap is not None and (swap.number() or 0) < limit_bytes:
        swap.write(str(limit_bytes))
    limit.write(str(limit_bytes))


def amounts(stat: bytes, names: tuple[bytes, ...]) -> int:
    """The sum of these entries of a memory.stat, in bytes; those that lack, or are no amount, count nothing."""
    total = 0
    for name in names:
        start = stat.find(b"\n" + name + b" ")
        if start < 0 and not stat.startswith(name + b" "):
            continue
        start = max(start + 1, 0) + len(name) + 1
        end = stat.find(b"\n", start)
        amount = stat[start : end if end >= 0 else None]
        total += int(amount) if amount.isdigit() else 0
    return total
