"""Answers of Prometheus' HTTP API, read while they arrive.

Owns the way from bytes to series, one at a time and never all at once; their points are points.py's matter. A broken
series costs only itself; an answer that does not end as it should is known as such. Fetches nothing.
"""

from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

_MOST_PIECE: Final = 4 * 1024**2
"""A series of 11,000 points takes a tenth of it."""
_MOST_NAME: Final = 512
"""A longer label value is nobody's name."""
_MOST_ENDS: Final = 64
_MOST_JOINED: Final = 8

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class BadAnswer(ValueError):
    """An answer that is cut off, is no JSON, or is not one of Prometheus'."""


class Series(Struct, gc=False):
    """One series as it stands in an answer: `values` of a range, `value` of an instant."""

    metric: dict[str, str]
    values: msgspec.Raw = msgspec.Raw(b"[]")
    value: msgspec.Raw = msgspec.Raw(b"[]")


class _Metric(Struct, gc=False):
    """The beginning of a series."""

    metric: dict[str, str]


class Envelope(Struct, rename="camel"):
    """What stands around the series."""

    status: str
    error: str = ""
    error_type: str = ""
    warnings: list[str] | None = None
    is_partial: bool = False
    """VictoriaMetrics says so; others warn."""

    @property
    def told(self) -> list[str]:
        """What the server says may be missing."""
        warnings = [warning[:200] for warning in (self.warnings or [])[:5]]
        return [*warnings, "the answer is partial"] if self.is_partial else warnings


_envelopes: Final = msgspec.json.Decoder(Envelope)
_series: Final = msgspec.json.Decoder(Series)
_metrics: Final = msgspec.json.Decoder(_Metric)
_label_sets: Final = msgspec.json.Decoder(dict[str, str])


class Decoder(Protocol[T_co]):
    """Reads one element. Raises DecodeError."""

    def decode(self, buf: bytes, /) -> T_co: ...


class _PointsUnread:
    """Reads a series' labels and leaves its points as they are: they are most of an answer, and read once is enough."""

    def decode(self, buf: bytes, /) -> Series:
        # Within a label each quote is escaped, so this can not stand in one; and points hold no brace.
        head = buf.find(b',"values":[[')
        if head < 0 or buf.find(b"}", head) != len(buf) - 1:
            return _series.decode(buf)
        return Series(_metrics.decode(buf[:head] + b"}").metric, msgspec.Raw(buf[head + len(',"values":') : -1]))


class Elements(Generic[T]):
    """The elements of the one long list in an answer, and the envelope around it."""

    def __init__(self, opening: bytes, ending: bytes, decoder: Decoder[T]) -> None:
        """The list begins after `opening`; each element ends with `ending`."""
        self._opening = opening
        self._ending = ending
        self.decoder = decoder
        self._head = b""
        self._rest = b""
        self._begin = b""
        self._held: list[bytes] = []
        self.bad = 0
        """Elements that made no sense."""

    def feed(self, chunk: bytes) -> Iterator[T]:
        """The elements that are complete by now. Raises BadAnswer."""
        self._rest += chunk
        if not self._head:
            head, opening, rest = self._rest.partition(self._opening)
            if opening:
                self._head, self._rest = head + opening, rest
        if self._head:
            *pieces, self._rest = self._rest.split(self._ending + b",{")
            for piece in pieces:
                yield from self._read(self._begin + piece + self._ending)
                self._begin = b"{"
        if len(self._rest) > _MOST_PIECE:
            raise BadAnswer(f"more than {_MOST_PIECE} bytes without a whole series")

    def close(self) -> tuple[list[T], Envelope]:
        """The last elements and the envelope. Raises BadAnswer where the answer is not whole."""
        if not self._head:
            return [], _envelope(self._rest)
        ends = self._end(self._begin + self._rest)
        if ends is None and self._held:
            # What looks like the end of an element may stand in the envelope too.
            held, self._held = self._held, []
            ends = self._end(b",{".join([*held, self._rest]))
        if ends is None:
            raise BadAnswer("it is cut off")
        last, envelope = ends
        found = list(self._read(last)) if last else []
        self.bad += bool(self._held)
        return found, envelope

    def _end(self, rest: bytes) -> tuple[bytes, Envelope] | None:
        """The last element and the envelope; None where no place makes sense as the end of the list."""
        end = 0 if rest.startswith(b"]") else rest.find(b"}]") + 1
        for _ in range(_MOST_ENDS):
            if not end and not rest.startswith(b"]"):
                return None
            try:
                return rest[:end], _envelope(self._head + rest[end:])
            except BadAnswer:
                end = rest.find(b"}]", end) + 1
        return None

    def _read(self, whole: bytes) -> Iterator[T]:
        """An element. What looks like the end of one may stand in a label, so what is broken is tried with the next."""
        joined = [*self._held, whole[1:] if self._held else whole]
        for parts in ((whole,), joined) if self._held else (joined,):
            try:
                element = self.decoder.decode(b",{".join(parts))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            self.bad += len(parts) < len(joined)
            self._held = []
            yield element
            return
        is_hopeless = len(joined) > _MOST_JOINED
        self.bad += is_hopeless
        self._held = [] if is_hopeless else joined


def range_answer() -> Elements[Series]:
    """For the answer to a range query."""
    return Elements(b'"result":[', b"]]}", _PointsUnread())


def instant_answer() -> Elements[Series]:
    """For the answer to an instant query."""
    return Elements(b'"result":[', b"]}", _series)


def label_sets_answer() -> Elements[dict[str, str]]:
    """For the answer to a question for series."""
    return Elements(b'"data":[', b"}", _label_sets)


def _envelope(text: bytes) -> Envelope:
    try:
        return _envelopes.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer(f"it is not what Prometheus answers: {str(error)[:200]}") from None


def name_in(labels: dict[str, str], label: str) -> str:
    """The value of a label that names something; nothing where it is too long for that."""
    text = labels.get(label, "")
    return text if len(text) <= _MOST_NAME else ""
