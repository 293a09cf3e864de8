"""What must outlive the process: leases on holds, and intents of direct mode.

Owns the file. One record a line, `<crc32> <json>`; the last line of a key counts, `null` ends it. Lines are appended
and synced before any effect; the file is made anew (written beside, synced, renamed, its folder synced) when it has
grown.
What can not be read is set aside by name and said, never guessed. A lease of another boot is void.
"""

import json
import os
import threading
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from elastipod.telemetry import get_logger

log = get_logger(__name__)

JOURNAL: Final = "journal"
_LEAST_COMPACT: Final = 256
_MOST_BYTES: Final = 64 * 1024 * 1024
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")

Record = dict[str, Any]


def boot_id(path: Path = _BOOT_ID) -> str:
    """What tells this run of the machine from others."""
    return path.read_text("ascii").strip()


class Journal:
    """Records by key, on disk. Failures to write are OSError, and then nothing was recorded."""

    def __init__(self, folder: Path, boot: str, *, sync: Callable[[int], None] = os.fsync) -> None:
        self.path = folder / JOURNAL
        self.records: dict[str, Record] = {}
        self.set_aside: list[str] = []
        """Where damaged records went, by file."""
        self._folder, self._boot, self._sync = folder, boot, sync
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lines = 0
        self._fd = -1
        # Leases are written on the event loop, direct mode's intents in a thread.
        self._lock = threading.Lock()
        self._open()

    def put(self, records: Mapping[str, Record | None]) -> None:
        """Record these, None to end a key, all with one sync; returns once they are durable."""
        with self._lock:
            self._put({key: value for key, value in records.items() if self.records.get(key) != value})

    def _put(self, changed: Mapping[str, Record | None]) -> None:
        if not changed:
            return
        if self._lines + len(changed) > max(_LEAST_COMPACT, 4 * len(self.records)):
            kept = {key: value for key, value in {**self.records, **changed}.items() if value is not None}
            self._rewrite(kept)
            return
        data = b"".join(_line(key, value, self._boot) for key, value in changed.items())
        before = os.fstat(self._fd).st_size
        try:
            _write(self._fd, data)
            self._sync(self._fd)
        except OSError:
            # A half line would be set aside at the next start, with those behind it readable; better none at all.
            with suppress(OSError):
                os.ftruncate(self._fd, before)
            raise
        self._lines += len(changed)
        for key, value in changed.items():
            _apply(self.records, key, value)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        found, damaged = read_journal(self.path)
        if damaged:
            self._put_aside(damaged)
        for key, (boot, record) in found.items():
            if boot == self._boot or not key.startswith("lease/"):
                self.records[key] = record
        if damaged or len(self.records) != len(found) or not self.path.exists():
            self._rewrite(dict(self.records))
        else:
            self._fd = self._open_to_append()
            self._lines = len(found)

    def _put_aside(self, damaged: list[bytes]) -> None:
        number = 1
        while (aside := self._folder / f"{JOURNAL}.damaged-{number}").exists():
            number += 1
        with suppress(OSError):
            aside.write_bytes(b"\n".join(damaged) + b"\n")
            self.set_aside.append(str(aside))
        log.warning("journal records set aside", records=len(damaged), file=str(aside))

    def _rewrite(self, records: dict[str, Record]) -> None:
        fresh = self._folder / f"{JOURNAL}.new"
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _write(fd, b"".join(_line(key, value, self._boot) for key, value in records.items()))
            self._sync(fd)
        finally:
            os.close(fd)
        fresh.replace(self.path)
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._sync(folder)
        finally:
            os.close(folder)
        self.close()
        self._fd = self._open_to_append()
        self._lines = len(records)
        self.records = records

    def _open_to_append(self) -> int:
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)


def read_journal(path: Path) -> tuple[dict[str, tuple[str, Record]], list[bytes]]:
    """The records by key with the boot they were written in, and the lines that can not be read."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES)
    except FileNotFoundError:
        return {}, []
    found: dict[str, tuple[str, Record]] = {}
    damaged: list[bytes] = []
    *lines, rest = raw.split(b"\n")
    if rest:
        damaged.append(rest)
    for line in lines:
        try:
            key, boot, value = _parse(line)
        except ValueError:
            damaged.append(line)
            continue
        if value is None:
            found.pop(key, None)
        else:
            found[key] = (boot, value)
    return found, damaged


def _parse(line: bytes) -> tuple[str, str, Record | None]:
    checksum, _, body = line.partition(b" ")
    if len(checksum) != 8 or int(checksum, 16) != zlib.crc32(body):
        raise ValueError("the checksum is wrong")
    record = json.loads(body)
    if not isinstance(record, list) or len(record) != 3:
        raise ValueError("not a record")
    key, boot, value = record
    if not isinstance(key, str) or not isinstance(boot, str) or not (value is None or isinstance(value, dict)):
        raise ValueError("not a record")
    return key, boot, value


def _line(key: str, value: Record | None, boot: str) -> bytes:
    body = json.dumps([key, boot, value], separators=(",", ":")).encode("utf-8")
    return b"%08x %s\n" % (zlib.crc32(body), body)


def _apply(records: dict[str, Record], key: str, value: Record | None) -> None:
    if value is None:
        records.pop(key, None)
    else:
        records[key] = value


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
