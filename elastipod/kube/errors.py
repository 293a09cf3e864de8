"""What can go wrong at the API server.

KubeError
├── NotLeader            nothing was sent: the lead is another's
├── Unreachable          no answer: refused, reset, timed out; the outcome of a write is unknown
└── StatusError          the server answered with a Status
    ├── BadRequest       400, 415
    ├── Forbidden        401, 403: a right is missing, quota, LimitRange, a policy
    ├── NotFound         404
    │   └── NotServed    the API server knows no such path: an older Kubernetes, a definition or an API that is missing
    ├── Conflict         409: the object has moved on, or exists already
    ├── Gone             410: the resource version is too old; list again
    ├── Invalid          422: refused by validation, for good for this shape
    ├── TooManyRequests  429: wait `retry_after_seconds`
    └── ServerError      5xx
"""

from dataclasses import dataclass, field
from typing import Final

import msgspec


class KubeError(Exception):
    """A failure at the API server."""


class Unreachable(KubeError):
    """No answer. A write may or may not have happened: read before writing again."""


class NotLeader(KubeError):
    """A write was held back, as the lead is not ours; nothing was sent."""


@dataclass(frozen=True, slots=True)
class StatusCause:
    """One entry of a Status' details.causes."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusError(KubeError):
    """The server answered with a failure.

    `code` is the HTTP status, `reason` the Status' reason (`Invalid`, `Conflict`, ...), `causes` its details.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        causes: tuple[StatusCause, ...] = (),
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message or reason)
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after_seconds = retry_after_seconds


class BadRequest(StatusError):
    """400, 415."""


class Forbidden(StatusError):
    """401, 403."""


class NotFound(StatusError):
    """404."""


class NotServed(NotFound):
    """404 that speaks of the path and of no object."""


class Conflict(StatusError):
    """409."""


class Gone(StatusError):
    """410."""


class Invalid(StatusError):
    """422."""


class TooManyRequests(StatusError):
    """429."""


class ServerError(StatusError):
    """5xx."""


_BY_CODE: dict[int, type[StatusError]] = {
    400: BadRequest,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""
    field: str = ""


class _Details(msgspec.Struct, rename="camel"):
    causes: list[_Cause] = []
    retry_after_seconds: float | None = None


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""
    code: int = 0
    details: _Details | None = None


_decoder = msgspec.json.Decoder(_Status)
_MOST_DIGITS: Final = 6
"""Of seconds to wait: a server that says more says nothing."""
_NO_SUCH_PATH = "the server could not find the requested resource"


@dataclass(frozen=True, slots=True)
class RawStatus:
    """An HTTP failure as it came: code, body, and the Retry-After header where there was one."""

    code: int
    body: bytes
    retry_after: str = field(default="")


def status_error(raw: RawStatus) -> StatusError:
    """The exception for a failed answer, whatever its body holds."""
    try:
        status = _decoder.decode(raw.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = _Status(message=raw.body[:300].decode("utf-8", "replace"))
    causes: tuple[StatusCause, ...] = ()
    retry_after: float | None = None
    if status.details is not None:
        causes = tuple(StatusCause(cause.reason, cause.message, cause.field) for cause in status.details.causes)
        retry_after = status.details.retry_after_seconds
    if raw.retry_after.isascii() and raw.retry_after.isdigit() and len(raw.retry_after) <= _MOST_DIGITS:
        retry_after = float(raw.retry_after)
    code = status.code or raw.code
    kind = _BY_CODE.get(code, ServerError if code >= 500 else StatusError)
    # Of a path that nobody has taken on, the API server speaks in plain text.
    if kind is NotFound and (not status.reason or status.message == _NO_SUCH_PATH):
        kind = NotServed
    return kind(code, status.reason, status.message, causes, retry_after)
