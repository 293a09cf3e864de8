"""Waiting for news or for time, under virtual time."""

import asyncio

from elastipod.clock import LoopClock
from elastipod.localcluster.simulation.virtualtime import run_virtually
from elastipod.localcluster.waking import wait_for_wake


def test_who_waits_goes_on_at_the_first_of_news_and_time() -> None:
    async def main() -> list[float]:
        clock, wake, at = LoopClock(), asyncio.Event(), []
        asyncio.get_running_loop().call_later(3.0, wake.set)
        for seconds in (2.0, 5.0, 4.0):
            wake.clear()
            await wait_for_wake(wake, clock, seconds)
            at.append(clock.monotonic())
        return at

    assert run_virtually(main()) == [2.0, 3.0, 7.0]


def test_a_wait_that_is_over_wakes_nobody_later() -> None:
    async def main() -> bool:
        clock, wake = LoopClock(), asyncio.Event()
        wake.set()
        await wait_for_wake(wake, clock, 5.0)
        wake.clear()
        await asyncio.sleep(10.0)
        return wake.is_set()

    assert not run_virtually(main())
