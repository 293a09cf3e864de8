"""Lets go of what is held when the actuator is silent: a process of its own, with the standard library alone.

    python -m actuator.guard STATE_FOLDER [CGROUP_ROOT]

Owns the dead man's switch. The actuator writes a heartbeat and, before any hold, a lease into its journal; when the
beat stays out, each leased group is thawed and its `memory.high` lifted (on v1 the OOM killer is switched on again).
It never lowers a limit. It ends with SIGTERM or SIGINT, after lifting what is held if the actuator is silent by then.
"""

import ctypes
import json
import os
import signal
import sys
import zlib
from contextlib import suppress

LOOK_SECONDS = 0.1
SILENT_LOOKS = 4
"""The actuator is silent when its beat is the same for so many looks."""
_LET_GO_EVERY = 10
HEARTBEAT = "heartbeat"
JOURNAL = "journal"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FREEZER_V1 = "freezer"


def last_beat(folder: str) -> float | None:
    """The second of the last beat; 0 after a stop in good order, None where there never was one."""
    try:
        with open(os.path.join(folder, HEARTBEAT), "rb") as file:
            return float(file.read(64))
    except (OSError, ValueError):
        return None


def leases(folder: str, boot: str) -> list[tuple[int, str, str]]:
    """The groups under lease in this boot, as `(version, parent, group)`."""
    found: dict[str, object] = {}
    try:
        with open(os.path.join(folder, JOURNAL), "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return []
    for line in lines:
        checksum, _, body = line.partition(b" ")
        try:
            if int(checksum, 16) != zlib.crc32(body):
                continue
            key, written_in, value = json.loads(body)
        except (ValueError, TypeError):
            continue
        if isinstance(key, str) and key.startswith("lease/"):
            found[key] = value if written_in == boot else None
    return [
        (2 if value.get("version") == 2 else 1, str(value.get("parent") or ""), value["group"])
        for value in found.values()
        if isinstance(value, dict) and isinstance(value.get("group"), str)
    ]


def release(root: str, version: int, parent: str, group: str) -> bool:
    """Let a group go; whether something was held."""
    path = [part for part in f"{parent}/{group}".split("/") if part]
    if version == 2:
        _write(root, path, "cgroup.freeze", b"0")
        return _write(root, path, "memory.high", b"max")
    _write(os.path.join(root, _FREEZER_V1), path, "freezer.state", b"THAWED")
    return _write(os.path.join(root, "memory"), path, "memory.oom_control", b"0")


def _write(root: str, path: list[str], name: str, value: bytes) -> bool:
    """Replace a file's value when it is another; walked folder by folder, no link followed."""
    folder = -1
    try:
        folder = os.open(root, _FOLDER)
        for part in path:
            if part in (".", ".."):
                return False
            above, folder = folder, os.open(part, _FOLDER, dir_fd=folder)
            os.close(above)
        fd = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            if os.pread(fd, 64, 0).split()[:1] == [value] or b"oom_kill_disable 0" in os.pread(fd, 256, 0):
                return False
            return os.pwrite(fd, value + b"\n", 0) > 0
        finally:
            os.close(fd)
    except OSError:
        return False
    finally:
        if folder >= 0:
            os.close(folder)


def let_go(folder: str, root: str, boot: str) -> int:
    """Release all leased groups; how many were held."""
    return sum(release(root, version, parent, group) for version, parent, group in leases(folder, boot))


class Guard:
    """One look after the other, `LOOK_SECONDS` apart. It reads no clock: what counts is whether the beat changes."""

    def __init__(self, folder: str, root: str, boot: str) -> None:
        self.folder, self.root, self.boot = folder, root, boot
        self.restores = 0
        self._beat: float | None = None
        self._same_looks = 0

    def look(self) -> int:
        """Let go once the beat stays out, and again each second of the silence; how many were let go."""
        beat = last_beat(self.folder)
        if beat != self._beat or beat == 0:
            self._beat, self._same_looks = beat, 0
            return 0
        self._same_looks += 1
        if self._same_looks < SILENT_LOOKS or (self._same_looks - SILENT_LOOKS) % _LET_GO_EVERY:
            return 0
        return self.let_go()

    def let_go(self) -> int:
        """Lift every hold under lease."""
        restored = let_go(self.folder, self.root, self.boot)
        if restored:
            self.restores += restored
            sys.stderr.write(f"the actuator is silent: {restored} containers were let go\n")
            self._count()
        return restored

    @property
    def is_silent(self) -> bool:
        return self._same_looks >= SILENT_LOOKS

    def _count(self) -> None:
        """For the actuator's metric. Letting go needs no disk, so a full one is no matter."""
        path = os.path.join(self.folder, "guard_restores")
        with suppress(OSError), open(path, "w", encoding="ascii") as file:
            file.write(f"{self.restores}\n")


def main(argv: list[str]) -> int:
    """Look until told to stop."""
    if not 2 <= len(argv) <= 3:
        sys.stderr.write("usage: python -m actuator.guard STATE_FOLDER [CGROUP_ROOT]\n")
        return 2
    folder, root = argv[1], argv[2] if len(argv) == 3 else "/sys/fs/cgroup"
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mlockall(7)
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -15)
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    guard = Guard(folder, root, boot)
    while signal.sigtimedwait(ends, LOOK_SECONDS) is None:
        guard.look()
    if guard.is_silent:
        guard.let_go()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
