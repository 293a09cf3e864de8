"""How long the recommender's event loop stands still at most, over 100,000 containers, in each thing that it does.

A loop that stands still renews no lease, answers no probe and hears no watch. Between two of its turns the CPU seconds
of its own thread are counted: what other processes take of the machine meanwhile does not matter. Making the answers
of the API server is in them too. Exit 1 where a promise is missed.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

from msgspec import structs

from bench.figures import Figures
from bench.growth import LargeCluster
from elastipod.clock import ManualClock
from elastipod.kube.connection import Connection
from elastipod.kube.resources import CHECKPOINTS, EVENTS, ResourceType
from elastipod.pods import ContainerKey
from elastipod.quantities import Resources
from recommender.history import ContainerHistory
from recommender.service import Recommender
from recommender.settings import RecommenderSettings
from recommender.sources.past import Fetched, HistoryRequest

GOAL_SECONDS: Final = 1.0
_PODS_EACH: Final = 3
_A_DAY: Final = 86_400.0


class Turns:
    """The longest time between two turns of the loop, by what was done meanwhile."""

    def __init__(self) -> None:
        self.longest: dict[str, float] = {}
        self._doing = ""

    @asynccontextmanager
    async def during(self, what: str) -> AsyncIterator[None]:
        """This is being done."""
        self._doing = what
        yield
        await asyncio.sleep(0)
        self._doing = ""

    async def watch(self) -> None:
        """Look at every turn, for ever."""
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            if self._doing:
                self.longest[self._doing] = max(self.longest.get(self._doing, 0.0), now - last)
            last = now


class Answering(LargeCluster):
    """Answers in another turn of the loop, as whoever is asked over a network."""

    async def list(self, kind: ResourceType, *, continue_token: str = "", **more: Any) -> bytes:
        await asyncio.sleep(0)
        return await super().list(kind, continue_token=continue_token, **more)

    async def create(self, kind: ResourceType, _namespace: str, body: bytes) -> bytes:
        """A checkpoint is made, or an Event, which is no sign of advice."""
        await asyncio.sleep(0)
        if kind is not EVENTS:
            self.writes[kind.plural] += 1
        return body

    async def patch(self, *what: Any, **more: Any) -> bytes:
        await asyncio.sleep(0)
        return await super().patch(*what, **more)


class Forgetful(Answering):
    """A cluster without checkpoints."""

    def _page(self, kind: ResourceType, first: int) -> bytes:
        return b'{"metadata":{},"items":[]}' if kind is CHECKPOINTS else super()._page(kind, first)


class Past:
    """A source that knows the same past of every container."""

    def __init__(self, known: ContainerHistory) -> None:
        self._known = known

    async def fetch(self, requests: list[HistoryRequest], _now: float, _largest_node: Resources) -> Fetched:
        keys = [ContainerKey(request.workload, name) for request in requests for name in request.containers]
        return Fetched(dict.fromkeys(keys, self._known))


async def measured(containers: int, turns: Turns) -> None:
    """A recommender's start from checkpoints, its day, its stop, and another's start from past usage."""
    clock = ManualClock(1_800_000_000.0)
    workloads = containers // 2 // _PODS_EACH
    cluster = Answering(workloads, _PODS_EACH, clock.now())
    settings = RecommenderSettings()
    cluster.measure(clock.now())
    part = Recommender(cast("Connection", cluster), clock, settings, in_thread=True)
    watching = [asyncio.create_task(part.watch()), asyncio.create_task(turns.watch())]

    async def minute(what: str, seconds: float = 60.0) -> None:
        clock.advance(seconds)
        cluster.measure(clock.now())
        async with turns.during(what):
            await part.run_once()

    async with turns.during("a start from checkpoints, until there is advice"):
        while not cluster.writes:
            clock.advance(0.1)
            await asyncio.sleep(0)
            await part.run_once()
    for _ in range(5):
        await minute("a minute at rest")
    async with turns.during("the first scrape"):
        assert part.accounting.text
    await minute("a minute in which what is scraped is written")
    async with turns.during("a scrape after it"):
        assert part.accounting.text
    part.recommendations.set_nodes({}, Resources(200, 64 * 1024**2))
    await minute("a minute in which every status changes")
    await minute("a minute in which checkpoints are cleared away", settings.checkpoint_gc_seconds)
    [known] = part.recommendations.export([0]).values()
    async with turns.during("saving all at a planned stop"):
        await part.save()
    watching[0].cancel()

    began = structs.replace(known, last_sample_at=clock.now() - _A_DAY, first_sample_at=clock.now() - 3 * _A_DAY)
    cluster = Forgetful(workloads, _PODS_EACH, clock.now())
    cluster.measure(clock.now())
    part = Recommender(cast("Connection", cluster), clock, settings, past=Past(began), in_thread=True)
    watching.append(asyncio.create_task(part.watch()))
    async with turns.during("a start from past usage"):
        while part.recommendations.judgement.fetching or not cluster.writes:
            clock.advance(1)
            await asyncio.sleep(0)
            await part.run_once()
    for one in watching:
        one.cancel()
        with suppress(asyncio.CancelledError):
            await one


def main() -> int:
    """Measure and print; 0 where every promise was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--containers", type=int, default=100_000)
    given = parser.parse_args()
    turns = Turns()
    asyncio.run(measured(given.containers, turns))
    figures = Figures()
    for what, seconds in turns.longest.items():
        figures.show(f"{what}: between two turns of the loop at most", seconds, "s CPU", GOAL_SECONDS)
    return figures.exit_code


if __name__ == "__main__":
    sys.exit(main())
