"""A container's output, as `kubectl logs` wants it.

Owns the last so many lines and following a file that grows. Where the file lies is the runtime's matter.
"""

import os
from collections.abc import AsyncGenerator, Callable
from typing import Final

from elastipod.clock import Clock

_PIECE: Final = 65_536
_FOLLOW_SECONDS: Final = 0.2


async def read_log(
    path: str | None, tail: int | None, clock: Clock, goes_on: Callable[[], bool] | None
) -> AsyncGenerator[bytes, None]:
    """The file's last `tail` lines, or all of it; then what is added while `goes_on`. Raises FileNotFoundError."""
    if not path:
        raise FileNotFoundError("the container has not run")
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW)) as file:
        if tail is not None:
            file.seek(_start_of_tail(file.fileno(), tail))
        while True:
            # Asked before reading, so that what was written before the end is read.
            more = goes_on is not None and goes_on()
            while piece := file.read(_PIECE):
                yield piece
            if not more:
                return
            await clock.sleep(_FOLLOW_SECONDS)


def _start_of_tail(descriptor: int, lines: int) -> int:
    """Where the last so many lines begin."""
    end = os.fstat(descriptor).st_size
    if lines <= 0 or end == 0:
        return end if lines <= 0 else 0
    # A newline at the very end ends the last line, it does not begin another.
    at, wanted = end - 1, lines
    while at > 0:
        begin = max(at - _PIECE, 0)
        piece = os.pread(descriptor, at - begin, begin)
        found = len(piece)
        while wanted and (found := piece.rfind(b"\n", 0, found)) >= 0:
            wanted -= 1
        if not wanted:
            return begin + found + 1
        at = begin
    return 0
