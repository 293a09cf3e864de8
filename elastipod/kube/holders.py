"""The names that Leases are held by: each means one process, on one machine.

Owns the name and whether its process has surely ended. What follows from that is leadership.py's matter.
"""

import os
import socket
from pathlib import Path
from typing import Final

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_MOST_DIGITS: Final = 9


def own_name() -> str:
    """This process as `HOST_PID_PLACE`."""
    return f"{socket.gethostname()}_{os.getpid()}_{_place()}"


def has_ended(name: str) -> bool:
    """Whether that process ran where we do, and is there no more. Elsewhere one can not know."""
    _, pid, place = ("", "", *name.rsplit("_", 2))[-3:]
    if not place or place != _place() or not pid.isdecimal() or len(pid) > _MOST_DIGITS:
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        # It is there, and another user's.
        pass
    return False


def _place() -> str:
    """The boot and the process ids' namespace: in both, a process id is one process at a time. Empty if unknown."""
    try:
        return f"{_BOOT.read_text('ascii').strip()}.{Path('/proc/self/ns/pid').stat().st_ino:x}"
    except OSError:
        return ""
