"""The board of savings: waste, applied and realisable, in money and in what it buys, never mixed."""

from collections.abc import Iterator
from typing import Final

from elastipod.dashboards.asking import BY_ACCOUNT, BY_WORKLOAD, CHOSEN, CLUSTER, of, once, sum_by
from elastipod.dashboards.panels import Board, Kind, Panel, Query, Row, Unit, Variable
from elastipod.dashboards.rules import AMOUNTS, BY_NAMESPACE, recorded

_MONTH: Final = 730
"""Hours; recommender.prices has the same."""

WORKLOADS: Final = (
    Variable("cluster", "Cluster", "elastipod_workload_pods"),
    Variable("namespace", "Namespace", 'elastipod_workload_pods{cluster=~"$cluster"}'),
    Variable("workload", "Workload", 'elastipod_workload_pods{cluster=~"$cluster", namespace=~"$namespace"}'),
)
RESOURCES: Final = (("cpu", "CPU", Unit.CORES), ("memory", "memory", Unit.BYTES))

_WASTE: Final = "Reserved above what is needed. No bill is lower for it before nodes are given back."
_APPLIED: Final = (
    "Reserved less than when elastipod first saw the same containers, by its resizes or by people who changed a "
    "template: they are not told apart. Growth counts against it."
)
_LACKING: Final = (
    "Needed above what is reserved, also where a cap holds the recommendation below it: these workloads need more."
)
_REALISABLE: Final = (
    "Nodes that would be empty if all pods were as recommended and moved together, with DaemonSets, taints, "
    "affinities, budgets and both resources respected. The only number that lowers a bill. It is the whole cluster's, "
    "whatever is chosen above."
)
_RECORDED: Final = "As the recording rules tell; empty without them. Workloads are not told apart."
_NAMESPACES: Final = 'cluster=~"$cluster", namespace=~"$namespace"'
_TEN: Final = 11
"""As high as ten lines are."""
_A_MONTH: Final = f"Money for a month of {_MONTH} hours."
_NUMBERS: Final = (
    ("Waste", "waste", _WASTE),
    ("Applied", "applied", _APPLIED),
    ("Lacking", "lacking", _LACKING),
)


def _cost(metric: str, by: tuple[str, ...] = ()) -> str:
    """Money for a month, by currency."""
    series = once(f"elastipod_workload_{metric}_cost_per_hour", CHOSEN, (*BY_ACCOUNT, "currency"))
    return f"{_MONTH} * {sum_by((*by, 'currency'), series)}"


def _amount(metric: str, resource: str, by: tuple[str, ...] = ()) -> str:
    return sum_by(by, once(f"elastipod_workload_{metric}", of(resource)))


def _realisable(metric: str, by: tuple[str, ...] = ()) -> str:
    return sum_by(by, once(f"elastipod_realisable_{metric}", CLUSTER, ("cluster", *by)))


def _number(title: str, description: str, unit: Unit, query: Query, width: int) -> Panel:
    return Panel(title, description, unit, (query,), Kind.NUMBER, width, 4)


def _money() -> Iterator[Panel]:
    for title, metric, description in (*_NUMBERS[:2], ("Realisable", "", _REALISABLE), _NUMBERS[2]):
        cost = _cost(metric) if metric else f"{_MONTH} * {_realisable('cost_per_hour', ('currency',))}"
        yield _number(title, f"{description} {_A_MONTH}", Unit.MONEY, Query(cost, "{{currency}} a month"), 6)


def _amounts() -> Iterator[Panel]:
    for resource, what, unit in RESOURCES:
        for title, metric, description in _NUMBERS:
            yield _number(f"{title}, {what}", description, unit, Query(_amount(metric, resource), what), 4)
    for what, metric, unit in (
        ("nodes", "nodes", Unit.COUNT),
        ("CPU", "cores", Unit.CORES),
        ("memory", "memory_bytes", Unit.BYTES),
    ):
        yield _number(f"Realisable {what}", _REALISABLE, unit, Query(_realisable(metric), what), 8)


def _curves() -> Iterator[Panel]:
    for resource, what, unit in RESOURCES:
        where = of(resource, _NAMESPACES)
        yield Panel(
            f"Reserved, recommended and used {what}",
            "What the workloads of the chosen namespaces request, requested when elastipod first saw them, are "
            f"allocated by their nodes, are recommended, and use. {_RECORDED}",
            unit,
            tuple(
                Query(sum_by((), once(recorded(one), where, BY_NAMESPACE)), one.replace("_", " ")) for one in AMOUNTS
            ),
        )


def _by_namespace() -> Iterator[Panel]:
    by = (*BY_NAMESPACE, "currency")
    for title, number, description in _NUMBERS:
        cost = once(recorded(f"{number}_cost_per_hour"), _NAMESPACES, by)
        yield Panel(
            f"{title} by namespace",
            f"{description} The ten largest namespaces at each moment. {_A_MONTH} {_RECORDED}",
            Unit.MONEY,
            (Query(f"topk(10, {_MONTH} * {cost})", "{{cluster}} {{namespace}}, {{currency}}"),),
            width=8,
        )


def _largest() -> Iterator[Panel]:
    for title, metric, description in (("Most waste", "waste", _WASTE), ("Most lacking", "lacking", _LACKING)):
        what = f"The ten workloads with the most. {description}"
        cost = f"topk(10, {_cost(metric, BY_WORKLOAD)} > 0)"
        yield Panel(f"{title}, money", f"{what} {_A_MONTH}", Unit.MONEY, (Query(cost),), Kind.TABLE, 24, _TEN)
        for resource, named, unit in RESOURCES:
            most = f"topk(10, {_amount(metric, resource, BY_WORKLOAD)} > 0)"
            yield Panel(f"{title}, {named}", what, unit, (Query(most),), Kind.TABLE, 12, _TEN)


def _prices() -> Iterator[Panel]:
    by = ("cluster", "instance_type", "capacity_type", "region", "currency")
    for what, metric in (("core", "core_hour"), ("GiB", "gib_hour")):
        yield Panel(
            f"Price of a {what} for an hour",
            "By the labels of nodes. Where no price table was given, OpenCost's published defaults hold.",
            Unit.PRICE,
            (Query(once(f"elastipod_price_{metric}", CLUSTER, by)),),
            Kind.TABLE,
        )


SAVINGS: Final = Board(
    "savings",
    "elastipod / Savings",
    "What is reserved and not needed, what is reserved less than before, and what a bill can lose: three numbers, "
    "never mixed.",
    WORKLOADS,
    (
        Row("Money", tuple(_money())),
        Row("The same in cores, memory and nodes", tuple(_amounts())),
        Row("Reserved, recommended, used", tuple(_curves())),
        Row("By namespace", tuple(_by_namespace())),
        Row("The ten largest each way", tuple(_largest())),
        Row("Prices", tuple(_prices())),
    ),
)
