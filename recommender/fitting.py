"""Models of the fleet, fitted anew once a day while the recommender goes on.

Owns when and where: in a thread of its own, where the process has any. What is learnt and fitted is quantile.py's
matter. A fit that fails leaves the models as they are.
"""

import asyncio

from elastipod.telemetry import get_logger
from recommender.estimators.quantile import Models
from recommender.speaking import Speaking

log = get_logger(__name__)


class Fitting:
    """Fits models when it is time."""

    def __init__(self, speaking: Speaking, *, in_thread: bool) -> None:
        self._speaking = speaking
        self._in_thread = in_thread
        self._running: asyncio.Task[Models | None] | None = None

    async def run(self, now: float) -> None:
        """Take up what was fitted, and begin a fit that is due; waits only where there is no thread."""
        if self._running is None and self._speaking.is_fit_due(now):
            self._running = asyncio.create_task(self._fit())
            if not self._in_thread:
                await self.finished()
        if self._running is not None and self._running.done():
            running, self._running = self._running, None
            self._speaking.fitted(running.result(), now)

    async def finished(self) -> None:
        """Wait for the fit that is under way."""
        if self._running is not None:
            await asyncio.wait([self._running])

    async def _fit(self) -> Models | None:
        lessons = self._speaking.lessons.copy()
        try:
            models = await asyncio.to_thread(lessons.fit) if self._in_thread else lessons.fit()
        except Exception:
            log.exception("models of the fleet's usage could not be fitted; those at hand stay")
            return None
        if models is not None:
            log.info("models of the fleet's usage were fitted", lessons=lessons.kept)
        return models
