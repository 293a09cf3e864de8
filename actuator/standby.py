"""Raises limits in the actuator's place while it is silent: the standard library alone.

Owns the looks at the leased containers between the actuator's death and its return. It cannot ask the API, so it only
raises, in steps, up to each lease's ceiling and not into the node's reserve, and leaves a note of what it raised: the
actuator asks for that when it is back.
"""

import os
from contextlib import suppress
from dataclasses import dataclass, field

from actuator.reach import open_below

NOTE = "standby"
"""The file with what was raised, a line `<group> <limit>` each; the last line of a group counts."""
_MIB = 1024 * 1024
_LEAST_STEP = 32 * _MIB
_RESERVE = 100 * _MIB
_UNLIMITED = 1 << 60
_FIRST_LOOK_SECONDS = 0.002
_LOOK_SECONDS_EACH = 0.00004


@dataclass(frozen=True)
class Lease:
    """A container under protection, as the actuator's journal has it."""

    version: int
    parent: str
    group: str
    ceiling_bytes: int = 0


@dataclass
class _Watched:
    lease: Lease
    usage: int
    limit: int
    swap: int
    pod_limit: int
    pod_swap: int
    descriptors: list[int] = field(default_factory=list)


class Standby:
    """The containers whose limits may be raised."""

    def __init__(self, folder: str, root: str) -> None:
        self._note, self._root = os.path.join(folder, NOTE), root
        self._watched: dict[Lease, _Watched] = {}

    @property
    def look_seconds(self) -> float:
        """Between two looks: short for few containers, and never a whole core for many."""
        return _FIRST_LOOK_SECONDS + len(self._watched) * _LOOK_SECONDS_EACH

    def prepare(self, leases: list[Lease]) -> None:
        """Have the files of these containers open, so that the first look takes no time."""
        wanted = {lease for lease in leases if lease.ceiling_bytes > 0}
        for lease in self._watched.keys() - wanted:
            _close(self._watched.pop(lease))
        for lease in wanted - self._watched.keys():
            with suppress(OSError):
                self._watched[lease] = _open(self._root, lease)

    def look(self) -> int:
        """Raise whoever is near its limit; how many were."""
        raised = 0
        for lease, one in list(self._watched.items()):
            try:
                raised += self._look_at(one)
            except OSError:
                _close(self._watched.pop(lease))
        return raised

    def _look_at(self, one: _Watched) -> bool:
        limit = _number(one.limit)
        if limit >= min(one.lease.ceiling_bytes, _UNLIMITED) or _number(one.usage) < limit - _gap(limit):
            return False
        step = min(max(limit // 2, _LEAST_STEP), one.lease.ceiling_bytes - limit, _spare_bytes())
        if step < _MIB:
            return False
        pod_limit = _number(one.pod_limit)
        if pod_limit < _UNLIMITED:
            _write(one.pod_swap, pod_limit + step)
            _write(one.pod_limit, pod_limit + step)
        _write(one.swap, limit + step)
        _write(one.limit, limit + step)
        with suppress(OSError), open(self._note, "a", encoding="ascii") as file:
            file.write(f"{one.lease.group} {limit + step}\n")
        return True


def take_note(folder: str) -> dict[str, int]:
    """What was raised while the actuator was away, by group; the note is gone then."""
    path = os.path.join(folder, NOTE)
    raised: dict[str, int] = {}
    try:
        # The guard may be writing: its next line goes into a note of its own.
        os.rename(path, path := f"{path}.taken")
        with open(path, encoding="ascii") as file:
            for line in file:
                group, _, limit = line.rstrip("\n").rpartition(" ")
                if group and limit.isdigit():
                    raised[group] = int(limit)
        os.unlink(path)
    except (OSError, ValueError):
        pass
    return raised


def _open(root: str, lease: Lease) -> _Watched:
    group = f"{lease.parent}/{lease.group}"
    pod = group.rpartition("/")[0]
    is_v2 = lease.version == 2
    below = root if is_v2 else os.path.join(root, "memory")
    limit_name = "memory.max" if is_v2 else "memory.limit_in_bytes"
    opened: list[int] = []

    def keep(where: str, name: str, flags: int = os.O_RDWR) -> int:
        opened.append(open_below(below, where, name, flags))
        return opened[-1]

    def keep_swap(where: str) -> int:
        if is_v2:
            return -1
        try:
            return keep(where, "memory.memsw.limit_in_bytes")
        except OSError:
            return -1

    try:
        return _Watched(
            lease,
            usage=keep(group, "memory.current" if is_v2 else "memory.usage_in_bytes", os.O_RDONLY),
            limit=keep(group, limit_name),
            swap=keep_swap(group),
            pod_limit=keep(pod, limit_name),
            pod_swap=keep_swap(pod),
            descriptors=opened,
        )
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        raise


def _close(one: _Watched) -> None:
    for descriptor in one.descriptors:
        os.close(descriptor)


def _gap(limit: int) -> int:
    """How near is near: 5 % or 16 MiB, at most a quarter of the limit."""
    return min(max(limit // 20, 16 * _MIB), limit // 4)


def _number(descriptor: int) -> int:
    text = os.pread(descriptor, 32, 0).strip()
    return _UNLIMITED if text == b"max" else int(text or b"0")


def _write(descriptor: int, limit: int) -> None:
    if descriptor >= 0:
        os.pwrite(descriptor, b"%d\n" % limit, 0)


def _spare_bytes() -> int:
    """What the node could still give."""
    with open("/proc/meminfo", "rb") as file:
        for line in file:
            if line.startswith(b"MemAvailable:"):
                return max(int(line.split()[1]) * 1024 - _RESERVE, 0)
    return 0
