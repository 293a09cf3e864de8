"""A whole cluster through its Prometheus: what each workload's containers ask for, and what they used.

Owns which workload each instance is of, and which are looked at: those of which a pod lives, and CronJobs between two
runs. What the cluster itself knows better is handed in. Blocks.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from elastipod.pods import Container, ContainerKey, ContainerKind, Pod, Workload
from elastipod.quantities import NOTHING, Resources
from recommender.advising import Sized, Surveyed
from recommender.settings import RecommenderSettings
from recommender.sources.past import Unknown
from recommender.sources.prometheus.client import PrometheusClient, Unusable
from recommender.sources.prometheus.discovering import discover
from recommender.sources.prometheus.grid import Instance, Wanted
from recommender.sources.prometheus.loading import HistoryLoader, Progress, Watch, no_progress, unwatched
from recommender.sources.prometheus.ownership import Matching, Owners, guessed_workload
from recommender.sources.prometheus.planning import span_before
from recommender.sources.prometheus.queries import REQUESTS
from recommender.sources.prometheus.states import Sizes, States

_SLEEPING: Final = ("CronJob",)
_SOMEWHERE: Final = "?"

Workloads = dict[Instance, Workload]


@dataclass(slots=True)
class Cluster:
    """What the cluster itself tells: its pods that are not over, with their workloads, and its largest node."""

    pods: list[tuple[Pod, Workload]] = field(default_factory=list)
    largest_node: Resources = NOTHING


def survey(
    client: PrometheusClient,
    settings: RecommenderSettings,
    now: float,
    *,
    cluster: Cluster | None = None,
    namespaces: Iterable[str] = (),
    progress: Progress = no_progress,
    watch: Watch = unwatched,
) -> Surveyed:
    """What there is, and its history; `watch` is shown what that is made of. Raises PrometheusError."""
    found = discover(client, now, settings.prometheus_job, settings.prometheus_matchers)
    if found.cpu is None and found.memory is None:
        raise Unusable("; ".join(found.problems))
    where = tuple(sorted(namespaces))
    span = span_before(now, settings.history_seconds, settings.history_resolution_seconds)
    loader, states = HistoryLoader(client, settings), States(client, found, now, where)
    instances = loader.instances(found, span, where)
    owners = loader.owners(found, span, where)
    surveyed = Surveyed(problems=list(found.problems))
    if cluster is None:
        # A pod that has just ended is scraped no more, and has its last samples for some minutes.
        inits = states.init_containers(span.start)
        for plain in inits.plain:
            del instances[plain]
        living = states.living() & instances.keys()
        workloads = workloads_of(instances, owners)
        surveyed.largest_node = states.largest_node()
        requests, limits = states.requests(), states.limits()
        if living and not requests:
            surveyed.problems.append(f"{REQUESTS} is not there (kube-state-metrics): what is asked for is not known")
        surveyed.pods = _pods(living, workloads, requests, limits, inits.sidecars)
        kinds = dict.fromkeys(states.app_containers(span.start), False) | dict.fromkeys(inits.sidecars, True)
        are_sidecars = {ContainerKey(workloads[one], one.container): kinds[one] for one in kinds.keys() & workloads}
    else:
        workloads = workloads_of(instances, owners, cluster)
        surveyed.largest_node, surveyed.pods = cluster.largest_node, cluster.pods
        are_sidecars = {
            ContainerKey(workload, one.name): one.kind is ContainerKind.SIDECAR
            for pod, workload in cluster.pods
            for one in pod.sized_containers
        }
    for pod, workload in surveyed.pods:
        for one in pod.sized_containers:
            _count(surveyed, ContainerKey(workload, one.name), one.requests, one.limits)
    for instance, resource in states.odd_requests:
        found_key = ContainerKey(workloads[instance], instance.container) if instance in workloads else None
        if found_key in surveyed.containers:
            surveyed.containers[found_key].odd.add(resource)
    if not surveyed.pods:
        of = f" of namespace {', '.join(where)}" if where else ""
        surveyed.problems.append(f"no pod{of} lives that usage is known of")
    wanted = _wanted(surveyed, instances, workloads, now)
    for key, sized in surveyed.containers.items():
        sized.is_sidecar = are_sidecars.get(key)
    for instance in states.killed(settings.history_seconds) & wanted.keys():
        surveyed.containers[wanted[instance].key].is_killed = True
    if wanted:
        node = surveyed.largest_node
        loaded = loader.load(found, span, wanted, now=now, largest_node=node, progress=progress, watch=watch)
        surveyed.histories = loaded.histories
        surveyed.problems += loaded.problems
    return surveyed


def _wanted(
    surveyed: Surveyed, instances: Mapping[Instance, int], workloads: Workloads, now: float
) -> dict[Instance, Wanted]:
    """The instances whose usage tells of what lives; what sleeps between two runs is noted besides."""
    awake = {key.workload for key in surveyed.containers}
    wanted: dict[Instance, Wanted] = {}
    for instance, series in instances.items():
        key = ContainerKey(workloads[instance], instance.container)
        if key.workload.kind in _SLEEPING and key.workload not in awake:
            surveyed.containers.setdefault(key, Sized())
        if key in surveyed.containers:
            asked = surveyed.containers[key].requests.memory
            wanted[instance] = Wanted(key, Unknown(now), series=series, request_bytes=asked)
    return wanted


def workloads_of(instances: Iterable[Instance], owners: Owners, cluster: Cluster | None = None) -> Workloads:
    """The workload of each instance: as the cluster says, else its owners, else a known one by name, else a guess."""
    told: dict[tuple[str, str], Workload] = {}
    if cluster is not None:
        told = {(pod.namespace, pod.name): workload for pod, workload in cluster.pods}
    pods = {(one.namespace, one.pod) for one in instances}
    for pod in pods - told.keys():
        owner = owners.topmost(*pod)
        if owner is not None:
            told[pod] = owner
    matching = Matching(set(told.values()), Owners())
    for pod in pods - told.keys():
        told[pod] = matching.of(*pod) or guessed_workload(*pod)
    return {one: told[one.namespace, one.pod] for one in instances}


def _pods(
    living: Iterable[Instance], workloads: Workloads, requests: Sizes, limits: Sizes, sidecars: Collection[Instance]
) -> list[tuple[Pod, Workload]]:
    """The pods that live, as far as a Prometheus knows them: not on which node, nor what else they ask of it."""
    containers: dict[tuple[str, str], list[Container]] = {}
    owners: dict[tuple[str, str], Workload] = {}
    for one in sorted(living):
        kind = ContainerKind.SIDECAR if one in sidecars else ContainerKind.APP
        asks = Container(one.container, kind, requests.get(one, NOTHING), limits.get(one, NOTHING))
        containers.setdefault((one.namespace, one.pod), []).append(asks)
        owners[one.namespace, one.pod] = workloads[one]
    return [
        (Pod(*named, "", node_name=_SOMEWHERE, phase="Running", containers=tuple(those)), owners[named])
        for named, those in containers.items()
    ]


def _count(surveyed: Surveyed, key: ContainerKey, requests: Resources, limits: Resources) -> None:
    sized = surveyed.containers.setdefault(key, Sized())
    sized.pods += 1
    sized.requests = sized.requests.largest(requests)
    sized.limits = sized.limits.largest(limits)
