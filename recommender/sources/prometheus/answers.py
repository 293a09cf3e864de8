"""Answers of Prometheus' HTTP API, read while they arrive.

Owns the way from bytes to series, one at a time and never all at once. A broken series costs only itself; an answer
that does not end as it should is known as such. Fetches nothing.
"""

from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from recommender.histogram import Floats, Ints

_MOST_PIECE: Final = 4 * 1024**2
"""A series of 11,000 points takes a tenth of it."""
_MOST_NAME: Final = 512
"""A longer label value is nobody's name."""
_MOST_ENDS: Final = 64
_MOST_JOINED: Final = 8
_WIDTH: Final = 10
"""Places of a number that are read."""
_ZERO, _QUOTE = np.uint8(ord("0")), np.uint8(ord('"'))
_PLACES: Final = np.arange(_WIDTH, dtype=np.uint8)[:, np.newaxis]
_POINT: Final = np.uint8((ord(".") - ord("0")) % 256)
_WORTHS: Final = [
    10.0 ** np.concatenate((np.arange(place)[::-1], [-np.inf], -np.arange(1, _WIDTH - place)))[:_WIDTH]
    for place in range(_WIDTH + 1)
]
"""What a digit is worth at each place, by the place of the point."""

Bytes = NDArray[np.uint8]

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
_flat: Final = msgspec.json.Decoder(list[float])
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
        head, found, rest = buf.partition(b',"values":[[')
        if not found or rest.find(b"}") != len(rest) - 1:
            return _series.decode(buf)
        return Series(_metrics.decode(head + b"}").metric, msgspec.Raw(b"[[" + rest[:-1]))


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


def points(raw: msgspec.Raw, step: int = 0) -> tuple[Floats, Floats]:
    """Times and values of `[[time, "value"], ...]` or `[time, "value"]`; NaN for no number. Raises ValueError.

    With a step, times are not read one by one where the first and the last tell that there is none missing.
    """
    text = bytes(raw)
    found = _without_gaps(text, step) if step else None
    if found is not None:
        return found
    text = text.translate(None, b'[]" \n')
    if not text:
        return np.zeros(0), np.zeros(0)
    try:
        flat = np.fromiter(_flat.decode(b"[" + text + b"]"), dtype=np.float64)
    except msgspec.DecodeError:
        # NaN and infinity are no JSON.
        words = text.replace(b"null", b"NaN").split(b",")
        flat = np.array(words).astype(np.float64)
    if len(flat) % 2:
        raise ValueError("a point without a value")
    return flat[0::2], flat[1::2]


def _without_gaps(text: bytes, step: int) -> tuple[Floats, Floats] | None:
    """Points that follow each other by a step; None where they may not, or are not plain numbers."""
    letters = np.frombuffer(text + b'"' * _WIDTH, dtype=np.uint8)
    quotes = np.flatnonzero(letters[: len(text)] == _QUOTE)
    count = len(quotes) // 2
    if not count or len(quotes) % 2 or not text.startswith(b"[[") or b"e" in text or b"E" in text:
        return None
    before_last = int(quotes[-3]) + 1 if count > 1 else 0
    try:
        first = int(text[2 : quotes[0] - 1])
        last = int(text[before_last : quotes[-2] - 1].lstrip(b"],["))
    except ValueError:
        return None
    values = _decimals(letters, quotes[0::2] + 1, quotes[1::2])
    if values is None or last - first != (count - 1) * step:
        return None
    return first + np.arange(count, dtype=np.float64) * step, values


def _decimals(text: Bytes, starts: Ints, ends: Ints) -> Floats | None:
    """Numbers of digits and a point, by their first places: what is cut off is too little to count. None for others."""
    lengths = np.minimum(ends - starts, _WIDTH + 1).astype(np.uint8)
    # A place is a row, so that each step goes along all numbers.
    digits = (text[starts + _PLACES] - _ZERO) * (lengths > _PLACES)
    is_point = digits == _POINT
    points_each = is_point.sum(axis=0, dtype=np.uint8)
    places = np.where(points_each, (is_point * _PLACES).sum(axis=0, dtype=np.uint8), lengths)
    digits[is_point] = 0
    if digits.max() > 9 or points_each.max() > 1 or places.min() == 0 or places.max() > _WIDTH:
        return None
    values: Floats = _WORTHS[int(places[0])] @ digits
    for place in np.flatnonzero(np.bincount(places)).tolist():
        if place != places[0]:
            found = np.flatnonzero(places == place)
            values[found] = _WORTHS[place] @ digits[:, found]
    return values
