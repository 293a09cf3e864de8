"""How the kernel makes tasks wait that allocate above `memory.high`.

Measured on Linux 6.1 to 7.3; the formulas are calculate_high_delay's (mm/memcontrol.c).
"""

from typing import Final

from elastipod.headroom import MIB

SLEEP_SECONDS: Final = 2.0
"""The longest that a task sleeps at once (MEMCG_MAX_HIGH_DELAY_JIFFIES)."""
BURST_BYTES: Final = 512 * 1024
"""What a task takes at most between two sleeps: two batches of charges."""


def seconds_to_kill(high_bytes: int, max_bytes: int, tasks: int = 1, *, huge_pages: bool = False) -> float:
    """How long tasks that allocate at full speed take from `high` to `max` in the kernel's throttle.

    Charges of huge pages pass it until small ones follow, so that one sleep of a task is all that is sure.
    """
    if high_bytes <= 0:
        return 0.0
    x = max(max_bytes - high_bytes, 0) / high_bytes
    seconds = 85 * x**3 * (high_bytes / MIB) / max(tasks, 1)
    return min(seconds, SLEEP_SECONDS) if huge_pages else seconds
