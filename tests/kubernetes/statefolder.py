"""The folder that is one cluster's alone, and how to tell whether its cluster is dead.

A lock says it: each of the cluster's processes holds it, so it is free only when all have ended.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

PREFIX: Final = "elastipod-kubernetes-"
_MOST_PATH: Final = 60
"""A socket's path has at most 107 characters (unix(7))."""


class TooLong(Exception):
    """The folder for temporary files has too long a path."""


class StateFolder:
    """A folder that is one cluster's alone; its lock is held while any of the cluster's processes lives."""

    def __init__(self) -> None:
        """Raises TooLong."""
        if len(tempfile.gettempdir()) > _MOST_PATH:
            raise TooLong(f"TMPDIR is too long for the sockets in it; at most {_MOST_PATH} characters")
        # Under its own name only once it is locked, or another start would take it for a dead cluster's.
        unlocked = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
        self.lock = _locked(unlocked)
        self.path = unlocked.rename(unlocked.with_name(unlocked.name[1:]))

    @property
    def name(self) -> str:
        return self.path.name

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def left_behind() -> list[Path]:
    """State folders of ours whose cluster is dead."""
    found = []
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            if path.is_symlink() or path.stat().st_uid != os.geteuid():
                continue
            os.close(_locked(path))
        except OSError:
            continue
        found.append(path)
    return found


def _locked(folder: Path) -> int:
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock
