"""A local cluster with the parts beside it, from its start to an end that leaves nothing.

Owns the lock, the cluster, the child processes, and the actuators of simulated nodes, which can see simulated memory
only from within this process. The daemon of `elastipod local up` and the demo both run it.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from actuator.service import Actuator
from actuator.settings import ActuatorSettings
from actuator.simulated import simulated_actuator
from elastipod.cli.enforcement import Enforcement, choose, hands_of, parent_of, python_of_module
from elastipod.clock import Clock, SystemClock
from elastipod.kube.access import load_access
from elastipod.kube.http import HttpConnection
from elastipod.localcluster.cluster import ClusterSettings, LocalCluster, node_names
from elastipod.localcluster.folder import (
    KUBECONFIG,
    ClusterError,
    ClusterFacts,
    remove_folder,
    take_lock,
    write_facts,
)
from elastipod.localcluster.node.processes import ProcessRuntime
from elastipod.localcluster.node.simulated import SimulatedRuntime
from elastipod.localcluster.supervisor import PartCommand, Supervisor, end_left_parts
from elastipod.loop import Health, apscheduler_ticker, run_part
from elastipod.quantities import Resources
from elastipod.serving import Serving
from elastipod.settings import SettingsError, load_settings
from elastipod.telemetry import Metrics, get_logger
from recommender.settings import RecommenderSettings
from updater.admission.inprocess import NewPods
from updater.admission.settings import AdmissionSettings
from updater.settings import UpdaterSettings

log = get_logger(__name__)

_PACE: Final = (
    "ELASTIPOD_ACCOUNTING_INTERVAL_SECONDS",
    "ELASTIPOD_INTERVAL_SECONDS",
    "ELASTIPOD_METRICS_RESOLUTION_SECONDS",
    "ELASTIPOD_STATUS_INTERVAL_SECONDS",
)


class Wanted(msgspec.Struct, frozen=True):
    """What a local cluster is asked to be."""

    name: str
    folder: str
    port: int = 0
    simulated: bool = False
    nodes: int = 1
    cpu_millicores: int = 0
    memory_bytes: int = 0
    with_parts: bool = True
    usage_seconds: float = 5.0
    """How often the nodes measure their pods' usage."""


class RunningCluster:
    """A cluster that is up."""

    def __init__(self, cluster: LocalCluster, enforcement: Enforcement, clock: Clock, supervisor: Supervisor) -> None:
        self.cluster = cluster
        self.enforcement = enforcement
        self.supervisor = supervisor
        self.kubeconfig = str(cluster.settings.folder / KUBECONFIG)
        self._clock = clock
        self._actuators: list[asyncio.Task[None]] = []

    @property
    def facts(self) -> ClusterFacts:
        """What is told to those who look into the folder."""
        settings = self.cluster.settings
        return ClusterFacts(
            settings.name,
            os.getpid(),
            self.cluster.url,
            self.kubeconfig,
            self.enforcement.name,
            self.enforcement.why,
            list(settings.node_names),
            simulated=self.enforcement.is_simulated,
        )

    def connection(self) -> HttpConnection:
        """A way to the API server, as any client has it."""
        return HttpConnection(load_access(self.kubeconfig, None, {}), self._clock)

    def start_parts(self, environment: Mapping[str, str] | None = None) -> None:
        """Recommender and updater; an actuator and its guard for each node. The environment holds their settings."""
        self.supervisor.start(self._commands(environment or {}))
        for name, node in zip(self.cluster.settings.node_names, self.cluster.nodes, strict=True):
            if isinstance(node.runtime, SimulatedRuntime):
                self._actuators.append(asyncio.create_task(self._act(name, node.runtime)))

    async def wait_broken(self) -> None:
        """Return never, but raise when something of the cluster ends by itself."""
        await self.cluster.wait_broken()

    async def stop(self) -> None:
        """End the parts, then the cluster."""
        for task in self._actuators:
            task.cancel()
        await asyncio.gather(*self._actuators, return_exceptions=True)
        await self.supervisor.stop()
        await self.cluster.stop()

    async def _act(self, node: str, runtime: SimulatedRuntime) -> None:
        connection, metrics = self.connection(), Metrics()
        health = Health(10.0, self._clock.monotonic())
        working: list[Actuator] = []
        serving = Serving(metrics, health, self._clock, lambda key: working[0].explain(key) if working else None)
        try:
            await serving.start("127.0.0.1", 0)
            address = f"http://127.0.0.1:{serving.port}"
            settings, size = ActuatorSettings(node_name=node), self.cluster.settings.node_size
            part = simulated_actuator(
                connection, self._clock, settings, runtime, size.memory, metrics=metrics, address=address
            )
            working.append(part)
            await run_part(part, self._clock, apscheduler_ticker, health)
        finally:
            await serving.stop()
            await connection.close()

    def _commands(self, environment: Mapping[str, str]) -> list[PartCommand]:
        own = {"ELASTIPOD_KUBECONFIG": self.kubeconfig, **environment}
        # It looks as often as there is something new to see.
        pace = dict.fromkeys(_PACE, f"{self.cluster.settings.usage_seconds:g}")
        parts = [
            PartCommand("recommender", python_of_module("recommender"), {**pace, **own}),
            PartCommand("updater", python_of_module("updater"), own),
        ]
        for node in () if self.enforcement.is_simulated else self.cluster.settings.node_names:
            state = self.cluster.settings.folder / "nodes" / node / "actuator"
            state.mkdir(mode=0o700, exist_ok=True)
            root = self.enforcement.root
            settings = {
                "ELASTIPOD_NODE_NAME": node,
                "ELASTIPOD_STATE_FOLDER": str(state),
                "ELASTIPOD_CGROUP_ROOT": root,
                "ELASTIPOD_CGROUP_PARENT": parent_of(node),
            }
            parts.append(PartCommand(f"actuator-{node}", python_of_module("actuator"), {**own, **settings}))
            parts.append(PartCommand(f"guard-{node}", [*python_of_module("actuator.guard"), str(state), root]))
        return parts


@asynccontextmanager
async def running_cluster(wanted: Wanted) -> AsyncGenerator[RunningCluster, None]:
    """A cluster for as long as it is needed; nothing of it is left behind. Raises ClusterError."""
    size_new = None
    if wanted.with_parts:
        try:
            # What a part would refuse at its start is refused before there is a cluster.
            for settings_of_part in (RecommenderSettings, UpdaterSettings):
                load_settings(settings_of_part, (), os.environ)
            size_new = NewPods(load_settings(AdmissionSettings, (), os.environ)).patch
        except SettingsError as error:
            raise ClusterError(str(error)) from None
    folder = Path(wanted.folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = take_lock(folder)
    clock = SystemClock()
    enforcement = choose(wanted.name, simulated=wanted.simulated)
    names = node_names(wanted.name, wanted.nodes)
    size = Resources(wanted.cpu_millicores, wanted.memory_bytes)
    settings = ClusterSettings(wanted.name, folder, names, size, wanted.port, wanted.usage_seconds)
    cluster = LocalCluster(settings, clock, enforcement.runtime_maker(clock), size_new)
    running = RunningCluster(cluster, enforcement, clock, Supervisor(folder, clock))
    try:
        await end_left_parts(folder, clock)
        await cluster.start()
        if wanted.with_parts:
            running.start_parts()
        write_facts(folder, running.facts)
        yield running
    except OSError as error:
        raise ClusterError(f"the cluster can not be served: {error.strerror or error}") from error
    finally:
        await running.stop()
        await leave_no_group(names, enforcement, folder, clock)
        remove_folder(folder)
        os.close(lock)


async def clean(folder: Path, name: str) -> None:
    """What is left of a cluster whose process is dead: parts, containers, groups, files."""
    clock = SystemClock()
    await end_left_parts(folder, clock)
    nodes = tuple(path.name for path in (folder / "nodes").glob("*"))
    await leave_no_group(nodes, choose(name, simulated=False), folder, clock)
    remove_folder(folder)


async def leave_no_group(nodes: tuple[str, ...], enforcement: Enforcement, folder: Path, clock: Clock) -> None:
    """End what still runs in the nodes' cgroups, and remove these."""
    if enforcement.is_simulated:
        return
    for node in nodes:
        hands = hands_of(node, enforcement.root)
        runtime = ProcessRuntime(folder / "nodes" / node, hands, clock)
        runtime.recover()
        await runtime.remove_all()
        try:
            hands.remove_parent()
        except OSError as error:
            log.warning("cgroups left behind", parent=hands.parent, error=str(error))
