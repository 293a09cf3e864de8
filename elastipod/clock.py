"""The only reader of time.

Owns the wall clock (Unix seconds, for what is written down and compared with other machines), the
monotonic clock (for spans, deadlines and leases) and waiting. Everything else is handed a Clock.
"""

import asyncio
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """Time as the parts see it."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start that never jump."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait on the running event loop."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that moves only when told to; sleeping moves it."""

    def __init__(self, at: float = 1_700_000_000.0) -> None:
        self.at = at

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        """Move time on."""
        self.at += max(seconds, 0.0)


class LoopClock:
    """The running event loop's time: under a loop whose time is virtual, a simulation's clock."""

    def __init__(self, epoch: float = 1_700_000_000.0) -> None:
        self._epoch = epoch

    def now(self) -> float:
        return self._epoch + asyncio.get_running_loop().time()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def to_rfc3339(at: float) -> str:
    """`2026-11-29T16:00:00Z`, as Kubernetes writes metav1.Time."""
    return _second(int(at))


@lru_cache(maxsize=64)
def _second(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_rfc3339_micro(at: float) -> str:
    """With six digits of fraction, as Kubernetes writes metav1.MicroTime."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")[:26] + "Z"


def from_rfc3339(text: str) -> float:
    """Unix seconds. Raises ValueError."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except OverflowError as error:
        raise ValueError(f"{text[:40]!r}: {error}") from None
