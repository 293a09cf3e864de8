"""`elastipod recommend`: what each container has, and what it is recommended.

Owns the verb, and the rows of what the recommender wrote. With a Prometheus nothing has to be installed: surveying.py
makes the rows then.
"""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from elastipod.api import Autoscaler, ContainerRecommendation, ResourceList, resources
from elastipod.cli.cluster import Picture, read_picture
from elastipod.cli.options import (
    AllNamespacesOption,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
    Output,
    SelectorOption,
    connect,
)
from elastipod.cli.output import change, print_csv, print_rows
from elastipod.cli.patches import patches
from elastipod.cli.templates import Templates, read_templates
from elastipod.eligible import target_of
from elastipod.nodeclass import parted
from elastipod.pods import ContainerKind, Pod
from elastipod.quantities import NOTHING, QuantityError, Resources, format_cpu, show_memory
from recommender.wholepods import pod_target

_COLUMNS: Final = ("namespace", "workload", "container", "pods", "cpu", "memory", "mode", "confidence")
_WIDE: Final = ("cpu_bounds", "memory_bounds", "autoscaler", "message")
_SURVEY_COLUMNS: Final = ("namespace", "workload", "container", "pods", "cpu", "memory", "confidence", "reason")
_SURVEY_WIDE: Final = ("days", "cpu_bounds", "memory_bounds", "message")


class Listing(StrEnum):
    """How recommendations are printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    PATCH = "patch"


def recommend(
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    selector: SelectorOption = "",
    output: Annotated[
        Listing, typer.Option("--output", "-o", help="How to print it; patch: of workloads' templates, to be applied.")
    ] = Listing.TABLE,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
    prometheus: Annotated[
        str,
        typer.Option(
            help="The address of a Prometheus with the cluster's usage: recommends from it with nothing installed, in "
            "all namespaces or the one named. With --context or --kubeconfig pods and sizes are the cluster's own. "
            "Credentials are settings of the recommender, as ELASTIPOD_PROMETHEUS_TOKEN in the environment; so is the "
            "cluster meant of several, as ELASTIPOD_PROMETHEUS_MATCHERS='cluster=\"prod\"'."
        ),
    ] = "",
    config: Annotated[
        str | None, typer.Option(help="With --prometheus: a YAML file with settings of the recommender.")
    ] = None,
) -> None:
    """Show what each container requests and what it is recommended."""
    if prometheus:
        try:
            from elastipod.cli.surveying import Asked, survey_rows
        except ModuleNotFoundError as error:
            typer.echo(f"error: {error.name} is not installed; --prometheus needs elastipod[recommender]", err=True)
            raise typer.Exit(1) from None
        where = None if all_namespaces else namespace
        asked = Asked(prometheus, where, selector, config, kubeconfig, context)
        found = survey_rows(asked)
        _print(found.rows, output, _SURVEY_COLUMNS, _SURVEY_WIDE, found.notes, found.templates)
        return

    async def read() -> tuple[Picture, Templates, list[str]]:
        async with connect(kubeconfig, context) as client:
            where = None if all_namespaces else namespace or client.namespace
            picture = await read_picture(client.connection, where, selector)
            templates = await read_templates(client.connection, where) if output is Listing.PATCH else ({}, [])
            return picture, *templates

    picture, templates, notes = asyncio.run(read())
    rows = list(recommendation_rows(picture, only_matched=bool(selector)))
    _print(rows, output, _COLUMNS, _WIDE, notes, templates)


def _print(
    rows: list[dict[str, Any]],
    output: Listing,
    columns: tuple[str, ...],
    wide: tuple[str, ...],
    notes: Sequence[str] = (),
    templates: Templates | None = None,
) -> None:
    if output is Listing.CSV:
        print_csv(rows)
    elif output is Listing.PATCH:
        sys.stdout.writelines(patches(rows, notes, templates or {}))
    else:
        print_rows(rows, columns, Output(output), wide=wide)


def recommendation_rows(picture: Picture, *, only_matched: bool = False) -> Iterator[dict[str, Any]]:
    """A row per container of each autoscaler; one without a recommendation says why."""
    for autoscaler in sorted(picture.autoscalers, key=lambda one: (one.metadata.namespace, one.metadata.name)):
        pods = picture.pods_of(autoscaler)
        if only_matched and not pods:
            continue
        recommended = _recommendations(autoscaler)
        for one in recommended:
            _, of = parted(one.container_name)
            there = [pod for pod in pods if picture.node_class_key(pod) == of] if of else pods
            sizes = _sizes_now(there, one) or _sizes_now(pods, one) or (NOTHING, NOTHING)
            yield _row(autoscaler, there, one, sizes, _targets(recommended, of))
        if not recommended:
            yield _row(autoscaler, pods, None, (NOTHING, NOTHING), {})


def _recommendations(autoscaler: Autoscaler) -> list[ContainerRecommendation]:
    status = autoscaler.status
    if status is None or status.recommendation is None:
        return []
    return status.recommendation.container_recommendations or []


def _targets(recommended: list[ContainerRecommendation], of: str) -> dict[str, Resources]:
    """By container, what is recommended for pods on nodes of a class; for all nodes where that is not said apart."""
    found = {parted(one.container_name): _read(one.target) for one in recommended}
    for_all = {container: target for (container, key), target in found.items() if not key}
    return for_all | {container: target for (container, key), target in found.items() if key == of}


def _row(
    autoscaler: Autoscaler,
    pods: list[Pod],
    one: ContainerRecommendation | None,
    sizes: tuple[Resources, Resources],
    targets: Mapping[str, Resources],
) -> dict[str, Any]:
    """Of the pods that a recommendation is for, with their requests and limits."""
    target = target_of(autoscaler)
    conditions = {found.type: found for found in (autoscaler.status and autoscaler.status.conditions) or []}
    low = conditions.get("LowConfidence")
    has, limits = sizes
    whole = next((pod_target(pod, targets) for pod in pods if not pod.is_terminal), NOTHING)
    is_recommended = one is not None
    one = one or ContainerRecommendation()
    wants, lower, upper = _read(one.target), _read(one.lower_bound), _read(one.upper_bound)
    needed = wants.largest(_read(one.uncapped_target))
    return {
        "namespace": autoscaler.metadata.namespace,
        "workload": f"{target.kind}/{target.name}" if target else "",
        "container": one.container_name,
        "is_sidecar": any(_is_sidecar(pod, parted(one.container_name)[0]) for pod in pods) if pods else None,
        "pods": len(pods),
        "cpu": change(has.cpu_millicores, wants.cpu_millicores, format_cpu),
        "memory": change(has.memory_bytes, wants.memory_bytes, show_memory),
        "cpu_bounds": change(lower.cpu_millicores, upper.cpu_millicores, format_cpu, between=" to "),
        "memory_bounds": change(lower.memory_bytes, upper.memory_bytes, show_memory, between=" to "),
        "mode": autoscaler.spec.update_policy.update_mode or "" if autoscaler.spec.update_policy else "",
        "confidence": "" if not is_recommended else "low" if low is not None and low.status == "True" else "enough",
        "autoscaler": autoscaler.metadata.name,
        # Two conditions may have the same cause, which is told once.
        "message": "; ".join(
            dict.fromkeys(
                f"{found.reason or found.type}: {found.message}" for found in conditions.values() if found.message
            )
        ),
        "requests": {"cpu_millicores": has.cpu_millicores, "memory_bytes": has.memory_bytes},
        "limits": {"cpu_millicores": limits.cpu_millicores, "memory_bytes": limits.memory_bytes},
        "target": {"cpu_millicores": wants.cpu_millicores, "memory_bytes": wants.memory_bytes},
        "needed": {"cpu_millicores": needed.cpu_millicores, "memory_bytes": needed.memory_bytes},
        "pod_target": {"cpu_millicores": whole.cpu_millicores, "memory_bytes": whole.memory_bytes},
    }


def _is_sidecar(pod: Pod, container: str) -> bool:
    found = pod.container(container)
    return found is not None and found.kind is ContainerKind.SIDECAR


def _sizes_now(pods: list[Pod], one: ContainerRecommendation) -> tuple[Resources, Resources] | None:
    """The largest request and the largest limit of its container among the pods that are alive; None without any."""
    name, _ = parted(one.container_name)
    living = (pod.container(name) for pod in pods if not pod.is_terminal)
    found = [container for container in living if container is not None]
    requests = limits = NOTHING
    for container in found:
        requests, limits = requests.largest(container.requests), limits.largest(container.limits)
    return (requests, limits) if found else None


def _read(amounts: ResourceList | None) -> Resources:
    try:
        return resources(amounts)
    except QuantityError:
        return Resources()
