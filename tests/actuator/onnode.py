"""An actuator on a node whose containers run in thought, under virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from actuator.journal import Journal
from actuator.memory import Target
from actuator.outcomes import OnOutcome
from actuator.service import Actuator
from actuator.settings import ActuatorSettings
from actuator.simulated import simulated_actuator
from actuator.spikewords import Accepted, Refused
from elastipod.kube.calls import Call, InterceptedConnection
from elastipod.kube.connection import Connection
from elastipod.kube.errors import KubeError
from elastipod.loop import clock_ticker, run_part
from tests.build import container_json
from tests.localcluster.onenode import MIB, OneNode, in_one_node

LIMITED = container_json(cpu="100m", memory="64Mi", memory_limit="100Mi")
LEAP = [[0, 100, 20 * MIB], [20, 100, 180 * MIB], [60, 100, 30 * MIB]]


class Silent(InterceptedConnection):
    """A connection whose resizes fail while `error` is set."""

    def __init__(self, inner: Connection, error: KubeError | None = None) -> None:
        super().__init__(inner)
        self.error = error
        self.bodies: list[bytes] = []

    async def handle(self, call: Call) -> bytes:
        if call.subresource == "resize":
            self.bodies.append(call.body)
            if self.error is not None:
                raise self.error
        return await super().handle(call)


@asynccontextmanager
async def at_work(actuator: Actuator, here: OneNode) -> AsyncIterator[None]:
    """The actuator runs inside."""
    task = asyncio.create_task(run_part(actuator, here.clock, clock_ticker(here.clock)))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


Body = Callable[[OneNode, Actuator, Silent], Awaitable[None]]


def with_actuator(test: Body, *, memory: int = 2048 * MIB, **settings: Any) -> None:
    """Run a test's body beside an actuator with these settings."""

    async def run(here: OneNode) -> None:
        silent = Silent(here.connection)
        chosen = ActuatorSettings(node_name="here", **settings)
        actuator = simulated_actuator(silent, here.clock, chosen, here.runtime, memory)
        async with at_work(actuator, here):
            await test(here, actuator, silent)

    in_one_node(run, memory=memory)


def containers(actuator: Actuator, pod: str = "default/job") -> dict[str, Any]:
    """What the actuator says of a pod's containers."""
    facts = actuator.explain(pod)
    assert facts is not None
    return cast("dict[str, Any]", facts["containers"])


def seconds_held(here: OneNode) -> float:
    return sum(here.runtime.held_seconds(run.spec.container_id) for run in here.runtime.recover())


class Still:
    """A watcher on cgroup v1 to which nothing happens."""

    enforcement, holds = "cgroup v1", False

    def __init__(self) -> None:
        self.on_outcome: OnOutcome = lambda _key, _outcome: None
        self.keys: list[str] = []
        self.answers: list[Accepted | Refused] = []

    def add(self, target: Target) -> None:
        self.keys.append(target.key)

    def complete(self) -> None: ...

    def drop(self, key: str) -> None: ...

    def answer(self, key: str, answer: Accepted | Refused) -> None:
        self.answers.append(answer)

    async def run(self) -> None:
        await asyncio.Event().wait()


def with_still(here: OneNode, watcher: Still, journal: Journal | None = None) -> Actuator:
    """An actuator whose watcher says what the test says."""
    settings, groups = ActuatorSettings(node_name="here"), ("pods/1", "pods/1/c")
    return Actuator(here.connection, here.clock, settings, watcher, lambda *_: groups, journal=journal)
