"""A whole cluster in which nothing is installed, for `elastipod recommend` and `elastipod report` by `--prometheus`.

Owns the way from a Prometheus, and the cluster where one is named, to advice; and telling how far it is.
"""

import asyncio
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import typer

from elastipod.cli.cluster import Picture, read_picture
from elastipod.cli.options import connect
from elastipod.cli.output import change, shown
from elastipod.cli.templates import Templates, read_templates
from elastipod.clock import SystemClock
from elastipod.kube.disruptions import DisruptionLimit, decode_disruption_limit, letting_none_go
from elastipod.kube.errors import Forbidden
from elastipod.kube.listing import list_rows
from elastipod.kube.resources import POD_DISRUPTION_BUDGETS
from elastipod.pods import Node, Pod, Workload
from elastipod.quantities import NOTHING, Resources, format_cpu, show_memory
from elastipod.settings import SettingsError, load_settings
from recommender.advising import Advice, Surveyed, advise, totals
from recommender.ranges import Range
from recommender.report.surveyed import NO_TEMPLATES
from recommender.settings import RecommenderSettings
from recommender.sources.metrics_api import SourceError
from recommender.sources.prometheus.client import PrometheusClient
from recommender.sources.prometheus.clusters import SeveralClusters
from recommender.sources.prometheus.loading import Progress, Watch, no_progress, unwatched
from recommender.sources.prometheus.survey import Cluster, survey
from recommender.wholepods import pod_target

_DAY: Final = 86_400.0
_MATCHERS: Final = "ELASTIPOD_PROMETHEUS_MATCHERS in the environment"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be looked at, as the options say it."""

    url: str
    namespace: str | None = None
    selector: str = ""
    config: str | None = None
    kubeconfig: str | None = None
    context: str | None = None
    history_days: int | None = None
    """As many as the settings say where it is not given."""

    @property
    def names_cluster(self) -> bool:
        return self.kubeconfig is not None or self.context is not None


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found at one time."""

    at: float
    surveyed: Surveyed
    advice: list[Advice]
    nodes: list[Node]
    is_protected: Callable[[Pod], bool] | None
    """Tells of a pod that no budget lets go; None where not all of the cluster was looked at."""
    templates: Templates
    notes: list[str]
    """What may not be read of the cluster, and what is not known therefore."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A row for each container of each workload."""

    rows: list[dict[str, Any]]
    notes: list[str]
    """What is not known of all of them."""
    templates: Templates


def survey_rows(asked: Asked) -> Rows:
    """Survey, for a list. Ends the command where the Prometheus can not be read."""
    found = look(asked)
    advice = found.advice
    if sys.stderr.isatty():
        sums = totals(advice)
        typer.echo(f"requested {_amounts(sums['requested'])}, recommended {_amounts(sums['recommended'])}", err=True)
    wholes = _wholes(found.surveyed, advice)
    for problem in found.surveyed.problems:
        typer.echo(f"note: {shown(problem)}", err=True)
    notes = [*found.surveyed.problems, *found.notes, *([] if asked.names_cluster else [NO_TEMPLATES])]
    return Rows([_row(one, wholes.get(one.key.workload, NOTHING)) for one in advice], notes, found.templates)


def look(asked: Asked, watch: Watch = unwatched) -> Looked:
    """Survey; `watch` is shown the usage. Ends the command where the Prometheus can not be read."""
    flags = ["--prometheus-url", asked.url, *(["--config", asked.config] if asked.config else [])]
    try:
        settings = load_settings(RecommenderSettings, flags, os.environ)
    except SettingsError as error:
        raise typer.BadParameter(shown(error)) from None
    if asked.history_days is not None:
        intervals = math.ceil(asked.history_days * _DAY / settings.memory_interval_seconds)
        settings = replace(settings, memory_interval_count=intervals)
    found = None
    if asked.names_cluster:
        found = asyncio.run(_cluster(asked))
    elif asked.selector:
        raise typer.BadParameter("a Prometheus does not know pods' labels: name the cluster too, by --context")
    clock = SystemClock()
    now = clock.now()
    client = PrometheusClient(settings.prometheus_access(), clock, timeout_seconds=settings.prometheus_timeout_seconds)
    try:
        with _progress() as progress:
            surveyed = survey(
                client,
                settings,
                now,
                cluster=None if found is None else found.cluster,
                namespaces=[asked.namespace] if asked.namespace else [],
                progress=progress,
                watch=watch,
            )
    except SourceError as error:
        how = f" ({_MATCHERS}, or --config)" if isinstance(error, SeveralClusters) else ""
        typer.echo(f"error: {shown(asked.url)}: {shown(error)}{how}", err=True)
        raise typer.Exit(1) from None
    finally:
        client.close()
    advice = advise(surveyed, settings, now)
    if found is None:
        return Looked(now, surveyed, advice, [], None, {}, [])
    return Looked(now, surveyed, advice, found.nodes, found.is_protected, found.templates, found.notes)


@dataclass(frozen=True, slots=True)
class _Found:
    cluster: Cluster
    nodes: list[Node]
    is_protected: Callable[[Pod], bool] | None
    templates: Templates
    notes: list[str]


async def _cluster(asked: Asked) -> _Found:
    is_whole = not asked.namespace and not asked.selector
    notes: list[str] = []
    async with connect(asked.kubeconfig, asked.context) as client:
        picture: Picture = await read_picture(client.connection, asked.namespace, asked.selector, notes)
        templates, unread = await read_templates(client.connection, asked.namespace)
        budgets: list[DisruptionLimit] | None = None
        if is_whole:
            try:
                budgets = await list_rows(client.connection, POD_DISRUPTION_BUDGETS, decode_disruption_limit)
            except Forbidden as error:
                notes.append(f"Which nodes could be given back is not known: {error}")
    largest = NOTHING
    for node in picture.nodes:
        largest = largest.largest(node.allocatable)
    pods = [(pod, picture.workload(pod)) for pod in picture.pods if not pod.is_terminal]
    is_protected = letting_none_go(budgets) if budgets is not None and picture.nodes else None
    return _Found(Cluster(pods, largest), picture.nodes, is_protected, templates, [*notes, *unread])


@contextmanager
def _progress() -> Iterator[Progress]:
    """A bar on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} series"))
    with Bar(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("asking what there is", total=None)

        def show(done: int, all_of_them: int) -> None:
            bar.update(task, description="reading usage", completed=done, total=all_of_them)

        yield show


def _wholes(surveyed: Surveyed, advice: list[Advice]) -> dict[Workload, Resources]:
    """What pods should request as a whole, of workloads whose pods do."""
    targets: dict[Workload, dict[str, Resources]] = {}
    for one in advice:
        _, cpu, _ = _ends(one.wants.cpu)
        _, memory, _ = _ends(one.wants.memory)
        targets.setdefault(one.key.workload, {})[one.key.container] = Resources(cpu, memory)
    those = ((pod, workload) for pod, workload in surveyed.pods if not pod.pod_requests.is_empty)
    return {workload: pod_target(pod, targets.get(workload, {})) for pod, workload in those}


def _row(advice: Advice, whole: Resources) -> dict[str, Any]:
    workload, has, wants = advice.key.workload, advice.has, advice.wants
    requests, limits = has.requests, has.limits
    cpu_lower, cpu, cpu_upper = _ends(wants.cpu)
    memory_lower, memory, memory_upper = _ends(wants.memory)
    is_recommended = cpu is not None or memory is not None
    return {
        "namespace": workload.namespace,
        "workload": f"{workload.kind}/{workload.name}",
        "container": advice.key.container,
        "is_sidecar": has.is_sidecar,
        "pods": has.pods,
        "cpu": change(requests.cpu_millicores, cpu, format_cpu),
        "memory": change(requests.memory_bytes, memory, show_memory),
        "cpu_bounds": change(cpu_lower, cpu_upper, format_cpu, between=" to "),
        "memory_bounds": change(memory_lower, memory_upper, show_memory, between=" to "),
        "confidence": "" if not is_recommended else "enough" if advice.is_confident else "low",
        "days": round(advice.confidence, 2),
        "reason": str(advice.reason),
        "message": advice.message,
        "requests": {"cpu_millicores": requests.cpu_millicores, "memory_bytes": requests.memory_bytes},
        "limits": {"cpu_millicores": limits.cpu_millicores, "memory_bytes": limits.memory_bytes},
        "target": {"cpu_millicores": cpu, "memory_bytes": memory},
        "needed": {"cpu_millicores": _needed(wants.cpu), "memory_bytes": _needed(wants.memory)},
        "pod_target": {"cpu_millicores": whole.cpu_millicores, "memory_bytes": whole.memory_bytes},
        "lower_bound": {"cpu_millicores": cpu_lower, "memory_bytes": memory_lower},
        "upper_bound": {"cpu_millicores": cpu_upper, "memory_bytes": memory_upper},
    }


def _ends(span: Range | None) -> tuple[int | None, int | None, int | None]:
    return (None, None, None) if span is None else (span.lower, span.target, span.upper)


def _needed(span: Range | None) -> int | None:
    """Its target, or more where something caps that."""
    return None if span is None else max(span.target, span.uncapped)


def _amounts(amounts: Resources) -> str:
    return f"{amounts.cpu / 1000:.1f} cores and {show_memory(amounts.memory)}"
