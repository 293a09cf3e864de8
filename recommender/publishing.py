"""The statuses of VerticalPodAutoscalers, written as far as they matter.

Owns which are written in a run, and what becomes of a write that fails: it waits, since it may have been done all the
same. What a status says, and whether it differs by enough, is recommending.py's matter.
"""

from collections.abc import Iterable
from functools import partial

from elastipod.api import AutoscalerStatus
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.errors import Conflict, Forbidden, Invalid, KubeError, NotFound
from elastipod.kube.resources import AUTOSCALERS
from elastipod.telemetry import Metrics, get_logger
from recommender.claims import Claim
from recommender.news import News
from recommender.recommending import Recommendations
from recommender.saving import Saving
from recommender.settings import RecommenderSettings
from recommender.status import status_patch
from recommender.telling import Teller
from recommender.turns import in_turns
from recommender.writing import Write, write_all

log = get_logger(__name__)


class Publishing:
    """What is written to statuses, and when."""

    def __init__(
        self,
        connection: Connection,
        known: Recommendations,
        saving: Saving,
        telling: Teller,
        settings: RecommenderSettings,
        metrics: Metrics,
    ) -> None:
        self._connection = connection
        self._known = known
        self._saving = saving
        self._telling = telling
        self._settings = settings
        self._written_at: dict[str, float] = {}
        self._urgent: set[str] = set()
        self._waiting: dict[str, float] = {}
        """Since when claims have had something to be written."""
        self._writes = metrics.counter("recommender_status_writes", "Statuses written", "outcome")
        self._advice_age = metrics.gauge(
            "recommender_advice_age_seconds", "How long the oldest advice waits to be written"
        )

    def hurry(self, keys: Iterable[str]) -> None:
        """These claims need not wait for their interval."""
        self._urgent.update(keys)

    def forget(self, key: str) -> None:
        """The claim is gone, or another recommender's."""
        self._urgent.discard(key)
        self._written_at.pop(key, None)

    async def publish(self, dirty: set[str], now: float) -> None:
        """Write the statuses of those among these claims that differ by enough and whose interval is over."""
        writes: list[Write] = []
        self._waiting = {key: self._waiting.get(key, now) for key in dirty}
        async for key in in_turns(sorted(dirty)):
            claim = self._known.claim(key)
            if claim is None:
                continue
            since = now - self._written_at.get(key, 0.0)
            if key not in self._urgent and since < self._settings.status_interval_seconds:
                continue
            status = self._known.status(key, now)
            is_first = key not in self._written_at
            if not self._known.is_worth_writing(key, status, is_first=is_first):
                self._done(key)
                continue
            writes.append(partial(self._write, key, claim, status, self._known.news(key, status), now))
        await write_all(writes, self._settings.most_writes_at_once)
        self._advice_age.set(now - min(self._waiting.values(), default=now))

    async def _write(self, key: str, claim: Claim, status: AutoscalerStatus, found: list[News], now: float) -> None:
        self._written_at[key] = now
        try:
            await self._connection.patch(
                AUTOSCALERS,
                claim.namespace,
                claim.name,
                status_patch(claim.uid, claim.generation, status),
                patch_type=PatchType.JSON,
                subresource="status",
            )
        except (NotFound, Invalid, Conflict, Forbidden) as error:
            # Gone, changed, or another of the same name by now: the watch will tell.
            self._writes.labels("refused").inc()
            log.warning("status not taken", autoscaler=key, error=str(error))
            self._urgent.discard(key)
            return
        except KubeError as error:
            self._writes.labels("failed").inc()
            log.warning("status not written, tried again later", autoscaler=key, error=str(error))
            self._urgent.discard(key)
            return
        self._writes.labels("written").inc()
        self._known.wrote(key, status)
        self._telling.tell(claim, found)
        if claim.target is not None:
            self._saving.recommended(claim.target)
        self._done(key)

    def _done(self, key: str) -> None:
        self._waiting.pop(key, None)
        self._urgent.discard(key)
        self._known.settled(key)
