"""`elastipod recommend --prometheus`: recommendations for a whole cluster in which nothing is installed.

Owns the way from a Prometheus, and the cluster where one is named, to rows; and telling how far it is.
"""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from elastipod.cli.cluster import Picture, read_picture
from elastipod.cli.options import connect
from elastipod.cli.output import change, shown
from elastipod.clock import SystemClock
from elastipod.quantities import NOTHING, Resources, format_cpu, show_memory
from elastipod.settings import SettingsError, load_settings
from recommender.advising import Advice, advise, totals
from recommender.ranges import Range
from recommender.settings import RecommenderSettings
from recommender.sources.metrics_api import SourceError
from recommender.sources.prometheus.access import access_of
from recommender.sources.prometheus.client import PrometheusClient
from recommender.sources.prometheus.loading import Progress, no_progress
from recommender.sources.prometheus.survey import Cluster, survey


def survey_rows(
    url: str, namespace: str | None, selector: str, config: str | None, kubeconfig: str | None, context: str | None
) -> list[dict[str, Any]]:
    """A row for each container of each workload. Ends the command where the Prometheus can not be read."""
    flags = ["--prometheus-url", url, *(["--config", config] if config else [])]
    try:
        settings = load_settings(RecommenderSettings, flags, os.environ)
    except SettingsError as error:
        raise typer.BadParameter(shown(error)) from None
    cluster = None
    if kubeconfig is not None or context is not None:
        cluster = asyncio.run(_cluster(kubeconfig, context, namespace, selector))
    elif selector:
        raise typer.BadParameter("a Prometheus does not know pods' labels: name the cluster too, by --context")
    clock = SystemClock()
    now = clock.now()
    client = PrometheusClient(access_of(settings), clock, timeout_seconds=settings.prometheus_timeout_seconds)
    try:
        with _progress() as progress:
            names = [namespace] if namespace else []
            surveyed = survey(client, settings, now, cluster=cluster, namespaces=names, progress=progress)
    except SourceError as error:
        typer.echo(f"error: {shown(url)}: {shown(error)}", err=True)
        raise typer.Exit(1) from None
    finally:
        client.close()
    advice = advise(surveyed, settings, now)
    for problem in surveyed.problems:
        typer.echo(f"note: {shown(problem)}", err=True)
    if sys.stderr.isatty():
        sums = totals(advice)
        typer.echo(f"requested {_amounts(sums['requested'])}, recommended {_amounts(sums['recommended'])}", err=True)
    return [_row(one) for one in advice]


async def _cluster(kubeconfig: str | None, context: str | None, namespace: str | None, selector: str) -> Cluster:
    async with connect(kubeconfig, context) as client:
        picture: Picture = await read_picture(client.connection, namespace, selector)
    largest = NOTHING
    for node in picture.nodes:
        largest = largest.largest(node.allocatable)
    return Cluster([(pod, picture.workload(pod)) for pod in picture.pods if not pod.is_terminal], largest)


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


def _row(advice: Advice) -> dict[str, Any]:
    workload, has, wants = advice.key.workload, advice.has, advice.wants
    requests, limits = has.requests, has.limits
    cpu_lower, cpu, cpu_upper = _ends(wants.cpu)
    memory_lower, memory, memory_upper = _ends(wants.memory)
    is_recommended = cpu is not None or memory is not None
    return {
        "namespace": workload.namespace,
        "workload": f"{workload.kind}/{workload.name}",
        "container": advice.key.container,
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
        "lower_bound": {"cpu_millicores": cpu_lower, "memory_bytes": memory_lower},
        "upper_bound": {"cpu_millicores": cpu_upper, "memory_bytes": memory_upper},
    }


def _ends(span: Range | None) -> tuple[int | None, int | None, int | None]:
    return (None, None, None) if span is None else (span.lower, span.target, span.upper)


def _amounts(amounts: Resources) -> str:
    return f"{amounts.cpu / 1000:.1f} cores and {show_memory(amounts.memory)}"
