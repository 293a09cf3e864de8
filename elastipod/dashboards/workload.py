"""The board of workloads: what containers request, are recommended and use, and what happened to them.

Throttling and restarts are the kubelets' to tell; their series name pods, and podnames.py says whose they are.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from elastipod.dashboards.asking import (
    BY_ACCOUNT,
    BY_CONTAINER,
    BY_WORKLOAD,
    CHOSEN,
    CLUSTER,
    fresh,
    grown,
    of,
    once,
    sum_by,
)
from elastipod.dashboards.panels import Annotation, Board, Kind, Panel, Query, Row, Unit
from elastipod.dashboards.podnames import BY_POD, OF_PODS, of_chosen
from elastipod.dashboards.savings import RESOURCES, WORKLOADS

_RATE: Final = "$__rate_interval"
_NAMED: Final = "{{workload}} {{container}}"
_A_MINUTE: Final = "1m"


def _sizes(resource: str, what: str, unit: Unit) -> Iterator[Panel]:
    where = of(resource)
    yield Panel(
        f"All pods' {what}",
        "What the pods of each container request, may use at most, are recommended and use, added up. The limit is "
        "not drawn where one of the pods has none.",
        unit,
        tuple(
            Query(once(f"elastipod_workload_{metric}", where), f"{_NAMED}: {metric}")
            for metric in ("requests", "limits", "recommended", "usage")
        ),
    )
    yield Panel(
        f"A pod's {what}",
        "The request of the mean pod, and what is recommended for one: target and bounds, and the target before "
        "anything capped it. A request outside the bounds is worth a resize.",
        unit,
        _beside_request(where, "target", "lower_bound", "upper_bound", "uncapped_target"),
    )
    yield Panel(
        f"What a pod used of its {what}",
        "What the container of one pod used in the mean, up to its p95 and at most, over the time that "
        "elastipod_usage_window_seconds tells of at each moment, beside the request of the mean pod and the target.",
        unit,
        _beside_request(where, "target", "usage_mean", "usage_p95", "usage_peak"),
        width=8,
    )
    yield Panel(
        f"What caps the {what} target",
        "What a pod's target was cut down to, by reason and by what says so.",
        unit,
        (Query(once("elastipod_workload_capped", where, (*BY_ACCOUNT, "reason", "by"))),),
        Kind.TABLE,
        width=8,
    )
    yield Panel(
        f"Needed {what} above and below what is reserved",
        "Waste is reserved above what is needed, lacking is needed above what is reserved, of all pods. Where a cap "
        "holds the target down, needed is more than the target.",
        unit,
        tuple(
            Query(once(f"elastipod_workload_{metric}", where), f"{_NAMED}: {metric}") for metric in ("waste", "lacking")
        ),
        width=8,
    )


def _beside_request(where: str, *metrics: str) -> tuple[Query, ...]:
    """The request of the mean pod, and what a pod's container has of these."""
    return (
        Query(_a_pod("requests", where), f"{_NAMED}: request"),
        *(
            Query(
                once(f"elastipod_workload_{metric}", where),
                f"{_NAMED}: {metric.removeprefix('usage_').replace('_', ' ')}",
            )
            for metric in metrics
        ),
    )


def _a_pod(metric: str, where: str = CHOSEN, offset: str = "") -> str:
    """The amount of the mean pod."""
    amount, pods = (once(f"elastipod_workload_{name}", where, offset=offset) for name in (metric, "pods"))
    return f"({amount} / {pods})"


def _trouble() -> Iterator[Panel]:
    throttled, periods = (
        sum_by(BY_CONTAINER, _each_pods(f"rate(container_cpu_cfs_{name}_total{{{OF_PODS}}}[{_RATE}])"))
        for name in ("throttled_periods", "periods")
    )
    yield Panel(
        "Throttled",
        "The share of periods in which a container's CPU limit stopped it, in all pods that are named as their "
        "workload's kind names pods, from the kubelets' cAdvisor metrics.",
        Unit.FRACTION,
        (Query(f"{throttled} / {periods}", _NAMED),),
    )
    yield Panel(
        "Memory spikes",
        "Spikes by what became of them: raised got more memory, relaxed fell back, cache could be reclaimed; expired "
        "and denied were let go without more memory, and the kernel decided. Each moment counts a few scrapes.",
        Unit.COUNT,
        (Query(_grown("holds", "result"), f"{_NAMED}: {{{{result}}}}"),),
    )
    waiting = once("elastipod_workload_resize_waiting_seconds", CHOSEN, (*BY_WORKLOAD, "node", "reason"))
    yield Panel(
        "Resizes that wait",
        "How long the pod of a workload waits for its resize that waits the longest, by node and by reason.",
        Unit.SECONDS,
        (Query(waiting, "{{workload}} on {{node}}: {{reason}}"),),
    )
    yield Panel(
        "Killed for memory",
        "OOM kills of each container that the recommender took as evidence. Each moment counts a few scrapes.",
        Unit.COUNT,
        (Query(_grown("oom_kills"), _NAMED),),
    )
    yield Panel(
        "Confidence",
        "Days of usage behind the recommendation, a sample a minute.",
        Unit.DAYS,
        (Query(once("elastipod_workload_confidence_days", CHOSEN), f"{_NAMED}: {{{{resource}}}}"),),
    )
    yield Panel(
        "Pods",
        "Pods that hold a reservation: bound to a node, not ended and not told to end.",
        Unit.COUNT,
        (Query(once("elastipod_workload_pods", of("cpu"), BY_CONTAINER), _NAMED),),
    )


def _each_pods(series: str) -> str:
    """What kubelets tell of the chosen workloads' containers, once for each pod, however often it was scraped."""
    return f"max by ({', '.join(BY_POD)}) ({of_chosen(series)})"


def _grown(what: str, *more: str) -> str:
    """What happened to each container, the first time included."""
    return grown(f"elastipod_workload_{what}_total", CHOSEN, (*BY_CONTAINER, *more), over=_RATE, among=CLUSTER)


def _changed() -> str:
    """Where the mean pod requests otherwise than a minute before."""
    now, before = _a_pod("requests"), _a_pod("requests", offset=_A_MINUTE)
    return f"abs({now} - {before}) > 0.001 * {before}"


_ANNOTATIONS: Final = (
    Annotation("Resized", _changed(), "{{namespace}}/{{workload}} {{container}}: {{resource}}", "blue"),
    Annotation(
        "Held",
        fresh("elastipod_workload_holds_total", CHOSEN, (*BY_CONTAINER, "result"), over=_A_MINUTE, among=CLUSTER),
        "{{namespace}}/{{workload}} {{container}}: {{result}}",
        "orange",
    ),
    Annotation(
        "Killed for memory",
        fresh("elastipod_workload_oom_kills_total", CHOSEN, BY_CONTAINER, over=_A_MINUTE, among=CLUSTER),
        "{{namespace}}/{{workload}} {{container}}",
        "dark-red",
    ),
    Annotation(
        "Started",
        f"{_each_pods(f'container_start_time_seconds{{{OF_PODS}}}')} > time() - 60",
        "{{namespace}}/{{pod}} {{container}}",
        "red",
    ),
)

WORKLOAD: Final = Board(
    "workload",
    "elastipod / Workload",
    "What containers request, are recommended and use, with resizes, holds and starts of containers as marks.",
    (*WORKLOADS[:-1], replace(WORKLOADS[-1], has_all=False)),
    (
        *(Row(what[0].upper() + what[1:], tuple(_sizes(resource, what, unit))) for resource, what, unit in RESOURCES),
        Row("What happens", tuple(_trouble())),
    ),
    _ANNOTATIONS,
)
