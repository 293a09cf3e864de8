"""What the updater tells in Kubernetes Events.

Owns its words and its rate: one of a reason about a pod in five minutes, and none about what goes as wanted while too
much is under way. They are a courtesy: a failure to write one holds nothing up.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.kube.errors import KubeError
from elastipod.kube.events import EventWriter, Subject
from elastipod.pods import Pod
from elastipod.quantities import Resources, format_cpu, show_memory
from elastipod.reasons import Reason
from updater.sizes import Size, Sizes, size_of

COMPONENT: Final = "elastipod-updater"
_EVERY_SECONDS: Final = 300.0
_WAIT_SECONDS: Final = 1.0
_NORMAL: Final = frozenset(
    {
        Reason.DONE,
        Reason.OUTSIDE_BOUNDS,
        Reason.DRIFTED,
        Reason.OOM_KILLED,
        Reason.ASKED_BY_PERSON,
        Reason.STATED_ON_WORKLOAD,
        Reason.DONATED,
        Reason.RESTORED,
        Reason.REVERTED,
        Reason.IN_PROGRESS,
    }
)


class Teller:
    """Writes Events about pods."""

    def __init__(self, connection: Connection, clock: Clock, is_busy: Callable[[], bool]) -> None:
        self._writer = EventWriter(connection, clock, COMPONENT, every_seconds=_EVERY_SECONDS)
        self._is_busy = is_busy
        self.failures = 0

    async def tell(self, pod: Pod, reason: Reason, message: str = "") -> None:
        """Say it, unless the same was said a short while ago, or it is no news and others wait for their turn."""
        if reason in _NORMAL and self._is_busy():
            return
        text = f"{reason.explanation}; {message}" if message else reason.explanation
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._writer.write(Subject.of_pod(pod), reason, text, is_normal=reason in _NORMAL)
        except (KubeError, TimeoutError):
            self.failures += 1

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._writer.forget(uid)


def has_and_wants(pod: Pod, sizes: Sizes) -> str:
    """`app has cpu 100m/1, memory 128Mi/256Mi and wants ...`: request/limit."""
    parts = []
    for container in pod.containers:
        size = sizes.get(container.name)
        if size is not None:
            parts.append(f"{container.name} has {show_size(size_of(container))} and wants {show_size(size)}")
    return "; ".join(parts)


def show_size(size: Size) -> str:
    """`cpu 100m/1, memory 128Mi/256Mi`: request/limit, a dash where none is set."""
    return f"cpu {_cpu(size.requests)}/{_cpu(size.limits)}, memory {_memory(size.requests)}/{_memory(size.limits)}"


def _cpu(amounts: Resources) -> str:
    return "-" if amounts.cpu_millicores is None else format_cpu(amounts.cpu_millicores)


def _memory(amounts: Resources) -> str:
    return "-" if amounts.memory_bytes is None else show_memory(amounts.memory_bytes)
