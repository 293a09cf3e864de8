"""Every interval, at every wake-up, until told to stop.

Owns when a part runs and what becomes of its failures: logged once, backed off, never the end of the process.
What a run does is the part's matter.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from elastipod.backoff import Backoff
from elastipod.clock import Clock
from elastipod.telemetry import Metrics, get_logger

log = get_logger(__name__)

_AFTER_FAILURE: Final = Backoff(first_seconds=0.5, most_seconds=30.0)


class NotReady(Exception):
    """A run that came to its end, of a part that can not do its duty yet; the message says what is in the way."""


class Part(Protocol):
    """A part of elastipod, as the loop runs it."""

    name: str
    interval_seconds: float
    wake: asyncio.Event
    """Set by the part's watches when there is something to do before the next interval."""

    async def watch(self) -> None:
        """Keep what is known of the cluster fresh, for ever."""
        ...

    async def run_once(self) -> None:
        """Read, decide, act. Raises NotReady."""
        ...


@dataclass(slots=True)
class Health:
    """How a part is doing, for /healthz and /readyz; instants are monotonic seconds."""

    interval_seconds: float
    started_at: float
    last_success_at: float | None = None
    last_error: str = ""
    is_standing_by: bool = False
    """Another leads: there is nothing to run, and nothing is wrong."""
    obstacle: str = ""
    """What keeps the part from its duty, although it runs."""
    lacks: Callable[[], tuple[str, ...]] = tuple
    """What the cluster withholds: a right, a kind. The rest goes on."""
    missing: Callable[[], str] = str
    """What is said where that alone keeps the part from being ready, or nothing."""

    def is_alive(self, now: float) -> bool:
        """Whether a run succeeded within five intervals, or the part is at work for less, or not yet."""
        since = self.started_at if self.last_success_at is None else self.last_success_at
        return self.is_standing_by or now - since <= max(5 * self.interval_seconds, 60.0)

    def why_not_ready(self) -> str:
        """Nothing where a run has succeeded, or could as soon as we lead, and the last one met no obstacle."""
        if self.is_standing_by:
            return ""
        if self.last_success_at is None:
            return self.last_error or "no run has ended well yet"
        return self.obstacle or self.missing()

    def begin(self, interval_seconds: float, now: float) -> None:
        """The part is at work from now on."""
        self.interval_seconds, self.started_at, self.is_standing_by = interval_seconds, now, False


class Runs:
    """The runs of a part, as metrics."""

    def __init__(self, metrics: Metrics, part: str) -> None:
        self._seconds = metrics.histogram(
            "run_seconds",
            "Seconds that a run took, of those that ended well",
            "part",
            buckets=(0.001, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300),
        ).labels(part)
        self._failed = metrics.counter("runs_failed", "Runs that ended in an error", "part").labels(part)

    def ended(self, seconds: float) -> None:
        """One took so long and ended well."""
        self._seconds.observe(seconds)

    def failed(self) -> None:
        """One ended in an error."""
        self._failed.inc()


Ticker = Callable[[float, Callable[[], None]], Coroutine[Any, Any, None]]
"""Calls back every so many seconds, for ever."""


async def apscheduler_ticker(interval_seconds: float, tick: Callable[[], None]) -> None:
    """Ticks of APScheduler, missed ones folded into one."""
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

    scheduler = AsyncIOScheduler(
        timezone="UTC", job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
    )

    async def job() -> None:
        # What is no coroutine would run in a thread, from where nothing of the loop's may be touched.
        tick()

    scheduler.add_job(job, "interval", seconds=interval_seconds)
    scheduler.start()
    try:
        await asyncio.Event().wait()
    finally:
        scheduler.shutdown(wait=False)


def clock_ticker(clock: Clock) -> Ticker:
    """Ticks of a clock; under virtual time, a simulation's."""

    async def tick_for_ever(interval_seconds: float, tick: Callable[[], None]) -> None:
        while True:
            await clock.sleep(interval_seconds)
            tick()

    return tick_for_ever


async def run_part(
    part: Part, clock: Clock, ticker: Ticker, health: Health | None = None, runs: Runs | None = None
) -> None:
    """Run a part until cancelled: at once, at every wake-up and every interval.

    A run that fails is logged and tried again after a backoff; a watch that ends unexpectedly ends the loop with its
    error, since nothing would be fresh any more.
    """
    health = health or Health(part.interval_seconds, clock.monotonic())
    runs = runs or Runs(Metrics(), part.name)
    watching = asyncio.create_task(part.watch(), name=f"{part.name} watch")
    ticking = asyncio.create_task(ticker(part.interval_seconds, part.wake.set), name=f"{part.name} ticks")
    running = asyncio.create_task(_run(part, clock, health, runs), name=f"{part.name} runs")
    tasks = (watching, ticking, running)
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, Exception):
                await task


async def _run(part: Part, clock: Clock, health: Health, runs: Runs) -> None:
    failures = 0
    part.wake.set()
    while True:
        await part.wake.wait()
        part.wake.clear()
        began_at = clock.monotonic()
        try:
            obstacle = await _obstacle(part)
        except Exception as error:
            failures += 1
            runs.failed()
            delay = _AFTER_FAILURE.delay_seconds(failures)
            health.last_error = f"{type(error).__name__}: {error}"
            log.exception("run failed", part=part.name, next_try_seconds=delay)
            await clock.sleep(delay)
            part.wake.set()
        else:
            failures = 0
            health.last_success_at = clock.monotonic()
            runs.ended(health.last_success_at - began_at)
            health.last_error = ""
            if obstacle != health.obstacle:
                log.warning("not ready" if obstacle else "ready again", part=part.name, obstacle=obstacle)
            health.obstacle = obstacle


async def _obstacle(part: Part) -> str:
    """Run; what is in the way of the part's duty, or nothing."""
    try:
        await part.run_once()
    except NotReady as why:
        return str(why)
    return ""
