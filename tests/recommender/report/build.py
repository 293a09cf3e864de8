"""Savings with a good default for everything."""

from typing import Any

from recommender.ranges import Resource
from recommender.report.told import Paid, Savings, Spare, Told, sums
from recommender.savings import Direction

GIB = 1024.0**3


def paid(amount: float, per_hour: float | None = None) -> Paid:
    return Paid(amount, amount / 10 if per_hour is None else per_hour)


def account(
    requested: float = 2.0, recommended: float | None = 0.5, resource: Resource = Resource.CPU, **more: Any
) -> Told:
    """Cores, or GiB, each for a tenth of the currency's unit an hour."""
    unit = 1.0 if resource is Resource.CPU else GIB

    def of(amount: float) -> Paid:
        return paid(amount * unit, amount / 10)

    wants = recommended
    change = 0.0 if wants is None else wants - requested
    direction = Direction.UNKNOWN if wants is None else Direction.LESS if change < 0 else Direction.MORE
    stated = {
        "namespace": "shop",
        "workload_kind": "Deployment",
        "workload": "web",
        "container": "app",
        "resource": resource,
        "pods": 1,
        "direction": Direction.KEEP if wants is not None and not change else direction,
        "confidence_days": 3.5,
        "reason": "OutsideBounds",
        "before": of(requested),
        "requested": of(requested),
        "allocated": of(requested),
        "used": of(requested / 8),
        "recommended": None if wants is None else of(wants),
        "waste": of(max(-change, 0.0)),
        "lacking": of(max(change, 0.0)),
        "applied": of(0.0),
        **more,
    }
    return Told(**stated)


def savings(*accounts: Told, **more: Any) -> Savings:
    stated = {
        "at": 1_800_000_000.0,
        "currency": "EUR",
        "prices": "as the test says",
        "accounts": list(accounts),
        "totals": sums(accounts),
        "realisable": Spare(["n1"], 8.0, 32 * GIB, 1.2),
        **more,
    }
    return Savings(**stated)
