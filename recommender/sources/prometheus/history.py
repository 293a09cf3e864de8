"""Past usage of workloads from Prometheus.

Owns which of its pods' series are asked for: those of the workloads' pods, living or gone, and of containers that they
still have.
"""

import asyncio
from collections.abc import Container, Mapping
from typing import Final

import numpy as np

from elastipod.pods import ContainerKey, Workload
from elastipod.quantities import NOTHING, Resources
from recommender.settings import RecommenderSettings
from recommender.sources.past import Fetched, HistoryRequest
from recommender.sources.prometheus.client import PrometheusClient
from recommender.sources.prometheus.discovering import discover
from recommender.sources.prometheus.grid import Grid, Instance, Wanted
from recommender.sources.prometheus.loading import HistoryLoader, Loaded
from recommender.sources.prometheus.ownership import Matching, Owners
from recommender.sources.prometheus.planning import Span, span_before
from recommender.steps import UseInSteps

_MOST_NAMESPACES: Final = 500
"""Of more, all are asked for."""


class PrometheusHistory:
    """A Prometheus as a keeper of past usage."""

    def __init__(self, client: PrometheusClient, settings: RecommenderSettings) -> None:
        self._client = client
        self._settings = settings

    async def fetch(self, requests: list[HistoryRequest], now: float, largest_node: Resources) -> Fetched:
        """The histories of some workloads. Raises PrometheusError."""
        return await asyncio.to_thread(self._fetch, requests, now, largest_node)

    def _fetch(self, requests: list[HistoryRequest], now: float, largest_node: Resources) -> Fetched:
        found = discover(self._client, now, self._settings.prometheus_job, self._settings.prometheus_matchers)
        if found.cpu is None and found.memory is None:
            return Fetched(missing={one.workload for one in requests}, problems=list(found.problems))
        unknown = [one for request in requests for one in request.containers.values()]
        end = max(one.until for one in unknown)
        seconds = max(_seconds(one.until, one.first, one.last, self._settings.history_seconds, end) for one in unknown)
        if any(request.is_replayed for request in requests):
            seconds = self._settings.history_seconds
        span = span_before(end, seconds, self._settings.history_resolution_seconds)
        namespaces = {request.workload.namespace for request in requests}
        if len(namespaces) > _MOST_NAMESPACES:
            namespaces = set()
        loader = HistoryLoader(self._client, self._settings)
        instances = loader.instances(found, span, namespaces)
        wanted = wanted_instances(instances, requests, loader.owners(found, span, namespaces))
        shared = {one.namespace for one in instances.keys() - wanted.keys()}
        loaded, steps = Loaded(), StepsTaken(span, {one.workload for one in requests if one.is_replayed})
        if wanted:
            loaded = loader.load(
                found, span, wanted, now=now, shared=shared, largest_node=largest_node, watch=steps.take
            )
        missing = {key.workload for key in loaded.missing}
        return Fetched(
            {key: one for key, one in loaded.histories.items() if key.workload not in missing},
            {key: one for key, one in steps.found.items() if key.workload not in missing},
            missing,
            [*loaded.problems, *found.problems],
        )


class StepsTaken:
    """What containers of some workloads used in each step, all their pods together."""

    def __init__(self, span: Span, workloads: Container[Workload]) -> None:
        self.found: dict[ContainerKey, UseInSteps] = {}
        self._span = span
        self._workloads = workloads

    def take(self, resource: str, grid: Grid, wanted: Mapping[Instance, Wanted]) -> None:
        span = grid.span
        times = span.start + np.arange(span.points, dtype=np.float64) * span.step
        for instance, row in grid.rows():
            key = wanted[instance].key
            if key.workload in self._workloads:
                if key not in self.found:
                    seconds = self._span.end - self._span.start + self._span.step
                    self.found[key] = UseInSteps.nothing(self._span.end, seconds)
                self.found[key].take(int(resource == "memory"), times, row, span.step)


def wanted_instances(
    instances: Mapping[Instance, int], requests: list[HistoryRequest], owners: Owners
) -> dict[Instance, Wanted]:
    """Which instances are of the workloads asked about. A pod that is alive is known; others are matched."""
    by_workload = {request.workload: request for request in requests}
    living = {(one.workload.namespace, pod): one for one in requests for pod in one.pods}
    matching = Matching(by_workload, owners)
    wanted: dict[Instance, Wanted] = {}
    for instance, series in instances.items():
        request = living.get((instance.namespace, instance.pod))
        if request is None:
            workload = matching.of(instance.namespace, instance.pod)
            request = by_workload[workload] if workload is not None else None
        if request is not None and instance.container in request.containers:
            key = ContainerKey(request.workload, instance.container)
            uid = request.pods.get(instance.pod, "")
            asked = request.requests.get(instance.container, NOTHING).memory
            wanted[instance] = Wanted(key, request.containers[instance.container], uid, series, asked)
    return wanted


def _seconds(until: float, first: float | None, last: float | None, most: float, end: float) -> float:
    """How far before `end` the unknown times of a container begin."""
    earliest = until - most
    if first is not None and last is not None and first <= earliest + most / 8:
        earliest = last
    return end - max(earliest, end - most)
