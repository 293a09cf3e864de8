"""Events, as kubelet, scheduler and controllers write them.

Owns their shape and the counting of those that repeat. An Event that can not be written is lost and harms nothing.
"""

import zlib
from collections import OrderedDict
from typing import Any, Final

import msgspec

from elastipod.clock import Clock, to_rfc3339
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.errors import KubeError, NotFound
from elastipod.kube.events import Subject
from elastipod.kube.resources import EVENTS
from elastipod.telemetry import get_logger

log = get_logger(__name__)

_MOST_REMEMBERED: Final = 4096
_MOST_MESSAGE: Final = 1024


class Recorder:
    """Writes the Events of one component."""

    def __init__(self, connection: Connection, clock: Clock, component: str, host: str = "") -> None:
        self._connection = connection
        self._clock = clock
        self._source = {"component": component, **({"host": host} if host else {})}
        self._known: OrderedDict[tuple[Subject, str, str], tuple[str, int]] = OrderedDict()
        self._tag = zlib.crc32(f"{component}/{host}".encode()) & 0xFFF
        self._sequence = 0

    async def normal(self, subject: Subject, reason: str, message: str) -> None:
        await self._write(subject, "Normal", reason, message)

    async def warning(self, subject: Subject, reason: str, message: str) -> None:
        await self._write(subject, "Warning", reason, message)

    async def _write(self, subject: Subject, kind: str, reason: str, message: str) -> None:
        message = message[:_MOST_MESSAGE]
        namespace = subject.namespace or "default"
        key = (subject, reason, message)
        now = to_rfc3339(self._clock.now())
        known = self._known.get(key)
        try:
            if known is not None:
                name, times = known
                body = msgspec.json.encode({"count": times + 1, "lastTimestamp": now})
                try:
                    await self._connection.patch(EVENTS, namespace, name, body, patch_type=PatchType.MERGE)
                    self._known[key] = (name, times + 1)
                    return
                except NotFound:
                    pass
            name = self._name(subject)
            await self._connection.create(EVENTS, namespace, self._event(subject, namespace, name, kind, *key[1:], now))
            self._known[key] = (name, 1)
            while len(self._known) > _MOST_REMEMBERED:
                self._known.popitem(last=False)
        except KubeError as error:
            log.warning("event lost", reason=reason, subject=f"{subject.namespace}/{subject.name}", error=str(error))

    def _name(self, subject: Subject) -> str:
        self._sequence += 1
        return f"{subject.name[:200]}.{int(self._clock.now() * 1_000_000):x}{self._tag:03x}{self._sequence % 4096:03x}"

    def _event(
        self, subject: Subject, namespace: str, name: str, kind: str, reason: str, message: str, now: str
    ) -> bytes:
        about: dict[str, Any] = {
            "kind": subject.kind,
            "apiVersion": subject.api_version,
            "name": subject.name,
            "uid": subject.uid,
        }
        if subject.namespace:
            about["namespace"] = subject.namespace
        return msgspec.json.encode(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": namespace},
                "involvedObject": about,
                "type": kind,
                "reason": reason,
                "message": message,
                "source": self._source,
                "reportingComponent": self._source["component"],
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            }
        )
