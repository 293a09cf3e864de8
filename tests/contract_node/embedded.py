"""The embedded node, with real processes or in thought; under a loop that runs only while a test looks or waits.

Owns its life in a test. The one in thought lives in virtual time, so that an hour of waiting is an instant.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from actuator.nodehands import NodeHands
from elastipod.clock import Clock, LoopClock, SystemClock
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.requests import Request
from elastipod.localcluster.api.store import Store
from elastipod.localcluster.controllers.manager import Controllers
from elastipod.localcluster.node.checkpoint import FileCheckpoint
from elastipod.localcluster.node.hands import GroupLimits
from elastipod.localcluster.node.node import LocalNode
from elastipod.localcluster.node.processes import ProcessRuntime
from elastipod.localcluster.node.registration import NodeSettings
from elastipod.localcluster.node.runtime import Runtime
from elastipod.localcluster.node.simulated import SimulatedRuntime
from elastipod.localcluster.simulation.virtualtime import VirtualTimeLoop
from elastipod.quantities import Resources
from tests.contract_node.nodes import Json, KernelNode, Node
from tests.contract_node.workers import MIB
from tests.localcluster.served import NODES

T = TypeVar("T")

_SIZE: Final = Resources(2000, 4096 * MIB)
_LOOK_SECONDS: Final = 0.05


class EmbeddedNode(Node):
    """The node of a local cluster, and its API server, in this process."""

    name = "here"

    def __init__(self, runner: asyncio.Runner, clock: Clock, folder: Path, make_runtime: Callable[[], Runtime]) -> None:
        self._runner = runner
        self._clock = clock
        self._make_runtime = make_runtime
        self._checkpoint = FileCheckpoint(folder)
        self._api = self._in_loop(lambda: ApiServer(clock, Store(), usage=self, spread=random.SystemRandom()))
        self._connection = DirectConnection(self._api, clock)
        self._controllers = self._in_loop(lambda: asyncio.create_task(Controllers(self._connection, clock).run()))
        self.start_kubelet()
        self.until(lambda: self.call("GET", f"{NODES}/{self.name}")[0], lambda code: code == 200, "the node is there")

    def call(self, method: str, path: str, body: Any = None, content_type: str = "", **query: str) -> tuple[int, Json]:
        raw = b"" if body is None else msgspec.json.encode(body)
        headers = {"content-type": content_type or "application/json"}
        response = self._in_loop(lambda: self._api.handle(Request(method, path, query, headers, raw)))
        return response.code, msgspec.json.decode(response.body)

    def pause(self) -> None:
        self._runner.run(self._clock.sleep(_LOOK_SECONDS))

    def now(self) -> float:
        return self._in_loop(self._clock.now)

    def start_kubelet(self) -> None:
        self.runtime = self._make_runtime()
        settings = NodeSettings(self.name, _SIZE, usage_seconds=1.0)
        self.node = self._in_loop(
            lambda: LocalNode(self._connection, self._clock, self.runtime, settings, self._checkpoint)
        )
        self._kubelet = self._in_loop(lambda: asyncio.create_task(self.node.run()))

    def kill_kubelet(self) -> None:
        self._kubelet.cancel()
        self._runner.run(_ended(self._kubelet))

    def start_metrics(self) -> None:
        """They are there from the start."""

    def pod_metrics(self) -> Iterator[Json]:
        return self.node.usage.pod_metrics()

    def node_metrics(self) -> Iterator[Json]:
        return self.node.usage.node_metrics()

    def _in_loop(self, make: Callable[[], T]) -> T:
        """What this returns, asked while the loop runs."""

        async def run() -> T:
            return make()

        return self._runner.run(run())


class SimulatedNode(EmbeddedNode):
    """In thought, and in virtual time."""

    patience_seconds = 600.0
    notice_seconds = 5.0

    def kill_kubelet(self) -> None:
        super().kill_kubelet()
        # No kubelet is there again in the same instant.
        self.pause()

    def group(self, path: str) -> GroupLimits:
        assert isinstance(self.runtime, SimulatedRuntime)
        uid, _, container = path.rpartition("/pod")[2].partition("/")
        found = self.runtime.limits(container) if container else self.runtime.pod_limits(uid)
        assert found is not None, path
        return found

    def has_group(self, path: str) -> bool:
        assert isinstance(self.runtime, SimulatedRuntime)
        return self.runtime.pod_limits(path.rpartition("/pod")[2]) is not None

    def has_processes(self, path: str) -> bool:
        assert isinstance(self.runtime, SimulatedRuntime)
        runtime, container = self.runtime, path.rpartition("/")[2]
        return self._in_loop(lambda: runtime.process_id(container)) > 0

    def used_memory(self, path: str) -> int:
        used = self._in_loop(lambda: self.runtime.usage(path.rpartition("/")[2]))
        return 0 if used is None else used.memory_bytes


class ProcessNode(KernelNode, EmbeddedNode):
    """With processes of this machine in its cgroups."""

    patience_seconds = 60.0
    notice_seconds = 5.0


@contextmanager
def simulated_node(folder: Path) -> Iterator[SimulatedNode]:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        clock = LoopClock()
        runtime = SimulatedRuntime(clock)
        yield SimulatedNode(runner, clock, folder, lambda: runtime)


@contextmanager
def process_node(folder: Path, parent: str) -> Iterator[ProcessNode]:
    with asyncio.Runner() as runner:
        clock, hands = SystemClock(), NodeHands(parent=parent)
        node = ProcessNode(runner, clock, folder, lambda: ProcessRuntime(folder, hands, clock))
        node.hands = hands
        try:
            yield node
        finally:
            node.kill_kubelet()
            assert isinstance(node.runtime, ProcessRuntime)
            runner.run(node.runtime.remove_all())
            hands.remove_parent()


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])
