"""The fence around the writes of a leader.

Owns refusing a write without the lead and cutting one off that would outlast it. Who leads is leadership.py's matter.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from elastipod.kube.calls import Call, InterceptedConnection
from elastipod.kube.connection import Connection
from elastipod.kube.errors import NotLeader, Unreachable


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
        async with within(left):
            return await super().handle(call)


@asynccontextmanager
async def within(seconds: float) -> AsyncGenerator[None, None]:
    """A time limit; past it, the outcome is unknown."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise Unreachable(f"no answer within {seconds:.1f} s") from None
