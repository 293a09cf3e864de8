"""What amounts cost, and sums and differences of it without what binary fractions leave behind.

Owns the rounding: what is reserved is in whole millicores and bytes, so its sums are too; money that is a 10¹²th of
what it was added up from is none.
"""

from collections.abc import Iterable, Sequence
from math import fsum
from typing import Final, Protocol

from msgspec import Struct

from recommender.ranges import Resource

_LEFT_BEHIND: Final = 1e-12


class Cost(Struct, frozen=True, gc=False):
    """Cores or bytes, and money for an hour of them; negative where a difference is."""

    amount: float = 0.0
    per_hour: float = 0.0


class Priced(Protocol):
    """An amount, and money for an hour of it."""

    @property
    def amount(self) -> float: ...
    @property
    def per_hour(self) -> float: ...


def sum_of(resource: Resource, those: Sequence[Priced]) -> Cost:
    """The sum of what is reserved, or should be."""
    return Cost(_whole(resource, fsum(one.amount for one in those)), money_sum(one.per_hour for one in those))


def used_sum(those: Sequence[Priced]) -> Cost:
    """The sum of what is used, which is not in whole millicores."""
    return Cost(fsum(one.amount for one in those), fsum(one.per_hour for one in those))


def difference(resource: Resource, one: Priced, less: Priced) -> Cost:
    """One less the other, of what is reserved or should be."""
    money = one.per_hour - less.per_hour
    if abs(money) <= _LEFT_BEHIND * (abs(one.per_hour) + abs(less.per_hour)):
        money = 0.0
    return Cost(_whole(resource, one.amount - less.amount), money)


def money_sum(parts: Iterable[float]) -> float:
    """Nothing where the parts cancel each other."""
    parts = list(parts)
    found = fsum(parts)
    return 0.0 if abs(found) <= _LEFT_BEHIND * fsum(map(abs, parts)) else found


def _whole(resource: Resource, amount: float) -> float:
    """Cores by the millicore, or bytes by the byte."""
    return round(1000 * amount) / 1000 if resource is Resource.CPU else float(round(amount))
