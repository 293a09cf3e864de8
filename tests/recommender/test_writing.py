"""Many writes, a few at a time."""

import asyncio
from functools import partial

from recommender.writing import write_all


async def test_so_many_are_under_way_and_those_whose_turn_never_came_leave_nothing_behind() -> None:
    began, may_end = list[int](), asyncio.Event()

    async def write(number: int) -> None:
        began.append(number)
        await may_end.wait()

    task = asyncio.create_task(write_all([partial(write, number) for number in range(5)], 2))
    for _ in range(5):
        await asyncio.sleep(0)
    assert began == [0, 1]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    # A write that was made and never begun would be told as a warning, which fails the test.
    assert began == [0, 1]


async def test_all_are_done() -> None:
    done = list[int]()

    async def write(number: int) -> None:
        done.append(number)

    await write_all([partial(write, number) for number in range(5)], 2)
    assert done == [0, 1, 2, 3, 4]
