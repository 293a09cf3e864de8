"""A whole cluster in one process.

Owns what belongs to it and in which order that starts and stops: API server, nodes, scheduler, controllers. What it
leaves in its folder is folder.py's matter, what runs in pods each node's runtime's, which is passed in.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from elastipod.clock import Clock
from elastipod.kube.errors import NotFound
from elastipod.kube.resources import NODES
from elastipod.kube.rows import decode_node
from elastipod.localcluster.api.admission import SizeNew
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.failures import bad_request
from elastipod.localcluster.api.http import HttpServer
from elastipod.localcluster.api.logs import LogWish
from elastipod.localcluster.api.store import Store
from elastipod.localcluster.controllers.manager import Controllers
from elastipod.localcluster.folder import last_port, write_kubeconfig
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


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """What a local cluster is."""

    name: str
    folder: Path
    node_names: tuple[str, ...]
    node_size: Resources
    port: int = 0
    usage_seconds: float = 5.0


class LocalCluster:
    """One cluster. `start()`, then `stop()`; or killed, and started again in the same folder."""

    def __init__(
        self,
        settings: ClusterSettings,
        clock: Clock,
        make_runtime: Callable[[str, Path], Runtime],
        size_new: SizeNew | None = None,
    ) -> None:
        """`size_new` stands for a webhook that gives new pods their size."""
        self.settings = settings
        self.url = ""
        self.nodes: list[LocalNode] = []
        self._clock = clock
        self._make_runtime = make_runtime
        self._size_new = size_new
        self._store: Store | None = None
        self._server: HttpServer | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Serve, and return when every node is Ready. Raises OSError where the port is taken."""
        folder = self.settings.folder
        self._store = Store(folder / "objects.db")
        api = ApiServer(
            self._clock,
            self._store,
            logs=self._logs,
            usage=self,
            spread=random.Random(),
            size_new=self._size_new,
        )
        connection = DirectConnection(api, self._clock)
        self._server = HttpServer(api)
        await self._listen(self._server)
        self.url = self._server.url
        write_kubeconfig(folder, self.settings.name, self._server)
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
        if not self.settings.port and (port := last_port(self.settings.folder)):
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

    async def _logs(self, namespace: str, pod: str, container: str, wish: LogWish) -> AsyncGenerator[bytes, None]:
        node = next((one for one in self.nodes if one.has_pod(namespace, pod)), None)
        if node is None:
            raise bad_request(f"pod {pod} is on no node yet")
        if node.runtime.enforcement == "simulated":
            yield b"(a simulated container has no output)\n"
            return
        try:
            async for piece in node.read_log(namespace, pod, container, wish):
                yield piece
        except FileNotFoundError:
            which = "previous terminated container" if wish.is_previous else "container"
            raise bad_request(f'{which} "{container}" in pod "{pod}" has no output yet') from None


def node_names(name: str, count: int) -> tuple[str, ...]:
    """`local` for one node, `local-1`, `local-2` for more."""
    return (name,) if count == 1 else tuple(f"{name}-{number}" for number in range(1, count + 1))
