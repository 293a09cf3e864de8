"""The sign of life that the guard waits for.

Owns the file: one line with the monotonic second of the last beat, or `0` after a stop in good order; and its lock,
which falls the moment we die. The guard imports nothing of ours, so it reads this form on its own.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

HEARTBEAT: Final = "heartbeat"
_WIDTH: Final = 24


class Heartbeat:
    """Written in place: nothing is allocated on a disk that may be full."""

    def __init__(self, folder: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(folder / HEARTBEAT, flags, 0o600)
        self._is_locked = False

    def beat(self, now: float) -> None:
        if not self._is_locked:
            # The guard holds it for a moment while it looks; then the next beat has it.
            with suppress(BlockingIOError):
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._is_locked = True
        os.pwrite(self._fd, f"{now:<{_WIDTH - 1}.3f}\n".encode("ascii"), 0)

    def stop(self) -> None:
        """We end in good order, with nothing held."""
        os.pwrite(self._fd, f"{'0':<{_WIDTH - 1}}\n".encode("ascii"), 0)
        os.close(self._fd)
