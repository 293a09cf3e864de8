"""Long loops that let others have their turn: the lease, the probes, the watches.

Owns how much is done in one go. It is counted and not timed, so that a simulation repeats.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

T = TypeVar("T")

IN_ONE_GO: Final = 100
"""Things of a millisecond each at most."""


async def in_turns(many: Iterable[T], in_one_go: int = IN_ONE_GO) -> AsyncIterator[T]:
    """All of them, with a pause for others every so many."""
    for number, one in enumerate(many, start=1):
        yield one
        if number % in_one_go == 0:
            await asyncio.sleep(0)


def in_parts(many: Iterable[T], size: int = 10 * IN_ONE_GO) -> Iterator[list[T]]:
    """All of them, so many together: of what costs one look at everything."""
    left = iter(many)
    while part := list(islice(left, size)):
        yield part
