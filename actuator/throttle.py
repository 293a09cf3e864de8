"""How the kernel makes tasks wait that allocate above `memory.high`.

Measured on Linux 6.1 to 7.3; the formulas are calculate_high_delay's (mm/memcontrol.c).
"""

from typing import Final

from actuator.spikewords import MemoryReading
from elastipod.headroom import MIB

_SLEEP_SECONDS: Final = 2.0
"""The longest that a task sleeps at once (MEMCG_MAX_HIGH_DELAY_JIFFIES)."""
_BURST_BYTES: Final = 512 * 1024
"""What a task takes at most between two sleeps: two batches of charges."""
_NEARLY: Final = 0.9
"""The share of its sleep for which we count on a task to sleep."""


def seconds_to_kill(high_bytes: int, max_bytes: int, tasks: int = 1, *, huge_pages: bool = False) -> float:
    """How long tasks that allocate at full speed take from `high` to `max` in the kernel's throttle.

    Charges of huge pages pass it until small ones follow, so that one sleep of a task is all that is sure.
    """
    if high_bytes <= 0:
        return 0.0
    x = max(max_bytes - high_bytes, 0) / high_bytes
    seconds = 85 * x**3 * (high_bytes / MIB) / max(tasks, 1)
    return min(seconds, _SLEEP_SECONDS) if huge_pages else seconds


def is_last_chance(reading: MemoryReading, limit_bytes: int, held_seconds: float) -> bool:
    """Whether waiting longer, behind a hold whose gap is nearly taken, is worse than writing.

    Small pages pass the first raise before a restarted kubelet looks at what is in use, and then it lowers nothing.
    Huge ones sleep next to it: who came first, nearly until it wakes.
    """
    if not reading.huge_bytes:
        return True
    sleeps = held_seconds < _SLEEP_SECONDS * _NEARLY
    return limit_bytes - reading.current_bytes < (reading.tasks - sleeps) * _BURST_BYTES
