"""`elastipod status`: whether the parts are well, what waits, what is reserved and used.

Owns that overview.
"""

import asyncio
from typing import Any

import typer

from elastipod.cli.cluster import Picture, read_picture
from elastipod.cli.options import ContextOption, KubeconfigOption, Output, OutputOption, connect
from elastipod.cli.output import print_facts, print_rows
from elastipod.cli.parts import RunningPart, running_parts
from elastipod.clock import SystemClock
from elastipod.fit import node_room
from elastipod.pods import ResizeProgress
from elastipod.quantities import format_cpu, show_memory


def status(
    output: OutputOption = Output.TABLE, context: ContextOption = None, kubeconfig: KubeconfigOption = None
) -> None:
    """Show the parts, the nodes' room, and the resizes that wait."""

    async def read() -> tuple[Picture, list[RunningPart]]:
        async with connect(kubeconfig, context) as client:
            picture = await read_picture(client.connection, None)
            return picture, await running_parts(client.connection, picture)

    picture, parts = asyncio.run(read())
    facts = status_facts(picture, parts, SystemClock().now())
    if output in (Output.JSON, Output.YAML):
        print_facts(facts, output)
        return
    if facts["parts"]:
        lacking = ("lacks",) if any(one["lacks"] for one in facts["parts"]) else ()
        print_rows(facts["parts"], ("part", "node", "state", "heard", *lacking), output, wide=("holder", "address"))
    else:
        typer.echo("No part of elastipod has made itself known in this cluster.")
    typer.echo("")
    columns = ("node", "cpu_allocatable", "cpu_free", "memory_allocatable", "memory_free", "spike_protection")
    print_rows(facts["nodes"], columns, output, wide=("message",))
    if facts["waiting"]:
        typer.echo("")
        print_rows(facts["waiting"], ("namespace", "pod", "progress", "reason", "message"), output)


def status_facts(picture: Picture, parts: list[RunningPart], now: float) -> dict[str, Any]:
    """The overview as plain facts."""
    protection = {node.metadata.name: node.status for node in picture.elastic_nodes}
    rooms = [(node, node_room(node, picture.pods)) for node in sorted(picture.nodes, key=lambda one: one.name)]
    waiting = [
        (pod, pod.resize_pending or pod.resize_in_progress)
        for pod in picture.pods
        if pod.resize_progress not in (ResizeProgress.NONE, ResizeProgress.UNSEEN) and not pod.is_terminal
    ]
    return {
        "parts": [
            {
                "part": part.name,
                "node": part.node,
                "state": "silent" if part.is_silent(now) else "well",
                "heard": "never" if part.heard_at is None else f"{max(now - part.heard_at, 0):.0f}s ago",
                "holder": part.holder,
                "address": part.address,
                "lacks": part.lacks,
            }
            for part in parts
        ],
        "nodes": [
            {
                "node": node.name,
                "cpu_allocatable": format_cpu(node.allocatable.cpu),
                "cpu_free": format_cpu(room.free.cpu),
                "memory_allocatable": show_memory(node.allocatable.memory),
                "memory_free": show_memory(room.free.memory),
                "spike_protection": found.spike_protection if (found := protection.get(node.name)) else "none",
                "message": found.message if found else "no actuator reports for this node",
            }
            for node, room in rooms
        ],
        "waiting": [
            {
                "namespace": pod.namespace,
                "pod": pod.name,
                "progress": str(pod.resize_progress),
                "reason": condition.reason if condition else "",
                "message": condition.message if condition else "",
            }
            for pod, condition in waiting
        ],
    }
