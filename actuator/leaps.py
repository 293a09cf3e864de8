"""Whether a container's memory still leaps, where the kernel can not hold it (cgroup v1).

Owns when a leap is over: only then is the API asked. A request in its midst would be put in force by the kubelet when
the cgroup is further up already, and lower it; and it takes time from those who raise.
"""

import math
from typing import Final

from actuator.spikerules import SpikeRules
from elastipod.headroom import MIB

_STILL_BYTES: Final = MIB
"""So much up or down is no growth and no fall."""


class Leap:
    """One container's leap, from its first raise until usage falls or stands still."""

    __slots__ = ("_ends_by", "_grown_at", "_grown_bytes", "_rules")

    def __init__(self, rules: SpikeRules, now: float) -> None:
        self._rules = rules
        self._ends_by = math.inf
        self._grown_bytes, self._grown_at = 0, now

    @property
    def is_on(self) -> bool:
        return self._ends_by < math.inf

    def raised(self, now: float) -> None:
        """The cgroup was raised: a leap begins, or goes on."""
        self._ends_by = min(self._ends_by, now + self._rules.leap_seconds)
        self._grown_at = now

    def ends(self, current_bytes: int, now: float) -> bool:
        """A look at usage: whether the leap is over with it."""
        if not self.is_on:
            self._grown_bytes = current_bytes
            return False
        if current_bytes > self._grown_bytes + _STILL_BYTES:
            self._grown_bytes, self._grown_at = current_bytes, now
        falls = current_bytes < self._grown_bytes - _STILL_BYTES
        if not falls and now < min(self._grown_at + self._rules.settle_seconds, self._ends_by):
            return False
        self._ends_by = math.inf
        return True
