"""The recommender over a real Prometheus: its past at the start, and live usage from it."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from elastipod.clock import ManualClock, SystemClock
from elastipod.process import Surroundings
from elastipod.quantities import parse_cpu, parse_memory
from elastipod.telemetry import Metrics
from recommender.__main__ import _make
from recommender.settings import RecommenderSettings
from recommender.sources.metrics_api import MetricsApiSource
from recommender.sources.prometheus.client import PrometheusClient
from recommender.sources.prometheus.history import PrometheusHistory
from recommender.sources.prometheus.live import PrometheusSource
from tests.recommender.prometheus.fleet import DAY, MI, NOW, Fleet
from tests.recommender.prometheus.server import serving
from tests.recommender.world import World


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


@pytest.mark.promserver
async def test_at_the_start_the_past_is_known_also_of_pods_that_are_gone_r35(url: str) -> None:
    settings = RecommenderSettings(prometheus_url=url)
    client = PrometheusClient(settings.prometheus_access(), SystemClock())
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


@pytest.mark.promserver
async def test_live_usage_is_stamped_when_it_was_scraped(url: str) -> None:
    clock = ManualClock(float(NOW))
    settings = RecommenderSettings(prometheus_url=url, usage_source="prometheus")
    client = PrometheusClient(settings.prometheus_access(), SystemClock())
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


@pytest.mark.parametrize(
    ("given", "source", "is_fetching"),
    [
        ({}, MetricsApiSource, False),
        ({"prometheus_url": "http://127.0.0.1:9"}, MetricsApiSource, True),
        ({"prometheus_url": "http://127.0.0.1:9", "usage_source": "prometheus"}, PrometheusSource, True),
    ],
)
def test_the_process_reads_from_where_its_settings_say(
    given: dict[str, Any], source: type[object], is_fetching: bool
) -> None:
    world = World(**given)
    made = _make(Surroundings(world.connection, world.clock, world.settings, Metrics(), ""))
    assert isinstance(made._source, source)
    assert (made._fetching is not None) is is_fetching


async def test_a_prometheus_that_does_not_answer_is_metrics_lost(free_port: int) -> None:
    settings = RecommenderSettings(prometheus_url=f"http://127.0.0.1:{free_port}", usage_source="prometheus")
    client = PrometheusClient(settings.prometheus_access(), SystemClock())
    world = World()
    async with world:
        await world.node()
        await world.pod("web-a", await world.deployment())
        await world.autoscaler()
        await world.run(0.25, 100 * MI)
        before = await world.target()
        world.recommender._source = PrometheusSource(client, settings, world.clock)
        for _ in range(6):
            await world.run()
        assert (await world.conditions())["MetricsLost"] == "MetricsLost"
        status = (await world.read()).status
        assert status is not None
        [told] = [one.message for one in status.conditions or [] if one.type == "MetricsLost"]
        assert "since 20" in told
        assert "can not be reached" in told
        assert await world.target() == before
    client.close()
