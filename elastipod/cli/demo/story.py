"""Telling the demo as it happens.

Owns the words' form on the terminal: time, colour where there is a terminal, a picture of memory over time.
"""

import os
from collections.abc import Sequence
from typing import Final, TextIO

from elastipod.clock import Clock
from elastipod.quantities import show_memory

_BARS: Final = "▁▂▃▄▅▆▇█"
_WIDTH: Final = 60


class Story:
    """Lines with the seconds since the demo began."""

    def __init__(self, clock: Clock, stream: TextIO) -> None:
        self._clock = clock
        self._stream = stream
        self._began = clock.monotonic()
        self._colour = stream.isatty() and not os.environ.get("NO_COLOR")

    def heading(self, text: str) -> None:
        """The title of an act."""
        self._stream.write(f"\n{self._painted(text, '1')}\n")
        self._stream.flush()

    def tell(self, text: str) -> None:
        """One thing that happened."""
        self._line(text)

    def good(self, text: str) -> None:
        """One thing that went well."""
        self._line(self._painted(text, "32"))

    def bad(self, text: str) -> None:
        """One thing that went ill."""
        self._line(self._painted(text, "31"))

    def picture(self, memory: Sequence[tuple[int, int]]) -> None:
        """Memory used and the limit over time, `(used, limit)` in bytes, oldest first."""
        if not memory:
            return
        step = max(len(memory) / _WIDTH, 1.0)
        shown = [memory[int(index * step)] for index in range(round(len(memory) / step))]
        most = max(max(used, limit) for used, limit in shown) or 1
        for name, index in (("memory", 0), ("limit ", 1)):
            bars = "".join(_BARS[min(one[index] * len(_BARS) // (most + 1), len(_BARS) - 1)] for one in shown)
            self._stream.write(f"         {name} {bars} {show_memory(max(one[index] for one in memory))} at most\n")
        self._stream.flush()

    def _line(self, text: str) -> None:
        self._stream.write(f"  {self._clock.monotonic() - self._began:5.1f}s {text}\n")
        self._stream.flush()

    def _painted(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text
