"""One part as a process of its own.

Owns what all such processes share: settings, logging, connection, port, leadership, and stopping in good order.
What the part does is its own matter.
"""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from elastipod.clock import Clock, SystemClock
from elastipod.kube.access import AccessError, load_access
from elastipod.kube.connection import Connection
from elastipod.kube.counting import CountedConnection
from elastipod.kube.errors import KubeError
from elastipod.kube.holders import has_ended, own_name
from elastipod.kube.http import HttpConnection
from elastipod.kube.lacks import LacksConnection
from elastipod.kube.leadership import Leadership
from elastipod.kube.namespaces import NamespacesConnection
from elastipod.loop import Health, Part, Runs, Ticker, apscheduler_ticker, run_part
from elastipod.serving import Serving
from elastipod.settings import SettingsError, load_all
from elastipod.telemetry import Metrics, configure_logging, get_logger

log = get_logger(__name__)

_END_SECONDS: Final = 3.0


@dataclass(frozen=True)
class ProcessSettings:
    """What every process of elastipod can be told."""

    kubeconfig: str = ""
    """The kubeconfig file; where empty, KUBECONFIG, ~/.kube/config or the pod's service account."""

    context: str = ""
    """The kubeconfig's context to use."""

    listen_host: str = "127.0.0.1"
    """Where /metrics, /healthz, /readyz and /explain are served."""

    listen_port: int = 0
    """The port of these; 0 takes any that is free."""

    log_level: str = "info"
    """debug, info, warning or error."""

    log_format: str = "json"
    """json for machines, text for people."""

    lease_namespace: str = "kube-system"
    """Where the Lease of the leader lies."""

    namespaces: tuple[str, ...] = ()
    """Look at these namespaces only, for want of the right to look at others; all where empty."""

    def __post_init__(self) -> None:
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise ValueError(f"log_level is {self.log_level!r}; it can be debug, info, warning or error")
        if self.log_format not in ("json", "text"):
            raise ValueError(f"log_format is {self.log_format!r}; it can be json or text")
        for name in self.namespaces:
            if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name, re.ASCII):
                raise ValueError(f"namespaces names {name!r}, which no namespace can be called")


class ExplainingPart(Part, Protocol):
    """A part that also tells what it knows of a pod."""

    def explain(self, key: str) -> dict[str, Any] | None:
        """Facts about the pod of that key (`namespace/name`)."""
        ...


S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Surroundings(Generic[S]):
    """What a part is made with."""

    connection: Connection
    clock: Clock
    settings: S
    metrics: Metrics
    address: str
    lacks: Callable[[], tuple[str, ...]] = tuple
    """What the cluster withholds from us."""
    is_of_some_namespaces: bool = False
    """Whether the connection shows the pods of some namespaces only."""


Run = Callable[[Coroutine[Any, Any, int]], int]
"""`asyncio.run`, or what does the same."""


def run_quickly(main: Coroutine[Any, Any, int]) -> int:
    """`asyncio.run` on uvloop where it is installed: a sixth less CPU, or more, for those who ask much of the API
    server."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


@dataclass(frozen=True, slots=True)
class Program(Generic[S]):
    """A part as a program: what it is called and told, and how it is made and run."""

    name: str
    settings_type: type[S]
    make: Callable[[Surroundings[S]], ExplainingPart]
    elects_leader: bool
    needs_definitions: bool = True
    """Whether it is not ready without them. For one that is not asked while it is not ready, that would be worse."""
    at_end: Callable[[Any], Coroutine[Any, Any, None]] | None = None
    """What the part does last, while it may still write."""
    answers: Callable[[Any, str, str], bytes | None] | None = None
    """What the part serves besides: JSON for a path and its query, None for what it does not know."""
    more_metrics: Callable[[Any], bytes] | None = None
    """What the part tells at /metrics besides its registry's, in the same format."""
    ticker: Ticker = apscheduler_ticker
    run: Run = asyncio.run


def run_process(program: Program[S]) -> int:
    """Run a part until SIGTERM or SIGINT; the exit code: 0 told to stop, 1 failed, 2 can not start as it is told."""
    try:
        own, settings = load_all((ProcessSettings, program.settings_type), sys.argv[1:], os.environ)
        configure_logging(own.log_level, as_json=own.log_format == "json")
        access = load_access(own.kubeconfig or None, own.context or None, os.environ)
        clock = SystemClock()
        metrics = Metrics()
        connection = LacksConnection(CountedConnection(HttpConnection(access, clock), clock, metrics), clock)
    except (SettingsError, AccessError) as error:
        sys.stderr.write(f"{program.name}: {error}\n")
        return 2
    return program.run(_serve(program, own, settings, connection, clock, metrics))


async def _serve(
    program: Program[S], own: ProcessSettings, settings: S, lacking: LacksConnection, clock: Clock, metrics: Metrics
) -> int:
    connection: Connection = NamespacesConnection(lacking, own.namespaces) if own.namespaces else lacking
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    working = _Working()
    runs = Runs(metrics, program.name)
    health = Health(
        60.0,
        clock.monotonic(),
        is_standing_by=program.elects_leader,
        lacks=lacking.lacks,
        missing=lacking.missing_definition if program.needs_definitions else str,
    )
    answers = program.answers

    def answer(path: str, query: str) -> bytes | None:
        return answers(working.part, path, query) if answers is not None and working.part is not None else None

    def more_metrics() -> bytes:
        return b"" if program.more_metrics is None or working.part is None else program.more_metrics(working.part)

    serving = Serving(
        metrics, health, clock, lambda key: working.part.explain(key) if working.part else None, answer, more_metrics
    )
    await serving.start(own.listen_host, own.listen_port)
    host = f"[{own.listen_host}]" if ":" in own.listen_host else own.listen_host
    address = f"http://{host}:{serving.port}"

    async def work(to: Connection) -> None:
        part = working.part = program.make(
            Surroundings(to, clock, settings, metrics, address, lacking.lacks, bool(own.namespaces))
        )
        health.begin(part.interval_seconds, clock.monotonic())
        try:
            await run_part(part, clock, program.ticker, health, runs)
        finally:
            if program.at_end is not None:
                with suppress(KubeError, TimeoutError):
                    async with asyncio.timeout(_END_SECONDS):
                        await program.at_end(part)

    leading: Leadership | None = None
    if program.elects_leader:
        leading = Leadership(
            connection,
            clock,
            namespace=own.lease_namespace,
            name=f"elastipod-{program.name}",
            identity=own_name(),
            address=address,
            has_ended=has_ended,
            lacks=lacking.lacks,
        )
    task = asyncio.create_task(_lead(leading, connection, work) if leading else work(connection))
    stopping = asyncio.create_task(stop.wait())
    log.info("started", part=program.name, address=address)
    try:
        await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        return 0 if stop.is_set() else 1
    finally:
        await _end(task)
        await _end(stopping)
        await serving.stop()
        await connection.close()
        log.info("stopped", part=program.name)


@dataclass(slots=True)
class _Working:
    """The part that is at work, if any."""

    part: ExplainingPart | None = None


async def _lead(
    leading: Leadership, connection: Connection, work: Callable[[Connection], Coroutine[Any, Any, None]]
) -> None:
    """Work once we lead, until the lead is lost; the process then ends, and its next run begins from the cluster."""
    renewing = asyncio.create_task(leading.run())
    working: asyncio.Task[None] | None = None
    lost: asyncio.Task[None] | None = None
    try:
        await leading.wait_until_leader()
        working = asyncio.create_task(work(leading.guarded(connection)))
        lost = asyncio.create_task(leading.wait_until_lost())
        await asyncio.wait((working, lost, renewing), return_when=asyncio.FIRST_COMPLETED)
        for task in (working, renewing):
            if task.done():
                task.result()
    finally:
        for ending in (working, lost, renewing):
            if ending is not None:
                await _end(ending)


async def _end(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await task
