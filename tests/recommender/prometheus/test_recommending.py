"""The recommender over a real Prometheus: its past at the start, and live usage from it."""

import asyncio
from collections.abc import Iterator

import pytest

from elastipod.clock import ManualClock, SystemClock
from elastipod.quantities import parse_cpu, parse_memory
from recommender.settings import RecommenderSettings
from recommender.sources.prometheus.access import access_of
from recommender.sources.prometheus.client import PrometheusClient
from recommender.sources.prometheus.history import PrometheusHistory
from recommender.sources.prometheus.live import PrometheusSource
from tests.recommender.prometheus.fleet import DAY, MI, NOW, Fleet
from tests.recommender.prometheus.server import serving
from tests.recommender.world import World

pytestmark = pytest.mark.promserver


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Two days of a Deployment's pods: one that is alive, and one that is gone and used more."""
    fleet = Fleet()
    # The pod that the world has, and one from before the last rollout, which only its name tells of.
    fleet.pod("web-a", ("ReplicaSet", "web-1"), namespace="default", cores=lambda _: 0.25)
    fleet.pod(
        "web-5d4f8c7b9d-x7k2p",
        None,
        namespace="default",
        memory=lambda _: 600 * MI,
        since=NOW - 2 * DAY,
        until=NOW - DAY,
    )
    fleet.owner("replicaset", "web-1", ("Deployment", "web"), namespace="default")
    with serving(fleet.metrics) as address:
        yield address


async def test_at_the_start_the_past_is_known_also_of_pods_that_are_gone(url: str) -> None:
    settings = RecommenderSettings(prometheus_url=url)
    client = PrometheusClient(access_of(settings), SystemClock())
    world = World(past=PrometheusHistory(client, settings))
    world.clock.advance(NOW - world.clock.now())
    async with world:
        await world.node(cpu="64", memory="256Gi")
        await world.pod("web-a", await world.deployment())
        await world.autoscaler()
        await world.run(0.25, 100 * MI)
        assert (await world.conditions())["FetchingHistory"]
        fetching = world.recommender._fetching
        assert fetching is not None
        async with asyncio.timeout(60):
            while not fetching.settled:
                await asyncio.sleep(0.01)
        await world.run(0.25, 100 * MI)
        await world.run(0.25, 100 * MI)
        assert "FetchingHistory" not in await world.conditions()
        assert "LowConfidence" not in await world.conditions()
        target = await world.target()
        assert parse_memory(target["memory"]) >= 600 * MI
        assert 200 <= parse_cpu(target["cpu"]) <= 330
    client.close()


async def test_live_usage_is_stamped_when_it_was_scraped(url: str) -> None:
    clock = ManualClock(float(NOW))
    settings = RecommenderSettings(prometheus_url=url, usage_source="prometheus")
    client = PrometheusClient(access_of(settings), SystemClock())
    source = PrometheusSource(client, settings, clock)
    [sample] = (await source.read()).samples
    assert (sample.namespace, sample.pod, sample.container) == ("default", "web-a", "app")
    assert sample.measured_at == NOW
    assert sample.cpu_cores == pytest.approx(0.25, rel=0.01)
    assert sample.memory_bytes == 100 * MI
    # Nothing was scraped since: it is the same sample, not a new one.
    clock.advance(90)
    [again] = (await source.read()).samples
    assert again.measured_at == NOW
    client.close()
