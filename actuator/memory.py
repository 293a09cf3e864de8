"""Containers' memory, as the rescue sees and sets it.

Owns the words and the protocol; kernelmemory.py fulfils it on this machine's cgroups, simulated.py in thought.
"""

import errno
from dataclasses import dataclass, field
from typing import Final, Protocol

from actuator.spikewords import MemoryReading

GONE: Final = (errno.ENOENT, errno.ENODEV, errno.EBADF)
"""What is said of the files of a container that ended."""


@dataclass(frozen=True, slots=True)
class Target:
    """A container under protection."""

    key: str
    """`<pod uid>/<container>/<container id>`."""
    pod_uid: str
    container: str
    container_id: str
    pod_group: str
    group: str
    spec_bytes: int
    ceiling_bytes: int
    base_bytes: int
    """Its limit before the first rescue; steps and ceiling are shares of it."""
    deadline_seconds: float
    priority: int = 0
    siblings: tuple[str, ...] = ()
    """The ids of the pod's other containers that run: their limits count in the pod's."""
    written_bytes: int = field(default=0, compare=False)
    """The highest limit an earlier run wrote and had not seen in the spec."""
    in_force_bytes: int | None = field(default=None, compare=False)
    """The limit that the node says is in force."""
    is_resizing: bool = field(default=False, compare=False)
    """Whether the node has a resize of the pod still to put in force."""
    rescues: tuple[float, ...] = ()
    is_leased: bool = False
    """A hold found on it is ours, from an earlier run."""

    @property
    def on_node(self) -> tuple[int | None, bool]:
        """What the node says of it, which changes often and is nothing to lease anew for."""
        return self.in_force_bytes, self.is_resizing


class Memory(Protocol):
    """Reads and sets memory. Failures are OSError; a container that is gone reads as None."""

    @property
    def enforcement(self) -> str:
        """`cgroup v1`, `cgroup v2` or `simulated`."""
        ...

    @property
    def holds(self) -> bool:
        """Whether the kernel can make tasks wait (v2)."""
        ...

    def open(self, target: Target) -> None:
        """Begin to watch a container."""
        ...

    def close(self, key: str) -> None: ...

    def usage(self, key: str) -> int:
        """Memory in use, quickly; 0 where the container is gone."""
        ...

    def bounds(self, key: str) -> tuple[int | None, int | None]:
        """Limit and hold, quickly."""
        ...

    def reading(self, key: str) -> MemoryReading | None: ...

    def raise_limit(self, key: str, limit_bytes: int) -> None:
        """The pod's limit by as much as the container's, then the container's. Never lowers."""
        ...

    def set_high(self, key: str, high_bytes: int | None) -> None: ...

    def available_bytes(self) -> int:
        """What the node could still give."""
        ...
