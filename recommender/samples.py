"""What is seen of containers: how much they used, and that one was killed for memory.

Owns the values. Where they come from is sources/ and oomkills.py's matter.
"""

from typing import Final

from msgspec import Struct

from elastipod.pods import Workload

LEEWAY: Final = 1.25
"""How much of the largest node a container's use may be: it may use some of what a node keeps for itself."""


class UsageSample(Struct, frozen=True, gc=False):
    """CPU and memory that one container used at one time; None where it was not told or made no sense."""

    namespace: str
    pod: str
    container: str
    measured_at: float
    """The source's own stamp: it tells one sample from the next, and is not trusted as a time."""
    cpu_cores: float | None = None
    memory_bytes: float | None = None


class OomKill(Struct, frozen=True, gc=False):
    """One run of one container ended by the kernel for memory."""

    workload: Workload
    container: str
    pod_uid: str
    kill_id: str
    """The same for the same kill, however often and in whichever state it is seen."""
    at: float
    limit_bytes: int = 0
    """The memory limit in force at the kill; 0 where there was none."""
    request_bytes: int = 0
