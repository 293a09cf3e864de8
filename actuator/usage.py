"""What one container used in the minute that runs.

Owns the sums: from readings of what only ever grows to averages, peaks and fractions. Reads no file and no clock.
"""

from dataclasses import dataclass
from typing import Final

from actuator.usagewords import NOTHING_YET, Totals
from elastipod.minutes import MINUTE_SECONDS, ContainerMinute
from elastipod.pods import Pod

_LEAST_SECONDS: Final = 1.0
"""A rate over less says little: the kernel counts in ticks, and starts are told in whole seconds."""


@dataclass(slots=True)
class Usage:
    """One container's running minute. A restart of the container goes on in it."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    read_at: float = 0.0
    """When its CPU was last counted, by the monotonic clock."""
    cpu_total: float = 0.0
    totals: Totals = NOTHING_YET
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    cpu_peak_cores: float = 0.0
    memory_peak_bytes: int | None = None
    """The largest working set; None before the first."""
    counted: Totals = NOTHING_YET
    """Of this minute."""

    @classmethod
    def of(cls, pod: Pod, container: str) -> "Usage":
        return cls(pod.namespace, pod.name, pod.uid, container)

    def begin(self, at: float, cpu_total: float, totals: Totals) -> None:
        """A run of the container is counted from here on; what it had used by then is not ours."""
        self.read_at, self.cpu_total, self.totals = at, cpu_total, totals

    def used(self, at: float, cpu_total: float) -> None:
        """CPU seconds since the run began, as read at this moment."""
        seconds = at - self.read_at
        if seconds < _LEAST_SECONDS:
            return
        cpu_seconds = max(cpu_total - self.cpu_total, 0.0)
        self.seconds += seconds
        self.cpu_seconds += cpu_seconds
        self.cpu_peak_cores = max(self.cpu_peak_cores, cpu_seconds / seconds)
        self.read_at, self.cpu_total = at, cpu_total

    def held(self, memory_bytes: int) -> None:
        """A working set as read at some moment."""
        if self.memory_peak_bytes is None or memory_bytes > self.memory_peak_bytes:
            self.memory_peak_bytes = memory_bytes

    def count(self, totals: Totals) -> None:
        """What else was counted since the run began."""
        grown = (max(new - old, 0) for new, old in zip(totals, self.totals, strict=True))
        self.counted = Totals(*(old + new for old, new in zip(self.counted, grown, strict=True)))
        self.totals = totals

    def close(self) -> ContainerMinute | None:
        """The minute is over and the next begins; None where nothing was seen of it."""
        if self.memory_peak_bytes is None and not self.seconds:
            return None
        counted = self.counted
        lasted = self.seconds or MINUTE_SECONDS
        told = ContainerMinute(
            self.namespace,
            self.pod,
            self.pod_uid,
            self.container,
            round(self.seconds, 1),
            round(self.cpu_seconds / self.seconds, 6) if self.seconds else None,
            round(self.cpu_peak_cores, 6) if self.seconds else None,
            self.memory_peak_bytes,
            _fraction(counted.throttled, counted.periods),
            _fraction(counted.cpu_stall_seconds, lasted),
            _fraction(counted.memory_stall_seconds, lasted),
            int(counted.oom_kills),
        )
        self.seconds = self.cpu_seconds = self.cpu_peak_cores = 0.0
        self.memory_peak_bytes, self.counted = None, NOTHING_YET
        return told


def _fraction(part: float, whole: float) -> float | None:
    return round(min(part / whole, 1.0), 4) or None if whole else None
