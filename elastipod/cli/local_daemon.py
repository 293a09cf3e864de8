"""The process that is a local cluster.

    python -m elastipod.cli.local_daemon '{"name": "local", ...}'

Owns its life: lock, cluster, parts beside it, and leaving nothing when it is told to end. `elastipod local up` starts
it, or is it with `--foreground`.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from elastipod.cli.enforcement import Enforcement, choose, hands_of, parent_of, python_of_module
from elastipod.clock import Clock, SystemClock
from elastipod.localcluster.cluster import (
    KUBECONFIG,
    ClusterError,
    ClusterFacts,
    ClusterSettings,
    LocalCluster,
    node_names,
    remove_folder,
    take_lock,
    write_facts,
)
from elastipod.localcluster.processes import ProcessRuntime
from elastipod.localcluster.supervisor import PartCommand, Supervisor, end_left_parts
from elastipod.quantities import Resources
from elastipod.telemetry import configure_logging, get_logger

log = get_logger(__name__)


class Wanted(msgspec.Struct, frozen=True):
    """What `local up` was asked for."""

    name: str
    folder: str
    port: int = 0
    simulated: bool = False
    nodes: int = 1
    cpu_millicores: int = 0
    memory_bytes: int = 0
    with_parts: bool = True


async def serve(wanted: Wanted, on_ready: Callable[[ClusterFacts], None]) -> None:
    """Be the cluster until told to end; then leave nothing. Raises ClusterError."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    folder = Path(wanted.folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = take_lock(folder)
    clock = SystemClock()
    enforcement = choose(wanted.name, simulated=wanted.simulated)
    await end_left_parts(folder, clock)
    names = node_names(wanted.name, wanted.nodes)
    size = Resources(wanted.cpu_millicores, wanted.memory_bytes)
    settings = ClusterSettings(wanted.name, folder, names, size, wanted.port)
    cluster = LocalCluster(settings, clock, enforcement.runtime_maker(clock))
    supervisor = Supervisor(folder, clock)
    try:
        started = asyncio.create_task(_start(cluster, supervisor, wanted, enforcement, on_ready))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait((started, stopped), return_when=asyncio.FIRST_COMPLETED)
        if stopped.done():
            started.cancel()
            await asyncio.gather(started, return_exceptions=True)
            return
        started.result()
        broken = asyncio.create_task(cluster.wait_broken())
        await asyncio.wait((stopped, broken), return_when=asyncio.FIRST_COMPLETED)
        if broken.done():
            broken.result()
        broken.cancel()
    except OSError as error:
        raise ClusterError(f"the cluster can not be served: {error.strerror or error}") from error
    finally:
        await supervisor.stop()
        await cluster.stop()
        if not enforcement.is_simulated:
            await _leave_no_group(names, enforcement, folder, clock)
        remove_folder(folder)
        os.close(lock)


async def clean(folder: Path, name: str) -> None:
    """What is left of a cluster whose process is dead: parts, containers, groups, files."""
    clock = SystemClock()
    await end_left_parts(folder, clock)
    enforcement = choose(name, simulated=False)
    nodes = tuple(path.name for path in (folder / "nodes").glob("*"))
    if not enforcement.is_simulated:
        await _leave_no_group(nodes, enforcement, folder, clock)
    remove_folder(folder)


async def _leave_no_group(nodes: tuple[str, ...], enforcement: Enforcement, folder: Path, clock: Clock) -> None:
    for node in nodes:
        hands = hands_of(node, enforcement.root)
        runtime = ProcessRuntime(folder / "nodes" / node, hands, clock)
        runtime.recover()
        await runtime.remove_all()
        try:
            hands.remove_parent()
        except OSError as error:
            log.warning("cgroups left behind", parent=hands.parent, error=str(error))


async def _start(
    cluster: LocalCluster,
    supervisor: Supervisor,
    wanted: Wanted,
    enforcement: Enforcement,
    on_ready: Callable[[ClusterFacts], None],
) -> None:
    await cluster.start()
    folder = cluster.settings.folder
    kubeconfig = str(folder / KUBECONFIG)
    if wanted.with_parts:
        supervisor.start(_parts(cluster, enforcement, kubeconfig))
        # A moment for the first starts, so that their process ids can be told.
        await asyncio.sleep(0)
    facts = ClusterFacts(
        wanted.name,
        os.getpid(),
        cluster.url,
        kubeconfig,
        enforcement.name,
        enforcement.why,
        list(cluster.settings.node_names),
        simulated=enforcement.is_simulated,
    )
    write_facts(folder, facts)
    on_ready(facts)


def _parts(cluster: LocalCluster, enforcement: Enforcement, kubeconfig: str) -> list[PartCommand]:
    """Recommender and updater; an actuator and its guard per node where there are cgroups to act on."""
    folder = cluster.settings.folder
    parts = [
        PartCommand(name, [*python_of_module(name), "--kubeconfig", kubeconfig]) for name in ("recommender", "updater")
    ]
    for node in () if enforcement.is_simulated else cluster.settings.node_names:
        state = folder / "nodes" / node / "actuator"
        state.mkdir(mode=0o700, exist_ok=True)
        flags = {
            "--kubeconfig": kubeconfig,
            "--node-name": node,
            "--state-folder": str(state),
            "--cgroup-root": enforcement.root,
            "--cgroup-parent": parent_of(node),
        }
        words = [word for pair in flags.items() for word in pair]
        parts.append(PartCommand(f"actuator-{node}", [*python_of_module("actuator"), *words]))
        guard = [*python_of_module("actuator.guard"), str(state), enforcement.root]
        parts.append(PartCommand(f"guard-{node}", guard))
    return parts


def main() -> int:
    """The entry point of the daemon."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    configure_logging("info", as_json=False)
    wanted = msgspec.json.decode(sys.argv[1], type=Wanted)
    try:
        asyncio.run(serve(wanted, lambda facts: log.info("cluster ready", url=facts.url)))
    except ClusterError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
