"""What the demo saved, in cores, GiB and money.

Owns adding up the acts' facts. Prices are the recommender's.
"""

from typing import Any, Final

from recommender.prices import ON_DEMAND
from recommender.savings import Amount

_GIB: Final = 1024.0**3


def saved(facts: dict[str, Any]) -> dict[str, Any]:
    """Reserved before and after, of the service of act b, with what that is worth; `told` is for people."""
    service = facts.get("b", {})
    before = Amount(service.get("cpu_request_before", 0) / 1000, service.get("memory_request_before", 0))
    after = Amount(service.get("cpu_request_after", 0) / 1000, service.get("memory_request_after", 0))
    gained, prices = before - after, ON_DEMAND
    month = prices.per_month(gained.cores, gained.memory_bytes)
    alone = facts.get("a", {}).get("without_elastipod", {})
    rescued = facts.get("a", {}).get("with_elastipod", {})
    return {
        "cores_reserved_before": before.cores,
        "cores_reserved_after": after.cores,
        "cores_saved": round(gained.cores, 3),
        "gib_reserved_before": round(before.memory_bytes / _GIB, 3),
        "gib_reserved_after": round(after.memory_bytes / _GIB, 3),
        "gib_saved": round(gained.memory_bytes / _GIB, 3),
        "money_saved_per_month": round(month, 2),
        "currency": prices.currency,
        "jobs_lost_without": alone.get("kills", 0),
        "jobs_lost_with": rescued.get("kills", 0),
        "told": [
            f"The service reserved {before.cores:.2f} cores and {before.memory_bytes / _GIB:.2f} GiB; "
            f"now {after.cores:.2f} cores and {after.memory_bytes / _GIB:.2f} GiB.",
            f"Applied: {gained.cores:.2f} cores and {gained.memory_bytes / _GIB:.2f} GiB less reserved, worth "
            f"{month:.2f} {prices.currency} a month at list prices, once a node is given back for it.",
        ],
    }
