"""Lets go of what is held when the actuator is silent: a process of its own, with the standard library alone.

    python -m actuator.guard STATE_FOLDER [CGROUP_ROOT]

Owns the dead man's switch. The actuator locks and beats a heartbeat and, before any hold, writes a lease into its
journal. When its lock falls (it died) or the beat stays out (it hangs), each leased group is thawed and its
`memory.high` lifted (on v1 the OOM killer is switched on again), and until the actuator is back, standby.py raises in
its place. No limit is ever lowered. SIGTERM or SIGINT end it, after lifting what is held if the actuator is silent.
"""

import fcntl
import json
import os
import resource
import signal
import sys
import threading
import zlib
from contextlib import suppress

from actuator.priority import run_first
from actuator.reach import open_below
from actuator.standby import Lease, Standby

LOOK_SECONDS = 0.1
SILENT_LOOKS = 4
"""The actuator is silent when its beat is the same for so many looks."""
HEARTBEAT = "heartbeat"
JOURNAL = "journal"
_FREEZER_V1 = "freezer"


def last_beat(folder: str) -> float | None:
    """The second of the last beat; 0 after a stop in good order, None where there never was one."""
    try:
        with open(os.path.join(folder, HEARTBEAT), "rb") as file:
            return float(file.read(64))
    except (OSError, ValueError):
        return None


def leases(folder: str, boot: str) -> list[Lease]:
    """The groups under lease in this boot."""
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
        Lease(
            2 if value.get("version") == 2 else 1,
            str(value.get("parent") or ""),
            value["group"],
            ceiling if isinstance(ceiling := value.get("ceiling"), int) else 0,
        )
        for value in found.values()
        if isinstance(value, dict) and isinstance(value.get("group"), str) and value["group"].strip("/")
    ]


def release(root: str, version: int, parent: str, group: str) -> bool:
    """Let a group go; whether something was held."""
    path = f"{parent}/{group}"
    if version == 2:
        _write(root, path, "cgroup.freeze", b"0")
        return _write(root, path, "memory.high", b"max")
    _write(os.path.join(root, _FREEZER_V1), path, "freezer.state", b"THAWED")
    return _write(os.path.join(root, "memory"), path, "memory.oom_control", b"0")


def _write(root: str, group: str, name: str, value: bytes) -> bool:
    """Replace a file's value when it is another; whether it was."""
    try:
        fd = open_below(root, group, name)
    except OSError:
        return False
    try:
        text = os.pread(fd, 256, 0)
        if text.split()[:1] == [value] or b"oom_kill_disable 0" in text:
            return False
        return os.pwrite(fd, value + b"\n", 0) > 0
    except OSError:
        return False
    finally:
        os.close(fd)


def let_go(folder: str, root: str, boot: str) -> int:
    """Release all leased groups; how many were held."""
    return sum(release(root, one.version, one.parent, one.group) for one in leases(folder, boot))


class Guard:
    """One look after the other, `LOOK_SECONDS` apart. It reads no clock: what counts is whether the beat changes."""

    def __init__(self, folder: str, root: str, boot: str) -> None:
        self.folder, self.root, self.boot = folder, root, boot
        self.restores = 0
        self.standby = Standby(folder, root)
        """Who raises while the actuator is silent."""
        self._journal: tuple[int, int, int] | None = None
        self._beat: float | None = None
        self._same_looks = 0

    @property
    def look_seconds(self) -> float:
        """Until the next look."""
        return self.standby.look_seconds if self.is_silent else LOOK_SECONDS

    def died(self) -> int:
        """The actuator's lock fell: no need to wait for its beat to stay out."""
        if last_beat(self.folder) in (0, None) or self.is_silent:
            return 0
        self._beat, self._same_looks = last_beat(self.folder), SILENT_LOOKS
        return self._stand_by()

    def look(self) -> int:
        """Let go once the beat stays out, and again each second of the silence; how many were let go."""
        beat = last_beat(self.folder)
        if beat != self._beat or beat == 0:
            self._beat, self._same_looks = beat, 0
            self._prepare()
            return 0
        self._same_looks += 1
        if self._same_looks > SILENT_LOOKS and self._same_looks % max(round(1 / self.look_seconds), 1):
            # An actuator may have come back, written a lease and died before its first beat.
            self._prepare()
            self.standby.look()
            return 0
        return self._stand_by() if self.is_silent else 0

    def _stand_by(self) -> int:
        self.standby.look()
        self._prepare()
        self.standby.look()
        return self.let_go()

    def _prepare(self) -> None:
        """Follow the leases, so that nothing has to be read or opened when the actuator is gone."""
        try:
            found = os.stat(os.path.join(self.folder, JOURNAL))
        except OSError:
            return
        journal = (found.st_ino, found.st_size, found.st_mtime_ns)
        if journal != self._journal:
            self._journal = journal
            self.standby.prepare(leases(self.folder, self.boot))

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


def _watch_lock(folder: str) -> None:
    """Tell the main thread with SIGUSR1 whenever nobody holds the heartbeat's lock."""
    between = threading.Event()
    while True:
        with suppress(OSError), open(os.path.join(folder, HEARTBEAT), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            fcntl.flock(file, fcntl.LOCK_UN)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        between.wait(LOOK_SECONDS / 2)


def main(argv: list[str]) -> int:
    """Look until told to stop."""
    if not 2 <= len(argv) <= 3:
        sys.stderr.write("usage: python -m actuator.guard STATE_FOLDER [CGROUP_ROOT]\n")
        return 2
    folder, root = argv[1], argv[2] if len(argv) == 3 else "/sys/fs/cgroup"
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    run_first()
    with suppress(OSError, ValueError):
        # A leased container takes up to five files.
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    awaited = {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    guard = Guard(folder, root, boot)
    threading.Thread(target=_watch_lock, args=(folder,), daemon=True).start()
    while True:
        seen = signal.sigtimedwait(awaited, guard.look_seconds)
        if seen is None:
            guard.look()
        elif seen.si_signo == signal.SIGUSR1:
            guard.died()
        else:
            break
    if guard.is_silent:
        guard.let_go()
    return 0


if __name__ == "__main__":
    code = main(sys.argv)
    sys.stderr.flush()
    # Ending a thread that waits needs libgcc_s, which a small image has not: glibc would abort.
    os._exit(code)
