"""A whole cluster with elastipod in it, in virtual time, from a seed.

Owns the run: who lives when, when faults strike, when all must have settled, and what is reported. The same seed, the
same parts and the same code give the same trace, byte for byte.
"""

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from elastipod.clock import Clock, LoopClock
from elastipod.kube.connection import Connection
from elastipod.kube.errors import KubeError
from elastipod.kube.leadership import Leadership
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.store import Store
from elastipod.localcluster.controllers.manager import Controllers
from elastipod.localcluster.node.checkpoint import MemoryCheckpoint
from elastipod.localcluster.node.node import LocalNode
from elastipod.localcluster.node.registration import NodeSettings
from elastipod.localcluster.node.simulated import SimulatedRuntime
from elastipod.localcluster.scheduler import Scheduler
from elastipod.localcluster.simulation.endstate import EndState, end_state
from elastipod.localcluster.simulation.faults import (
    FaultKind,
    FaultPlan,
    Faults,
    FaultyConnection,
    MortalCheckpoint,
    draw_plan,
)
from elastipod.localcluster.simulation.incarnation import live, track_tasks
from elastipod.localcluster.simulation.invariants import CgroupWrite, Invariant, Violation, Watchman
from elastipod.localcluster.simulation.invariants.pace import HoldsEnd, NothingRunsAway, NothingShrinksUnseen
from elastipod.localcluster.simulation.invariants.rest import restless_writes
from elastipod.localcluster.simulation.invariants.sizes import (
    CgroupsOfPodsOnly,
    NodesHold,
    SizesAreAllowed,
    UsedMemoryStays,
)
from elastipod.localcluster.simulation.invariants.writes import (
    EvictionsAreAllowed,
    OneLeaderWrites,
    PodsAreMeantByUid,
    ReasonsAreNamed,
)
from elastipod.localcluster.simulation.load import LoadSettings, Script, draw_script, perform
from elastipod.localcluster.simulation.meterfaults import Meter, MeterTrouble
from elastipod.localcluster.simulation.trace import RecordedConnection, Trace, Write
from elastipod.localcluster.simulation.truth import Home, Truth
from elastipod.localcluster.simulation.virtualtime import VirtualTimeLoop
from elastipod.loop import Part, clock_ticker, run_part
from elastipod.quantities import Resources

_SPREADS: Final = ("load", "plan", "faults", "api", "parts", "nodes", "meter")
_NODES_SHARE: Final = 0.5
"""A kubelet writes more than a part; it need not die at the same share of its writes."""
_LEASE_NAMESPACE: Final = "kube-system"
_RESTART_SECONDS: Final = (0.5, 5.0)
_NODE_SIZE: Final = Resources(4_000, 4 * 1024**3)
_LOAD: Final = LoadSettings()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What one life of a part is made with."""

    connection: Connection
    clock: Clock
    spread: random.Random
    actor: str
    """Its name in this life, `updater/3`."""
    node: NodeSettings | None
    """The node it sits on, for parts that run on every node."""
    runtime: SimulatedRuntime | None
    on_cgroup_write: Callable[[CgroupWrite], None]


@dataclass(frozen=True, slots=True)
class PartProgram:
    """A part as the simulation starts it, again and again."""

    name: str
    make: Callable[[Surroundings], Part]
    elects_leader: bool = False
    replicas: int = 1
    on_every_node: bool = False


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """How large, how long, how broken."""

    nodes: int = 2
    node_size: Resources = _NODE_SIZE
    load: LoadSettings = _LOAD
    calm_seconds: float = 20.0
    """Before the first fault."""
    settling_seconds: float = 330.0
    """After the last fault and the last act, until the world must be as wished."""
    quiet_seconds: float = 120.0
    """Then nothing may be written."""
    faults: FaultPlan | None = None
    """Drawn from the seed where None; `FaultPlan()` for none."""
    usage_seconds: float = 15.0
    metrics_lost_at: float | None = None
    """When metrics.k8s.io fails, for the rest of the run; None for never."""
    metrics_lost_by: MeterTrouble = MeterTrouble.SILENT


@dataclass(slots=True)
class Outcome:
    """What became of a run."""

    seed: int
    trace: bytes
    events: int
    violations: list[Violation]
    fault_counts: Counter[FaultKind]
    writes: Counter[tuple[str, str]]
    """Accepted ones, by part and by what was written: `("updater", "pods/resize")`."""
    end_state: EndState = field(default_factory=EndState)
    failures: list[str] = field(default_factory=list)
    """Errors of the parts' own: what the API server does to them is none."""


class Simulation:
    """One run. `run()` may be called once."""

    def __init__(
        self,
        seed: int,
        parts: Sequence[PartProgram],
        settings: SimulationSettings | None = None,
        *,
        script: Script | None = None,
        wrap: Callable[[str, Connection], Connection] | None = None,
        node_type: type[LocalNode] = LocalNode,
        invariants: Iterable[Invariant] | None = None,
    ) -> None:
        self.seed = seed
        self.settings = settings or SimulationSettings()
        self._parts = parts
        self._node_type = node_type
        self._wrap = wrap or (lambda _, connection: connection)
        self._spread = {name: random.Random(f"{seed}/{name}") for name in _SPREADS}
        self._script = script or draw_script(self._spread["load"], self.settings.load)
        plan = self.settings.faults if self.settings.faults is not None else draw_plan(self._spread["plan"])
        self._faults = Faults(plan, self._spread["faults"])
        deaths = plan.rates.get(FaultKind.NODE_KILLED, 0.0) * _NODES_SHARE
        self._node_faults = Faults(FaultPlan({FaultKind.KILLED: deaths}, (0.0, 0.0)), self._spread["nodes"])
        self._meter = Meter(self._spread["meter"])
        self._invariants = list(invariants) if invariants is not None else self._all_invariants()
        self._writes: list[Write] = []
        self._failures: list[str] = []
        self._lives: Counter[str] = Counter()
        self._ended: set[str] = set()

    def run(self) -> Outcome:
        """Run to the end."""
        loop = VirtualTimeLoop(self._at_pause)
        self._watchman: Watchman | None = None
        with _no_search_for_cycles(), asyncio.Runner(loop_factory=lambda: loop) as runner:
            track_tasks(runner.get_loop())
            return runner.run(self._main())

    def _all_invariants(self) -> list[Invariant]:
        elected = [part.name for part in self._parts if part.elects_leader]
        return [
            SizesAreAllowed(),
            NodesHold(),
            UsedMemoryStays(),
            HoldsEnd(),
            PodsAreMeantByUid(),
            EvictionsAreAllowed(),
            NothingShrinksUnseen(),
            ReasonsAreNamed(),
            NothingRunsAway(),
            OneLeaderWrites(elected),
            CgroupsOfPodsOnly(),
        ]

    async def _main(self) -> Outcome:
        self._clock = LoopClock()
        self._trace = Trace(self._clock)
        self._store = Store()
        self._api = ApiServer(self._clock, self._store, spread=self._spread["api"])
        self._truth = Truth(self._store, self._clock, self._meter)
        self._watchman = Watchman(self._truth, self._invariants)
        self._api.usage = self._truth
        tasks = [asyncio.create_task(work) for work in self._cluster()]
        tasks += [asyncio.create_task(self._keep_alive(part, home)) for part, home in self._placed_parts()]
        try:
            await self._play(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self._outcome

    async def _play(self, tasks: list["asyncio.Task[Any]"]) -> None:
        acting = asyncio.create_task(self._act())
        await asyncio.sleep(self.settings.calm_seconds)
        self._let_fail(True)
        losing = asyncio.create_task(self._lose_metrics())
        await acting
        await asyncio.sleep(max(self.settings.load.busy_seconds - self._clock.monotonic(), 0.0))
        self._let_fail(False)
        await asyncio.sleep(self.settings.settling_seconds)
        quiet_from = self._clock.monotonic()
        await asyncio.sleep(self.settings.quiet_seconds)
        assert self._watchman is not None
        for task in tasks:
            if task.done():
                task.result()
        losing.cancel()
        epoch = self._clock.now() - self._clock.monotonic()
        restless = restless_writes(self._store, self._writes, quiet_from, epoch)
        unsettled = [Violation("I9", quiet_from, thing, told) for thing, told in self._truth.unsettled()]
        self._outcome = Outcome(
            self.seed,
            self._trace.to_bytes(),
            self._trace.events,
            [*self._watchman.violations, *restless, *unsettled],
            self._faults.counts,
            Counter((write.part, write.what) for write in self._writes if write.is_accepted),
            end_state(self._store),
            self._failures,
        )

    def _let_fail(self, active: bool) -> None:
        self._faults.are_active = self._node_faults.are_active = active
        if not active:
            self._faults.counts[FaultKind.NODE_KILLED] += self._node_faults.counts.total()
            self._meter.recover()
        elif FaultKind.METRICS in self._faults.plan.rates:
            trouble = self._spread["meter"].choice(list(MeterTrouble))
            self._faults.counts[FaultKind.METRICS] += 1
            self._trace.add("metrics", trouble=trouble)
            self._meter.fail(trouble, self._clock.monotonic())

    async def _lose_metrics(self) -> None:
        if self.settings.metrics_lost_at is not None:
            await asyncio.sleep(self.settings.metrics_lost_at - self._clock.monotonic())
            self._meter.fail(self.settings.metrics_lost_by, self._clock.monotonic())

    async def _act(self) -> None:
        connection = self._connection("cluster/people")
        for act in self._script.acts:
            await asyncio.sleep(max(act.at - self._clock.monotonic(), 0.0))
            await perform(act, connection)

    def _cluster(self) -> Iterable[Coroutine[Any, Any, Any]]:
        """The cluster's own processes. Kubelets may die; nothing else fails in them but what the parts bring about."""
        for number in range(self.settings.nodes):
            size = NodeSettings(f"node-{number}", self.settings.node_size, usage_seconds=self.settings.usage_seconds)
            runtime, checkpoint = SimulatedRuntime(self._clock), MemoryCheckpoint()
            node, killed = self._make_node(size, runtime, checkpoint)
            home = Home(size, runtime, checkpoint, node)
            self._truth.homes.append(home)
            yield self._keep_node(home, killed)
        yield Scheduler(self._connection("cluster/scheduler"), self._clock).run()
        yield Controllers(self._connection("cluster/controllers"), self._clock).run()

    def _make_node(
        self, size: NodeSettings, runtime: SimulatedRuntime, checkpoint: MemoryCheckpoint
    ) -> tuple[LocalNode, asyncio.Event]:
        """A kubelet, and what is set when it dies."""
        connection = self._connection(f"cluster/{size.name}")
        if not self._node_faults.plan.rates[FaultKind.KILLED]:
            return self._node_type(connection, self._clock, runtime, size, checkpoint), asyncio.Event()
        mortal = FaultyConnection(connection, self._node_faults)
        stored = MortalCheckpoint(checkpoint, mortal, self._node_faults)
        return self._node_type(mortal, self._clock, runtime, size, stored), mortal.killed

    async def _keep_node(self, home: Home, killed: asyncio.Event) -> None:
        """A kubelet that dies is started anew, with what it had stored and the containers that ran on."""
        while True:
            failure = await live(home.node.run, killed)
            if isinstance(failure, Exception):
                raise failure
            self._trace.add("end", actor=f"cluster/{home.settings.name}")
            await asyncio.sleep(self._spread["nodes"].uniform(*_RESTART_SECONDS))
            home.node, killed = self._make_node(home.settings, home.runtime, home.checkpoint)

    def _placed_parts(self) -> Iterable[tuple[PartProgram, Home | None]]:
        for part in self._parts:
            if part.on_every_node:
                for home in self._truth.homes:
                    yield part, home
            else:
                for _ in range(part.replicas):
                    yield part, None

    async def _keep_alive(self, part: PartProgram, home: Home | None) -> None:
        """One replica of a part: whenever it ends, it is started anew with nothing but its name."""
        spread = random.Random(self._spread["parts"].random())
        while True:
            self._lives[part.name] += 1
            actor = f"{part.name}/{self._lives[part.name]}"
            connection = FaultyConnection(self._connection(actor), self._faults)
            around = Surroundings(
                self._wrap(actor, connection),
                self._clock,
                random.Random(spread.random()),
                actor,
                home.settings if home is not None else None,
                home.runtime if home is not None else None,
                self._watch_cgroups,
            )
            self._trace.add("start", actor=actor)
            failure = await live(partial(self._work, part, around), connection.killed)
            self._ended.add(actor)
            self._trace.add("end", actor=actor, killed=connection.killed.is_set(), failure=repr(failure))
            if isinstance(failure, Exception):
                self._failures.append(f"{actor}: {failure!r}")
            await asyncio.sleep(spread.uniform(*_RESTART_SECONDS))

    async def _work(self, part: PartProgram, around: Surroundings) -> None:
        if not part.elects_leader:
            await self._run(part.make(around), around.actor)
            return
        lead = Leadership(
            around.connection,
            self._clock,
            namespace=_LEASE_NAMESPACE,
            name=f"elastipod-{part.name}",
            identity=around.actor,
            # Every other life is where those before it were, and knows which of them are dead.
            has_ended=lambda holder: around.actor[-1] in "02468" and holder in self._ended,
            spread=around.spread,
        )
        renewing = asyncio.create_task(lead.run())
        await lead.wait_until_leader()
        work = part.make(replace(around, connection=lead.guarded(around.connection)))
        working = asyncio.create_task(self._run(work, around.actor))
        losing = asyncio.create_task(lead.wait_until_lost())
        await asyncio.wait((renewing, working, losing), return_when=asyncio.FIRST_COMPLETED)
        for task in (renewing, working):
            if task.done():
                task.result()

    async def _run(self, part: Part, actor: str) -> None:
        ticker = clock_ticker(self._clock)
        await run_part(_Watched(part, lambda error: self._failures.append(f"{actor}: {error!r}")), self._clock, ticker)

    def _connection(self, actor: str) -> Connection:
        return RecordedConnection(
            DirectConnection(self._api, self._clock, actor), self._store, self._clock, actor, self._trace, self._note
        )

    def _note(self, write: Write) -> None:
        self._writes.append(write)
        assert self._watchman is not None
        self._watchman.after_write(write)

    def _watch_cgroups(self, write: CgroupWrite) -> None:
        self._trace.add("cgroup", actor=write.actor, group=write.group, file=write.file, value=write.value)
        assert self._watchman is not None
        self._watchman.after_cgroup_write(write)

    def _at_pause(self) -> None:
        if self._watchman is not None:
            self._watchman.at_pause()


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """A run keeps what it makes and makes next to no cycles: to look for them took a tenth of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Watched:
    """A part whose own errors are told; the loop would only log them and go on."""

    def __init__(self, part: Part, on_failure: Callable[[Exception], None]) -> None:
        self.name, self.interval_seconds, self.wake = part.name, part.interval_seconds, part.wake
        self._part, self._on_failure = part, on_failure

    async def watch(self) -> None:
        await self._part.watch()

    async def run_once(self) -> None:
        try:
            await self._part.run_once()
        except KubeError:
            raise
        except Exception as error:
            self._on_failure(error)
            raise
