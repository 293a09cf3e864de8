"""How a cluster is now, as its Prometheus knows it: which containers live, what they ask for, which were killed.

Owns the questions to kube-state-metrics and to the kubelets' newest samples. Blocks.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from elastipod.quantities import NOTHING, Resources
from recommender.ranges import Resource
from recommender.sources.prometheus.answers import Series
from recommender.sources.prometheus.client import PrometheusClient
from recommender.sources.prometheus.discovering import Found
from recommender.sources.prometheus.grid import MOST_BYTES, Instance, instance_of
from recommender.sources.prometheus.planning import Shard
from recommender.sources.prometheus.points import points
from recommender.sources.prometheus.queries import (
    APP_CONTAINERS,
    CPU,
    INIT_CONTAINERS,
    INIT_LIMITS,
    INIT_REQUESTS,
    LIMITS,
    MEMORY,
    OOM_KILLED,
    REQUESTS,
    Names,
    one_of,
)

_NODES: Final = (
    (("machine_cpu_cores",), ("machine_memory_bytes",)),
    (
        ("kube_node_status_allocatable", 'resource="cpu"'),
        ("kube_node_status_allocatable", 'resource="memory"'),
    ),
)
"""A metric of cores and one of bytes, with matchers."""

Sizes = dict[Instance, Resources]
Take = Callable[[Instance, dict[str, str], float], object]


@dataclass(frozen=True, slots=True)
class InitContainers:
    """Those of all pods."""

    plain: set[Instance]
    """They end before the others start."""
    sidecars: set[Instance]
    """Native ones, which go on beside the others."""


class States:
    """One Prometheus at one time."""

    def __init__(self, client: PrometheusClient, found: Found, now: float, namespaces: tuple[str, ...] = ()) -> None:
        self._client = client
        self._found = found
        self._now = now
        self._namespaces = namespaces
        self.odd_requests: set[tuple[Instance, Resource]] = set()
        """Those of the last answer that are no amount, as NaN: they are there, and not known."""

    def living(self) -> set[Instance]:
        """The instances that are scraped now. Raises PrometheusError, as all of these."""
        living: set[Instance] = set()
        for selecting, metric in ((self._found.memory, MEMORY), (self._found.cpu, CPU)):
            if selecting is not None:
                query = selecting.by_container(selecting.series(metric, Shard(self._namespaces)))
                self._numbers(query, selecting.names, lambda instance, _labels, _number: living.add(instance))
        return living

    def init_containers(self, since: float) -> InitContainers:
        """Those that there were from a time on."""
        all_of_them: set[Instance] = set()
        sidecars: set[Instance] = set()

        def take(instance: Instance, labels: dict[str, str]) -> None:
            all_of_them.add(instance)
            if labels.get("restart_policy") == "Always":
                sidecars.add(instance)

        self._labelled(INIT_CONTAINERS, since, take)
        return InitContainers(all_of_them - sidecars, sidecars)

    def app_containers(self, since: float) -> set[Instance]:
        """Containers that are no init containers, from a time on."""
        found: set[Instance] = set()
        for metric in (APP_CONTAINERS, REQUESTS):
            self._labelled(metric, since, lambda instance, _labels: found.add(instance))
        return found

    def largest_node(self) -> Resources:
        """The most that any node has, per resource."""
        for those in _NODES:
            queries = [f"max({metric}{{{','.join((*of, *self._found.matchers))}}})" for metric, *of in those]
            amounts = [number for query in queries for _, number in self._client.numbers(query, self._now)]
            if len(amounts) == 2 and all(0 < one < MOST_BYTES for one in amounts):
                return Resources(math.ceil(amounts[0] * 1000), math.ceil(amounts[1]))
        return NOTHING

    def requests(self) -> Sizes:
        """What containers ask for; what is none of these and no odd one is nothing."""
        self.odd_requests = set()

        def odd(instance: Instance, labels: dict[str, str], _number: float) -> None:
            self.odd_requests.add((instance, Resource(labels["resource"])))

        return {**self._sizes(REQUESTS, odd), **self._sizes(INIT_REQUESTS, odd)}

    def limits(self) -> Sizes:
        """What containers may have."""
        return {**self._sizes(LIMITS), **self._sizes(INIT_LIMITS)}

    def killed(self, seconds: float) -> set[Instance]:
        """Containers that were killed for memory in the last seconds."""
        killed: set[Instance] = set()
        names = self._found.states
        if names is not None:
            selector = self._of(OOM_KILLED, names, 'reason="OOMKilled"')
            query = _highest(f"max_over_time({selector}[{max(int(seconds), 60)}s])", names)
            self._numbers(f"{query} > 0", names, lambda instance, _labels, _number: killed.add(instance))
        return killed

    def _sizes(self, metric: str, odd: Take | None = None) -> Sizes:
        sizes: Sizes = {}
        names = self._found.states or Names()

        def take(instance: Instance, labels: dict[str, str], number: float) -> None:
            is_cpu = labels.get("resource") == "cpu"
            # 0.1 is a little more than a tenth to a computer.
            amount = Resources(math.ceil(number * 1000 - 1e-6)) if is_cpu else Resources(None, math.ceil(number))
            sizes[instance] = amount.or_else(sizes.get(instance, NOTHING))

        query = _highest(self._of(metric, names, 'resource=~"cpu|memory"'), names, "resource")
        self._numbers(query, names, take, odd)
        return sizes

    def _labelled(self, metric: str, since: float, take: Callable[[Instance, dict[str, str]], object]) -> None:
        """The containers that a metric of kube-state-metrics has series of."""
        names = self._found.states or Names()

        def read(labels: dict[str, str]) -> None:
            instance = instance_of(labels, names)
            if instance is not None:
                take(instance, labels)

        self._client.label_sets(self._of(metric, names), int(since), int(self._now), read)

    def _numbers(self, query: str, names: Names, take: Take, odd: Take | None = None) -> None:
        """The number of each container in the answer to an instant query; `odd` has those that are no amount."""

        def read(series: Series) -> None:
            instance = instance_of(series.metric, names)
            try:
                [number] = points(series.value)[1]
            except ValueError:
                return
            which = take if 0 <= number < MOST_BYTES else odd
            if instance is not None and which is not None:
                which(instance, series.metric, float(number))

        self._client.instant(query, self._now, read)

    def _of(self, metric: str, names: Names, *matchers: str) -> str:
        """A metric's series of the namespaces that are looked at."""
        where = one_of(names.namespace, self._namespaces) if self._namespaces else f'{names.namespace}!=""'
        return f"{metric}{{{','.join((where, *self._found.matchers, *matchers))}}}"


def _highest(query: str, names: Names, *more: str) -> str:
    return f"max by ({','.join((names.namespace, names.pod, names.container, *more))}) ({query})"
