"""Accounts as metrics: what a Prometheus reads of workloads, their sizes, needs and savings.

Owns the families, their names and labels, and writing them fast. All of an instant come from one snapshot. A workload's
replicas are one series, whichever pods come and go. Format: Prometheus' text exposition 0.0.4.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Final

from recommender.savings import Account, Cost, Realisable

Value = Callable[[Account], float | None]

_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Family:
    """A gauge of every account; an account without a value has no series of it."""

    name: str
    what: str
    value: Value
    has_currency: bool = False


def _part(part: Callable[[Cost], float], of: Callable[[Account], Cost | None]) -> Value:
    def value(account: Account) -> float | None:
        found = of(account)
        return None if found is None else part(found)

    return value


_amount: Final = partial(_part, attrgetter("amount"))
_cost: Final = partial(_part, attrgetter("per_hour"))


FAMILIES: Final = (
    Family("elastipod_workload_pods", "Pods that hold a reservation.", lambda one: one.pods),
    Family(
        "elastipod_workload_requests", "Requested by all pods, in cores or bytes.", _amount(lambda one: one.requested)
    ),
    Family(
        "elastipod_workload_requests_before",
        "Requested by as many pods when elastipod first saw them, in cores or bytes.",
        _amount(lambda one: one.before),
    ),
    Family(
        "elastipod_workload_allocated",
        "Requests that the nodes have admitted, in cores or bytes.",
        _amount(lambda one: one.allocated),
    ),
    Family(
        "elastipod_workload_limits",
        "Limits of all pods, in cores or bytes; none where a pod has none.",
        _amount(lambda one: one.limit),
    ),
    Family("elastipod_workload_usage", "Used by all pods, in cores or bytes.", _amount(lambda one: one.used)),
    Family(
        "elastipod_workload_recommended",
        "Recommended for all pods, in cores or bytes.",
        _amount(lambda one: one.recommended),
    ),
    Family(
        "elastipod_workload_confidence_days",
        "Days of usage behind the recommendation, a sample a minute.",
        lambda one: None if one.recommended is None else one.confidence_days,
    ),
    Family(
        "elastipod_workload_waste",
        "Reserved above what is recommended, in cores or bytes. No bill is lower before nodes go.",
        _amount(lambda one: one.waste),
    ),
    Family(
        "elastipod_workload_lacking",
        "Recommended above what is reserved, in cores or bytes.",
        _amount(lambda one: one.lacking),
    ),
    Family(
        "elastipod_workload_applied",
        "Reserved less than before, in cores or bytes; negative where it is more.",
        _amount(lambda one: one.applied),
    ),
    Family(
        "elastipod_workload_requests_cost_per_hour",
        "What the requests cost for an hour.",
        _cost(lambda one: one.requested),
        has_currency=True,
    ),
    Family(
        "elastipod_workload_waste_cost_per_hour",
        "What the waste costs for an hour.",
        _cost(lambda one: one.waste),
        has_currency=True,
    ),
    Family(
        "elastipod_workload_lacking_cost_per_hour",
        "What is lacking would cost for an hour.",
        _cost(lambda one: one.lacking),
        has_currency=True,
    ),
    Family(
        "elastipod_workload_applied_cost_per_hour",
        "What is reserved less than before costs for an hour; negative where it is more.",
        _cost(lambda one: one.applied),
        has_currency=True,
    ),
)

_REALISABLE: Final = (
    ("elastipod_realisable_nodes", "Nodes that would be empty if all pods were as recommended."),
    ("elastipod_realisable_cores", "Cores of the nodes that would be empty."),
    ("elastipod_realisable_memory_bytes", "Memory of the nodes that would be empty."),
)
_REALISABLE_COST: Final = (
    "elastipod_realisable_cost_per_hour",
    "What the nodes that would be empty cost for an hour: the only number that lowers a bill.",
)
_LEFT_OUT: Final = (
    "elastipod_workload_series_left_out",
    "Containers without series, since there are more than are exported.",
)


def exposition(those: Sequence[Account], realisable: Realisable, currency: str, *, most: int) -> bytes:
    """The text. Of more accounts than `most`, those that request the most by cost are told."""
    told = those
    if len(those) > most:
        kept = {id(one) for one in sorted(those, key=lambda one: one.requested.per_hour, reverse=True)[:most]}
        told = [one for one in those if id(one) in kept]
    labels = [_labels(one) for one in told]
    paid = [f'{one},currency="{currency}"' for one in labels]
    lines: list[str] = []
    for family in FAMILIES:
        lines += _head(family.name, family.what)
        lines += _series(family, told, paid if family.has_currency else labels)
    found = (len(realisable.nodes), realisable.cores, realisable.memory_bytes)
    for (name, what), value in zip(_REALISABLE, found, strict=True):
        lines += (*_head(name, what), f"{name} {value!r}")
    name, what = _REALISABLE_COST
    lines += (*_head(name, what), f'{name}{{currency="{currency}"}} {realisable.per_hour!r}')
    name, what = _LEFT_OUT
    lines += (*_head(name, what), f"{name} {len(those) - len(told)}", "")
    return "\n".join(lines).encode()


def _series(family: Family, told: Iterable[Account], labels: Iterable[str]) -> list[str]:
    start, value = family.name + "{", family.value
    return [
        f"{start}{of}}} {found!r}" for one, of in zip(told, labels, strict=True) if (found := value(one)) is not None
    ]


def _labels(account: Account) -> str:
    workload = account.key.workload
    # Names of Kubernetes hold nothing to escape; a custom owner's kind is what somebody wrote.
    return (
        f'namespace="{workload.namespace}",workload_kind="{workload.kind.translate(_ESCAPES)}",'
        f'workload="{workload.name}",container="{account.key.container}",resource="{account.resource}"'
    )


def _head(name: str, what: str) -> tuple[str, str]:
    return f"# HELP {name} {what}", f"# TYPE {name} gauge"
