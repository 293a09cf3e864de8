"""The board of elastipod itself: what its parts do, what is refused, and how long it takes."""

from collections.abc import Iterator
from typing import Final

from elastipod.dashboards.asking import CLUSTER, counted, once, percentile, sum_by
from elastipod.dashboards.panels import Board, Kind, Panel, Query, Row, Unit, Variable

_RATE: Final = "$__rate_interval"


def _rate(metric: str, by: tuple[str, ...] = (), legend: str = "") -> Query:
    """A counter's growth by the second, named by its label."""
    return Query(counted(metric, CLUSTER, by, over=_RATE), legend or f"{{{{{by[0]}}}}}")


def _gauge(metric: str, by: tuple[str, ...] = (), legend: str = "") -> Query:
    return Query(sum_by(by, once(metric, CLUSTER, ("cluster", *by))), legend)


def _percentiles(metric: str) -> tuple[Query, ...]:
    return tuple(
        Query(percentile(metric, fraction, CLUSTER, over=_RATE), f"percentile {fraction}") for fraction in (0.5, 0.99)
    )


def _processes() -> Iterator[Panel]:
    yield Panel(
        "Time of a run",
        "What the slowest runs of each part take: percentile 0.99 of those that ended well.",
        Unit.SECONDS,
        (Query(percentile("elastipod_run_seconds", 0.99, CLUSTER, ("part",), over=_RATE), "{{part}}"),),
    )
    yield Panel(
        "Runs",
        "Runs of each part that ended well, and such as ended in an error. Only a leader runs.",
        Unit.PER_SECOND,
        (
            _rate("elastipod_run_seconds_count", ("part",)),
            _rate("elastipod_runs_failed_total", ("part",), "{{part}}: failed"),
        ),
    )
    yield Panel(
        "Requests to the API server",
        "By verb and kind, of all processes.",
        Unit.PER_SECOND,
        (_rate("elastipod_api_requests_total", ("verb", "resource"), "{{verb}} {{resource}}"),),
    )
    yield Panel(
        "Answers of the API server",
        "By HTTP status: 2xx, the code of a refusal, or none where no answer came.",
        Unit.PER_SECOND,
        (_rate("elastipod_api_requests_total", ("code",)),),
    )
    yield Panel(
        "Time to the API server's answer",
        "Percentile 0.99 by verb; watches, which stay open, are not in it.",
        Unit.SECONDS,
        (Query(percentile("elastipod_api_request_seconds", 0.99, CLUSTER, ("verb",), over=_RATE), "{{verb}}"),),
    )
    yield Panel(
        "Age of usage",
        "How long ago the recommender read usage that tells of anything.",
        Unit.SECONDS,
        (Query(f"max by (source) (elastipod_source_age_seconds{{{CLUSTER}}})", "{{source}}"),),
    )


def _recommender() -> Iterator[Panel]:
    yield Panel(
        "Usage samples",
        "Samples since the recommender's leader started, by what became of them.",
        Unit.COUNT,
        (_gauge("elastipod_recommender_samples", ("outcome",), "{{outcome}}"),),
    )
    yield Panel(
        "Containers with a history",
        "Containers of workloads whose usage is remembered, and who speaks for those that may have the best estimator.",
        Unit.COUNT,
        (
            _gauge("elastipod_recommender_containers", legend="all"),
            _gauge("elastipod_recommender_speakers", ("resource", "estimator"), "{{resource}}: {{estimator}}"),
        ),
    )
    yield Panel(
        "Writes",
        "Statuses and checkpoints written, by what became of them.",
        Unit.PER_SECOND,
        tuple(
            _rate(f"elastipod_recommender_{what}_writes_total", ("outcome",), f"{what} {{{{outcome}}}}")
            for what in ("status", "checkpoint")
        ),
    )
    yield Panel(
        "Oldest advice that is not written",
        "How long the oldest advice waits to be written.",
        Unit.SECONDS,
        (Query(f"max(elastipod_recommender_advice_age_seconds{{{CLUSTER}}})", "oldest"),),
    )
    yield Panel(
        "OOM kills",
        "OOM kills taken as evidence.",
        Unit.PER_SECOND,
        (_rate("elastipod_recommender_oom_kills_total", legend="kills"),),
    )
    yield Panel(
        "Containers without series",
        "Containers that no metric tells of, since there are more than are exported. Sums of the boards lack them.",
        Unit.COUNT,
        (_gauge("elastipod_workload_series_left_out", legend="left out"),),
    )


def _updater() -> Iterator[Panel]:
    yield Panel(
        "Resizes",
        "Resize attempts by what became of them.",
        Unit.PER_SECOND,
        (_rate("elastipod_resizes_total", ("outcome",)),),
    )
    yield Panel(
        "Resizes that wait",
        "Attempts that are not done, by reason.",
        Unit.COUNT,
        (_gauge("elastipod_resizes_waiting", ("reason",), "{{reason}}"),),
    )


def _admission() -> Iterator[Panel]:
    yield Panel(
        "New pods",
        "New pods by what became of their size.",
        Unit.PER_SECOND,
        (_rate("elastipod_admissions_total", ("outcome",)),),
    )
    yield Panel(
        "Time to an answer",
        "From a question of the API server read to its answer.",
        Unit.SECONDS,
        _percentiles("elastipod_admission_seconds"),
    )
    yield Panel(
        "Refused, and dry runs",
        "Requests without an answer by HTTP status, and dry runs of a new object by what became of them.",
        Unit.PER_SECOND,
        (
            _rate("elastipod_admission_refused_total", ("status",)),
            _rate("elastipod_admission_canaries_total", ("outcome",)),
        ),
    )
    yield Panel(
        "Certificate files read",
        "Looks at changed certificate files, by what came of it.",
        Unit.PER_SECOND,
        (_rate("elastipod_admission_certificate_reads_total", ("outcome",)),),
    )
    yield Panel(
        "The webhook has effect",
        "Whether the last dry run came back patched, 1 or 0; the worst of the replicas.",
        Unit.COUNT,
        (Query(f"min(elastipod_admission_effective{{{CLUSTER}}})", "effective"),),
        Kind.NUMBER,
        12,
        4,
    )
    yield Panel(
        "The certificate ends in",
        "How long the certificate in use holds; the shortest of the replicas.",
        Unit.SECONDS,
        (Query(f"min(elastipod_admission_certificate_ends_at_seconds{{{CLUSTER}}}) - time()", "left"),),
        Kind.NUMBER,
        12,
        4,
    )


def _actuators() -> Iterator[Panel]:
    yield Panel(
        "Memory spikes",
        "Spikes on all nodes by what became of them.",
        Unit.PER_SECOND,
        (_rate("elastipod_holds_total", ("result",)), _rate("elastipod_raises_total", legend="limits raised")),
    )
    yield Panel(
        "Time of a spike",
        "From a spike's first event to its end.",
        Unit.SECONDS,
        _percentiles("elastipod_hold_seconds"),
    )
    yield Panel(
        "Above the mark",
        "How far above its mark a container was when that was noticed.",
        Unit.BYTES,
        _percentiles("elastipod_over_high_bytes"),
    )
    yield Panel(
        "Holds lifted by guards",
        "What guards let go since they started, as their actuators were silent.",
        Unit.COUNT,
        (Query(sum_by((), once("elastipod_guard_restores", CLUSTER, ("cluster", "instance"))), "lifted"),),
    )


OPERATIONS: Final = Board(
    "operations",
    "elastipod / Operations",
    "What the parts of elastipod do, what is refused, and how long it takes.",
    (Variable("cluster", "Cluster", "elastipod_recommender_containers"),),
    (
        Row("All parts", tuple(_processes())),
        Row("Recommender", tuple(_recommender())),
        Row("Updater", tuple(_updater())),
        Row("Admission webhook", tuple(_admission())),
        Row("Actuators", tuple(_actuators())),
    ),
)
