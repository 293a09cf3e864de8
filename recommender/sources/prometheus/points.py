"""Points of series: times and values, from the text of an answer.

Owns the reading of numbers, of many series at once where they are plain and none is missing between the first and the
last, as nearly all are. What becomes of them is grid.py's matter.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from recommender.histogram import Floats, Ints

Words = NDArray[np.uint64]

_WIDTH: Final = 8
"""Places of a number that are read: they are one word."""
_MOST_PLACES: Final = 2 * _WIDTH
_QUOTE: Final = np.uint8(ord('"'))
_EACH: Final = 0x0101010101010101
_ZEROS, _POINTS, _HIGH = (np.uint64(_EACH * byte) for byte in (ord("0"), ord("."), 0x80))
_ONES, _ABOVE_NINE = np.uint64(_EACH), np.uint64(_EACH * (0x80 - 10))
_POINT_OF_DIGITS: Final = _ZEROS ^ _POINTS
_WITHIN: Final = np.array([2 ** (8 * count) - 1 for count in range(_WIDTH + 1)], dtype=np.uint64)
"""By how long a number is: the part of its word that is of it."""
_WORTHS: Final = 10.0 ** (np.arange(_MOST_PLACES + 1) - _WIDTH)
"""What the last place of a word is worth, by the places before the point."""

_flat: Final = msgspec.json.Decoder(list[float])


def points(raw: bytes | msgspec.Raw) -> tuple[Floats, Floats]:
    """Times and values of `[[time, "value"], ...]` or `[time, "value"]`; NaN for no number. Raises ValueError."""
    text = bytes(raw).translate(None, b'[]" \n')
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


def without_gaps(texts: Sequence[bytes], step: int) -> list[tuple[int, Floats] | None]:
    """The first time and the values of each series whose points follow each other by a step.

    None for those whose points may not, or are not all plain numbers: these are to be read one by one.
    """
    # A word reaches beyond the last number.
    letters = np.frombuffer(b"".join([*texts, b'"' * _MOST_PLACES]), dtype=np.uint8)
    quotes = np.flatnonzero(letters[:-_MOST_PLACES] == _QUOTE)
    ends = np.cumsum([len(text) for text in texts])
    bounds = [0, *np.searchsorted(quotes, ends).tolist()]
    if any(bound % 2 for bound in bounds):
        # A quote too many tells nothing of the series after it.
        return [None] if len(texts) == 1 else [without_gaps([text], step)[0] for text in texts]
    values, is_plain = _decimals(letters, quotes[0::2] + 1, quotes[1::2])
    between = quotes[2::2] - quotes[1:-1:2]
    found: list[tuple[int, Floats] | None] = []
    for text, (begin, end) in zip(texts, pairwise([bound // 2 for bound in bounds]), strict=True):
        first = _first_time(text, between[begin : end - 1], step) if begin < end and is_plain[begin:end].all() else None
        found.append(None if first is None else (first, values[begin:end]))
    return found


def _first_time(text: bytes, between: Ints, step: int) -> int | None:
    """When points begin that are so far from each other in text; None where the last is not as many steps later."""
    told, last = text[2 : text.find(b",")], text[text.rfind(b"[") + 1 : text.rfind(b",")]
    if not told.isdigit() or not last.isdigit() or not text.startswith(b"[[") or b"e" in text or b"E" in text:
        return None
    is_even = bool((between == len(told) + len('"],[,"') - 1).all())
    return int(told) if is_even and int(last) - int(told) == len(between) * step else None


def _decimals(text: NDArray[np.uint8], starts: Ints, ends: Ints) -> tuple[Floats, NDArray[np.bool_]]:
    """Numbers of digits and a point, by their first places: what is cut off is too little to count.

    And which are such numbers. All places of a number are looked at together, as the bytes of one word.
    """
    words: Words = np.ndarray(len(text) - _WIDTH + 1, "<u8", text, strides=(1,))
    lengths = ends - starts
    read = (words[starts] ^ _ZEROS) & _WITHIN[np.minimum(lengths, _WIDTH)]
    before = _before_point(read)
    digits = (read & before) | ((read >> np.uint64(8)) & ~before)
    is_digits = ((digits + _ABOVE_NINE) | digits) & _HIGH == 0
    places = np.bitwise_count(before).astype(np.int64) // 8
    places = np.minimum(places, lengths)
    is_long = np.flatnonzero((places == _WIDTH) & (lengths > _WIDTH))
    if len(is_long):
        rest = (words[starts[is_long] + _WIDTH] ^ _ZEROS) & _WITHIN[np.minimum(lengths[is_long] - _WIDTH, _WIDTH)]
        more = np.bitwise_count(_before_point(rest)).astype(np.int64) // 8
        places[is_long] += np.minimum(more, lengths[is_long] - _WIDTH)
    # Neighbours are made one, from the first place on: of ones pairs, then fours, then all eight.
    digits = (digits * np.uint64(10) + (digits >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    digits = (digits * np.uint64(100) + (digits >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    digits = (digits * np.uint64(10_000) + (digits >> np.uint64(32))) & np.uint64(0xFFFFFFFF)
    return digits * _WORTHS[places], is_digits & (places > 0) & ((places < _MOST_PLACES) | (lengths == places))


def _before_point(read: Words) -> Words:
    """The bytes of words before their first point; all where there is none."""
    others = read ^ _POINT_OF_DIGITS
    points_at = (others - _ONES) & ~others & _HIGH
    first = points_at & (~points_at + np.uint64(1))
    return (first >> np.uint64(7)) - np.uint64(1)
