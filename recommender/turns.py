"""Long loops that let others have their turn: the lease, the probes, the watches.

Owns how much is done in one go. It is counted and not timed, so that a simulation repeats.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

IN_ONE_GO: Final = 500
"""Things of up to a millisecond each."""


async def in_turns(many: Iterable[T], in_one_go: int = IN_ONE_GO) -> AsyncIterator[T]:
    """All of them, with a pause for others every so many."""
    for number, one in enumerate(many, start=1):
        yield one
        if number % in_one_go == 0:
            await asyncio.sleep(0)
