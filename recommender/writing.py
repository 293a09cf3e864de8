"""Writes to the API server, a few under way at a time.

Owns how many. What is written, and what becomes of a failure, is the caller's matter.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

Write = Callable[[], Awaitable[None]]


async def write_all(writes: Iterable[Write], at_once: int) -> None:
    """Do all of them; one whose turn does not come before we are stopped never begins."""
    waiting = iter(writes)

    async def work() -> None:
        for write in waiting:
            await write()

    await asyncio.gather(*(work() for _ in range(at_once)))
