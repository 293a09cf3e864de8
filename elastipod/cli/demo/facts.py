"""What the demo shows, read where it is true: in the API, and in the machine under it.

Owns looking and waiting. It asks none of the parts what they believe. What no API tells is machine.py's matter.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from elastipod.cli.demo.machine import Machine
from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.kube.errors import KubeError
from elastipod.kube.podrows import decode_pod
from elastipod.kube.reflector import Reflector
from elastipod.kube.resources import PODS
from elastipod.pods import Pod

T = TypeVar("T")

_LOOK_SECONDS: Final = 0.02


class NotSeenError(Exception):
    """Something that had to happen did not, within its time."""


class Observer:
    """A view of the cluster and of the machine under it."""

    def __init__(self, connection: Connection, clock: Clock, machine: Machine) -> None:
        self.machine = machine
        self._connection = connection
        self._clock = clock
        self._pods = Reflector(connection, PODS, decode_pod, clock)
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to look."""
        self._watching = asyncio.create_task(self._pods.run())
        await self._pods.wait_synced()

    async def stop(self) -> None:
        """Look no more."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    def pods(self, app: str) -> list[Pod]:
        """The pods with that `app` label, oldest first."""
        found = [pod for pod in self._pods.items.values() if pod.labels.get("app") == app]
        return sorted(found, key=lambda pod: (pod.created_at, pod.name))

    def all_pods(self) -> list[Pod]:
        """Every pod of the cluster."""
        return list(self._pods.items.values())

    def pod(self, app: str) -> Pod | None:
        """The newest pod with that label."""
        found = self.pods(app)
        return found[-1] if found else None

    async def until(self, what: str, seconds: float, look: Callable[[], T | None]) -> T:
        """The first answer that is not None. Raises NotSeenError naming what was waited for."""
        deadline = self._clock.monotonic() + seconds
        while True:
            found = look()
            if found is not None:
                return found
            if self._watching is not None and self._watching.done():
                self._watching.result()
            if self._clock.monotonic() > deadline:
                raise NotSeenError(f"waited {seconds:.0f} s in vain for this: {what}")
            await self._clock.sleep(_LOOK_SECONDS)

    async def until_running(self, app: str, seconds: float = 20.0) -> Pod:
        """The pod, once its first container runs."""

        def look() -> Pod | None:
            pod = self.pod(app)
            return pod if pod and pod.containers and pod.containers[0].is_running else None

        return await self.until(f"a pod of {app} runs", seconds, look)

    async def until_ended(self, app: str, seconds: float) -> Pod:
        """The pod, once it is over."""

        def look() -> Pod | None:
            pod = self.pod(app)
            return pod if pod and pod.is_terminal else None

        return await self.until(f"the pod of {app} ends", seconds, look)

    async def log(self, pod: Pod) -> str:
        """What the pod's only container printed; empty where nothing is kept."""
        try:
            return (await self._connection.get(PODS, pod.namespace, pod.name, subresource="log")).decode()
        except KubeError:
            return ""
