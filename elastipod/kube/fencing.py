"""The fence around the writes of a leader.

Owns refusing a write without the lead and cutting one off that would outlast it. Who leads is leadership.py's matter.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from elastipod.kube.calls import Call, InterceptedConnection
from elastipod.kube.connection import Connection
from elastipod.kube.errors import NotLeader, Unreachable

T = TypeVar("T")


class FencedConnection(InterceptedConnection):
    """Reads pass; writes need the lead, and end before it may be another's.

    `seconds_left` says how long nobody else may write.
    """

    def __init__(self, inner: Connection, seconds_left: Callable[[], float]) -> None:
        super().__init__(inner)
        self._seconds_left = seconds_left

    async def handle(self, call: Call) -> bytes:
        if not call.is_write:
            return await super().handle(call)
        left = self._seconds_left()
        if left <= 0:
            raise NotLeader("the lease is not ours, so nothing was sent")
        if self.call_seconds <= left:
            # It ends in time by itself.
            return await super().handle(call)
        return await within(left, super().handle(call))


async def within(seconds: float, work: Awaitable[T]) -> T:
    """What comes of work with a time limit; past it, the outcome is unknown. Raises Unreachable."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise Unreachable(f"no answer within {seconds:.1f} s") from None
