"""`elastipod explain POD`: from sample to decision to effect, every cap and refusal named.

Owns the telling. The facts come from the cluster's objects and from the parts that are up.
"""

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer
from msgspec import Struct

from elastipod.api import ContainerRecommendation, ObjectMeta, resource_list
from elastipod.cli.cluster import Picture, read_picture
from elastipod.cli.options import (
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
    Output,
    OutputOption,
    connect,
)
from elastipod.cli.output import print_facts, shown
from elastipod.cli.parts import ask_parts, running_parts
from elastipod.eligible import target_of
from elastipod.kube.connection import Connection
from elastipod.kube.decoding import whole
from elastipod.kube.errors import NotFound
from elastipod.kube.listing import list_rows
from elastipod.kube.resources import EVENTS
from elastipod.nodeclass import on_class, parted
from elastipod.pods import Container, Pod, ResizeCondition

_MOST_EVENTS: Final = 20


class _Event(Struct, rename="camel", frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int | None = None
    last_timestamp: str | None = None
    event_time: str | None = None


_decode_event: Final = whole(_Event)


def explain(
    pod: Annotated[str, typer.Argument(metavar="POD", help="The pod's name.")],
    namespace: NamespaceOption = None,
    output: OutputOption = Output.TABLE,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Tell why a pod has the size it has: samples, recommendation, decision, effect, refusals, next try."""

    async def read() -> dict[str, Any]:
        async with connect(kubeconfig, context) as client:
            return await pod_facts(client.connection, namespace or client.namespace, pod.removeprefix("pod/"))

    facts = asyncio.run(read())
    if output in (Output.JSON, Output.YAML):
        print_facts(facts, output)
    else:
        typer.echo("\n".join(told(facts)))


async def pod_facts(connection: Connection, namespace: str, name: str) -> dict[str, Any]:
    """Everything that is known of a pod. Raises KubeError; NotFound where there is no such pod."""
    picture = await read_picture(connection, namespace)
    pod = next((one for one in picture.pods if one.name == name), None)
    if pod is None:
        raise NotFound(404, "NotFound", f'pods "{name}" not found in namespace "{namespace}"; see: kubectl get pods -A')
    parts = await running_parts(connection, picture)
    asked = [part for part in parts if not part.node or part.node == pod.node_name]
    return {
        "pod": pod.key,
        "uid": pod.uid,
        "workload": str(picture.workload(pod)),
        "node": pod.node_name,
        "phase": pod.phase,
        "qos_class": str(pod.qos_class),
        "recommendations": list(_recommendations(picture, pod)),
        "containers": [_container_facts(one) for one in pod.containers],
        "resize": {
            "progress": str(pod.resize_progress),
            "pending": _condition_facts(pod.resize_pending),
            "in_progress": _condition_facts(pod.resize_in_progress),
            "generation": pod.generation,
            "observed_generation": pod.observed_generation,
        },
        "parts": await ask_parts(connection, asked, pod.key),
        "events": await _events(connection, picture, pod),
    }


def told(facts: dict[str, Any]) -> Iterator[str]:
    """The facts as lines for people."""
    yield f"Pod {shown(facts['pod'])} of {shown(facts['workload'])} on node {shown(facts['node'] or '<none>')}"
    yield f"  phase {facts['phase']}, QoS class {facts['qos_class']}, resize {facts['resize']['progress']}"
    for heading in ("recommendations", "containers"):
        yield ""
        yield heading.capitalize()
        yield from _told_items(facts[heading])
    for name in ("pending", "in_progress"):
        if facts["resize"][name]:
            yield ""
            yield f"Resize {name.replace('_', ' ')}"
            yield from _told_fields(facts["resize"][name], "  ")
    for part, answer in facts["parts"].items():
        yield ""
        yield f"What the {part} says"
        yield from _told_fields(answer, "  ")
    yield ""
    yield "Events"
    if not facts["events"]:
        yield "  none"
    for event in facts["events"]:
        times = f" (x{event['count']})" if event["count"] > 1 else ""
        about = f"{shown(event['about'])}: " if event["about"] else ""
        yield f"  {event['at']}  {about}{shown(event['reason'])}{times}: {shown(event['message'])}"


def _told_items(items: list[dict[str, Any]]) -> Iterator[str]:
    if not items:
        yield "  none"
    for item in items:
        yield f"  {shown(item.get('container', item.get('autoscaler', '')))}"
        yield from _told_fields({key: value for key, value in item.items() if key != "container"}, "    ")


def _told_fields(fields: dict[str, Any], indent: str) -> Iterator[str]:
    for key, value in fields.items():
        label = f"{indent}{shown(key).replace('_', ' ')}"
        if value in (None, ""):
            continue
        if not value and isinstance(value, dict | list):
            yield f"{label}: none"
        elif isinstance(value, dict):
            if any(isinstance(one, dict | list) for one in value.values()):
                yield f"{label}:"
                yield from _told_fields(value, indent + "  ")
            else:
                said = (f"{shown(name)} {shown(one)}" for name, one in value.items() if one not in (None, ""))
                yield f"{label}: " + ", ".join(said)
        elif isinstance(value, list):
            yield f"{label}:"
            for one in value:
                lines = _told_fields(one, f"{indent}    ") if isinstance(one, dict) else [f"{indent}    {shown(one)}"]
                for number, line in enumerate(lines):
                    yield line if number else f"{indent}  - {line.removeprefix(f'{indent}    ')}"
        else:
            yield f"{label}: {shown(value)}"


def _recommendations(picture: Picture, pod: Pod) -> Iterator[dict[str, Any]]:
    choices = picture.choices(pod)
    for autoscaler in picture.autoscalers:
        if target_of(autoscaler) not in choices:
            continue
        status = autoscaler.status
        found = (status and status.recommendation and status.recommendation.container_recommendations) or []
        for one in _holding(found, picture.node_class_key(pod)):
            yield {
                "container": one.container_name,
                "autoscaler": autoscaler.metadata.name,
                "target": one.target or {},
                "lower_bound": one.lower_bound or {},
                "upper_bound": one.upper_bound or {},
                "uncapped_target": one.uncapped_target or {},
            }
        for condition in (status and status.conditions) or []:
            yield {
                "autoscaler": autoscaler.metadata.name,
                "condition": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "since": condition.last_transition_time or "",
            }


def _holding(found: list[ContainerRecommendation], of: str) -> Iterator[ContainerRecommendation]:
    """What holds on nodes of a class: the size for that class, and for all nodes where there is none."""
    names = {one.container_name for one in found}
    for one in found:
        container, key = parted(one.container_name)
        if key == of if key else on_class(container, of) not in names:
            yield one


def _container_facts(container: Container) -> dict[str, Any]:
    ended = container.last_termination or container.termination
    return {
        "container": container.name,
        "desired": {"requests": resource_list(container.requests), "limits": resource_list(container.limits)},
        "allocated": None if container.allocated is None else {"requests": resource_list(container.allocated)},
        "actual": None
        if container.actual_requests is None
        else {
            "requests": resource_list(container.actual_requests),
            "limits": resource_list(container.actual_limits or container.actual_requests),
        },
        "restarts": container.restart_count,
        "container_id": container.container_id,
        "last_end": "" if ended is None else f"{ended.reason}, exit code {ended.exit_code}",
    }


def _condition_facts(condition: ResizeCondition | None) -> dict[str, Any] | None:
    if condition is None:
        return None
    return {"reason": condition.reason, "message": condition.message, "generation": condition.observed_generation}


async def _events(connection: Connection, picture: Picture, pod: Pod) -> list[dict[str, Any]]:
    """Those about the pod, and about the autoscalers that speak of it."""
    choices = picture.choices(pod)
    subjects = {pod.uid: ""}
    for one in picture.autoscalers:
        if target_of(one) in choices:
            subjects[one.metadata.uid] = f"{one.kind} {one.metadata.name}"
    rows = [
        row for uid, about in subjects.items() for row in await _events_about(connection, pod.namespace, uid, about)
    ]
    return sorted(rows, key=lambda row: str(row["at"]))[-_MOST_EVENTS:]


async def _events_about(connection: Connection, namespace: str, uid: str, about: str) -> list[dict[str, Any]]:
    selector = f"involvedObject.uid={uid}"
    events = await list_rows(connection, EVENTS, _decode_event, namespace=namespace, field_selector=selector)
    return [
        {
            "about": about,
            "at": event.last_timestamp or event.event_time or "",
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "count": event.count or 1,
        }
        for event in events
    ]
