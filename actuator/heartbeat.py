"""The sign of life that the guard waits for.

Owns the file: one line with the monotonic second of the last beat, or `0` after a stop in good order. The guard
imports nothing of ours, so it reads this form on its own.
"""

import os
from pathlib import Path
from typing import Final

HEARTBEAT: Final = "heartbeat"
_WIDTH: Final = 24


class Heartbeat:
    """Written in place: nothing is allocated on a disk that may be full."""

    def __init__(self, folder: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(folder / HEARTBEAT, flags, 0o600)

    def beat(self, now: float) -> None:
        os.pwrite(self._fd, f"{now:<{_WIDTH - 1}.3f}\n".encode("ascii"), 0)

    def stop(self) -> None:
        """We end in good order, with nothing held."""
        os.pwrite(self._fd, f"{'0':<{_WIDTH - 1}}\n".encode("ascii"), 0)
        os.close(self._fd)
