"""When a container's history is saved, and when what is saved is cleared away.

Owns which checkpoints are due, and joining with one that somebody else wrote meanwhile. How they are read and written
is store.py's matter, what stands in them checkpoints.py's.
"""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import numpy as np
from msgspec import structs

from elastipod.clock import Clock
from elastipod.kube.errors import Conflict, Forbidden, Invalid, KubeError
from elastipod.pods import ContainerKey, Workload
from elastipod.telemetry import Metrics, get_logger
from recommender.checkpoints import to_checkpoint
from recommender.claims import Claim
from recommender.histogram import Ints
from recommender.history import ContainerHistory
from recommender.recommending import Recommendations
from recommender.settings import RecommenderSettings
from recommender.status import Published
from recommender.store import CheckpointStore, Saved
from recommender.turns import in_parts
from recommender.writing import Write, write_all

log = get_logger(__name__)

_SPREAD: Final = 0.6180339887
"""Multiples of the golden ratio leave the most even gaps, however many there are."""


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
        self._due: set[ContainerKey] = set()
        self._loaded: list[int] = []
        """Rows that were read from checkpoints since the last run."""
        self._saved_until = np.zeros(0)
        """Per row: the newest sample in what is saved; NaN where nothing is."""
        self._recommends = Published(settings)
        """What the saved histories would recommend."""
        self._writes = metrics.counter("recommender_checkpoint_writes", "Checkpoints written", "outcome")

    def want(self, keys: Iterable[ContainerKey]) -> None:
        """Save these containers' histories in the next run."""
        self._due.update(keys)

    def loaded(self, target: Workload, found: Mapping[str, ContainerHistory]) -> None:
        """These histories of a workload's containers stand in a claim's checkpoints, and no others."""
        self._reserve()
        for name in self._known.history.containers(target):
            row = self._known.history.row(ContainerKey(target, name))
            history = found.get(name)
            if row is None:
                continue
            if history is None or history.last_sample_at is None or history.before is None:
                # Also one that upstream wrote: what it has no place for is saved with the first advice.
                self._saved_until[row] = np.nan
                continue
            if np.isnan(self._saved_until[row]):
                self._loaded.append(row)
            self._saved_until[row] = np.fmax(self._saved_until[row], history.last_sample_at)

    def recommended(self, target: Workload) -> None:
        """A status recommends for a workload: what was never saved of it is due."""
        self._reserve()
        keys = (ContainerKey(target, name) for name in self._known.history.containers(target))
        self.want(key for key in keys if np.isnan(self._saved_until[self._known.history.row(key)]))

    async def save_all(self, now: float) -> None:
        """Save every container's history."""
        self._reserve()
        await self._save_rows(np.array([row for _, row in self._known.history.rows()], dtype=np.int64), now)

    async def save(self, now: float) -> None:
        """Save what is due: first what moved, then what has waited longest."""
        self._reserve()
        self._note_saved(np.array(self._loaded, dtype=np.int64))
        self._loaded.clear()
        jobs, half = self._known.estimating.jobs, self._settings.checkpoint_interval_seconds / 2
        due = jobs.moved(self._settings.target_tolerance)
        due += [row for row in jobs.unsaved() if not now - self._saved_until[row] <= half]
        self.want(key for row in due if (key := self._known.history.key(row)) is not None)
        await self._save_rows(self._rows_due(now)[: self._settings.most_checkpoints_per_run], now)

    def _rows_due(self, now: float) -> Ints:
        history, size = self._known.history, self._known.history.size
        saved_until, heard_at = self._saved_until[:size], history.last_sample_at[:size]
        is_saved = np.isfinite(saved_until)
        is_urgent = np.zeros(size, dtype=bool)
        if (estimates := self._known.estimating.raw) is not None:
            is_urgent = is_saved & self._recommends.moved(estimates, self._known.members.instances.requests())
        is_urgent[[row for key in self._due if (row := history.row(key)) is not None]] = True
        # Each row has its time in an interval, so that they are spread over one.
        interval = self._settings.checkpoint_interval_seconds
        phases = np.arange(size) * _SPREAD % 1.0 * interval
        since = np.where(is_saved, saved_until, history.first_sample_at[:size])
        is_time = (heard_at > since) & ((now - phases) // interval > (since - phases) // interval)
        rows = np.flatnonzero(is_urgent | is_time)
        in_order: Ints = rows[np.lexsort((since[rows], ~is_urgent[rows]))]
        return in_order

    async def _save_rows(self, rows: Ints, now: float) -> None:
        known = self._known
        self._saved_until[rows] = known.history.last_sample_at[rows]
        self._note_saved(rows)
        unloaded = known.unloaded_keys()
        for part in in_parts(rows.tolist()):
            writes: list[Write] = []
            for row, history in known.export(part).items():
                key = known.history.key(row)
                if key is None:
                    continue
                self._due.discard(key)
                if history.last_sample_at is None and not history.oom.kills:
                    continue
                for holder in known.claims_of(key.workload):
                    claim = known.claim(holder)
                    if claim is not None and holder not in unloaded:
                        writes.append(partial(self._save, key, claim, history, now))
            await write_all(writes, self._settings.most_writes_at_once)

    def _note_saved(self, rows: Ints) -> None:
        """What is saved of these rows recommends what is recommended now."""
        self._known.estimating.jobs.note_saved(rows)
        if (estimates := self._known.estimating.raw) is not None:
            self._recommends.write(estimates, rows[rows < len(estimates.confidence)])

    async def _save(self, key: ContainerKey, claim: Claim, history: ContainerHistory, now: float) -> None:
        try:
            try:
                await self._write(key, claim, history, now)
            except (Conflict, Invalid):
                found = await self._store.read(claim, key.container, now)
                if key.container in found.left_alone:
                    self._writes.labels("left_alone").inc()
                    return
                await self._write(key, claim, self._taken_up(key, claim, history, found), now)
        except KubeError as error:
            self._writes.labels("failed").inc()
            self.want([key])
            log.warning("history not saved", autoscaler=claim.key, container=key.container, error=str(error))
            if not isinstance(error, Forbidden | Invalid):
                self._failed.set()
            return
        self._writes.labels("written").inc()

    async def _write(self, key: ContainerKey, claim: Claim, history: ContainerHistory, now: float) -> None:
        history = structs.replace(history, is_anew=self._known.is_kept(claim.key, key.container))
        await self._store.save(to_checkpoint(claim.namespace, claim.name, key, history, now))

    def _taken_up(self, key: ContainerKey, claim: Claim, history: ContainerHistory, saved: Saved) -> ContainerHistory:
        """Join a history with the one that somebody else has saved since we looked, as one who restores a backup."""
        found, row = saved.histories.get(key.container), self._known.history.row(key)
        if found is None or row is None:
            return history
        log.info("saved history was found late", autoscaler=claim.key, container=key.container)
        self._known.take_up(key, found)
        self._known.history.settle()
        return self._known.export([row])[row]

    async def collect(self, now: float) -> None:
        """Now and then, forget what is over and delete checkpoints that belong to nothing."""
        at = self._clock.monotonic()
        if at - self._collected_at < self._settings.checkpoint_gc_seconds or self._known.unloaded():
            return
        self._collected_at = at
        rows = self._known.history.all_rows()
        self._reserve()
        forgotten = set()
        for key in self._known.expire(now):
            self._saved_until[rows[key]] = np.nan
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

    def _reserve(self) -> None:
        """Have a place for every row."""
        size = self._known.history.size
        if size > len(self._saved_until):
            more = size * 5 // 4 - len(self._saved_until)
            self._saved_until = np.pad(self._saved_until, (0, more), constant_values=np.nan)
