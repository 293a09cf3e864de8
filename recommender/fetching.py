"""Past usage, fetched from where it is kept while the recommender goes on.

Owns what is asked for, until when it is asked again, and what is said of it meanwhile. What is fetched is counted by
the recommender in its next run; how it is fetched is the source's matter.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from elastipod.backoff import Backoff
from elastipod.clock import Clock, to_rfc3339
from elastipod.pods import ContainerKey, Workload
from elastipod.quantities import Resources
from elastipod.telemetry import get_logger
from recommender.history import ContainerHistory
from recommender.sources.metrics_api import SourceError
from recommender.sources.past import Fetched, HistoryRequest, HistorySource
from recommender.steps import UseInSteps

log = get_logger(__name__)

_RETRY: Final = Backoff(first_seconds=5.0, most_seconds=60.0)
_MOST_AT_ONCE: Final = 2000
"""Workloads in one fetch: the first are known before the last are asked for."""


class Fetching:
    """What is wanted of a source, and what came."""

    def __init__(self, source: HistorySource, clock: Clock, wake: asyncio.Event) -> None:
        self._source = source
        self._clock = clock
        self._wake = wake
        self._asked = asyncio.Event()
        self._wanted: dict[Workload, HistoryRequest] = {}
        self._known: set[Workload] = set()
        self.found: dict[ContainerKey, ContainerHistory] = {}
        """What came and was not counted yet; the reader takes it away."""
        self.steps: dict[ContainerKey, UseInSteps] = {}
        """The same in steps, where that was wanted; the reader takes it away."""
        self.settled: set[Workload] = set()
        """Workloads of which is known what there is; the reader takes these too."""
        self.problem = ""
        """Why nothing comes, and since when."""
        self.problems: tuple[str, ...] = ()
        """What the source lacks."""

    def knows(self, workload: Workload) -> bool:
        """Whether a workload was asked for already: its past counts once."""
        return workload in self._known

    def want(self, request: HistoryRequest) -> None:
        """Fetch the past of a workload."""
        self._known.add(request.workload)
        if request.containers:
            self._wanted[request.workload] = request
            self._asked.set()

    async def run(self, largest_node: Callable[[], Resources]) -> None:
        """Fetch what is wanted, for ever; what can not be had is asked for again."""
        failures, failing_since = 0, 0.0
        while True:
            if not self._wanted:
                self._asked.clear()
            await self._asked.wait()
            batch = list(self._wanted.values())[:_MOST_AT_ONCE]
            try:
                fetched = await self._source.fetch(batch, self._clock.now(), largest_node())
                why = "; ".join(fetched.problems)[:300] if fetched.missing else ""
            except SourceError as error:
                fetched, why = Fetched(missing={one.workload for one in batch}), str(error)[:300]
            except Exception as error:
                # What is wrong with us and the past must not end the present.
                log.exception("past usage can not be read, for a fault of ours")
                fetched, why = Fetched(missing={one.workload for one in batch}), f"internal error: {error!r}"[:300]
            self._take(batch, fetched)
            if not why:
                failures, self.problem = 0, ""
            else:
                failing_since = failing_since if failures else self._clock.now()
                failures += 1
                self.problem = f"since {to_rfc3339(failing_since)}: {why}"
                log.warning("past usage can not be read, tried again later", workloads=len(fetched.missing), error=why)
            self._wake.set()
            if failures:
                await self._clock.sleep(_RETRY.delay_seconds(failures))

    def _take(self, batch: list[HistoryRequest], fetched: Fetched) -> None:
        self.found |= fetched.histories
        self.steps |= fetched.steps
        for request in batch:
            # What is missing goes behind what was not asked for yet.
            del self._wanted[request.workload]
            if request.workload in fetched.missing:
                self._wanted[request.workload] = request
            else:
                self.settled.add(request.workload)
        if not fetched.missing and tuple(fetched.problems) != self.problems:
            self.problems = tuple(fetched.problems)
            log.warning("past usage is not complete", problems=list(self.problems)[:20])
