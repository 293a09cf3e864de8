"""Figures as they are read: one formatter for table and page, so that they never differ.

Owns units, digits and signs. A month has 730 hours; what is not known is a dash, never a zero.
"""

import math
from typing import Any, Final

from msgspec import Struct

from elastipod.reasons import Reason
from recommender.prices import HOURS_A_MONTH
from recommender.ranges import Resource
from recommender.report.told import NO_SUMS, NUMBERS, Paid, Savings, Told
from recommender.savings import Direction
from recommender.sums import money_sum

UNKNOWN: Final = "-"
NOT_KNOWN: Final = "not known"
_SPANS: Final = (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0))
_UNITS: Final = (("TiB", 1024.0**4), ("GiB", 1024.0**3), ("MiB", 1024.0**2), ("KiB", 1024.0))


def amount(resource: Resource, value: float | None, *, signed: bool = False) -> str:
    """Cores by the millicore, bytes in the unit that fits: `0.250 cores`, `+1.50 GiB`."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    unit, size, places = _unit(resource, value)
    return f"{'+' if signed and value > 0 else ''}{_digits(value / size, places)} {unit}"


def money(per_hour: float | None, currency: str, *, signed: bool = False) -> str:
    """For a month."""
    if per_hour is None or not math.isfinite(per_hour):
        return UNKNOWN
    month = HOURS_A_MONTH * per_hour
    return f"{'+' if signed and month > 0 else ''}{_digits(month, 2)} {currency}"


def usage(one: Told) -> str:
    """Mean, p95 and peak of one container over the window; where there is none, what all pods use now."""
    if (over := one.usage) is not None:
        unit, size, places = _unit(one.resource, over.peak)
        amounts = " / ".join(_digits(part / size, places) for part in (over.mean, over.p95, over.peak))
        return f"{amounts} {unit}{' each' if one.pods > 1 else ''}"
    return UNKNOWN if one.used is None else f"{amount(one.resource, one.used.amount)} now"


def span(seconds: float) -> str:
    """A time as it is read: `40 seconds`, `5.3 hours`, `8.0 days`."""
    for unit, size in _SPANS:
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"


def window(savings: Savings) -> str:
    """What usage is told of."""
    return f"usage of the last {span(savings.window_seconds)}" if savings.window_seconds else "usage of that instant"


class Cells(Struct, frozen=True):
    """One row of the table, as text."""

    namespace: str
    workload: str
    container: str
    resource: str
    pods: str
    requested: str
    used: str
    recommended: str
    direction: str
    change: str
    month: str
    days: str
    reason: str
    used_now: str
    before: str
    allocated: str
    limit: str
    waste: str
    lacking: str
    applied: str


def cells(one: Told, currency: str) -> Cells:
    """The row of one account."""

    def shown(paid: Paid | None, *, signed: bool = False) -> str:
        return amount(one.resource, None if paid is None else paid.amount, signed=signed)

    change = one.change
    return Cells(
        namespace=one.namespace,
        workload=f"{one.workload_kind}/{one.workload}",
        container=one.container,
        resource=str(one.resource),
        pods=str(one.pods),
        requested=shown(one.requested),
        used=usage(one),
        recommended=shown(one.recommended),
        direction=str(one.direction),
        change=shown(change, signed=True),
        month=money(None if change is None else change.per_hour, currency, signed=True),
        days=f"{one.confidence_days:.1f}" if one.recommended is not None else UNKNOWN,
        reason=one.reason,
        used_now=shown(one.used),
        before=shown(one.before),
        allocated=shown(one.allocated),
        limit=shown(one.limit),
        waste=shown(one.waste),
        lacking=shown(one.lacking),
        applied=shown(one.applied, signed=True),
    )


def flat(one: Told, currency: str) -> dict[str, Any]:
    """One account as plain facts, with what a month costs beside what an hour does."""
    facts: dict[str, Any] = {
        "namespace": one.namespace,
        "workload_kind": one.workload_kind,
        "workload": one.workload,
        "container": one.container,
        "resource": str(one.resource),
        "unit": "cores" if one.resource is Resource.CPU else "bytes",
        "pods": one.pods,
        "direction": str(one.direction),
        "confidence_days": one.confidence_days,
        "reason": one.reason,
    }
    for name in ("change", *NUMBERS):
        paid: Paid | None = getattr(one, name)
        facts[name] = None if paid is None else paid.amount
        facts[f"{name}_per_hour"] = None if paid is None else paid.per_hour
        facts[f"{name}_per_month"] = None if paid is None else HOURS_A_MONTH * paid.per_hour
    for name in ("mean", "p95", "peak", "seconds"):
        facts[f"used_{name}"] = None if one.usage is None else getattr(one.usage, name)
    return {**facts, "currency": currency}


FLAT_COLUMNS: Final = tuple(flat(Told("", "", "", "", Resource.CPU, 0, Direction.UNKNOWN, 0.0, ""), ""))


def sum_lines(savings: Savings) -> list[str]:
    """The three numbers, and what is lacking, a line each."""

    def line(title: str, name: str) -> str:
        amounts, worth = total(savings, name)
        return f"{title}: {amounts}{f', {worth} a month' if worth else ''}"

    held, worth = spare(savings)
    return [
        line("Waste (reserved and not needed)", "waste"),
        line("Needed more", "lacking"),
        line("Applied (reserved less than before)", "applied"),
        f"Realisable (nodes that would be empty): {held}{f', {worth} a month' if worth else ''}",
        f"Used: {f'{window(savings)}; {savings.usage}' if savings.window_seconds else window(savings)}",
        f"Prices: {savings.prices}",
        *savings.notes,
    ]


def total(savings: Savings, name: str) -> tuple[str, str]:
    """A sum over all accounts: cores and bytes, and money for a month of both, where it is known."""
    sums: dict[Resource, Paid | None] = {one: getattr(savings.totals.get(one, NO_SUMS), name) for one in Resource}
    known = [paid for paid in sums.values() if paid is not None]
    if not known:
        return NOT_KNOWN, ""
    amounts = (NOT_KNOWN if paid is None else amount(one, paid.amount) for one, paid in sums.items())
    return " and ".join(amounts), money(money_sum(paid.per_hour for paid in known), savings.currency)


def spare(savings: Savings) -> tuple[str, str]:
    """The nodes that could be given back with what they hold, and money for a month of them."""
    found = savings.realisable
    if found is None:
        return NOT_KNOWN, ""
    held = f"{amount(Resource.CPU, found.cores)} and {amount(Resource.MEMORY, found.memory_bytes)}"
    return f"{counted(len(found.nodes), 'node')} with {held}", money(found.per_hour, savings.currency)


def counted(number: int, of: str) -> str:
    """A number of things: `1 node`, `2,000 nodes`."""
    return f"{number:,} {of}{'' if number == 1 else 's'}"


def largest_first(savings: Savings) -> list[Told]:
    """Accounts by what a change is worth, either way; those without a recommendation last."""

    def worth(one: Told) -> tuple[bool, float, float]:
        change = one.change
        return (False, 0.0, 0.0) if change is None else (True, abs(change.per_hour), abs(change.amount))

    return sorted(savings.accounts, key=worth, reverse=True)


def reasons(savings: Savings) -> list[tuple[str, str]]:
    """The reasons that are named, and what they mean."""
    known = {one.value: one.explanation for one in Reason}
    return [(name, known[name]) for name in sorted({one.reason for one in savings.accounts}) if name in known]


def _unit(resource: Resource, value: float) -> tuple[str, float, int]:
    """The unit that fits an amount, how much of ours it is, and how many places are shown of it."""
    if resource is Resource.CPU:
        return "cores", 1.0, 3
    unit, size = next(((unit, size) for unit, size in _UNITS if abs(value) >= size), ("B", 1.0))
    return unit, size, 0 if size == 1.0 else 2


def _digits(value: float, places: int) -> str:
    """A number with so many places; one that would be nothing with them has the two digits that matter."""
    if value and abs(value) < 0.5 / 10**places:
        return f"{value:.2g}"
    return f"{value:,.{places}f}"
