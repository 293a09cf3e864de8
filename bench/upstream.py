"""elastipod's recommender beside VPA 1.8.1's own, on one real API server with the same usage.

First the same answers: each of 1,000 workloads has an autoscaler of either, and more than a day of usage is led past
both; then each goes on from checkpoints that the other wrote. What is compared is the bucket, which is 5 % wide. Then
the cost: both at their default pace and at rest, over workloads of three pods with two containers and two days of
steady usage in checkpoints: CPU a tick, memory, and writes, from /proc and the audit log. Exit 1 where a promise is
missed.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from bench.auditlog import Asked, AuditLog
from bench.figures import Figures
from bench.past import checkpoints
from bench.process import Process
from bench.resizefleet import ResizeFleet, many, merge, patient_connection
from bench.usageserver import UsageServer
from elastipod.api import Autoscaler, AutoscalerStatus, resources
from elastipod.clock import ManualClock
from elastipod.kube.connection import Connection
from elastipod.kube.resources import AUTOSCALERS, CHECKPOINTS
from recommender.histogram import Floats
from recommender.service import Recommender
from recommender.settings import RecommenderSettings
from recommender.store import CheckpointStore
from tests.kubernetes import binaries
from tests.kubernetes.apiserver import ApiServer, why_no_apiserver

Json = dict[str, Any]
Bounds = dict[str, tuple[float, ...]]
"""By autoscaler: lower bound, target and upper bound of CPU in cores, then of memory in bytes."""

OURS: Final = "-ours"
"""Ends the names of the autoscalers that are ours to begin with."""
STEP_SECONDS: Final = 1800.0
GOAL_BUCKETS: Final = 1.0
GOAL_CPU, GOAL_MEMORY, GOAL_WRITES, GOAL_FIRST_SECONDS = 1 / 9, 1 / 2, 1 / 60, 5.0
_FIRST_BUCKETS: Final = (0.01, 0.01, 0.01, 1e7, 1e7, 1e7)
_WINDOWS: Final = 4
"""Steps that are whole memory intervals. Who takes a history over in the midst of one begins a new one, and upstream,
which leaves the peak of one under way out of what it saves, would find it in ours and count it beside its own."""
_LED: Final = (
    "--recommender-interval=1s",
    "--kube-api-qps=1000",
    "--kube-api-burst=1000",
    "--memory-aggregation-interval=1h",
    "--memory-aggregation-interval-count=240",
    "--pod-recommendation-min-cpu-millicores=1",
    "--pod-recommendation-min-memory-mb=10",
)
_PODS_EACH: Final = 3
_WRITES: Final = ("create", "patch", "update", "delete")


class LedClock(ManualClock):
    """Time is led; waiting takes real time."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Led:
    """Both recommenders over one fleet, in led time."""

    def __init__(self, connection: Connection, fleet: ResizeFleet, folder: Path, steps: int) -> None:
        self._connection, self._folder = connection, folder
        self._accounts = {name: fleet.account(name, folder) for name in ("upstream", "elastipod")}
        self.usage = UsageServer([(space, f"{name}-1-0") for space, name in fleet.names], fleet.containers, seed=1)
        self.usage.at = time.time() - STEP_SECONDS * (steps + 20)
        self._clock = LedClock(self.usage.at)

    @asynccontextmanager
    async def upstream(self) -> AsyncGenerator[Process, None]:
        """VPA's recommender; ended once it has written what it made of what it read."""
        process = Process("upstream", _upstream(self._accounts["upstream"], *_LED), self._folder / "upstream.log")
        try:
            yield process
            await self._lists(2)
        finally:
            process.end()

    @asynccontextmanager
    async def ours(self, recommender_name: str) -> AsyncGenerator[Recommender, None]:
        """Ours, in this process; it saves its history at its end."""
        settings = RecommenderSettings(
            recommender_names=(recommender_name,),
            interval_seconds=STEP_SECONDS,
            memory_interval_seconds=3600.0,
            memory_interval_count=240,
            enough_confidence=0.0,
            status_interval_seconds=1e12,
            most_checkpoints_per_run=0,
        )
        connection = patient_connection(self._accounts["elastipod"])
        part = Recommender(connection, self._clock, settings)
        watching = asyncio.create_task(part.watch())
        try:
            yield part
            await part.save()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await connection.close()

    async def step(self, *, ours: Recommender | None = None, upstream: Process | None = None) -> None:
        """A step of time, and whoever is there has read what is used then."""
        self.usage.at += STEP_SECONDS
        if ours is not None:
            self._clock.at = self.usage.at
            before = self.usage.asked["elastipod"]
            while self.usage.asked["elastipod"] == before:
                await ours.run_once()
                await asyncio.sleep(0.05)
        if upstream is not None:
            await self._lists(1)

    async def stated(self) -> Bounds:
        """What upstream says, in the cluster."""
        raw = await self._connection.list(AUTOSCALERS, limit=0)
        items = msgspec.json.decode(raw, type=_Autoscalers).items
        return {one.metadata.name: _numbers(one.status) for one in items if not one.metadata.name.endswith(OURS)}

    def said(self, ours: Recommender) -> Bounds:
        """What ours would say."""
        known, now = ours.recommendations, self._clock.now()
        keys = {key for one, _ in known.history.rows() for key in known.claims_of(one.workload)}
        return {key.partition("/")[2].removesuffix(OURS): _numbers(known.status(key, now)) for key in keys}

    async def saved(self, *, ours: bool) -> list[Json]:
        """The checkpoints of either."""
        items: list[Json] = msgspec.json.decode(await self._connection.list(CHECKPOINTS, limit=0))["items"]
        return [one for one in items if one["spec"]["vpaObjectName"].endswith(OURS) == ours]

    async def restore(self, saved: Sequence[Json]) -> None:
        """Have these checkpoints again, and no other of theirs."""
        for one in saved:
            meta = one["metadata"]
            body = {key: value for key, value in one.items() if key != "metadata"}
            body["metadata"] = {"annotations": meta.get("annotations")}
            await merge(self._connection, CHECKPOINTS, meta["namespace"], meta["name"], {"status": None})
            await merge(self._connection, CHECKPOINTS, meta["namespace"], meta["name"], body)

    async def _lists(self, more: int) -> None:
        until = self.usage.asked["upstream"] + more
        while self.usage.asked["upstream"] < until:
            await asyncio.sleep(0.05)


class _Autoscalers(msgspec.Struct):
    items: list[Autoscaler]


def _upstream(kubeconfig: Path, *flags: str) -> list[str]:
    return [str(binaries.find("recommender")), f"--kubeconfig={kubeconfig}", "--address=127.0.0.1:0", *flags]


def _numbers(status: AutoscalerStatus | None) -> tuple[float, ...]:
    assert status is not None
    assert status.recommendation is not None
    one = (status.recommendation.container_recommendations or [])[0]
    amounts = [resources(given or {}) for given in (one.lower_bound, one.target, one.upper_bound)]
    return (*(amount.cpu / 1000 for amount in amounts), *(float(amount.memory) for amount in amounts))


def buckets_apart(one: Bounds, other: Bounds, confidence: float) -> Floats:
    """By how many of upstream's buckets the values of the same autoscalers differ, a row each."""
    assert one.keys() == other.keys(), f"{len(one)} and {len(other)} autoscalers have a recommendation"
    values = np.array([[found[key] for key in sorted(one)] for found in (one, other)])
    # The percentiles, without the margin and what little history adds (VPA's logic/estimator.go).
    added = np.array([(1 + 0.001 / confidence) ** -2, 1.0, 1 + 1 / confidence] * 2)
    # Start of bucket n: first * (1.05 ** n - 1) / 0.05.
    places = np.log1p(values / 1.15 / added / np.array(_FIRST_BUCKETS) * 0.05) / np.log(1.05)
    apart: Floats = np.abs(places[0] - places[1])
    return apart


def compare(figures: Figures, what: str, ours: Recommender, said: Bounds, stated: Bounds) -> None:
    """Print how far what ours said and what upstream stated are apart."""
    apart = buckets_apart(said, stated, float(ours.recommendations.history.confidence().max()))
    for column, name in enumerate(
        f"{of} {bound}" for of in ("cpu", "memory") for bound in ("lower", "target", "upper")
    ):
        print(f"  {what}, {name}: mean {apart[:, column].mean():.3f}, most {apart[:, column].max():.2f} buckets apart")
    # Two hundredths are what rounding to millicores makes of small amounts.
    figures.show(
        f"{what}, buckets apart at most, of {len(said)} workloads", float(apart.max()), "", GOAL_BUCKETS + 0.02
    )


async def same_answers(figures: Figures, folder: Path, workloads: int, steps: int) -> None:
    """The same usage led past both, and each from the other's checkpoints."""
    with ApiServer(folder / "same") as server:
        connection = patient_connection(server.kubeconfig)
        fleet = ResizeFleet(server, workloads, 1)
        await fleet.make(connection)
        await many(_second(connection, *name) for name in fleet.names)
        led = Led(connection, fleet, folder, steps)
        await led.usage.start(server)
        async with led.ours("elastipod") as ours:
            async with led.upstream() as upstream:
                for number in range(steps):
                    await led.step(ours=ours, upstream=upstream)
                    if number % 10 == 9:
                        print(f"  {number + 1} of {steps} steps of {STEP_SECONDS / 60:.0f} minutes", flush=True)
            compare(figures, "the same usage", ours, led.said(ours), await led.stated())
        theirs = await led.saved(ours=False)
        at = led.usage.at
        async with led.upstream() as upstream:
            for _ in range(_WINDOWS):
                await led.step(upstream=upstream)
        stated = await led.stated()
        await led.restore(theirs)
        led.usage.at = at
        async with led.ours("default") as ours:
            for _ in range(_WINDOWS):
                await led.step(ours=ours)
            compare(figures, "from upstream's checkpoints", ours, led.said(ours), stated)
            await ours.save()
            async with led.upstream() as upstream:
                for _ in range(_WINDOWS):
                    await led.step(ours=ours, upstream=upstream)
            compare(figures, "upstream from ours", ours, led.said(ours), await led.stated())
        await led.usage.close()
        await connection.close()


async def _second(connection: Connection, namespace: str, name: str) -> None:
    """An autoscaler of ours for the same workload."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    body = {
        "apiVersion": AUTOSCALERS.api_version,
        "kind": AUTOSCALERS.kind,
        "metadata": {"name": f"{name}{OURS}", "namespace": namespace},
        "spec": {
            "targetRef": reference,
            "updatePolicy": {"updateMode": "Off"},
            "recommenders": [{"name": "elastipod"}],
        },
    }
    await connection.create(AUTOSCALERS, namespace, msgspec.json.encode(body))


@dataclass(frozen=True, slots=True)
class Measured:
    """A recommender at work; instants are Unix seconds."""

    started_at: float
    from_at: float
    to_at: float
    cpu_seconds: float
    """From then to then."""
    rss_bytes: int
    ticks: int


async def cost(figures: Figures, folder: Path, workloads: int, ticks: int) -> None:
    """Both at their default pace, each with autoscalers of its own, in the same minutes."""
    with ApiServer(folder / "cost") as server:
        connection = patient_connection(server.kubeconfig)
        fleet = ResizeFleet(server, workloads, _PODS_EACH, 2)
        await fleet.make(connection)
        await many(_second(connection, *name) for name in fleet.names)
        pods = [(space, f"{name}-1-{number}") for space, name in fleet.names for number in range(_PODS_EACH)]
        usage = UsageServer(pods, fleet.containers, seed=2, steady=True)
        await usage.start(server)
        accounts = {name: fleet.account(name, folder) for name in ("upstream", "elastipod")}
        ours = [sys.executable, "-m", "recommender", "--kubeconfig", str(accounts["elastipod"])]
        programs = {"upstream": _upstream(accounts["upstream"]), "elastipod": ours}
        saved = checkpoints(fleet.names, _PODS_EACH, fleet.containers, usage.told_at, time.time(), ("", OURS))
        await many(CheckpointStore(connection, RecommenderSettings()).save(one) for one in saved)
        log = AuditLog(server.control_plane.audit_log)
        log.read()
        minutes = asyncio.create_task(_now(usage))
        found = await asyncio.gather(*(_measured(name, argv, folder, usage, ticks) for name, argv in programs.items()))
        minutes.cancel()
        show_cost(figures, dict(zip(programs, found, strict=True)), log.read(), workloads)
        await usage.close()
        await connection.close()


async def _now(usage: UsageServer) -> None:
    """Usage is measured each 15 seconds, as metrics-server does."""
    while True:
        usage.at = time.time()
        await asyncio.sleep(15.0)


async def _measured(name: str, argv: list[str], folder: Path, usage: UsageServer, ticks: int) -> Measured:
    """Start it, leave it two ticks, measure it, end it."""

    async def ticked(more: int) -> None:
        until = usage.asked[name] + more
        while usage.asked[name] < until:
            if process.popen.poll() is not None:
                raise RuntimeError(f"{name} has ended while it was measured; see {folder / f'{name}.log'}")
            await asyncio.sleep(0.1)

    started_at = time.time()
    process = Process(name, argv, folder / f"{name}.log")
    try:
        await ticked(2)
        from_at, before = time.time(), process.cpu_seconds()
        await ticked(ticks)
        return Measured(started_at, from_at, time.time(), process.cpu_seconds() - before, process.rss_bytes(), ticks)
    finally:
        process.end()


def show_cost(figures: Figures, found: dict[str, Measured], asked: Sequence[Asked], workloads: int) -> None:
    """Ours against what is promised, beside upstream's."""
    rows: dict[str, tuple[float, float, float, float]] = {}
    for name, one in found.items():
        of_it = [ask for ask in asked if ask.user == name and ask.what.partition(" ")[0] in _WRITES]
        writes = [ask for ask in of_it if one.from_at <= ask.at < one.to_at and "leases" not in ask.what]
        first = min(ask.at for ask in of_it if ask.what == "patch verticalpodautoscalers/status")
        minutes = (one.to_at - one.from_at) / 60.0
        for what, count in sorted(Counter(ask.what for ask in writes).items()):
            print(f"  {name} in {minutes:.1f} minutes: {what} {count}")
        rows[name] = (
            one.cpu_seconds / one.ticks,
            one.rss_bytes / 2**20,
            len(writes) / minutes / workloads,
            first - one.started_at,
        )
    columns = ("CPU a tick", "memory", "writes an autoscaler and minute", "from the start to the first recommendation")
    goals = (GOAL_CPU, GOAL_MEMORY, GOAL_WRITES)
    for column, (name, unit) in enumerate(zip(columns, ("s", "MiB", "", "s"), strict=True)):
        ours, theirs = rows["elastipod"][column], rows["upstream"][column]
        promise = goals[column] * theirs if column < len(goals) else GOAL_FIRST_SECONDS
        figures.show(name, ours, unit, promise, floor=theirs, of="VPA's recommender")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=50, help="of half an hour each")
    parser.add_argument("--ticks", type=int, default=3, help="of a minute each, in which the cost is measured")
    parser.add_argument("--only", choices=("same", "cost"), help="leave the other part out")
    given = parser.parse_args()
    if why := why_no_apiserver() or binaries.why_missing("recommender"):
        print(f"left out: {why}")
        return 0
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="elastipod-bench-") as name:
        if given.only != "cost":
            asyncio.run(same_answers(figures, Path(name), given.workloads, given.steps))
        if given.only != "same":
            asyncio.run(cost(figures, Path(name), given.workloads, given.ticks))
    return figures.exit_code


if __name__ == "__main__":
    sys.exit(main())
