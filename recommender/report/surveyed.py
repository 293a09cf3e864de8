"""Savings of a cluster in which nothing is installed, from what a Prometheus tells of it.

Owns the way from what was surveyed to accounts. Nothing was resized there, so nothing is applied.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from msgspec import structs

from elastipod.pods import ContainerKey, Node, Pod
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from recommender.advising import Advice, Surveyed
from recommender.prices import PriceTable
from recommender.ranges import Resource
from recommender.realisable import realisable
from recommender.report.figures import counted
from recommender.report.told import Savings, sums, told
from recommender.report.window import Window
from recommender.savings import Advised, Direction, Snapshot, accounts

_MOST_PROBLEMS: Final = 20
NO_NODES: Final = (
    "Which nodes could be given back is not known: that takes every pod of the cluster with what keeps it where it is, "
    "which a Prometheus does not tell. Name the cluster by --context, without a namespace or a selector."
)
NO_TEMPLATES: Final = (
    "Whether pods request as a whole (spec.resources), and whether a template has each of their containers, is not "
    "known, which a Prometheus does not tell: a patch of such a workload may be refused, or change less than it says. "
    "Name the cluster by --context for one that holds."
)
NO_NODE_PRICES: Final = (
    "Prices are those of a node of which nothing is known: name the cluster by --context for each node's own."
)


def surveyed_savings(
    surveyed: Surveyed,
    advice: Sequence[Advice],
    window: Window,
    prices: PriceTable,
    now: float,
    *,
    nodes: Sequence[Node] = (),
    is_protected: Callable[[Pod], bool] | None = None,
    knows_templates: bool = False,
) -> Savings:
    """Accounts, and their sums. Raises PriceError.

    `is_protected` tells of a pod that no budget lets go; only where it is given, and the pods are all of the cluster,
    nodes that could be given back are worked out.
    """
    snapshot = Snapshot(
        pods=surveyed.pods,
        nodes={node.name: node for node in nodes},
        advised={one.key: _advised(one) for one in advice},
        used=window.newest,
        before={},
        usage=window.usage(),
    )
    spare = None if is_protected is None else realisable(snapshot, prices, is_protected=is_protected)
    notes = [
        *_first(surveyed.problems),
        *([] if nodes else [NO_NODE_PRICES]),
        *([unpriced] if (unpriced := prices.note_on(nodes)) else []),
        *([] if knows_templates else [NO_TEMPLATES]),
        *([NO_NODES] if spare is None else []),
    ]
    found = told(
        now,
        prices.currency,
        prices.words,
        [
            structs.replace(one, is_sidecar=surveyed.containers[one.key].is_sidecar)
            for one in accounts(snapshot, prices)
        ],
        spare,
        window_seconds=window.seconds,
        usage=window.words,
        notes=notes,
    )
    untold = {
        (key, resource)
        for key, one in surveyed.containers.items()
        if one.pods
        for resource in Resource
        if not one.tells(resource)
    }
    return _without_requests(found, untold) if untold else found


def _first(problems: Sequence[str]) -> list[str]:
    left_out = len(problems) - _MOST_PROBLEMS
    return [*problems[:_MOST_PROBLEMS], *([f"and {counted(left_out, 'more problem')}"] if left_out > 0 else [])]


def _without_requests(savings: Savings, untold: Collection[tuple[ContainerKey, Resource]]) -> Savings:
    """What nothing tells of these containers and resources is told by nobody, and in no sum."""
    unknown = dict.fromkeys(("before", "requested", "allocated", "limit", "waste", "lacking", "applied"))
    accounts = [
        structs.replace(
            one,
            direction=Direction.UNKNOWN,
            reason=one.reason if one.recommended is None else str(Reason.REQUESTS_UNKNOWN),
            **unknown,
        )
        if (ContainerKey(one.owner, one.container), one.resource) in untold
        else one
        for one in savings.accounts
    ]
    containers = counted(len({key for key, _ in untold}), "container")
    note = f"What {containers} of workloads request is not known, and in no sum."
    return structs.replace(savings, accounts=accounts, totals=sums(accounts), notes=[note, *savings.notes])


def _advised(one: Advice) -> Advised:
    ranges = (one.wants.cpu, one.wants.memory)
    target = Resources(*(None if found is None else found.target for found in ranges))
    uncapped = Resources(*(None if found is None else found.uncapped for found in ranges))
    advised = Advised(target, one.confidence, str(one.reason), uncapped=uncapped, caps=one.wants.caps)
    # Why what is needed is not recommended weighs most; what raised a target says less than the reason does.
    return structs.replace(advised, caps=tuple(cut for resource in Resource for cut in advised.cuts(resource)))
