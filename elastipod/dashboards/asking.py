"""How boards and rules ask Prometheus, so that nothing counts twice.

Owns the ways to one number. What is the same may be scraped twice, or come from a leader and from its successor: a
gauge is made one by the largest before anything is added up. A counter is one by process, and what processes counted is
added up: one that was replaced counts until then. A scrape that is missed is neither an end nor a beginning. Where
there is no label `cluster`, all is one cluster.
"""

from typing import Final

BY_WORKLOAD: Final = ("cluster", "namespace", "workload_kind", "workload")
BY_CONTAINER: Final = (*BY_WORKLOAD, "container")
BY_ACCOUNT: Final = (*BY_CONTAINER, "resource")
CHOSEN: Final = 'cluster=~"$cluster", namespace=~"$namespace", workload=~"$workload"'
CLUSTER: Final = 'cluster=~"$cluster"'
_PROCESS: Final = ("cluster", "instance")
_ALIVE: Final = "elastipod_run_seconds_count"
"""Told by every process, from its start on."""
_LONGEST_GAP: Final = "1d"


def _selected(metric: str, where: str) -> str:
    """The series of a metric that are meant."""
    return f"{metric}{{{where}}}" if where else metric


def once(metric: str, where: str, by: tuple[str, ...] = BY_ACCOUNT, *, offset: str = "") -> str:
    """A gauge, each series once, however often it was scraped; as it is, or as it was before."""
    before = f" offset {offset}" if offset else ""
    return f"max by ({', '.join(by)}) ({_selected(metric, where)}{before})"


def of(resource: str, where: str = CHOSEN) -> str:
    """What is chosen, of one resource."""
    return f'{where}, resource="{resource}"'


def sum_by(by: tuple[str, ...], expression: str) -> str:
    """A sum for each of the labels' values; one sum where none is named."""
    return f"sum by ({', '.join(by)}) ({expression})" if by else f"sum({expression})"


def counted(metric: str, where: str, by: tuple[str, ...] = (), *, over: str) -> str:
    """What a counter grew by the second, over a span. Where it begins is no growth: for counters that run on."""
    labels = dict.fromkeys((*_PROCESS, *by))
    return sum_by(by, f"max by ({', '.join(labels)}) (rate({_selected(metric, where)}[{over}]))")


def percentile(metric: str, fraction: float, where: str, by: tuple[str, ...] = (), *, over: str) -> str:
    """A percentile of a histogram over all processes."""
    buckets = counted(f"{metric}_bucket", where, ("le", *by), over=over)
    return f"histogram_quantile({fraction}, {buckets})"


def grown(metric: str, where: str, by: tuple[str, ...], *, over: str, among: str = "") -> str:
    """What a counter grew by within a span, its beginning included, of the processes `among` which it is.

    What it was before is 0 where its process was seen without it, and what was last known where nothing was seen. It
    has begun anew where it is less than before.
    """
    labels = tuple(dict.fromkeys((*_PROCESS, *by)))
    now, before = once(metric, where, labels), once(metric, where, labels, offset=over)
    not_yet = f"({now} * 0 and on ({', '.join(_PROCESS)}) {once(_ALIVE, among, _PROCESS, offset=over)})"
    known = f"max by ({', '.join(labels)}) (last_over_time({_selected(metric, where)}[{_LONGEST_GAP}] offset {over}))"
    return sum_by(by, f"{now} - ({before} or {not_yet} or {known}) >= 0 or {now}")


def fresh(metric: str, where: str, by: tuple[str, ...], *, over: str, among: str = "") -> str:
    """Where a counter grew within a span, or has begun to count."""
    return f"{grown(metric, where, by, over=over, among=among)} > 0"
