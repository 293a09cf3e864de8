"""The way to a file below a root, for the guard: the standard library alone.

Owns the walk: folder by folder, no link followed, nothing above the root.
"""

import os

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_below(root: str, group: str, name: str, flags: int = os.O_RDWR) -> int:
    """A descriptor of the group's file. Raises OSError."""
    folder = os.open(root, _FOLDER)
    try:
        for part in group.split("/"):
            if part in (".", ".."):
                raise PermissionError(f"{group!r} leads out of {root}")
            if part:
                above, folder = folder, os.open(part, _FOLDER, dir_fd=folder)
                os.close(above)
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
