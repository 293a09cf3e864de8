"""How long until the next try.

Owns growth, ceiling and jitter of delays. Does not read the clock and waits for nothing.
"""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double from `first_seconds` up to `most_seconds`, each spread by `jitter`."""

    first_seconds: float = 1.0
    most_seconds: float = 300.0
    factor: float = 2.0
    jitter: float = 0.0
    """A fraction: a delay lies between itself and (1 + jitter) of itself."""

    def delay_seconds(self, tries: int, spread: random.Random | None = None) -> float:
        """The wait after the given number of failed tries (1 = the first)."""
        exponent = min(max(tries - 1, 0), 64)
        delay = min(self.first_seconds * self.factor**exponent, self.most_seconds)
        if self.jitter and spread is not None:
            delay *= 1.0 + self.jitter * spread.random()
        return delay
