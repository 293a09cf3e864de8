"""Who else writes to a file: told by inotify, the moment it is written.

Owns the descriptor, its watches and the form of its events. What a change means is rescue.py's matter. Where systemd
makes the pods' cgroups it sets `memory.high` back at each change of any other value, and a container is dead before a
sweep would see that.
"""

import ctypes
import os
import struct
from typing import Final

_EVENT: Final = struct.Struct("iIII")
"""struct inotify_event (include/uapi/linux/inotify.h), its name left out, of which a file has none."""
_IN_MODIFY: Final = 0x00000002
_MOST_BYTES: Final = 4096


class Changes:
    """Open files, each by a key. Raises OSError where the kernel gives no inotify."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        """Readable when a file was written to."""
        self._keys: dict[int, str] = {}
        self._watches: dict[str, int] = {}

    def add(self, key: str, fd: int) -> None:
        """Tell of writes to what this descriptor is open for. Raises OSError."""
        watch = self._checked(self._libc.inotify_add_watch(self.fd, f"/proc/self/fd/{fd}".encode(), _IN_MODIFY))
        self._keys[watch], self._watches[key] = key, watch

    def drop(self, key: str) -> None:
        """Tell of it no longer."""
        watch = self._watches.pop(key, None)
        if watch is not None:
            del self._keys[watch]
            # The kernel has forgotten it by itself where the file is gone.
            self._libc.inotify_rm_watch(self.fd, watch)

    def take(self) -> list[str]:
        """Whose files were written to since, by us too; each once."""
        found: dict[str, None] = {}
        while True:
            try:
                events = os.read(self.fd, _MOST_BYTES)
            except BlockingIOError:
                return list(found)
            for place in range(0, len(events) - _EVENT.size + 1, _EVENT.size):
                key = self._keys.get(_EVENT.unpack_from(events, place)[0])
                if key is not None:
                    found[key] = None

    def close(self) -> None:
        os.close(self.fd)

    def _checked(self, answer: int) -> int:
        if answer < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return answer
