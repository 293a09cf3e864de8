"""The recording rules and alerts, by component.

Owns which there are and how long each has to hold: longer than the moment in which two scrapes disagree.
"""

from typing import Final

from elastipod.dashboards.alerts import Alert, Group, Recorded, Severity, each
from elastipod.dashboards.asking import BY_ACCOUNT, BY_CONTAINER, BY_WORKLOAD, fresh, once, sum_by

BY_NAMESPACE: Final = ("cluster", "namespace")
AMOUNTS: Final = ("requests_before", "requests", "allocated", "recommended", "usage")
COSTS: Final = ("waste", "applied", "lacking")
_CONTAINER: Final = "{{ $labels.namespace }}/{{ $labels.workload }} {{ $labels.container }}"
_HELD_FOR_NOTHING: Final = 'result=~"expired|denied"'
_CAPPED: Final = "elastipod_workload_capped"
_WAITING: Final = "elastipod_workload_resize_waiting_seconds"
_BY_NODE: Final = (*BY_WORKLOAD, "node")
_LONG: Final = "> 3600"
_LOOKED_BACK: Final = "15m"
_ALWAYS_LED: Final = "elastipod_workload_series_left_out"


def recorded(number: str) -> str:
    """The name of a number of whole namespaces."""
    return f"namespace:elastipod_workload_{number}:sum"


def _by_namespace(number: str, kind: str) -> Recorded:
    """The sum over a namespace's workloads for each resource, or each currency."""
    series = once(f"elastipod_workload_{number}", "", tuple(dict.fromkeys((*BY_ACCOUNT, kind))))
    return Recorded(recorded(number), sum_by((*BY_NAMESPACE, kind), series))


def _and(one: str, other: str) -> str:
    """What both say of one container."""
    return f"({one}) and on ({', '.join(BY_CONTAINER)}) ({other})"


def _killed() -> str:
    return fresh("elastipod_workload_oom_kills_total", "", BY_CONTAINER, over=_LOOKED_BACK)


def _no_leader(part: str) -> Alert:
    runs = f'elastipod_run_seconds_count{{part="{part}"}}'
    return Alert(
        f"Elastipod{part.title()}Absent",
        f"sum by (cluster) (rate({runs}[10m])) == 0",
        "5m",
        f"No {part} is at work: no run ended well in ten minutes.",
        f"See whether its pods run and who holds the Lease elastipod-{part}. Pods keep the sizes they have meanwhile.",
        runs,
        # A process that ends takes its metrics along.
        unseen=Severity.WARNING,
    )


RECOMMENDER: Final = Group(
    "recommender",
    (
        *(_by_namespace(one, "resource") for one in AMOUNTS),
        *(_by_namespace(f"{one}_cost_per_hour", "currency") for one in COSTS),
    ),
    (
        _no_leader("recommender"),
        Alert(
            "ElastipodSourceLost",
            "max by (cluster, source) (elastipod_source_age_seconds) > 600",
            "5m",
            "The recommender has read no usage from {{ $labels.source }} for {{ $value | humanizeDuration }}.",
            "Recommendations stay as they are. See the recommender's log, and whether the source answers.",
            "elastipod_source_age_seconds",
        ),
        Alert(
            "ElastipodTargetCapped",
            f"{once(_CAPPED, '')} > 0",
            "6h",
            f"The {{{{ $labels.resource }}}} target of {_CONTAINER} is capped for hours: "
            f"{each('reason', _CAPPED, BY_ACCOUNT, '> 0')}.",
            "The container needs more than it may have. Raise what caps it, or give the work to more pods.",
            _ALWAYS_LED,
        ),
        Alert(
            "ElastipodOomAfterRecommendation",
            _and(_killed(), once("elastipod_workload_recommended", 'resource="memory"', BY_CONTAINER)),
            "1m",
            f"{_CONTAINER} was killed for memory although there is a recommendation for it.",
            "The next recommendation is higher. See whether the resize waits, or a limit of its own is lower.",
            _ALWAYS_LED,
        ),
    ),
)
UPDATER: Final = Group(
    "updater",
    (),
    (
        _no_leader("updater"),
        Alert(
            "ElastipodResizeWaiting",
            f"{once(_WAITING, '', _BY_NODE)} {_LONG}",
            "5m",
            "A resize of {{ $labels.namespace }}/{{ $labels.workload }} on {{ $labels.node }} has waited for "
            f"{{{{ $value | humanizeDuration }}}}: {each('reason', _WAITING, _BY_NODE, _LONG)}.",
            "`elastipod explain POD` says what is in the way.",
            "elastipod_node_allocatable",
        ),
    ),
)
ACTUATOR: Final = Group(
    "actuator",
    (),
    (
        Alert(
            "ElastipodHoldEndedInKill",
            _and(
                fresh("elastipod_workload_holds_total", _HELD_FOR_NOTHING, BY_CONTAINER, over=_LOOKED_BACK),
                _killed(),
            ),
            "1m",
            f"{_CONTAINER} was held in a memory spike, got no more memory, and was killed.",
            "The Event on the pod says why there was none: the node's budget, its ceiling, or the API server.",
            "elastipod_holds_total",
        ),
    ),
)
GROUPS: Final = (RECOMMENDER, UPDATER, ACTUATOR)
