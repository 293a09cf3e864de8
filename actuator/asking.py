"""The API side of a spike: one raise, asked until it is answered.

Owns the body of the request and what each answer means. A request names the pod's UID and never carries less memory
than the last for its container.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from actuator.spikewords import Accepted, Refused
from elastipod.backoff import Backoff
from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.kube.errors import BadRequest, Conflict, Forbidden, Invalid, KubeError, NotFound, NotServed, StatusError
from elastipod.kube.resources import PODS
from elastipod.pods import Container, Pod, QosClass
from elastipod.reasons import Reason
from elastipod.telemetry import get_logger

log = get_logger(__name__)

Find = Callable[[], tuple[Pod, Container] | None]
"""The pod and container as they stand now; None once the pod is gone."""
OnAnswer = Callable[[str, Accepted | Refused], None]


class Asker:
    """Raises under way, one request per container at a time. `on_answer` is called once for a limit or a higher one."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        backoff: Backoff,
        spread: random.Random,
    ) -> None:
        self._connection, self._clock, self._backoff, self._spread = connection, clock, backoff, spread
        self.on_answer: OnAnswer = lambda _key, _answer: None
        self._wanted: dict[str, int] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.tries: dict[str, int] = {}
        self.last_error: dict[str, str] = {}

    def ask(self, key: str, limit_bytes: int, find: Find) -> None:
        """Have the spec of a container carry this limit."""
        self._wanted[key] = max(limit_bytes, self._wanted.get(key, 0))
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._ask(key, find), name=f"raise {key}")

    def is_asking(self, key: str) -> bool:
        return key in self._tasks

    def forget(self, key: str) -> None:
        """The container is gone."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()
        for table in (self._wanted, self.tries, self.last_error):
            table.pop(key, None)

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()

    async def _ask(self, key: str, find: Find) -> None:
        try:
            tries = 0
            while True:
                found = find()
                if found is None:
                    self.on_answer(key, Refused(Reason.POD_GONE))
                    return
                pod, container = found
                wanted = self._wanted[key]
                try:
                    await self._patch(pod, container, wanted)
                except KubeError as error:
                    tries += 1
                    self.tries[key], self.last_error[key] = tries, f"{type(error).__name__}: {error}"
                    reason = refusal(error)
                    if reason is not None:
                        log.warning("raise refused", pod=pod.key, container=container.name, error=str(error))
                        self.on_answer(key, Refused(reason))
                        return
                    await self._clock.sleep(self._delay(error, tries))
                    continue
                self.tries.pop(key, None)
                self.last_error.pop(key, None)
                self.on_answer(key, Accepted(wanted))
                if self._wanted[key] == wanted:
                    return
                tries = 0
        finally:
            self._tasks.pop(key, None)
            self._wanted.pop(key, None)

    def _delay(self, error: KubeError, tries: int) -> float:
        delay = self._backoff.delay_seconds(tries, self._spread)
        if isinstance(error, StatusError) and error.retry_after_seconds is not None:
            return max(delay, error.retry_after_seconds)
        return delay

    async def _patch(self, pod: Pod, container: Container, limit_bytes: int) -> None:
        limit_bytes = max(limit_bytes, container.limits.memory)
        body = raise_body(pod, container, limit_bytes)
        await self._connection.patch(PODS, pod.namespace, pod.name, body, subresource="resize")


def raise_body(pod: Pod, container: Container, limit_bytes: int) -> bytes:
    """A strategic merge patch of one container's memory limit, and of its request where QoS ties the two."""
    resources: dict[str, Any] = {"limits": {"memory": str(limit_bytes)}}
    if pod.qos_class is QosClass.GUARANTEED:
        resources["requests"] = {"memory": str(limit_bytes)}
    return msgspec.json.encode(
        {
            "metadata": {"uid": pod.uid},
            "spec": {"containers": [{"name": container.name, "resources": resources}]},
        }
    )


def refusal(error: KubeError) -> Reason | None:
    """Why the answer is no, for good; None where asking again may help."""
    match error:
        case NotServed():
            return Reason.NOT_SERVED
        case NotFound():
            return Reason.POD_GONE
        case Conflict() if "uid" in error.message.lower():
            return Reason.POD_GONE
        case Forbidden() if "exceeded quota" in error.message:
            return Reason.QUOTA_EXCEEDED
        case Forbidden() if "per Container" in error.message or "per Pod" in error.message:
            return Reason.LIMIT_RANGE
        case Forbidden():
            return Reason.FORBIDDEN
        case Invalid() | BadRequest():
            return Reason.REFUSED
        case _:
            return None
