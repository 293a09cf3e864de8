"""What the recommender tells in Kubernetes Events, of VerticalPodAutoscalers.

Owns their pace: one a second, and each thing of an object once in the hour that an Event lives. They are a courtesy and
are written beside the runs: a failure to write one is counted, and so is what would have to wait too long.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.kube.errors import KubeError
from elastipod.kube.events import EventWriter, Subject
from elastipod.kube.resources import AUTOSCALERS
from elastipod.telemetry import Metrics, get_logger
from recommender.claims import Claim
from recommender.news import News

log = get_logger(__name__)

COMPONENT: Final = "elastipod-recommender"
_EVERY_SECONDS: Final = 3600.0
_PACE_SECONDS: Final = 1.0
_MOST_WAITING: Final = 200


class Teller:
    """Writes Events about VerticalPodAutoscalers."""

    def __init__(self, connection: Connection, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._writer = EventWriter(connection, clock, COMPONENT, every_seconds=_EVERY_SECONDS, action="Recommend")
        self._waiting: asyncio.Queue[tuple[Claim, News]] = asyncio.Queue(_MOST_WAITING)
        self._events = metrics.counter("recommender_events", "Events about VerticalPodAutoscalers", "outcome")

    def tell(self, claim: Claim, found: Iterable[News]) -> None:
        """Say it when there is time for it."""
        for one in found:
            try:
                self._waiting.put_nowait((claim, one))
            except asyncio.QueueFull:
                self._events.labels("dropped").inc()

    async def run(self) -> None:
        """Write what is to be told, for ever."""
        while True:
            claim, one = await self._waiting.get()
            outcome = await self._write(claim, one)
            if outcome:
                self._events.labels(outcome).inc()
                await self._clock.sleep(_PACE_SECONDS)

    async def _write(self, claim: Claim, one: News) -> str:
        """What became of it; nothing where the same was said a short while ago."""
        subject = Subject(AUTOSCALERS.kind, claim.namespace, claim.name, claim.uid, AUTOSCALERS.api_version)
        about = one.about or one.message
        try:
            is_new = await self._writer.write(subject, one.reason, one.message, is_normal=one.is_normal, about=about)
        except KubeError as error:
            log.info("event not written", autoscaler=claim.key, reason=one.reason.value, error=str(error))
            return "failed"
        return "written" if is_new else ""
