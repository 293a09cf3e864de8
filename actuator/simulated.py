"""The actuator of a simulated node.

Owns the reading of a simulated runtime as `Memory` (its `high` holds as cgroup v2's does), and how an actuator is made
that needs no thread, no file and no real time.
"""

import random
from collections.abc import Callable
from dataclasses import replace

from actuator.budget import NodeBudget
from actuator.loopwatcher import LoopWatcher
from actuator.memory import Target
from actuator.paths import Driver, PathError, container_path
from actuator.service import Actuator
from actuator.settings import ActuatorSettings
from actuator.spikewords import MemoryReading
from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.localcluster.node.runtime import Sandbox
from elastipod.localcluster.node.simulated import SimulatedRuntime
from elastipod.pods import Container, Pod, QosClass
from elastipod.telemetry import Metrics

OnWrite = Callable[[str, str, str], None]
"""Told of each write: group, file, value."""


class SimulatedMemory:
    """`Memory` of the containers that run in thought; `node_bytes` is what the node has in all."""

    enforcement = "simulated"
    holds = True

    def __init__(self, runtime: SimulatedRuntime, node_bytes: int, on_write: OnWrite = lambda *_: None) -> None:
        self._on_write = on_write
        self.on_event: Callable[[str], None] = lambda _: None
        self._runtime, self._node_bytes = runtime, node_bytes
        self._targets: dict[str, Target] = {}
        self._highs: dict[str, int | None] = {}
        runtime.on_high = self._on_high

    def open(self, target: Target) -> None:
        if self._runtime.limits(target.container_id) is None:
            raise FileNotFoundError(2, f"container {target.container_id} does not run")
        self._targets[target.key] = target

    def close(self, key: str) -> None:
        self._targets.pop(key, None)
        self._highs.pop(key, None)

    def usage(self, key: str) -> int:
        target = self._targets.get(key)
        return 0 if target is None else self._runtime.memory_bytes(target.container_id) or 0

    def bounds(self, key: str) -> tuple[int | None, int | None]:
        target = self._targets.get(key)
        limits = self._runtime.limits(target.container_id) if target is not None else None
        return (None, None) if limits is None else (limits.memory_limit_bytes, self._highs.get(key))

    def reading(self, key: str) -> MemoryReading | None:
        target = self._targets.get(key)
        memory = self._runtime.memory_bytes(target.container_id) if target is not None else None
        limits = self._runtime.limits(target.container_id) if target is not None else None
        if memory is None or limits is None:
            return None
        return MemoryReading(memory, limits.memory_limit_bytes, self._highs.get(key))

    def raise_limit(self, key: str, limit_bytes: int) -> None:
        target = self._targets[key]
        now = self._runtime.limits(target.container_id)
        if now is None or now.memory_limit_bytes is None or now.memory_limit_bytes >= limit_bytes:
            return
        pod = self._runtime.pod_limits(target.pod_uid)
        if pod is not None and pod.memory_limit_bytes is not None:
            more = limit_bytes - now.memory_limit_bytes
            sandbox = Sandbox(target.pod_uid, "", "", QosClass.BURSTABLE)
            self._on_write(target.pod_group, "memory.max", str(pod.memory_limit_bytes + more))
            self._runtime.set_pod_limits(sandbox, replace(pod, memory_limit_bytes=pod.memory_limit_bytes + more))
        self._on_write(target.group, "memory.max", str(limit_bytes))
        self._runtime.set_limits(target.container_id, replace(now, memory_limit_bytes=limit_bytes))

    def set_high(self, key: str, high_bytes: int | None) -> None:
        target = self._targets.get(key)
        if target is not None:
            self._highs[key] = high_bytes
            self._on_write(target.group, "memory.high", "max" if high_bytes is None else str(high_bytes))
            self._runtime.set_high(target.container_id, high_bytes)

    def available_bytes(self) -> int:
        return self._node_bytes - sum(self.usage(key) for key in self._targets)

    def _on_high(self, container_id: str) -> None:
        for key, target in self._targets.items():
            if target.container_id == container_id:
                self.on_event(key)


def simulated_actuator(
    connection: Connection,
    clock: Clock,
    settings: ActuatorSettings,
    runtime: SimulatedRuntime,
    node_bytes: int,
    *,
    spread: random.Random | None = None,
    on_write: OnWrite = lambda *_: None,
    metrics: Metrics | None = None,
    address: str = "",
    sweep_seconds: float = 1.0,
) -> Actuator:
    """The actuator of a node whose containers run in thought."""
    memory = SimulatedMemory(runtime, node_bytes, on_write)
    watcher = LoopWatcher(memory, settings.rules, NodeBudget(settings.amount("node_reserve")), clock, sweep_seconds)
    memory.on_event = watcher.notice
    return Actuator(connection, clock, settings, watcher, _locate, spread=spread, metrics=metrics, address=address)


def _locate(pod: Pod, container: Container) -> tuple[str, str] | None:
    try:
        path = container_path(Driver.CGROUPFS, pod.qos_class, pod.uid, container.container_id)
    except PathError:
        return None
    return path.rpartition("/")[0], path
