"""The time that histories are stamped with.

Owns one rule: when the wall clock jumps, history neither ages away nor lies in the future; small corrections are
followed.
"""

from typing import Final

from elastipod.clock import Clock

_JUMP_SECONDS: Final = 900.0


class Timeline:
    """Unix seconds that go on with the monotonic clock where the wall clock leaps."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = clock.now() - clock.monotonic()

    def now(self) -> float:
        """The time now."""
        offset = self._clock.now() - self._clock.monotonic()
        if abs(offset - self._offset) < _JUMP_SECONDS:
            self._offset = offset
        return self._clock.monotonic() + self._offset
