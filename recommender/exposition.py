"""Accounts as metrics: what a Prometheus reads of workloads, their sizes, needs and savings.

Owns the families, their names and labels, and writing them fast. All of an instant come from one snapshot. A workload's
replicas are one series, whichever pods come and go.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Final

from elastipod.gauges import Gauge, escaped, labels
from elastipod.quantities import Resources
from recommender.ranges import Resource
from recommender.realisable import Realisable
from recommender.savings import Account, Advised, Usage
from recommender.sums import Cost

Value = Callable[[Account], float | None]


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


def _over(part: Callable[[Usage], float]) -> Value:
    """What one pod's container used over the window."""
    return lambda account: None if account.usage is None else part(account.usage)


def _advised(sizes: Callable[[Advised], Resources]) -> Value:
    """What is recommended for one pod's container, in cores or bytes."""

    def value(account: Account) -> float | None:
        amount = None if account.advised is None else account.resource.of(sizes(account.advised))
        return None if amount is None else amount / 1000 if account.resource is Resource.CPU else float(amount)

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
    Family(
        "elastipod_workload_usage",
        "Used by all pods that are measured, in cores or bytes; none where no pod is.",
        _amount(lambda one: one.used),
    ),
    Family(
        "elastipod_workload_usage_mean",
        "What the container used in one pod, in the mean over elastipod_usage_window_seconds, in cores or bytes.",
        _over(lambda one: one.mean),
    ),
    Family(
        "elastipod_workload_usage_p95",
        "No pod's container used more in 19 of 20 steps of ten minutes in that window, in cores or bytes.",
        _over(lambda one: one.p95),
    ),
    Family(
        "elastipod_workload_usage_peak",
        "The most that any pod's container used in that window, in cores or bytes.",
        _over(lambda one: one.peak),
    ),
    Family(
        "elastipod_workload_recommended",
        "Recommended for all pods, in cores or bytes.",
        _amount(lambda one: one.recommended),
    ),
    Family(
        "elastipod_workload_target",
        "Recommended for the container in one pod, in cores or bytes.",
        _advised(lambda one: one.target),
    ),
    Family(
        "elastipod_workload_lower_bound",
        "A request of one pod below this is worth a resize, in cores or bytes.",
        _advised(lambda one: one.lower),
    ),
    Family(
        "elastipod_workload_upper_bound",
        "A request of one pod above this is worth a resize, in cores or bytes; none while confidence is low.",
        _advised(lambda one: one.upper),
    ),
    Family(
        "elastipod_workload_uncapped_target",
        "The target of one pod before anything capped it, in cores or bytes.",
        _advised(lambda one: one.uncapped),
    ),
    Family(
        "elastipod_workload_confidence_days",
        "Days of usage behind the recommendation, a sample a minute.",
        lambda one: None if one.recommended is None else one.confidence_days,
    ),
    Family(
        "elastipod_workload_waste",
        "Reserved above what is needed, in cores or bytes. No bill is lower before nodes go.",
        _amount(lambda one: one.waste),
    ),
    Family(
        "elastipod_workload_lacking",
        "Needed above what is reserved, also where a cap holds the target below it, in cores or bytes.",
        _amount(lambda one: one.lacking),
    ),
    Family(
        "elastipod_workload_applied",
        "Reserved less than before, whoever changed it, in cores or bytes; negative where it is more.",
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
        "What is reserved less than before, whoever changed it, costs for an hour; negative where it is more.",
        _cost(lambda one: one.applied),
        has_currency=True,
    ),
)

CAPPED: Final = Gauge(
    "elastipod_workload_capped",
    "What the target of one pod was capped to, in cores or bytes, by reason and by what says so.",
)
USAGE_WINDOW: Final = Gauge(
    "elastipod_usage_window_seconds",
    "How long back mean, p95 and peak of usage reach: to the start of the process, and at most two days.",
)
LEFT_OUT: Final = Gauge(
    "elastipod_workload_series_left_out",
    "Containers of workloads without series, since there are more than are told of.",
)
REALISABLE: Final = (
    Gauge("elastipod_realisable_nodes", "Nodes that would be empty if all pods were as recommended."),
    Gauge("elastipod_realisable_cores", "Cores of the nodes that would be empty."),
    Gauge("elastipod_realisable_memory_bytes", "Memory of the nodes that would be empty."),
)
REALISABLE_COST: Final = Gauge(
    "elastipod_realisable_cost_per_hour",
    "What the nodes that would be empty cost for an hour: the only number that lowers a bill.",
)


def accounts_text(those: Sequence[Account], left_out: int, currency: str) -> bytes:
    """The accounts that are told of, and how many containers are not."""
    named = [_labels(one) for one in those]
    paid = [f"{one},{labels(currency=currency)}" for one in named]
    families = [
        Gauge(family.name, family.what).text(_series(family, those, paid if family.has_currency else named))
        for family in FAMILIES
    ]
    cuts = (cut for one, of in zip(those, named, strict=True) for cut in _cuts(one, of))
    return "".join((*families, CAPPED.text(cuts), LEFT_OUT.only(left_out))).encode()


def realisable_text(realisable: Realisable, currency: str) -> bytes:
    """What the bill could lose."""
    found = (len(realisable.nodes), realisable.cores, realisable.memory_bytes)
    families = (gauge.only(value) for gauge, value in zip(REALISABLE, found, strict=True))
    cost = REALISABLE_COST.text([(labels(currency=currency), realisable.per_hour)])
    return "".join((*families, cost)).encode()


def _series(family: Family, told: Iterable[Account], named: Iterable[str]) -> Iterator[tuple[str, float]]:
    value = family.value
    return ((of, found) for one, of in zip(told, named, strict=True) if (found := value(one)) is not None)


def _cuts(account: Account, named: str) -> Iterator[tuple[str, float]]:
    """What cut the target down, each once: what was cut twice by the same is told as it ended."""
    if account.advised is not None and account.recommended is not None:
        unit = 1000 if account.resource is Resource.CPU else 1.0
        cuts = {(str(one.reason), one.by): one.amount / unit for one in account.advised.cuts(account.resource)}
        for (reason, by), amount in cuts.items():
            yield f"{named},{labels(reason=reason, by=by)}", amount


def _labels(account: Account) -> str:
    workload = account.key.workload
    # Names of Kubernetes hold nothing to escape; a custom owner's kind is what somebody wrote.
    return (
        f'namespace="{workload.namespace}",workload_kind="{escaped(workload.kind)}",'
        f'workload="{workload.name}",container="{account.key.container}",resource="{account.resource}"'
    )
