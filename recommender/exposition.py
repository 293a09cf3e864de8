"""Accounts as metrics: what a Prometheus reads of workloads, their sizes, needs and savings, and of prices.

Owns the families, their names and labels, and writing them fast. All of an instant come from one snapshot. A workload's
replicas are one series, whichever pods come and go. Format: Prometheus' text exposition 0.0.4.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Final

from elastipod.pods import Node
from elastipod.quantities import Resources
from recommender.prices import NodeClass, PriceTable, class_of
from recommender.ranges import Resource
from recommender.savings import Account, Advised, Cost, Realisable, Snapshot

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

CAPPED: Final = (
    "elastipod_workload_capped",
    "What the target of one pod was capped to, in cores or bytes, by reason and by what says so.",
)
LEFT_OUT: Final = (
    "elastipod_workload_series_left_out",
    "Containers of workloads without series, since there are more than are told of.",
)
REALISABLE: Final = (
    ("elastipod_realisable_nodes", "Nodes that would be empty if all pods were as recommended."),
    ("elastipod_realisable_cores", "Cores of the nodes that would be empty."),
    ("elastipod_realisable_memory_bytes", "Memory of the nodes that would be empty."),
)
REALISABLE_COST: Final = (
    "elastipod_realisable_cost_per_hour",
    "What the nodes that would be empty cost for an hour: the only number that lowers a bill.",
)
NODE_USAGE: Final = ("elastipod_node_usage", "Used by the pods of a node that are measured, in cores or bytes.")
PRICES: Final = (
    ("elastipod_price_core_hour", "What a core costs for an hour on nodes of these labels."),
    ("elastipod_price_gib_hour", "What a GiB of memory costs for an hour on nodes of these labels."),
)


def accounts_text(those: Sequence[Account], left_out: int, currency: str) -> bytes:
    """The accounts that are told of, and how many containers are not."""
    labels = [_labels(one) for one in those]
    paid = [f"{one},{_currency(currency)}" for one in labels]
    lines: list[str] = []
    for family in FAMILIES:
        lines += _head(family.name, family.what)
        lines += _series(family, those, paid if family.has_currency else labels)
    lines += _head(*CAPPED)
    lines += (line for one, of in zip(those, labels, strict=True) for line in _capped(one, of))
    return _text(*lines, *_one(LEFT_OUT, left_out))


def realisable_text(realisable: Realisable, currency: str) -> bytes:
    """What the bill could lose."""
    found = (len(realisable.nodes), realisable.cores, realisable.memory_bytes)
    lines = (line for what, value in zip(REALISABLE, found, strict=True) for line in _one(what, value))
    return _text(*lines, *_one(REALISABLE_COST, realisable.per_hour, _currency(currency)))


def nodes_text(snapshot: Snapshot) -> bytes:
    """What is used on each node of which something is measured."""
    used: dict[tuple[str, Resource], float] = {}
    for pod, _ in snapshot.pods:
        for container in pod.sized_containers:
            found = snapshot.used.get((pod.namespace, pod.name, container.name), ())
            for resource, amount in zip(Resource, found, strict=False):
                if amount is not None:
                    used[pod.node_name, resource] = used.get((pod.node_name, resource), 0.0) + amount
    series = (f'{NODE_USAGE[0]}{{node="{node}",resource="{one}"}} {used[node, one]!r}' for node, one in sorted(used))
    return _text(*_head(*NODE_USAGE), *series)


def prices_text(nodes: Iterable[Node], prices: PriceTable) -> bytes:
    """A price for each kind of node that there is; where no node is known, what holds for it."""
    kinds = {class_of(node): prices.of(node) for node in nodes} or {NodeClass(): prices.default()}
    labels = [
        f'instance_type="{_escaped(kind.instance_type)}",capacity_type="{_escaped(kind.capacity_type)}",'
        f'region="{_escaped(kind.region)}",{_currency(prices.currency)}'
        for kind in kinds
    ]
    core, gib = PRICES
    return _text(
        *_head(*core),
        *(f"{core[0]}{{{of}}} {price.core_hour!r}" for of, price in zip(labels, kinds.values(), strict=True)),
        *_head(*gib),
        *(f"{gib[0]}{{{of}}} {price.gib_hour!r}" for of, price in zip(labels, kinds.values(), strict=True)),
    )


def _series(family: Family, told: Iterable[Account], labels: Iterable[str]) -> list[str]:
    start, value = family.name + "{", family.value
    return [
        f"{start}{of}}} {found!r}" for one, of in zip(told, labels, strict=True) if (found := value(one)) is not None
    ]


def _capped(account: Account, labels: str) -> Iterator[str]:
    """What cut the target down, each once: what was cut twice by the same is told as it ended."""
    if account.advised is not None and account.recommended is not None:
        unit = 1000 if account.resource is Resource.CPU else 1.0
        cuts = {(str(one.reason), one.by): one.amount / unit for one in account.advised.cuts(account.resource)}
        for (reason, by), amount in cuts.items():
            yield f'{CAPPED[0]}{{{labels},reason="{reason}",by="{_escaped(by)}"}} {amount!r}'


def _labels(account: Account) -> str:
    workload = account.key.workload
    # Names of Kubernetes hold nothing to escape; a custom owner's kind is what somebody wrote.
    return (
        f'namespace="{workload.namespace}",workload_kind="{_escaped(workload.kind)}",'
        f'workload="{workload.name}",container="{account.key.container}",resource="{account.resource}"'
    )


def _currency(currency: str) -> str:
    return f'currency="{_escaped(currency)}"'


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _one(what: tuple[str, str], value: float, labels: str = "") -> tuple[str, str, str]:
    return *_head(*what), f"{what[0]}{{{labels}}} {value!r}" if labels else f"{what[0]} {value!r}"


def _head(name: str, what: str) -> tuple[str, str]:
    return f"# HELP {name} {what}", f"# TYPE {name} gauge"


def _text(*lines: str) -> bytes:
    return "\n".join((*lines, "")).encode()
