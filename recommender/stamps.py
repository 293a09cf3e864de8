"""Whose clock is wrong, where what is saved lies in the future.

Owns the answer, which the API server's own times give: those of an object's creation and of its writes.
"""

from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from elastipod.clock import from_rfc3339
from elastipod.kube.decoding import UNREADABLE

_LEEWAY_SECONDS: Final = 3_600.0


class _Write(Struct):
    time: str | None = None


class _Meta(Struct, rename="camel"):
    creation_timestamp: str | None = None
    managed_fields: list[_Write] | None = None


class _Stamped(Struct):
    metadata: _Meta


_stamped: Final = msgspec.json.Decoder(_Stamped)


def is_clock_right(raw: msgspec.Raw, now: float) -> bool:
    """Whether the server wrote an object by now, so that times in it that are still to come are its writer's fault.

    False also where that can not be told, for without the times of its writes it may have been written at any time.
    """
    try:
        meta = _stamped.decode(raw).metadata
    except UNREADABLE:
        return False
    written = [one.time for one in meta.managed_fields or () if one.time]
    latest = now + _LEEWAY_SECONDS
    return bool(written) and all(_at(text) <= latest for text in (*written, meta.creation_timestamp or written[0]))


def _at(text: str) -> float:
    with suppress(ValueError, OverflowError):
        return from_rfc3339(text)
    return float("inf")
