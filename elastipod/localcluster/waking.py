"""Waiting for news or for time.

Owns that one task more is all it takes: those who wait do so at every turn.
"""

import asyncio

from elastipod.clock import Clock


async def wait_for_wake(wake: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Return when woken, or after so many seconds, which wakes as well; who waits clears the event before."""
    sleeping = asyncio.ensure_future(clock.sleep(seconds))
    sleeping.add_done_callback(lambda done: None if done.cancelled() else wake.set())
    try:
        await wake.wait()
    finally:
        sleeping.cancel()
