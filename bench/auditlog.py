"""A real API server's audit log, read as it grows: who asked what, when, and when it was answered."""

from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec import Struct

from elastipod.clock import from_rfc3339


class _User(Struct):
    username: str = ""


class _Object(Struct):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class _Answer(Struct):
    code: int = 0


class _Line(Struct, rename="camel"):
    verb: str
    user: _User
    stage: str
    object_ref: _Object = msgspec.field(default_factory=_Object)
    response_status: _Answer = msgspec.field(default_factory=_Answer)
    request_received_timestamp: str = ""
    stage_timestamp: str = ""


_lines = msgspec.json.Decoder(_Line)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request and its answer; instants are Unix seconds."""

    user: str
    what: str
    """`patch pods/resize`"""
    key: str
    """`namespace/name`"""
    code: int
    at: float
    answered_at: float


class AuditLog:
    """What was asked since it was last read."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._rest = b""

    def read(self) -> list[Asked]:
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        return [asked for line in lines if (asked := _asked(_lines.decode(line))) is not None]

    def close(self) -> None:
        self._file.close()


def _asked(line: _Line) -> Asked | None:
    """None for the beginning of what is told again at its end."""
    if line.stage == "ResponseStarted":
        return None
    what = line.object_ref
    sub = f"/{what.subresource}" if what.subresource else ""
    return Asked(
        line.user.username.rpartition(":")[2],
        f"{line.verb} {what.resource}{sub}",
        f"{what.namespace}/{what.name}",
        line.response_status.code,
        from_rfc3339(line.request_received_timestamp),
        from_rfc3339(line.stage_timestamp),
    )
