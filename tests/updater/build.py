"""Builders for what the updater decides on: a good default for everything."""

from typing import Any

import msgspec

from elastipod.api import UpdateMode
from elastipod.limits import LimitRange, LimitRangeItem
from elastipod.pods import Container, Node, Pod, QosClass, Termination
from elastipod.quantities import NOTHING, Resources, parse_cpu, parse_memory
from updater.facts import Facts
from updater.shape import container_bounds, qos_class, with_sizes
from updater.sizes import Advice, ContainerAdvice, Size
from updater.steps import Usage

NOW = 1_700_000_000.0
Mi = 1024 * 1024


def amounts(cpu: str | None = None, memory: str | None = None) -> Resources:
    return Resources(None if cpu is None else parse_cpu(cpu), None if memory is None else parse_memory(memory))


def container(
    name: str = "app",
    requests: Resources = NOTHING,
    limits: Resources = NOTHING,
    *,
    actual_limits: Resources | None = None,
    killed: bool = False,
    started_at: float = NOW - 86_400,
    cpu_restart: bool = False,
    memory_restart: bool = False,
) -> Container:
    return Container(
        name,
        requests=requests,
        limits=limits,
        allocated=requests,
        actual_requests=requests,
        actual_limits=limits if actual_limits is None else actual_limits,
        is_running=True,
        is_ready=True,
        started_at=started_at,
        container_id=f"containerd://{name}",
        cpu_restart=cpu_restart,
        memory_restart=memory_restart,
        last_termination=Termination("OOMKilled", 137, "containerd://old") if killed else None,
    )


def pod(
    *containers: Container,
    name: str = "web-0",
    node: str = "node-a",
    qos: QosClass | None = None,
    priority: int = 0,
    phase: str = "Running",
    annotations: dict[str, str] | None = None,
    generation: int = 1,
) -> Pod:
    found = Pod(
        "shop",
        name,
        f"uid-{name}",
        resource_version="7",
        generation=generation,
        observed_generation=generation,
        node_name=node,
        phase=phase,
        priority=priority,
        started_at=NOW - 86_400,
        is_ready=True,
        annotations=annotations or {},
        containers=containers or (container(requests=amounts("500m", "512Mi"), limits=amounts("1", "1Gi")),),
    )

    return msgspec.structs.replace(found, qos_class=qos or qos_class(with_sizes(found, {})))


def node(name: str = "node-a", cpu: str = "8", memory: str = "16Gi", *, is_ready: bool = True) -> Node:
    return Node(name, allocatable=amounts(cpu, memory), capacity=amounts(cpu, memory), is_ready=is_ready)


def advice(
    target: Resources,
    *,
    lower: Resources | None = None,
    upper: Resources | None = None,
    most: Resources = NOTHING,
    least: Resources = NOTHING,
    moves_limits: bool = True,
    mode: UpdateMode = UpdateMode.IN_PLACE,
    name: str = "app",
) -> Advice:
    one = ContainerAdvice(target, lower or target, upper or target, least, most, moves_limits)
    return Advice("vpa", mode, "elastipod", {name: one})


def usage(memory: str, *, age: float = 1.0, cpu: str = "10m", peak: str = "0") -> Usage:
    return Usage(NOW - age, parse_cpu(cpu), parse_memory(memory), parse_memory(peak))


def facts(found: Advice | None = None, **more: Any) -> Facts:
    return Facts(advice=found, **more)


def limit_range(item: LimitRangeItem) -> dict[str, Any]:
    ranges = (LimitRange("shop", "bounds", (item,)),)
    return {"limit_ranges": ranges, "bounds": container_bounds(ranges)}


def size(requests: Resources = NOTHING, limits: Resources = NOTHING) -> Size:
    return Size(requests, limits)
