"""What the demo saved, in cores, GiB and money.

Owns adding up the acts' facts. Prices are the recommender's.
"""

from typing import Any, Final

from recommender.prices import ON_DEMAND

_GIB: Final = 1024.0**3


def saved(facts: dict[str, Any]) -> dict[str, Any]:
    """Reserved before and after, of the service of act b, with what that is worth; `told` is for people."""
    service = facts.get("b", {})
    cores, gib = (
        [service.get(f"{resource}_request_{when}", 0) / unit for when in ("before", "after")]
        for resource, unit in (("cpu", 1000), ("memory", _GIB))
    )
    cores_saved, gib_saved = cores[0] - cores[1], gib[0] - gib[1]
    month = ON_DEMAND.per_month(cores_saved, gib_saved * _GIB)
    alone = facts.get("a", {}).get("without_elastipod", {})
    rescued = facts.get("a", {}).get("with_elastipod", {})
    return {
        "cores_reserved_before": cores[0],
        "cores_reserved_after": cores[1],
        "cores_saved": round(cores_saved, 3),
        "gib_reserved_before": round(gib[0], 3),
        "gib_reserved_after": round(gib[1], 3),
        "gib_saved": round(gib_saved, 3),
        "money_saved_per_month": round(month, 2),
        "currency": ON_DEMAND.currency,
        "jobs_lost_without": alone.get("kills", 0),
        "jobs_lost_with": rescued.get("kills", 0),
        "told": [
            f"The service reserved {cores[0]:.2f} cores and {gib[0]:.2f} GiB; "
            f"now {cores[1]:.2f} cores and {gib[1]:.2f} GiB.",
            f"Applied: {cores_saved:.2f} cores and {gib_saved:.2f} GiB less reserved, worth "
            f"{month:.2f} {ON_DEMAND.currency} a month at list prices, once a node is given back for it.",
        ],
    }
