"""Who is handed to the watcher, and what of it is tried again."""

import asyncio

from actuator.outcomes import Failed, Watched
from tests.actuator.onnode import LIMITED, Still, at_work, with_still
from tests.localcluster.onenode import OneNode, in_one_node


def test_what_could_not_be_watched_is_told_and_tried_again() -> None:
    async def run(here: OneNode) -> None:
        await here.run_pod("job", [LIMITED])
        watcher = Still()
        actuator = with_still(here, watcher)
        async with at_work(actuator, here):
            await asyncio.sleep(5)
            [key] = watcher.keys
            watcher.on_outcome(key, Failed("its memory can not be read"))
            assert "can not be read" in str(actuator.explain("default/job"))
            await asyncio.sleep(35)
            assert watcher.keys == [key, key]
            watcher.on_outcome(key, Watched())
            assert "can not be read" not in str(actuator.explain("default/job"))
            await asyncio.sleep(35)
            assert watcher.keys == [key, key]

    in_one_node(run)
