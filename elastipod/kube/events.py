"""Kubernetes Events about pods: what people read with `kubectl describe pod`.

Owns their form and their rate. What is said, and what becomes of a failure to say it, is each part's matter.
"""

from typing import Final

import msgspec

from elastipod.clock import Clock, to_rfc3339, to_rfc3339_micro
from elastipod.kube.connection import Connection
from elastipod.kube.resources import EVENTS
from elastipod.pods import Pod
from elastipod.reasons import Reason

_MOST_REMEMBERED: Final = 20_000
_MOST_MESSAGE: Final = 1000
_MOST_NAME: Final = 200


class EventWriter:
    """Writes the Events of one part: each reason about a pod, or a container of it, once in `every_seconds`."""

    def __init__(
        self, connection: Connection, clock: Clock, component: str, *, every_seconds: float, host: str = ""
    ) -> None:
        self._connection, self._clock, self._component, self._host = connection, clock, component, host
        self._every_seconds = every_seconds
        self._said: dict[tuple[str, str, str], float] = {}

    async def write(self, pod: Pod, reason: Reason, message: str, *, is_normal: bool, container: str = "") -> None:
        """Say it, unless the same was said, or tried, a short while ago. Raises KubeError."""
        now = self._clock.now()
        place = (pod.uid, container, reason.value)
        if now - self._said.get(place, float("-inf")) < self._every_seconds:
            return
        if len(self._said) >= _MOST_REMEMBERED:
            self._said = {one: at for one, at in self._said.items() if now - at < self._every_seconds}
        self._said[place] = now
        await self._connection.create(EVENTS, pod.namespace, self._body(pod, reason, message, now, is_normal))

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        for place in [place for place in self._said if place[0] == uid]:
            del self._said[place]

    def _body(self, pod: Pod, reason: Reason, message: str, now: float, is_normal: bool) -> bytes:
        return msgspec.json.encode(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {
                    # The API makes it unique: two containers, or two parts, may say the same in the same moment.
                    "generateName": f"{pod.name[:_MOST_NAME]}.{reason.value.lower()}-",
                    "namespace": pod.namespace,
                },
                "involvedObject": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "namespace": pod.namespace,
                    "name": pod.name,
                    "uid": pod.uid,
                },
                "type": "Normal" if is_normal else "Warning",
                "reason": reason.value,
                "action": "Resize",
                "message": message[:_MOST_MESSAGE],
                "source": {"component": self._component, **({"host": self._host} if self._host else {})},
                "reportingComponent": self._component,
                "reportingInstance": self._host or self._component,
                "firstTimestamp": to_rfc3339(now),
                "lastTimestamp": to_rfc3339(now),
                "eventTime": to_rfc3339_micro(now),
                "count": 1,
            }
        )
