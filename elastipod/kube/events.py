"""Kubernetes Events: what people read with `kubectl describe`.

Owns their form and their rate. What is said, and what becomes of a failure to say it, is each part's matter.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from elastipod.clock import Clock, to_rfc3339, to_rfc3339_micro
from elastipod.kube.connection import Connection
from elastipod.kube.errors import NotLeader
from elastipod.kube.resources import EVENTS
from elastipod.pods import Pod
from elastipod.reasons import Reason

_MOST_REMEMBERED: Final = 20_000
_MOST_MESSAGE: Final = 1000
"""Bytes."""
_MOST_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class Subject:
    """What an Event is about."""

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str = "v1"

    @classmethod
    def of_pod(cls, pod: Pod) -> "Subject":
        return cls("Pod", pod.namespace, pod.name, pod.uid)


@dataclass(slots=True)
class _Said:
    """When something was said last, and how often it came again since and was not said."""

    at: float
    unsaid: int = 0
    unsaid_since: float = 0.0


class EventWriter:
    """Writes the Events of one part: each reason about an object, or a part of it, once in `every_seconds`.

    What came again meanwhile is counted, and told with the next.
    """

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        component: str,
        *,
        every_seconds: float,
        action: str = "Resize",
        host: str = "",
    ) -> None:
        self._connection, self._clock, self._component, self._host = connection, clock, component, host
        self._every_seconds = every_seconds
        self._action = action
        self._said: dict[tuple[str, str, str], _Said] = {}

    async def write(self, subject: Subject, reason: Reason, message: str, *, is_normal: bool, about: str = "") -> bool:
        """Say it; False where the same was said, or tried, a short while ago. Raises KubeError.

        `about` is what of the object it is said of, as a container of a pod.
        """
        now = self._clock.now()
        place = (subject.uid, about, reason.value)
        before = self._said.get(place)
        if before is not None and now - before.at < self._every_seconds:
            before.unsaid_since = before.unsaid_since if before.unsaid else now
            before.unsaid += 1
            return False
        if len(self._said) >= _MOST_REMEMBERED:
            self._said = {one: said for one, said in self._said.items() if now - said.at < self._every_seconds}
        self._said[place] = _Said(now)
        unsaid = 0 if before is None else before.unsaid
        since = before.unsaid_since if before is not None and unsaid else now
        body = self._body(subject, reason, message, is_normal=is_normal, times=unsaid + 1, since=since, now=now)
        try:
            await self._connection.create(EVENTS, subject.namespace, body)
        except NotLeader:
            # Nothing was sent.
            del self._said[place]
            raise
        return True

    def forget(self, uid: str) -> None:
        """The object is gone."""
        for place in [place for place in self._said if place[0] == uid]:
            del self._said[place]

    def _body(
        self, subject: Subject, reason: Reason, message: str, *, is_normal: bool, times: int, since: float, now: float
    ) -> bytes:
        return msgspec.json.encode(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {
                    # The API makes it unique: two containers, or two parts, may say the same in the same moment.
                    "generateName": f"{subject.name[:_MOST_NAME].rstrip('-.')}.{reason.value.lower()}-",
                    "namespace": subject.namespace,
                },
                "involvedObject": {
                    "apiVersion": subject.api_version,
                    "kind": subject.kind,
                    "namespace": subject.namespace,
                    "name": subject.name,
                    "uid": subject.uid,
                },
                "type": "Normal" if is_normal else "Warning",
                "reason": reason.value,
                "action": self._action,
                "message": message.encode()[:_MOST_MESSAGE].decode(errors="ignore"),
                "source": {"component": self._component, **({"host": self._host} if self._host else {})},
                "reportingComponent": self._component,
                "reportingInstance": self._host or self._component,
                "firstTimestamp": to_rfc3339(since),
                "lastTimestamp": to_rfc3339(now),
                "eventTime": to_rfc3339_micro(since),
                "count": times,
            }
        )
