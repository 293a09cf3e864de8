"""The past of containers that want the best estimator, played while the recommender goes on.

Owns when and where: a bank at a time, in a thread of its own, where the process has any. What is played is past.py's
matter. Containers whose past can not be played go on without one.
"""

import asyncio

from elastipod.pods import ContainerKey
from elastipod.telemetry import get_logger
from recommender.estimating import Estimating
from recommender.past import Past, Played
from recommender.steps import UseInSteps

log = get_logger(__name__)


class Replaying:
    """Plays what was fetched."""

    def __init__(self, estimating: Estimating, *, in_thread: bool) -> None:
        self._estimating = estimating
        self._in_thread = in_thread
        self._waiting: dict[ContainerKey, UseInSteps] = {}
        self._running: asyncio.Task[Played | None] | None = None

    def want(self, steps: dict[ContainerKey, UseInSteps]) -> None:
        """Play the past of these."""
        self._waiting |= steps

    async def run(self, now: float) -> None:
        """Take up what was played, and go on to the next; waits only where there is no thread."""
        if self._running is not None and self._running.done():
            played, self._running = self._running.result(), None
            if played is not None:
                self._estimating.recall(played, now)
        if self._running is None and self._waiting:
            past = self._estimating.past(self._waiting)
            if past is None:
                # Who does not want the best estimator by now needs no past.
                self._waiting.clear()
                return
            for key in past.keys:
                del self._waiting[key]
            self._running = asyncio.create_task(self._play(past))
            if not self._in_thread:
                await asyncio.wait([self._running])

    async def _play(self, past: Past) -> Played | None:
        try:
            return await asyncio.to_thread(past.played) if self._in_thread else past.played()
        except Exception:
            log.exception("the past of containers could not be played", containers=len(past.keys))
            return None
