"""Past usage at the recommender: asked for once, counted once, and waited for while usage is heard live."""

import asyncio
from typing import Any

from elastipod.api import AutoscalerStatus
from elastipod.pods import ContainerKey, Workload
from elastipod.quantities import Resources, parse_memory
from recommender.history import ContainerHistory
from recommender.settings import RecommenderSettings
from recommender.sources.metrics_api import SourceError
from recommender.sources.past import Fetched, HistoryRequest
from recommender.steps import UseInSteps
from recommender.windows import MemoryWindow
from tests.recommender.past import history_of
from tests.recommender.world import MI, World

WEB = Workload("default", "Deployment", "web")
DAY = 86_400.0


class Past:
    """A source of past usage that has what it is given."""

    def __init__(self) -> None:
        self.histories: dict[ContainerKey, ContainerHistory] = {}
        self.steps: dict[ContainerKey, UseInSteps] = {}
        self.problem = ""
        self.asked: list[HistoryRequest] = []

    async def fetch(self, requests: list[HistoryRequest], now: float, largest_node: Resources) -> Fetched:
        if self.problem:
            raise SourceError(self.problem)
        self.asked += requests
        wanted = {ContainerKey(one.workload, name) for one in requests for name in one.containers}
        return Fetched(
            {key: one for key, one in self.histories.items() if key in wanted},
            {one: self.steps[one] for one in wanted & self.steps.keys()},
        )


async def a_world(past: Past, **settings: Any) -> World:
    world = World(past=past, **settings)
    await world.__aenter__()
    await world.node(cpu="64", memory="256Gi")
    await world.pod("web-a", await world.deployment())
    await world.autoscaler()
    return world


def days_of(memory: float, days: float, now: float, uid: str = "") -> ContainerHistory:
    return history_of(RecommenderSettings(), now, days=days, cores=0.5, memory=memory, living_uid=uid)


async def test_the_past_gives_confidence_from_the_first_minutes() -> None:
    past = Past()
    world = World(past=past)
    past.histories[ContainerKey(WEB, "app")] = days_of(800 * MI, 8, world.clock.now())
    world = await a_world(past)
    await world.run(0.1, 100 * MI)
    await world.run(0.1, 100 * MI)
    assert parse_memory((await world.target())["memory"]) >= 800 * MI
    assert "LowConfidence" not in await world.conditions()
    assert "FetchingHistory" not in await world.conditions()
    await world.__aexit__()


async def test_while_the_source_is_down_for_five_minutes_it_is_told_since_when_and_usage_is_heard_r35() -> None:
    past = Past()
    past.problem = "it can not be reached"
    world = await a_world(past)
    for _ in range(5):
        await world.run(0.1, 100 * MI)
    assert (await world.conditions())["FetchingHistory"] == "LowConfidence"
    status = (await world.read()).status or AutoscalerStatus()
    [told] = [one.message for one in status.conditions or [] if one.type == "FetchingHistory"]
    assert "it can not be reached" in told
    assert "since 20" in told
    assert await world.target()
    past.problem = ""
    past.histories[ContainerKey(WEB, "app")] = days_of(800 * MI, 8, world.clock.now() - 300)
    for _ in range(3):
        await world.run(0.1, 100 * MI)
    assert "FetchingHistory" not in await world.conditions()
    assert parse_memory((await world.target())["memory"]) >= 800 * MI
    await world.__aexit__()


async def test_the_past_is_asked_for_once() -> None:
    past = Past()
    world = await a_world(past)
    await world.autoscaler("second")
    for _ in range(5):
        await world.run(0.1, 100 * MI)
    await world.autoscaler("third")
    for _ in range(3):
        await world.run(0.1, 100 * MI)
    assert [one.workload for one in past.asked] == [WEB]
    await world.__aexit__()


async def test_after_a_short_restart_only_what_is_not_known_is_asked_for() -> None:
    past = Past()
    world = World(past=past)
    past.histories[ContainerKey(WEB, "app")] = days_of(800 * MI, 8, world.clock.now())
    world = await a_world(past)
    for _ in range(3):
        await world.run(0.1, 100 * MI)
    await world.recommender.save()
    before = world.recommender.recommendations.history
    samples = int(before.samples[0])
    await world.restart()
    await world.run(0.1, 100 * MI)
    await world.run(0.1, 100 * MI)
    assert len(past.asked) == 1
    assert int(world.recommender.recommendations.history.samples[0]) == samples + 2
    world.clock.advance(3600)
    await world.recommender.save()
    past.histories.clear()
    await world.restart()
    await world.run(0.1, 100 * MI)
    [unknown] = past.asked[1].containers.values()
    assert unknown.last is not None
    assert unknown.until - unknown.last >= 3600
    await world.__aexit__()


async def test_the_running_interval_of_a_pod_goes_on_from_the_past() -> None:
    past = Past()
    world = await a_world(past)
    await world.settle()
    [pod] = [one for one in world.recommender._watches.pods.values() if one is not None]
    past.histories[ContainerKey(WEB, "app")] = days_of(800 * MI, 0.5, world.clock.now(), pod.uid)
    await world.run(0.1, 900 * MI)
    await world.run(0.1, 850 * MI)
    [history] = [world.recommender.recommendations.history.export(0)]
    assert history.memory is not None
    [(_, weight)] = history.memory.weights
    [window] = history.windows
    assert isinstance(window, MemoryWindow)
    assert window.peak_bytes == 900 * MI
    one_peak = 2.0 ** ((window.ends_at - history.memory.reference_at) / DAY)
    assert abs(weight - one_peak) < 1e-3 * one_peak
    await world.__aexit__()


async def test_a_source_that_hangs_stops_nothing() -> None:
    class Hanging(Past):
        async def fetch(self, requests: list[HistoryRequest], now: float, largest_node: Resources) -> Fetched:
            await asyncio.Event().wait()
            return Fetched()

    world = await a_world(Hanging())
    for _ in range(5):
        await world.run(0.1, 100 * MI)
    assert await world.target()
    assert (await world.conditions())["FetchingHistory"] == "LowConfidence"
    await world.__aexit__()


async def test_a_fault_in_the_source_ends_nothing() -> None:
    class Faulty(Past):
        async def fetch(self, requests: list[HistoryRequest], now: float, largest_node: Resources) -> Fetched:
            raise IndexError("a fault")

    world = await a_world(Faulty())
    for _ in range(3):
        await world.run(0.1, 100 * MI)
    assert await world.target()
    status = (await world.read()).status or AutoscalerStatus()
    [told] = [one.message for one in status.conditions or [] if one.type == "FetchingHistory"]
    assert "internal error" in told
    await world.__aexit__()
