"""The history of many containers, loaded from a Prometheus.

Owns the order of questions: what there was, then shard by shard, a few at a time, each halved where it is too much. A
shard that can not be had whole is left out and told: what is absent lowers nothing. Blocks, so it runs in a thread.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Final

from elastipod.pods import ContainerKey, Workload
from elastipod.quantities import NOTHING, Resources
from recommender.history import ContainerHistory
from recommender.samples import LEEWAY
from recommender.settings import RecommenderSettings
from recommender.sources.prometheus.client import PrometheusClient, PrometheusError
from recommender.sources.prometheus.clusters import Clusters
from recommender.sources.prometheus.counting import count
from recommender.sources.prometheus.discovering import Found
from recommender.sources.prometheus.folding import Fold
from recommender.sources.prometheus.grid import MOST_BYTES, MOST_CORES, Dropped, Grid, Instance, Wanted, instance_of
from recommender.sources.prometheus.ownership import Owners
from recommender.sources.prometheus.planning import MOST_POINTS, MOST_SAMPLES, Shard, Span, plan_shards
from recommender.sources.prometheus.queries import (
    CPU,
    JOB_OWNER,
    MEMORY,
    POD_OWNER,
    REPLICA_SET_OWNER,
    Selecting,
    one_of,
)

AT_ONCE: Final = 2
"""Parts under way: one is answered while another's answer is read."""
_MOST_ERRORS: Final = 3
"""So many parts that fail one after the other tell of a server that is down."""
_LEAST_RATE_SECONDS: Final = 240
"""A rate needs two samples, and they are up to two minutes apart."""
_CROWD: Final = 8
"""Series of one container; of more the server makes one, which costs it several times as much."""
_HOUR: Final = 3600
_MOST_INSTANCES: Final = 1_000_000

Progress = Callable[[int, int], None]
"""Series done, and series in all."""

Watch = Callable[[str, Grid, Mapping[Instance, Wanted]], None]
"""Is shown what was counted: the resource's name, its amounts, and whose they are."""


def no_progress(_done: int, _all: int) -> None:
    """For whom nobody waits."""


def unwatched(_resource: str, _grid: Grid, _wanted: Mapping[Instance, Wanted]) -> None:
    """For whom histories are enough."""


@dataclass(slots=True)
class Loaded:
    """What was found."""

    histories: dict[ContainerKey, ContainerHistory] = field(default_factory=dict)
    missing: set[ContainerKey] = field(default_factory=set)
    """Containers of which something could not be had."""
    problems: list[str] = field(default_factory=list)
    dropped: Dropped = field(default_factory=Dropped)


class HistoryLoader:
    """Loads from one Prometheus."""

    def __init__(self, client: PrometheusClient, settings: RecommenderSettings, at_once: int = AT_ONCE) -> None:
        self._client = client
        self._settings = settings
        self._at_once = at_once

    def instances(self, found: Found, span: Span, namespaces: Iterable[str] = ()) -> Counter[Instance]:
        """The instances there were in a time, gone ones too, and their numbers of series.

        Raises PrometheusError, and as one of these SeveralClusters.
        """
        instances: Counter[Instance] = Counter()
        clusters = Clusters()
        for selecting, metric in ((found.cpu, CPU), (found.memory, MEMORY)):
            if selecting is not None:
                selector = selecting.series(metric, Shard(tuple(sorted(namespaces))))
                instances |= self._counted(selecting, selector, span, clusters)
        clusters.check()
        return instances

    def owners(self, found: Found, span: Span, namespaces: Iterable[str] = ()) -> Owners:
        """Who owned the pods there were. Raises PrometheusError."""
        owners = Owners()
        if found.states is None:
            return owners
        names = found.states
        wanted = sorted(namespaces)
        where = one_of(names.namespace, wanted) if wanted else f'{names.namespace}!=""'
        matchers = ",".join((where, *found.matchers))
        for metric, kind, label in (
            (POD_OWNER, "Pod", names.pod),
            (REPLICA_SET_OWNER, "ReplicaSet", "replicaset"),
            (JOB_OWNER, "Job", "job_name"),
        ):

            def take(labels: dict[str, str], kind: str = kind, label: str = label) -> None:
                namespace = labels.get(names.namespace, "")
                one = Workload(namespace, kind, labels.get(label, ""))
                owner = Workload(namespace, labels.get("owner_kind", ""), labels.get("owner_name", ""))
                if one.name and labels.get("owner_is_controller", "true") == "true":
                    owners.add(one, owner)

            self._client.label_sets(f"{metric}{{{matchers}}}", span.start - span.step, span.end, take)
        return owners

    def load(
        self,
        found: Found,
        span: Span,
        wanted: dict[Instance, Wanted],
        *,
        now: float,
        shared: Container[str] = (),
        largest_node: Resources = NOTHING,
        progress: Progress = no_progress,
        watch: Watch = unwatched,
    ) -> Loaded:
        """The histories of instances. Raises PrometheusError where nothing at all can be had.

        In namespaces that are `shared` there is more than is wanted.
        """
        loaded = Loaded()
        fold = Fold(self._settings, now)
        most = {"cpu": largest_node.cpu / 1000 * LEEWAY, "memory": largest_node.memory * LEEWAY}
        parts = _parts(found, span, wanted, shared)
        total, done, had = sum(part.shard.series for part in parts), 0, 0
        errors: list[PrometheusError] = []
        with ThreadPoolExecutor(self._at_once) as pool:
            waiting: dict[Future[Grid], _Part] = {}
            while parts or waiting:
                # What is read ahead is held in memory, so no more is under way than is folded.
                while parts and len(waiting) < self._at_once:
                    part = parts.pop()
                    waiting[pool.submit(self._fetch, found, part, wanted)] = part
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    part = waiting.pop(future)
                    try:
                        grid = future.result()
                        problem = count(fold, grid, wanted, is_memory=part.is_memory, most=most[part.resource])
                        if not problem:
                            watch(part.resource, grid, wanted)
                        loaded.dropped.add(grid.dropped)
                        loaded.problems += [f"{part}: {warning}" for warning in sorted(grid.warnings)]
                        errors.clear()
                        had += 1
                    except PrometheusError as error:
                        errors.append(error)
                        problem = str(error)
                    if problem:
                        loaded.problems.append(f"{part}: {problem}")
                        loaded.missing.update(_keys(part.shard, wanted))
                    done += part.shard.series
                    progress(done, total)
                if len(errors) >= _MOST_ERRORS:
                    # It is of no use now; asking on would only keep it down.
                    for part in parts:
                        loaded.missing.update(_keys(part.shard, wanted))
                    parts = []
        loaded.histories = {key: one for key, one in fold.histories().items() if key not in loaded.missing}
        if errors and not had:
            raise errors[-1]
        return loaded

    def _counted(self, selecting: Selecting, selector: str, span: Span, clusters: Clusters) -> Counter[Instance]:
        counts: Counter[Instance] = Counter()

        def take(labels: dict[str, str]) -> None:
            instance = instance_of(labels, selecting.names)
            if instance is not None and (instance in counts or len(counts) < _MOST_INSTANCES):
                counts[instance] += 1
                clusters.see_past(labels)

        self._client.label_sets(selector, span.start - span.step, span.end, take)
        return counts

    def _fetch(self, found: Found, part: "_Part", wanted: Container[Instance]) -> Grid:
        """A resource of a shard, over the whole time. Raises PrometheusError."""
        series, span = part.shard.series, part.span
        limit = MOST_CORES if part.resource == "cpu" else MOST_BYTES
        grid = Grid(span, part.selecting.names, limit, wanted)
        pieces = span.cut(min(MOST_POINTS, max(MOST_SAMPLES // max(series, 1), 1)))
        pieces.reverse()
        while pieces:
            piece = pieces.pop()
            try:
                envelope = self._client.range(part.query(found), piece, grid.take)
                grid.warnings.update(envelope.told)
            except PrometheusError as error:
                halves = piece.halves() if error.is_too_much else []
                if not halves:
                    raise
                pieces += reversed(halves)
        return grid


@dataclass(frozen=True, slots=True)
class _Part:
    """One resource of one shard."""

    resource: str
    selecting: Selecting
    shard: Shard
    span: Span
    is_crowded: bool
    """Whether a container has so many series that the server is to make one of them."""

    @property
    def is_memory(self) -> bool:
        return self.resource == "memory"

    def __str__(self) -> str:
        shown = ", ".join(self.shard.pods or self.shard.namespaces)
        return f"{self.resource} of {shown if len(shown) < 100 else f'{shown[:100]}...'}"

    def query(self, found: Found) -> str:
        if self.is_memory:
            query = self.selecting.memory(found.window_milliseconds(self.span.step), self.shard)
        else:
            query = self.selecting.cpu(max(self.span.step, _LEAST_RATE_SECONDS), self.shard)
        return self.selecting.by_container(query) if self.is_crowded else query


def _parts(found: Found, span: Span, wanted: Mapping[Instance, Wanted], shared: Container[str]) -> list[_Part]:
    """All there is to ask."""
    counts: dict[str, dict[str, int]] = {}
    crowded: set[str] = set()
    for instance, one in wanted.items():
        pods = counts.setdefault(instance.namespace, {})
        pods[instance.pod] = pods.get(instance.pod, 0) + min(one.series, _CROWD)
        if one.series > _CROWD:
            crowded.add(instance.namespace)
    resources = [("cpu", found.cpu, span), ("memory", found.memory, _span_of_peaks(span, wanted))]
    return [
        _Part(resource, selecting, shard, of_resource, not crowded.isdisjoint(shard.namespaces))
        for shard in plan_shards(counts, span.points, shared=shared)
        for resource, selecting, of_resource in resources
        if selecting is not None
    ]


def _span_of_peaks(span: Span, wanted: Mapping[Instance, Wanted]) -> Span:
    """The same time in hours: the peaks of days are the highest of theirs, and each sample is in one.

    Where a part of it is known already, the step stays as short as it is, so that no more is told twice.
    """
    if span.step >= _HOUR or any(one.unknown.last is not None for one in wanted.values()):
        return span
    return Span(span.end - (span.end - span.start) // _HOUR * _HOUR, span.end, _HOUR)


def _keys(shard: Shard, wanted: Mapping[Instance, Wanted]) -> set[ContainerKey]:
    return {
        one.key
        for instance, one in wanted.items()
        if instance.namespace in shard.namespaces and (not shard.pods or instance.pod in shard.pods)
    }
