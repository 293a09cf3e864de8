"""Writes to the API server, a few under way at a time.

Owns how many. What is written, and what becomes of a failure, is the caller's matter.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def write_all(writes: list[Coroutine[Any, Any, None]], at_once: int) -> None:
    """Do all of them."""
    places = asyncio.Semaphore(at_once)

    async def one(write: Coroutine[Any, Any, None]) -> None:
        async with places:
            await write

    await asyncio.gather(*(one(write) for write in writes))
