"""What a node needs of cgroups, as a protocol.

Owns the words only. The one module that reads and writes cgroup files fulfils it and is passed in; nothing here knows
cgroup v1 from v2. A group is a path below the node's cgroup root: `kubepods/burstable/pod<uid>/<container id>`.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """What is in force on one cgroup, or shall be; None is "not limited", for a request the smallest weight."""

    cpu_request_millicores: int | None = None
    cpu_limit_millicores: int | None = None
    memory_limit_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """What a cgroup used: CPU since it was made, memory now. Working set is usage without inactive file pages."""

    cpu_seconds: float
    memory_bytes: int
    working_set_bytes: int


class CgroupHands(Protocol):
    """Makes, reads and writes cgroups. Every failure is an OSError."""

    @property
    def enforcement(self) -> str:
        """`cgroup v1` or `cgroup v2`."""
        ...

    def create(self, group: str) -> None:
        """Make the group and those above it, in every hierarchy; one that exists is fine."""
        ...

    def remove(self, group: str) -> None:
        """Remove the group and all below it; one that is gone is fine. OSError EBUSY while processes are in it."""
        ...

    def children(self, group: str) -> list[str]:
        """Names of the groups directly below, sorted; none where the group is gone."""
        ...

    def add_process(self, group: str, pid: int) -> None: ...

    def processes(self, group: str) -> list[int]:
        """Processes in the group itself and all groups below it; none where the group is gone."""
        ...

    def kill(self, group: str) -> None:
        """SIGKILL to every process in the group and below."""
        ...

    def apply(self, group: str, limits: GroupLimits) -> None:
        """Put all three in force, in an order that is safe within the group (memsw before limit when raising)."""
        ...

    def read(self, group: str) -> GroupLimits:
        """What is in force, in the kubelet's reading: ceil(shares * 1000 / 1024), quota * 1000 / period."""
        ...

    def usage(self, group: str) -> GroupUsage: ...

    def oom_kills(self, group: str) -> int:
        """Processes of this group that the kernel killed for want of memory, since the group was made."""
        ...
