"""What is seen of a container in a spike, what is told about it, and what is to be done: the words of its guard."""

from dataclasses import dataclass

from elastipod.reasons import Reason


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """A container's memory at one moment; limits None where there are none."""

    current_bytes: int
    limit_bytes: int | None
    high_bytes: int | None = None
    reclaimable_bytes: int = 0
    huge_bytes: int = 0
    """What of it lies in huge pages, near a mark (v2)."""
    tasks: int = 1

    @property
    def needed_bytes(self) -> int:
        """What the kernel cannot take back."""
        return max(self.current_bytes - self.reclaimable_bytes, 0)


@dataclass(frozen=True, slots=True)
class Seen:
    """A look at the container, after an event or in the sweep."""

    reading: MemoryReading


@dataclass(frozen=True, slots=True)
class Granted:
    """What the node's budget gives; 0 is nothing."""

    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """The API accepted a limit: it stands in the spec."""

    limit_bytes: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The API refuses the raise for good."""

    reason: Reason


Event = Seen | Granted | Accepted | Refused


@dataclass(frozen=True, slots=True)
class WantRoom:
    """Ask the node's budget."""

    memory_bytes: int


@dataclass(frozen=True, slots=True)
class AskApi:
    """Ask the API for this limit, again until it answers."""

    limit_bytes: int


@dataclass(frozen=True, slots=True)
class WriteLimit:
    """Raise the cgroup: the pod, then the container."""

    limit_bytes: int


@dataclass(frozen=True, slots=True)
class WriteHigh:
    """Move the hold; None lifts it."""

    high_bytes: int | None


@dataclass(frozen=True, slots=True)
class Tell:
    """What became of a spike."""

    reason: Reason
    seconds: float = 0.0
    over_bytes: int = 0
    limit_bytes: int = 0


Instruction = WantRoom | AskApi | WriteLimit | WriteHigh | Tell
