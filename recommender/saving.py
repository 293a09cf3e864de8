"""When a container's history is saved, and when what is saved is cleared away.

Owns which checkpoints are due, and joining with one that somebody else wrote meanwhile. How they are read and written
is store.py's matter, what stands in them checkpoints.py's.
"""

import asyncio
import heapq
import zlib
from collections.abc import Iterable

from elastipod.clock import Clock
from elastipod.kube.errors import Conflict, Forbidden, Invalid, KubeError
from elastipod.pods import ContainerKey
from elastipod.telemetry import Metrics, get_logger
from recommender.checkpoints import to_checkpoint
from recommender.claims import Claim
from recommender.history import ContainerHistory
from recommender.recommending import Recommendations
from recommender.settings import RecommenderSettings
from recommender.store import CheckpointStore
from recommender.writing import write_all

log = get_logger(__name__)


class Saving:
    """The checkpoints of all that is known; `failed` is set where one is to be written again soon."""

    def __init__(
        self,
        store: CheckpointStore,
        known: Recommendations,
        clock: Clock,
        settings: RecommenderSettings,
        metrics: Metrics,
        failed: asyncio.Event,
    ) -> None:
        self._store = store
        self._known = known
        self._clock = clock
        self._settings = settings
        self._failed = failed
        self._collected_at = clock.monotonic()
        self._saved_at: dict[ContainerKey, float] = {}
        self._due: set[ContainerKey] = set()
        self._writes = metrics.counter("recommender_checkpoint_writes", "Checkpoints written", "outcome")

    def want(self, keys: Iterable[ContainerKey]) -> None:
        """Save these containers' histories in the next run."""
        self._due.update(keys)

    async def save_all(self, now: float) -> None:
        """Save every container's history."""
        self.want(key for key, _ in self._known.history.rows())
        await self.save(now, most=len(self._due))

    async def save(self, now: float, most: int | None = None) -> None:
        """Save what is due: first what moved, then what was saved longest ago."""
        most = self._settings.most_checkpoints_per_run if most is None else most
        known = self._known
        oldest_first = heapq.nsmallest(
            most,
            (
                (key not in self._due, self._saved_at.get(key, 0.0), key)
                for key, _ in known.history.rows()
                if key in self._due or self._is_old(key, now)
            ),
        )
        rows = {key: row for _, _, key in oldest_first if (row := known.history.row(key)) is not None}
        histories = known.history.export_many(rows.values())
        unloaded = known.unloaded_keys()
        writes = []
        for key, row in rows.items():
            history = histories[row]
            self._due.discard(key)
            if history.last_sample_at is None and not history.oom.kills:
                continue
            for holder in known.claims_of(key.workload):
                claim = known.claim(holder)
                if claim is not None and holder not in unloaded:
                    writes.append(self._save(key, claim, history, now))
        await write_all(writes, self._settings.most_writes_at_once)

    def _is_old(self, key: ContainerKey, now: float) -> bool:
        """Whether a container was not saved for an interval; the first saves are spread over one."""
        saved_at = self._saved_at.get(key)
        interval = self._settings.checkpoint_interval_seconds
        if saved_at is None:
            spread = zlib.crc32(str(key.workload).encode()) / 2**32
            saved_at = self._saved_at[key] = now - spread * interval
        return now - saved_at >= interval

    async def _save(self, key: ContainerKey, claim: Claim, history: ContainerHistory, now: float) -> None:
        try:
            try:
                await self._store.save(to_checkpoint(claim.namespace, claim.name, key, history, now))
            except (Conflict, Invalid):
                history = await self._take_up(key, claim, history, now)
                await self._store.save(to_checkpoint(claim.namespace, claim.name, key, history, now))
        except KubeError as error:
            self._writes.labels("failed").inc()
            self._due.add(key)
            log.warning("history not saved", autoscaler=claim.key, container=key.container, error=str(error))
            if not isinstance(error, Forbidden | Invalid):
                self._failed.set()
            return
        self._writes.labels("written").inc()
        self._saved_at[key] = now

    async def _take_up(
        self, key: ContainerKey, claim: Claim, history: ContainerHistory, now: float
    ) -> ContainerHistory:
        """Join a history with the one that somebody else has saved since we looked, as one who restores a backup."""
        found = await self._store.read(claim, key.container, now)
        row = self._known.history.row(key)
        if found is None or row is None:
            return history
        log.info("saved history was found late", autoscaler=claim.key, container=key.container)
        self._known.take_up(key, found)
        self._known.history.settle()
        return self._known.history.export(row)

    async def collect(self, now: float) -> None:
        """Now and then, forget what is over and delete checkpoints that belong to nothing."""
        at = self._clock.monotonic()
        if at - self._collected_at < self._settings.checkpoint_gc_seconds or self._known.unloaded():
            return
        self._collected_at = at
        forgotten = set()
        for key in self._known.expire(now):
            self._saved_at.pop(key, None)
            for holder in self._known.claims_of(key.workload):
                namespace, _, name = holder.partition("/")
                forgotten.add((namespace, name, key.container))
        try:
            deleted = await self._store.collect(forgotten)
        except KubeError as error:
            log.warning("old checkpoints not looked for", error=str(error))
            return
        if deleted:
            log.info("checkpoints deleted that belonged to nothing", count=deleted)
