"""One container's files of usage.

Owns which files there are on either version, and what they say. Two are kept open and read every few seconds; the
others are opened in their folder when they are asked for, as an open file that was read holds a page of the kernel's.
"""

import os
from contextlib import suppress
from typing import Final

from actuator.cgroupfs import CgroupFs, KeptFile
from actuator.kernelmemory import amounts
from actuator.usagewords import Totals

_NANO: Final = 1_000_000_000
_MICRO: Final = 1_000_000
_USAGE_V2: Final = b"usage_usec "


class UsageFiles:
    """What a container uses. Opening and reading raise OSError where it is gone."""

    def __init__(self, fs: CgroupFs, group: str) -> None:
        self._is_v2 = fs.version == 2
        self._cpu: KeptFile | None = None
        self._cpu_folder = -1
        self._cpu_stat = b""
        self._spare_bytes = 0
        self._stalled_seconds: float | None = None
        self._folder = fs.folder(group, "memory.stat")
        try:
            self._memory = fs.keep(group, "memory.current" if self._is_v2 else "memory.usage_in_bytes")
            # v1 has it in a hierarchy of its own, which we may not be shown.
            with suppress(FileNotFoundError):
                self._cpu = fs.keep(group, "cpu.stat" if self._is_v2 else "cpuacct.usage")
                self._cpu_folder = fs.folder(group, "cpu.stat")
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        for fd in (self._folder, self._cpu_folder):
            if fd >= 0:
                os.close(fd)
        self._folder = self._cpu_folder = -1
        for file in (getattr(self, "_memory", None), self._cpu):
            if file is not None:
                file.close()

    def cpu_seconds(self) -> float | None:
        """Used since it began; None where that is not told."""
        if self._cpu is None:
            return None
        if not self._is_v2:
            return int(os.pread(self._cpu.fd, 32, 0)) / _NANO
        # Kept: with what else it says a run that is over by the end of the minute is counted, too.
        self._cpu_stat = stat = os.pread(self._cpu.fd, 1024, 0)
        if not stat.startswith(_USAGE_V2):
            return None
        return int(stat[len(_USAGE_V2) : stat.index(b"\n")]) / _MICRO

    def working_set(self, peak: int | None) -> int:
        """The memory in use without the cache that nobody looks at, or that nobody would miss.

        Cache that is looked at would be missed where a task has waited for memory since this was last asked; v1 does
        not tell, so it counts there. How much cache there is is dear to ask; so it is asked only where there was no
        peak yet, or a new one may be.
        """
        used = int(os.pread(self._memory.fd, 32, 0))
        if peak is None or not 0 <= used - self._spare_bytes <= peak:
            self._spare_bytes = amounts(self._text(self._folder, "memory.stat"), self._spare())
        return max(used - self._spare_bytes, 0)

    def _spare(self) -> tuple[bytes, ...]:
        """What counts as cache that can go."""
        if not self._is_v2:
            return (b"total_inactive_file",)
        pressure = self._text_or_none(self._folder, "memory.pressure")
        before, now = self._stalled_seconds, _stalled(pressure) if pressure else None
        self._stalled_seconds = now
        is_at_ease = now is not None and before in (None, now)
        return (b"inactive_file", b"active_file") if is_at_ease else (b"inactive_file",)

    def totals(self) -> Totals:
        """What else was counted since it began; 0 for what it is too late to ask."""
        cpu = self._cpu_stat if self._is_v2 else self._text_or_none(self._cpu_folder, "cpu.stat")
        kills = self._text_or_none(self._folder, "memory.events" if self._is_v2 else "memory.oom_control")
        return Totals(
            amounts(cpu, (b"nr_periods",)),
            amounts(cpu, (b"nr_throttled",)),
            _stalled(self._text_or_none(self._folder, "cpu.pressure")) if self._is_v2 else 0.0,
            _stalled(self._text_or_none(self._folder, "memory.pressure")) if self._is_v2 else 0.0,
            amounts(kills, (b"oom_kill",)),
        )

    def _text_or_none(self, folder: int, name: str) -> bytes:
        try:
            return self._text(folder, name)
        except OSError:
            return b""

    def _text(self, folder: int, name: str) -> bytes:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            return os.pread(fd, 8192, 0)
        finally:
            os.close(fd)


def _stalled(pressure: bytes) -> float:
    """Seconds in which some task waited, of PSI's first line."""
    _, _, total = pressure.partition(b"\n")[0].rpartition(b" total=")
    return int(total) / _MICRO if total.isdigit() else 0.0
