"""A container's output, as `kubectl logs` wants it.

Owns reading what shim.py writes: a line each, `TIME F TEXT`, or `TIME P TEXT` for a piece of a line that goes on. Where
the file lies is the runtime's matter.
"""

import os
from collections.abc import AsyncGenerator, Callable
from typing import Final

from elastipod.clock import Clock, to_rfc3339_micro
from elastipod.localcluster.api.logs import LogWish

_PIECE: Final = 65_536
_FOLLOW_SECONDS: Final = 0.2
_STAMP: Final = len("2026-01-31T12:00:00.123456789Z")
_TEXT: Final = _STAMP + len(" F ")


async def read_log(
    path: str | None, wish: LogWish, clock: Clock, goes_on: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    """What is wished of the file; where it is followed, also what is added while it `goes_on`.

    Raises FileNotFoundError.
    """
    if not path:
        raise FileNotFoundError("the container has not run")
    left = wish.limit_bytes
    lines = _Lines(wish)
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW)) as file:
        if wish.tail is not None:
            file.seek(_start_of_tail(file.fileno(), wish.tail))
        while True:
            # Asked before reading, so that what was written before the end is read.
            more = wish.follows and goes_on()
            while piece := file.read(_PIECE):
                text = lines.shown(piece)[:left]
                if text:
                    yield text
                if left is not None and (left := left - len(text)) <= 0:
                    return
            if not more:
                return
            await clock.sleep(_FOLLOW_SECONDS)


class _Lines:
    """From the file's bytes, as they come, to what is shown of them."""

    def __init__(self, wish: LogWish) -> None:
        # Times of one length are in order as texts are.
        self._since = b"" if wish.since is None else to_rfc3339_micro(wish.since)[:-1].encode()
        self._has_timestamps = wish.has_timestamps
        self._begins = True
        self._rest = b""

    def shown(self, piece: bytes) -> bytes:
        """The text of the lines that are whole now."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        return b"".join(self._shown(line) for line in lines if line >= self._since)

    def _shown(self, line: bytes) -> bytes:
        stamp = line[:_STAMP] + b" " if self._has_timestamps and self._begins else b""
        self._begins = line[_STAMP:_TEXT] != b" P "
        return stamp + line[_TEXT:] + (b"\n" if self._begins else b"")


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
