"""What may be asked of a container's output.

Owns the query of `pods/log`. The output is the node's matter.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from elastipod.clock import from_rfc3339
from elastipod.localcluster.api.failures import (
    ApiFailure,
    Problem,
    bad_request,
    forbidden_field,
    invalid,
    invalid_value,
)
from elastipod.localcluster.api.requests import Request

_MOST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogWish:
    """Which part of the output is wanted, and how."""

    tail: int | None = None
    """So many lines of its end, counted before `since`."""
    since: float | None = None
    """Nothing that was written before this time (Unix seconds)."""
    limit_bytes: int | None = None
    has_timestamps: bool = False
    is_previous: bool = False
    """Of the run before this one."""
    follows: bool = False


class LogSource(Protocol):
    """Where `kubectl logs` gets its text. Raises ApiFailure, at the latest with the first piece."""

    def __call__(self, namespace: str, pod: str, container: str, wish: LogWish) -> AsyncGenerator[bytes, None]: ...


def log_wish(request: Request, pod: str, now: float) -> LogWish:
    """The query as a wish. Raises ApiFailure."""
    query = request.query
    if query.get("stream") not in (None, "", "All"):
        raise bad_request("stream is not served by the local cluster: both streams are one")
    seconds, instant = _whole(query, pod, "sinceSeconds", 1), query.get("sinceTime")
    if seconds is not None and instant is not None:
        raise _wrong(pod, forbidden_field("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    since = None if seconds is None else max(now - seconds, 0.0)
    if instant is not None:
        try:
            since = max(from_rfc3339(instant), 0.0)
        except ValueError:
            raise bad_request(f"sinceTime must be a time such as 2026-01-31T12:00:00Z, not {instant[:40]!r}") from None
    return LogWish(
        _whole(query, pod, "tailLines", 0),
        since,
        _whole(query, pod, "limitBytes", 1),
        request.flag("timestamps"),
        request.flag("previous"),
        request.flag("follow"),
    )


def _whole(query: Mapping[str, str], pod: str, name: str, least: int) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
        raise bad_request(f"{name} must be a whole number, not {text[:40]!r}")
    number = min(int(text), _MOST)
    if number < least:
        raise _wrong(pod, invalid_value(name, number, f"must be greater than{' or equal to' if least == 0 else ''} 0"))
    return number


def _wrong(pod: str, problem: Problem) -> ApiFailure:
    return invalid("PodLogOptions", "", pod, [problem])
