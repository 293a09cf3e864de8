"""Usage as it is now, from Prometheus.

Owns reading it: one sample of each container, stamped with the time at which it was scraped, so that a series that has
ended is not taken for new.
"""

import asyncio
import math
from typing import Final

from elastipod.clock import Clock
from recommender.samples import UsageSample
from recommender.settings import RecommenderSettings
from recommender.sources.metrics_api import UsageReading
from recommender.sources.prometheus.answers import Series
from recommender.sources.prometheus.client import PrometheusClient, Unusable
from recommender.sources.prometheus.counting import LEAST_BYTES, suspicion
from recommender.sources.prometheus.discovering import Found, discover
from recommender.sources.prometheus.grid import MOST_BYTES, MOST_CORES, Instance, instance_of
from recommender.sources.prometheus.planning import EVERYTHING, Shard
from recommender.sources.prometheus.points import points
from recommender.sources.prometheus.queries import Selecting

_RATE_SECONDS: Final = 180
_DISCOVERY_SECONDS: Final = 600.0


class PrometheusSource:
    """A Prometheus as a source of live usage."""

    def __init__(self, client: PrometheusClient, settings: RecommenderSettings, clock: Clock) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._shard = Shard((settings.namespace,)) if settings.namespace else EVERYTHING
        self._found: Found | None = None
        self._found_at = -math.inf

    async def read(self) -> UsageReading:
        """The newest sample of each container. Raises PrometheusError."""
        return await asyncio.to_thread(self._read, self._clock.now(), self._clock.monotonic())

    def _read(self, now: float, monotonic: float) -> UsageReading:
        if self._found is None or monotonic - self._found_at > _DISCOVERY_SECONDS:
            settings = self._settings
            self._found = discover(self._client, now, settings.prometheus_job, settings.prometheus_matchers)
            self._found_at = monotonic
        found, shard = self._found, self._shard
        selecting = found.cpu or found.memory
        if selecting is None:
            self._found = None
            raise Unusable("; ".join(found.problems))
        reading = UsageReading()
        memory_ms = found.window_milliseconds(max(int(self._settings.interval_seconds), 60))
        stamps = self._numbers(selecting.stamps(shard), now, selecting, math.inf, reading)
        cores = found.cpu and self._numbers(found.cpu.cpu(_RATE_SECONDS, shard), now, found.cpu, MOST_CORES, reading)
        amounts = found.memory and self._numbers(
            found.memory.memory(memory_ms, shard), now, found.memory, MOST_BYTES, reading
        )
        if amounts and (why := suspicion(amounts.values(), LEAST_BYTES, len(amounts), 0)):
            raise Unusable(f"memory: {why}")
        for instance, at in stamps.items():
            cpu, memory = (cores or {}).get(instance), (amounts or {}).get(instance)
            if cpu is not None or memory is not None:
                reading.samples.append(
                    UsageSample(instance.namespace, instance.pod, instance.container, at, cpu, memory)
                )
        return reading

    def _numbers(
        self, query: str, now: float, selecting: Selecting, most: float, reading: UsageReading
    ) -> dict[Instance, float]:
        """The number of each container."""
        found: dict[Instance, float] = {}

        def take(series: Series) -> None:
            instance = instance_of(series.metric, selecting.names)
            if instance is None:
                reading.bad_entries += 1
                return
            try:
                [value] = points(series.value)[1]
            except ValueError:
                value = math.nan
            if 0 <= value <= most:
                found[instance] = float(value)
            else:
                reading.bad_values += 1

        self._client.instant(selecting.by_container(query), now, take)
        return found
