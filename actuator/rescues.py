"""How large a container's next raise is, and whether it was rescued too often.

Owns the memory of a container's rescues: raises shortly after one another belong to one rescue and double, and many
rescues in a while are a leak, which is not fed for ever.
"""

import math
from collections import deque
from typing import Final

from actuator.spikerules import SpikeRules, first_step

_MOST_DOUBLINGS: Final = 6


class Rescues:
    """One container's rescues; `begun` are those of earlier runs, by when they began."""

    __slots__ = ("_base_bytes", "_begun", "_first_raise_at", "_raises", "_rules")

    def __init__(self, rules: SpikeRules, base_bytes: int, begun: tuple[float, ...] = ()) -> None:
        self._rules, self._base_bytes = rules, base_bytes
        self._begun: deque[float] = deque(begun, maxlen=max(rules.most_rescues, 1))
        self._first_raise_at = -math.inf
        self._raises = 0

    def _goes_on(self, now: float) -> bool:
        return now - self._first_raise_at <= self._rules.rescue_seconds

    def raised(self, now: float) -> None:
        """A raise, which belongs to the rescue that goes on or begins one."""
        if not self._goes_on(now):
            self._first_raise_at, self._raises = now, 0
            self._begun.append(now)
        self._raises += 1

    def step(self, now: float, further: int = 0) -> int:
        """The next raise, or one of those that would follow it."""
        raises = (self._raises if self._goes_on(now) else 0) + further
        return first_step(self._base_bytes, self._rules) << min(raises, _MOST_DOUBLINGS)

    def is_leak(self, now: float) -> bool:
        """Whether another rescue would be one too many."""
        if self._goes_on(now):
            return False
        is_full = len(self._begun) == self._rules.most_rescues
        return is_full and now - self._begun[0] <= self._rules.rescue_window_seconds
