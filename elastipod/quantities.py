"""Amounts of CPU and memory, and the text Kubernetes writes them in.

Owns the quantity grammar (apimachinery's resource.Quantity) and the units used everywhere inside:
whole millicores and whole bytes. Reads nothing and knows no object.
"""

import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

MAX_QUANTITY: Final = 2**63 - 1
"""Larger amounts saturate here, as in apimachinery."""

_NANO: Final = 1_000_000_000
_PAGE_BYTES: Final = 4096
_MAX_NANO: Final = MAX_QUANTITY * _NANO
_MAX_TEXT: Final = 64
_GRAMMAR: Final = re.compile(
    r"([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:([KMGTPE]i)|([numkMGTPE]?)|[eE]([+-]?[0-9]+))",
    re.ASCII,
)
_BINARY: Final = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


class QuantityError(ValueError):
    """A text that is no Kubernetes quantity; the message says what was read."""


class Resources(Struct, frozen=True, gc=False):
    """An amount of each resource; None where it is not set."""

    cpu_millicores: int | None = None
    memory_bytes: int | None = None

    def __add__(self, other: "Resources") -> "Resources":
        """The sum per resource; unset counts as zero unless both are unset."""
        return Resources(
            _sum(self.cpu_millicores, other.cpu_millicores),
            _sum(self.memory_bytes, other.memory_bytes),
        )

    def __sub__(self, other: "Resources") -> "Resources":
        """The difference per resource; unset counts as zero unless both are unset."""
        return Resources(
            _difference(self.cpu_millicores, other.cpu_millicores),
            _difference(self.memory_bytes, other.memory_bytes),
        )

    @property
    def cpu(self) -> int:
        """Millicores, zero where unset."""
        return self.cpu_millicores or 0

    @property
    def memory(self) -> int:
        """Bytes, zero where unset."""
        return self.memory_bytes or 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is set."""
        return self.cpu_millicores is None and self.memory_bytes is None

    def largest(self, other: "Resources") -> "Resources":
        """The larger of the two per resource; a set amount beats an unset one."""
        return Resources(
            _largest(self.cpu_millicores, other.cpu_millicores),
            _largest(self.memory_bytes, other.memory_bytes),
        )

    def or_else(self, other: "Resources") -> "Resources":
        """These amounts, and the other's where these are not set."""
        return Resources(
            other.cpu_millicores if self.cpu_millicores is None else self.cpu_millicores,
            other.memory_bytes if self.memory_bytes is None else self.memory_bytes,
        )


NOTHING: Final = Resources()


def parse_nano(text: str) -> int:
    """The exact amount in billionths, rounded away from zero below one billionth.

    Grammar and saturation are apimachinery's (pkg/api/resource/quantity.go). Constant time for any text.
    Raises QuantityError.
    """
    match = _GRAMMAR.fullmatch(text) if len(text) <= _MAX_TEXT else _long_match(text)
    if match is None:
        raise QuantityError(f"{text[:_MAX_TEXT]!r} is not a quantity: write it like 250m, 0.5, 128Mi or 1e9")
    sign, whole, fraction, bare_fraction, binary, suffix, exponent = match.groups()
    digits = (whole or "") + (fraction or bare_fraction or "")
    power = -len(fraction or bare_fraction or "")
    mantissa = int(digits.lstrip("0") or "0")
    if exponent is not None:
        power += _bounded_exponent(exponent)
    elif not binary:
        power += _DECIMAL[suffix]
    nano = _scaled(mantissa * (_BINARY[binary] if binary else 1), power + 9)
    return -nano if sign == "-" else nano


def parse_cpu(text: str) -> int:
    """Millicores, rounded up. Raises QuantityError."""
    return _units(text, 1_000_000)


def parse_memory(text: str) -> int:
    """Bytes, rounded up. Raises QuantityError."""
    return _units(text, _NANO)


def stated_memory(text: str) -> int:
    """Bytes as a person states them: less than a page is meant by nobody, and refused. Raises QuantityError."""
    amount = parse_memory(text)
    if 0 < amount < _PAGE_BYTES:
        exact = parse_nano(text) / _NANO
        number = text[:_MAX_TEXT].rstrip("numkKi")
        hint = f"did you mean {number}Mi?" if number.replace(".", "", 1).isdecimal() else "write it like 128Mi"
        raise QuantityError(f"{text[:_MAX_TEXT]} means {exact:g} byte{'s' if exact > 1 else ''}; {hint}")
    return amount


def _units(text: str, unit_nano: int) -> int:
    # A text that no one writes is not worth a place in the cache.
    return _known_units(text, unit_nano) if len(text) <= _MAX_TEXT else _ceil_divide(parse_nano(text), unit_nano)


@lru_cache(maxsize=16_384)
def _known_units(text: str, unit_nano: int) -> int:
    return _ceil_divide(parse_nano(text), unit_nano)


def format_cpu(millicores: int) -> str:
    """The canonical text: `250m`, `2`."""
    return f"{millicores}m" if millicores % 1000 else str(millicores // 1000)


def format_memory(memory_bytes: int) -> str:
    """The canonical text in whole bytes with a binary suffix where it is exact: `128Mi`, `1000000`."""
    if memory_bytes:
        for suffix, factor in reversed(_BINARY.items()):
            if memory_bytes % factor == 0:
                return f"{memory_bytes // factor}{suffix}"
    return str(memory_bytes)


def show_memory(memory_bytes: int) -> str:
    """A short text for people, rounded up: `103Mi`, `1.5Gi`, `812Ki`."""
    for suffix in ("Gi", "Mi", "Ki"):
        factor = _BINARY[suffix]
        if memory_bytes >= factor:
            tenths = _ceil_divide(memory_bytes * 10, factor)
            if suffix != "Gi" or tenths % 10 == 0 or tenths >= 1000:
                return f"{_ceil_divide(tenths, 10)}{suffix}"
            return f"{tenths // 10}.{tenths % 10}{suffix}"
    return str(memory_bytes)


def _long_match(text: str) -> re.Match[str] | None:
    """A match of a long text with its superfluous digits taken away, so that no huge number is built."""
    # Possessive: digits that were taken are not given back, or a text of n digits would take n x n steps to refuse.
    match = re.fullmatch(r"([+-]?)0*+([0-9]*+)(\.?)([0-9]*+)(.{0,30})", text, re.ASCII | re.DOTALL)
    if match is None:
        return None
    sign, whole, dot, fraction, rest = match.groups()
    if len(whole) > 40:
        whole = whole[:1] + "0" * 39 if whole.strip("0") else "0"
    return _GRAMMAR.fullmatch(f"{sign}{whole or '0'}{dot}{_short_fraction(fraction)}{rest}")


def _short_fraction(fraction: str) -> str:
    return fraction[:40] + ("1" if fraction[40:].strip("0") else "")


def _bounded_exponent(text: str) -> int:
    """The exponent, cut where every amount has long saturated or vanished."""
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-").lstrip("0")
    return sign * (int(digits or "0") if len(digits) <= 4 else 10_000)


def _scaled(mantissa: int, power: int) -> int:
    """mantissa x 10^power, rounded up and saturated."""
    if mantissa == 0:
        return 0
    if power >= 0:
        return min(mantissa * _power_of_ten(min(power, 60)), _MAX_NANO)
    return min(_ceil_divide(mantissa, _power_of_ten(min(-power, 200))), _MAX_NANO)


def _power_of_ten(exponent: int) -> int:
    return int(10**exponent)


def _ceil_divide(number: int, divisor: int) -> int:
    """Rounded away from zero, as apimachinery rounds."""
    return -(-number // divisor) if number >= 0 else number // divisor


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)


def _difference(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) - (other or 0)


def _largest(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return one if one > other else other
