"""When a part runs."""

import asyncio
import threading
from contextlib import suppress

from elastipod.clock import ManualClock
from elastipod.loop import Health, NotReady, Runs, apscheduler_ticker, clock_ticker, run_part
from elastipod.telemetry import Metrics


class Counting:
    """A part that counts its runs and fails the first ones."""

    name = "counting"
    interval_seconds = 60.0

    def __init__(self, failures: int = 0, runs: int = 3) -> None:
        self.wake = asyncio.Event()
        self.runs = 0
        self._failures, self._most = failures, runs
        self.enough = asyncio.Event()

    async def watch(self) -> None:
        await asyncio.Event().wait()

    async def run_once(self) -> None:
        self.runs += 1
        if self.runs >= self._most:
            self.enough.set()
        if self.runs <= self._failures:
            raise OSError("the first ones fail")


async def _run_until_enough(part: Counting) -> Health:
    clock = ManualClock()
    health = Health(part.interval_seconds, clock.monotonic())
    task = asyncio.create_task(run_part(part, clock, clock_ticker(clock), health))
    await part.enough.wait()
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return health


async def test_a_part_runs_at_once_and_at_every_tick() -> None:
    part = Counting()
    health = await _run_until_enough(part)
    assert part.runs >= 3
    assert health.why_not_ready() == ""


async def test_a_failed_run_is_tried_again_and_forgotten_after_a_good_one() -> None:
    part = Counting(failures=2, runs=4)
    health = await _run_until_enough(part)
    assert health.last_error == ""


async def test_runs_are_counted_by_how_they_ended() -> None:
    part, clock, metrics = Counting(failures=2, runs=5), ManualClock(), Metrics()
    runs = Runs(metrics, "counting")
    task = asyncio.create_task(run_part(part, clock, clock_ticker(clock), runs=runs))
    await part.enough.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    read = metrics.registry.get_sample_value
    assert read("elastipod_runs_failed_total", {"part": "counting"}) == 2
    assert read("elastipod_run_seconds_count", {"part": "counting"}) == part.runs - 2


async def test_a_part_that_meets_an_obstacle_is_alive_and_not_ready_until_a_run_meets_none() -> None:
    class Hindered(Counting):
        async def run_once(self) -> None:
            await super().run_once()
            if self.runs >= ready_from:
                return
            raise NotReady("no certificate")

    ready_from = 10
    health = await _run_until_enough(Hindered())
    assert health.why_not_ready() == "no certificate"
    assert health.is_alive(health.started_at + 5 * 60 + 1)
    ready_from = 2
    assert (await _run_until_enough(Hindered())).why_not_ready() == ""


async def test_a_watch_that_ends_ends_the_part() -> None:
    class Blind(Counting):
        async def watch(self) -> None:
            raise RuntimeError("no more events")

    clock = ManualClock()
    with suppress(RuntimeError):
        await run_part(Blind(), clock, clock_ticker(clock))
        raise AssertionError("run_part must not return")


def test_health_is_lost_after_five_intervals_without_success() -> None:
    health = Health(interval_seconds=60, started_at=0, last_success_at=100)
    assert health.is_alive(400)
    assert not health.is_alive(401)


def test_a_part_that_stands_by_is_alive_and_ready_for_as_long_as_it_does() -> None:
    health = Health(interval_seconds=60, started_at=0, is_standing_by=True)
    assert health.is_alive(now=1_000_000)
    assert health.why_not_ready() == ""


def test_a_part_has_its_time_from_when_it_is_at_work() -> None:
    health = Health(interval_seconds=60, started_at=0, is_standing_by=True)
    health.begin(interval_seconds=20, now=1_000_000)
    assert health.why_not_ready()
    assert health.is_alive(now=1_000_100)
    assert not health.is_alive(now=1_000_101)


async def test_ticks_come_in_the_thread_of_the_loop() -> None:
    ticked = asyncio.Event()
    threads: list[int] = []

    def tick() -> None:
        threads.append(threading.get_ident())
        ticked.set()

    ticking = asyncio.create_task(apscheduler_ticker(0.01, tick))
    async with asyncio.timeout(10):
        await ticked.wait()
    ticking.cancel()
    await asyncio.gather(ticking, return_exceptions=True)
    assert set(threads) == {threading.get_ident()}
