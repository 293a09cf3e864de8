"""What a process started ends with it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from elastipod.localcluster.simulation.incarnation import live, track_tasks
from elastipod.localcluster.simulation.virtualtime import VirtualTimeLoop


def in_simulation(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        track_tasks(runner.get_loop())
        runner.run(main())


class Ticking:
    """A process that starts tasks which start tasks."""

    def __init__(self) -> None:
        self.ticks = 0
        self.stray: set[asyncio.Task[None]] = set()

    async def work(self) -> None:
        self.stray.add(asyncio.create_task(self.tick()))
        await asyncio.Event().wait()

    async def tick(self) -> None:
        self.stray.add(asyncio.create_task(self.tick_again()))
        while True:
            await asyncio.sleep(1)
            self.ticks += 1

    async def tick_again(self) -> None:
        while True:
            await asyncio.sleep(1)
            self.ticks += 1


def test_a_killed_process_does_nothing_more() -> None:
    async def main() -> None:
        process, killed = Ticking(), asyncio.Event()
        asyncio.get_running_loop().call_later(10.5, killed.set)
        await live(process.work, killed)
        ticks = process.ticks
        await asyncio.sleep(100)
        assert process.ticks == ticks == 20

    in_simulation(main)


def test_a_process_that_fails_says_with_what_and_takes_its_tasks_along() -> None:
    async def main() -> None:
        process = Ticking()

        async def work() -> None:
            asyncio.get_running_loop().call_later(5.5, lambda: None)
            process.stray.add(asyncio.create_task(process.tick()))
            await asyncio.sleep(5.5)
            raise ValueError("broken")

        failure = await live(work, asyncio.Event())
        assert isinstance(failure, ValueError)
        ticks = process.ticks
        await asyncio.sleep(100)
        assert process.ticks == ticks

    in_simulation(main)


def test_other_processes_live_on() -> None:
    async def main() -> None:
        one, other, killed = Ticking(), Ticking(), asyncio.Event()
        living = asyncio.create_task(live(other.work, asyncio.Event()))
        asyncio.get_running_loop().call_later(10.5, killed.set)
        await live(one.work, killed)
        before = other.ticks
        await asyncio.sleep(10)
        assert other.ticks == before + 20
        living.cancel()
        await asyncio.wait([living])

    in_simulation(main)
