"""The parts, wired into a simulated node.

Owns how an actuator sees memory that exists only in thought. Parts as processes of their own are running.py's matter.
"""

import asyncio
import random
from typing import Any

from actuator.budget import NodeBudget
from actuator.loopwatcher import LoopWatcher
from actuator.service import Actuator
from actuator.settings import ActuatorSettings
from actuator.simulatedmemory import SimulatedMemory
from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.localcluster.simulated import SimulatedRuntime


class SimulatedActuator:
    """An actuator and its watcher on one event loop, over a simulated node's containers."""

    name = "actuator"

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        settings: ActuatorSettings,
        runtime: SimulatedRuntime,
        node_bytes: int,
        *,
        address: str = "",
        spread: random.Random | None = None,
    ) -> None:
        memory = SimulatedMemory(runtime, node_bytes)
        self._watcher = LoopWatcher(memory, settings.rules, NodeBudget(settings.amount("node_reserve")), clock)
        self._actuator = Actuator(
            connection,
            clock,
            settings,
            self._watcher,
            lambda _pod, container: ("", container.container_id),
            address=address,
            spread=spread,
        )
        self.interval_seconds = self._actuator.interval_seconds
        self.wake = self._actuator.wake

    async def watch(self) -> None:
        """Keep what is known fresh and the spikes caught, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._actuator.watch())
            tasks.create_task(self._watcher.run())

    async def run_once(self) -> None:
        """One run of the actuator."""
        await self._actuator.run_once()

    def explain(self, key: str) -> dict[str, Any] | None:
        """The actuator's facts about a pod."""
        return self._actuator.explain(key)
