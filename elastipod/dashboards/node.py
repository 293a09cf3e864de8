"""The board of nodes: what they have, what of it is taken, what is promised, held, and waits."""

from collections.abc import Iterator
from typing import Final

from elastipod.dashboards.asking import BY_WORKLOAD, counted, of, once, sum_by
from elastipod.dashboards.panels import Board, Kind, Panel, Query, Row, Unit, Variable
from elastipod.dashboards.savings import RESOURCES

_CHOSEN: Final = 'cluster=~"$cluster", node=~"$node"'
_NODE: Final = ("cluster", "node")
_RATE: Final = "$__rate_interval"
_WAITING: Final = "elastipod_workload_resize_waiting_seconds"
_BY_NODE: Final = "By the label `node`, which the chart's monitors set."


def _amount(metric: str, resource: str) -> str:
    return once(f"elastipod_node_{metric}", of(resource, _CHOSEN), _NODE)


def _amounts() -> Iterator[Panel]:
    for resource, what, unit in RESOURCES:
        yield Panel(
            f"Chosen nodes' {what}",
            "What pods may request, what the scheduler counts as taken, what the kubelets have admitted, what is "
            "promised to resizes that do not show yet, and what pods use.",
            unit,
            tuple(
                Query(sum_by((), _amount(metric, resource)), metric)
                for metric in ("allocatable", "reserved", "allocated", "granted", "usage")
            ),
        )


def _fullest() -> Iterator[Panel]:
    for resource, what, _ in RESOURCES:
        yield Panel(
            f"Fullest nodes, {what}",
            "The share of what pods may request that the scheduler counts as taken, of the twenty nodes with the least "
            "left.",
            Unit.FRACTION,
            (Query(f"topk(20, {_amount('reserved', resource)} / {_amount('allocatable', resource)})"),),
            Kind.TABLE,
        )


def _granted() -> Iterator[Panel]:
    for resource, what, unit in RESOURCES:
        yield Panel(
            f"Granted {what}, by node",
            "Promised to resizes that are asked for and do not show yet, on the twenty nodes with the most. A promise "
            "that stays belongs to a request without an answer.",
            unit,
            (Query(f"topk(20, {_amount('granted', resource)})", "{{node}}"),),
        )


def _spikes() -> Iterator[Panel]:
    holds = counted("elastipod_holds_total", _CHOSEN, ("node", "result"), over=_RATE)
    yield Panel(
        "Memory spikes",
        "Spikes by node and by what became of them: raised got more memory, relaxed fell back, cache could be "
        f"reclaimed; expired and denied were let go without more memory. {_BY_NODE}",
        Unit.PER_SECOND,
        (Query(holds, "{{node}}: {{result}}"),),
    )
    yield Panel(
        "Protected containers",
        f"Containers whose memory spikes would be met. {_BY_NODE}",
        Unit.COUNT,
        (Query(sum_by(_NODE, once("elastipod_protected_containers", _CHOSEN, (*_NODE, "instance"))), "{{node}}"),),
    )


def _waits() -> Iterator[Panel]:
    labels = (*BY_WORKLOAD, "node", "reason")
    longest = once(_WAITING, _CHOSEN, labels)
    yield Panel(
        "What waits, and why",
        "The twenty resizes that wait the longest: since when this size was first wanted, with the reason.",
        Unit.SECONDS,
        (Query(f"topk(20, {longest})"),),
        Kind.TABLE,
    )
    yield Panel(
        "Workloads that wait, by node and reason",
        "How many workloads have a pod on the node whose resize waits.",
        Unit.COUNT,
        (Query(f"count by (cluster, node, reason) ({longest})", "{{node}}: {{reason}}"),),
    )


NODE: Final = Board(
    "node",
    "elastipod / Node",
    "What nodes have, what of it is taken, promised and used, which spikes were held there, and what waits for room.",
    (
        Variable("cluster", "Cluster", "elastipod_node_allocatable"),
        Variable("node", "Node", 'elastipod_node_allocatable{cluster=~"$cluster"}'),
    ),
    (
        Row("What there is", (*_amounts(), *_fullest())),
        Row("What waits", tuple(_waits())),
        Row("Grants and holds", (*_granted(), *_spikes())),
    ),
)
