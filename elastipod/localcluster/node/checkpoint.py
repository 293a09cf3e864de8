"""What was allocated and actuated, kept on disk.

Owns the file: written whole before any effect, checked when read, set aside by name when it is not what was written.
Amounts are whole numbers, so that no formatting can change the checksum.
"""

import contextlib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from elastipod.localcluster.node.sizes import Size, Sizes
from elastipod.quantities import Resources
from elastipod.telemetry import get_logger

log = get_logger(__name__)

VERSION: Final = 1


class BadCheckpoint(ValueError):
    """A file that is not what was written; the message says why."""


@dataclass(frozen=True, slots=True)
class Allocations:
    """Sizes by pod UID and container."""

    allocated: Mapping[str, Sizes] = field(default_factory=dict)
    actuated: Mapping[str, Sizes] = field(default_factory=dict)


class Checkpoint(Protocol):
    """Where a node keeps its allocations."""

    def load(self) -> Allocations | None:
        """What was saved last; None where there is nothing that can be trusted."""
        ...

    def save(self, allocations: Allocations) -> None:
        """Durable when this returns. Raises OSError."""
        ...


class MemoryCheckpoint:
    """Outlives a simulated node, not the process. Who saves never changes what was saved."""

    def __init__(self) -> None:
        self.saved = Allocations()

    def load(self) -> Allocations | None:
        return self.saved

    def save(self, allocations: Allocations) -> None:
        self.saved = allocations


class FileCheckpoint:
    """One file in the node's folder."""

    def __init__(self, folder: Path, name: str = "allocations.json") -> None:
        self._path = folder / name
        self._saved: bytes | None = None
        self.set_aside: Path | None = None
        """Where a file went that could not be read."""

    def load(self) -> Allocations | None:
        try:
            raw = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._put_aside(str(error))
            return None
        try:
            return decode(raw)
        except BadCheckpoint as error:
            self._put_aside(str(error))
            return None

    def save(self, allocations: Allocations) -> None:
        raw = encode(allocations)
        if raw == self._saved:
            return
        temporary = self._path.with_suffix(".tmp")
        try:
            with open(temporary, "wb", opener=_private) as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._saved = raw

    def _put_aside(self, why: str) -> None:
        for number in range(1, 1000):
            aside = self._path.with_name(f"{self._path.name}.bad-{number}")
            if not aside.exists():
                with contextlib.suppress(OSError):
                    os.replace(self._path, aside)
                    self.set_aside = aside
                log.warning("allocations are not believed and were set aside", file=str(aside), error=why)
                return


class _Amounts(Struct, omit_defaults=True, forbid_unknown_fields=True):
    cpu: int | None = None
    memory: int | None = None


class _Size(Struct, forbid_unknown_fields=True):
    requests: _Amounts
    limits: _Amounts


class _Data(Struct, forbid_unknown_fields=True):
    allocated: dict[str, dict[str, _Size]]
    actuated: dict[str, dict[str, _Size]]


class _Wrapper(Struct, forbid_unknown_fields=True):
    version: int
    checksum: str
    data: str


_wrappers: Final = msgspec.json.Decoder(_Wrapper)
_datas: Final = msgspec.json.Decoder(_Data)


def encode(allocations: Allocations) -> bytes:
    """The file's content; the payload is an opaque text, so that its checksum stays what it is."""
    data = _Data(_structs(allocations.allocated), _structs(allocations.actuated))
    text = msgspec.json.encode(data, order="deterministic").decode()
    return msgspec.json.encode(_Wrapper(VERSION, _checksum(text), text))


def decode(raw: bytes) -> Allocations:
    """What a file holds. Raises BadCheckpoint."""
    try:
        wrapper = _wrappers.decode(raw)
        if wrapper.version != VERSION:
            raise BadCheckpoint(f"version {wrapper.version} is not {VERSION}")
        if wrapper.checksum != _checksum(wrapper.data):
            raise BadCheckpoint("the checksum does not match")
        data = _datas.decode(wrapper.data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadCheckpoint(str(error)) from None
    return Allocations(_sizes(data.allocated), _sizes(data.actuated))


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _structs(sizes: Mapping[str, Sizes]) -> dict[str, dict[str, _Size]]:
    return {
        uid: {name: _Size(_amounts(one.requests), _amounts(one.limits)) for name, one in pod.items()}
        for uid, pod in sizes.items()
    }


def _sizes(data: dict[str, dict[str, _Size]]) -> dict[str, dict[str, Size]]:
    return {
        uid: {name: Size(_resources(one.requests), _resources(one.limits)) for name, one in pod.items()}
        for uid, pod in data.items()
    }


def _amounts(of: Resources) -> _Amounts:
    return _Amounts(of.cpu_millicores, of.memory_bytes)


def _resources(of: _Amounts) -> Resources:
    return Resources(of.cpu, of.memory)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
