"""What is counted of a container's use, in words that need nothing."""

from typing import Final, NamedTuple


class Totals(NamedTuple):
    """Counted since the container began; 0 for what its kernel does not count."""

    periods: float = 0
    throttled: float = 0
    cpu_stall_seconds: float = 0
    memory_stall_seconds: float = 0
    oom_kills: float = 0


NOTHING_YET: Final = Totals()
