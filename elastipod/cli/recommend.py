"""`elastipod recommend`: what each container has, and what it is recommended.

Owns the rows of that table. It shows what the recommender wrote; it recommends nothing itself.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from elastipod.api import Autoscaler, ContainerRecommendation, ResourceList, resources
from elastipod.cli.cluster import Picture, read_picture
from elastipod.cli.options import (
    AllNamespacesOption,
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
    Output,
    OutputOption,
    SelectorOption,
    connect,
)
from elastipod.cli.output import print_rows
from elastipod.pods import Container, Pod
from elastipod.quantities import QuantityError, Resources, format_cpu, show_memory

_COLUMNS: Final = ("namespace", "workload", "container", "pods", "cpu", "memory", "mode", "confidence")
_WIDE: Final = ("cpu_bounds", "memory_bounds", "autoscaler", "message")


def recommend(
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    selector: SelectorOption = "",
    output: OutputOption = Output.TABLE,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Show what each container requests and what it is recommended."""

    async def read() -> Picture:
        async with connect(kubeconfig, context) as client:
            return await read_picture(
                client.connection, None if all_namespaces else namespace or client.namespace, selector
            )

    picture = asyncio.run(read())
    print_rows(list(recommendation_rows(picture, only_matched=bool(selector))), _COLUMNS, output, wide=_WIDE)


def recommendation_rows(picture: Picture, *, only_matched: bool = False) -> Iterator[dict[str, Any]]:
    """A row per container of each autoscaler; one without a recommendation says why."""
    for autoscaler in sorted(picture.autoscalers, key=lambda one: (one.metadata.namespace, one.metadata.name)):
        pods = picture.pods_of(autoscaler)
        if only_matched and not pods:
            continue
        recommended = _recommendations(autoscaler)
        for one in recommended:
            yield _row(autoscaler, pods, one)
        if not recommended:
            yield _row(autoscaler, pods, None)


def _recommendations(autoscaler: Autoscaler) -> list[ContainerRecommendation]:
    status = autoscaler.status
    if status is None or status.recommendation is None:
        return []
    return status.recommendation.container_recommendations or []


def _row(autoscaler: Autoscaler, pods: list[Pod], one: ContainerRecommendation | None) -> dict[str, Any]:
    target = autoscaler.spec.target_ref
    conditions = {found.type: found for found in (autoscaler.status and autoscaler.status.conditions) or []}
    low = conditions.get("LowConfidence")
    has = _requests_now(pods, one.container_name) if one else Resources()
    is_recommended = one is not None
    one = one or ContainerRecommendation()
    wants, lower, upper = _read(one.target), _read(one.lower_bound), _read(one.upper_bound)
    return {
        "namespace": autoscaler.metadata.namespace,
        "workload": f"{target.kind}/{target.name}" if target else "",
        "container": one.container_name,
        "pods": len(pods),
        "cpu": _change(has.cpu_millicores, wants.cpu_millicores, format_cpu),
        "memory": _change(has.memory_bytes, wants.memory_bytes, show_memory),
        "cpu_bounds": _change(lower.cpu_millicores, upper.cpu_millicores, format_cpu, between=" to "),
        "memory_bounds": _change(lower.memory_bytes, upper.memory_bytes, show_memory, between=" to "),
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
        "target": {"cpu_millicores": wants.cpu_millicores, "memory_bytes": wants.memory_bytes},
    }


def _requests_now(pods: list[Pod], container: str) -> Resources:
    """The largest request of that container among the pods that are alive."""
    largest = Resources()
    for pod in pods:
        found: Container | None = None if pod.is_terminal else pod.container(container)
        if found is not None:
            largest = largest.largest(found.requests)
    return largest


def _read(amounts: ResourceList | None) -> Resources:
    try:
        return resources(amounts)
    except QuantityError:
        return Resources()


def _change(one: int | None, other: int | None, show: Any, between: str = " -> ") -> str:
    if one is None and other is None:
        return ""
    return f"{'-' if one is None else show(one)}{between}{'-' if other is None else show(other)}"
