"""A whole cluster in one process.

Owns what belongs to it and in which order that starts and stops: API server, nodes, scheduler, controllers, the state
folder and the kubeconfig. What runs in pods is each node's runtime's matter, which is passed in.
"""

import asyncio
import contextlib
import fcntl
import os
import random
import shutil
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from elastipod.clock import Clock
from elastipod.kube.errors import NotFound
from elastipod.kube.resources import NODES
from elastipod.kube.rows import decode_node
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.failures import bad_request
from elastipod.localcluster.api.http import HttpServer
from elastipod.localcluster.api.store import Store
from elastipod.localcluster.controllers.manager import Controllers
from elastipod.localcluster.node.checkpoint import FileCheckpoint
from elastipod.localcluster.node.node import LocalNode
from elastipod.localcluster.node.registration import NodeSettings
from elastipod.localcluster.node.runtime import Runtime
from elastipod.localcluster.scheduler import Scheduler
from elastipod.quantities import Resources
from elastipod.telemetry import get_logger

log = get_logger(__name__)

Json = dict[str, Any]

_STOP_SECONDS: Final = 2.0
_FACTS: Final = "cluster.json"
_LOCK: Final = "lock"
KUBECONFIG: Final = "kubeconfig"


class ClusterError(Exception):
    """A local cluster that can not be; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """What a local cluster is."""

    name: str
    folder: Path
    node_names: tuple[str, ...]
    node_size: Resources
    port: int = 0
    usage_seconds: float = 5.0


class ClusterFacts(msgspec.Struct, rename="camel"):
    """What a running cluster tells those who look into its folder."""

    name: str
    pid: int
    url: str
    kubeconfig: str
    enforcement: str
    why: str = ""
    """Why it is not enforced by cgroups, where it is not."""
    nodes: list[str] = []
    parts: dict[str, int] = {}
    simulated: bool = False


class LocalCluster:
    """One cluster. `start()`, then `stop()`; or killed, and started again in the same folder."""

    def __init__(self, settings: ClusterSettings, clock: Clock, make_runtime: Callable[[str, Path], Runtime]) -> None:
        self.settings = settings
        self.url = ""
        self.nodes: list[LocalNode] = []
        self._clock = clock
        self._make_runtime = make_runtime
        self._store: Store | None = None
        self._server: HttpServer | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Serve, and return when every node is Ready. Raises OSError where the port is taken."""
        folder = self.settings.folder
        self._store = Store(folder / "objects.db")
        api = ApiServer(self._clock, self._store, logs=self._logs, usage=self, spread=random.Random())
        connection = DirectConnection(api, self._clock)
        self._server = HttpServer(api)
        await self._listen(self._server)
        self.url = self._server.url
        _write_private(folder / KUBECONFIG, kubeconfig(self.settings.name, self.url))
        for name in self.settings.node_names:
            own = folder / "nodes" / name
            own.mkdir(mode=0o700, parents=True, exist_ok=True)
            settings = NodeSettings(name, self.settings.node_size, usage_seconds=self.settings.usage_seconds)
            runtime = self._make_runtime(name, own)
            self.nodes.append(LocalNode(connection, self._clock, runtime, settings, FileCheckpoint(own)))
        scheduler, controllers = Scheduler(connection, self._clock), Controllers(connection, self._clock)
        runs = [*(node.run() for node in self.nodes), scheduler.run(), controllers.run()]
        self._tasks = [asyncio.create_task(one) for one in runs]
        while not await self._is_ready(connection):
            for task in self._tasks:
                if task.done():
                    task.result()
            await self._clock.sleep(0.01)

    async def wait_broken(self) -> None:
        """Return never, but raise when something of the cluster ends by itself."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def stop(self) -> None:
        """End every container and leave nothing but the folder."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(node.stop_all(_STOP_SECONDS) for node in self.nodes))
        if self._server is not None:
            await self._server.close()
        if self._store is not None:
            self._store.close()

    def pod_metrics(self) -> Iterator[Json]:
        """PodMetrics of all nodes."""
        for node in self.nodes:
            yield from node.usage.pod_metrics()

    def node_metrics(self) -> Iterator[Json]:
        """NodeMetrics of all nodes."""
        for node in self.nodes:
            yield from node.usage.node_metrics()

    async def _listen(self, server: HttpServer) -> None:
        """On the port that was asked for; else on the last one, so that kubeconfigs go on to hold; else on any."""
        if not self.settings.port and (port := _last_port(self.settings.folder)):
            try:
                await server.start("127.0.0.1", port)
            except OSError:
                log.info("the last port is taken", port=port)
            else:
                return
        await server.start("127.0.0.1", self.settings.port)

    async def _is_ready(self, connection: DirectConnection) -> bool:
        try:
            found = [decode_node(await connection.get(NODES, None, name)) for name in self.settings.node_names]
        except NotFound:
            return False
        return all(node.is_ready for node in found)

    async def _logs(
        self, namespace: str, pod: str, container: str, tail: int | None, previous: bool, follow: bool
    ) -> AsyncGenerator[bytes, None]:
        node = next((one for one in self.nodes if one.has_pod(namespace, pod)), None)
        if node is None:
            raise bad_request(f"pod {pod} is on no node yet")
        if node.runtime.enforcement == "simulated":
            yield b"(a simulated container has no output)\n"
            return
        try:
            async for piece in node.read_log(namespace, pod, container, tail, previous=previous, follow=follow):
                yield piece
        except FileNotFoundError:
            which = "previous terminated container" if previous else "container"
            raise bad_request(f'{which} "{container}" in pod "{pod}" has no output yet') from None


def kubeconfig(name: str, url: str) -> str:
    """A kubeconfig with one context, `elastipod-<name>`."""
    context = f"elastipod-{name}"
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": context, "cluster": {"server": url}}],
            "users": [{"name": context, "user": {}}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": context, "namespace": "default"}}],
            "current-context": context,
        },
        sort_keys=False,
    )


def take_lock(folder: Path) -> int:
    """The lock that says that a cluster runs in this folder; held while the descriptor is open. Raises ClusterError."""
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ClusterError(f"a cluster runs in {folder} already") from None
    os.truncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def running_pid(folder: Path) -> int | None:
    """The process of the cluster that runs in this folder; None where none does."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        text = os.pread(descriptor, 20, 0)
        return int(text) if text.isdigit() else 0
    finally:
        os.close(descriptor)
    return None


def write_facts(folder: Path, facts: ClusterFacts) -> None:
    """Say that the cluster is ready."""
    _write_private(folder / _FACTS, msgspec.json.encode(facts).decode())


def read_facts(folder: Path) -> ClusterFacts | None:
    """What the cluster in this folder told last."""
    try:
        return msgspec.json.decode((folder / _FACTS).read_bytes(), type=ClusterFacts)
    except (OSError, msgspec.DecodeError):
        return None


def remove_folder(folder: Path) -> None:
    """All that a cluster kept; the lock goes last."""
    for path in sorted(folder.iterdir(), key=lambda one: one.name == _LOCK):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def node_names(name: str, count: int) -> tuple[str, ...]:
    """`local` for one node, `local-1`, `local-2` for more."""
    return (name,) if count == 1 else tuple(f"{name}-{number}" for number in range(1, count + 1))


def _last_port(folder: Path) -> int:
    facts = read_facts(folder)
    port = facts.url.rpartition(":")[2] if facts is not None else ""
    return int(port) if port.isdigit() else 0


def _write_private(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with open(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
