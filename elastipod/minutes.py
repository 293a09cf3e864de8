"""What the containers of one node used, minute by minute, as its actuator tells it.

Owns the form of the answer, which one side writes and the other reads. What is measured is the actuator's matter, what
of it is believed the recommender's.
"""

from typing import Final

from msgspec import Struct

MINUTE_SECONDS: Final = 60.0
MOST_MINUTES: Final = 5
"""So many are kept for those who ask late."""
MOST_ANSWER_BYTES: Final = 4 * 1024**2
"""No answer is longer."""
PATH: Final = "/samples"


class ContainerMinute(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One container in one minute. A fraction is a share of the time it was seen; None where it is 0, or not known."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    seconds: float = 0.0
    """How long its CPU was seen: less than a minute where it began or ended within."""
    cpu_cores: float | None = None
    """Used on average in that time; None where it was seen too shortly to tell."""
    cpu_peak_cores: float | None = None
    """Used in the busiest interval between two readings."""
    memory_peak_bytes: float | None = None
    """The largest working set at a reading."""
    throttled_fraction: float | None = None
    """Of the periods in which it ran, those in which its CPU limit stopped it."""
    cpu_pressure_fraction: float | None = None
    """The time in which some of its tasks waited for a processor; cgroup v1 does not tell it."""
    memory_pressure_fraction: float | None = None
    """The time in which some of its tasks waited for memory; cgroup v1 does not tell it."""
    oom_kills: int = 0
    """Processes of it that the kernel killed for want of memory."""


class Minute(Struct, frozen=True, gc=False, rename="camel"):
    """All containers of a node in one minute."""

    at: int
    """Its end by the node's clock in Unix seconds: a name to ask after, not a time to trust."""
    age_seconds: float
    """How long ago it ended, by a clock that nobody sets."""
    containers: list[ContainerMinute]


class NodeMinutes(Struct, frozen=True, gc=False):
    """The answer: the minutes after the one that was named, oldest first."""

    node: str
    minutes: list[Minute]
