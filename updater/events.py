"""What people read with `kubectl describe pod`: Kubernetes Events.

Owns their form and their own rate: one of a reason about a pod in five minutes. They are a courtesy: a failure to
write one holds nothing up.
"""

import asyncio
from typing import Final

import msgspec

from elastipod.clock import Clock, to_rfc3339, to_rfc3339_micro
from elastipod.kube.connection import Connection
from elastipod.kube.errors import KubeError
from elastipod.kube.resources import EVENTS
from elastipod.pods import Pod
from elastipod.quantities import Resources, format_cpu, show_memory
from elastipod.reasons import Reason
from updater.sizes import Size, Sizes, size_of

COMPONENT: Final = "elastipod-updater"
_EVERY_SECONDS: Final = 300.0
_WAIT_SECONDS: Final = 1.0
_MOST_REMEMBERED: Final = 20_000
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

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._told: dict[tuple[str, str], float] = {}
        self.failures = 0

    async def tell(self, pod: Pod, reason: Reason, message: str = "") -> None:
        """Say it, unless the same was said a short while ago."""
        now = self._clock.now()
        place = (pod.uid, reason.value)
        if now - self._told.get(place, float("-inf")) < _EVERY_SECONDS:
            return
        if len(self._told) >= _MOST_REMEMBERED:
            self._told = {one: at for one, at in self._told.items() if now - at < _EVERY_SECONDS}
        self._told[place] = now
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._connection.create(EVENTS, pod.namespace, event_body(pod, reason, message, now))
        except (KubeError, TimeoutError):
            self.failures += 1

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        for place in [place for place in self._told if place[0] == uid]:
            del self._told[place]


def event_body(pod: Pod, reason: Reason, message: str, now: float) -> bytes:
    """A core/v1 Event about a pod."""
    text = f"{reason.explanation}; {message}" if message else reason.explanation
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{pod.name[:200]}.{reason.value.lower()}.{int(now * 1000):x}",
                "namespace": pod.namespace,
            },
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": pod.namespace,
                "name": pod.name,
                "uid": pod.uid,
            },
            "type": "Normal" if reason in _NORMAL else "Warning",
            "reason": reason.value,
            "action": "Resize",
            "message": text[:1000],
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": COMPONENT,
            "firstTimestamp": to_rfc3339(now),
            "lastTimestamp": to_rfc3339(now),
            "eventTime": to_rfc3339_micro(now),
            "count": 1,
        }
    )


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
