"""What is reserved, used and recommended, in cores, bytes and money.

Owns the accounts of workloads and two of the three numbers that are kept apart: *waste* (reserved and not needed) and
*applied* (reserved before, less what is reserved now, whoever changed it; growth counts against it). The third is
realisable.py's matter, what an hour costs prices.py's. A pod counts from its binding to a node until it is told to end,
so that one that is replaced never counts beside its successor.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import repeat
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from elastipod.fit import allocated
from elastipod.nodeclass import class_key, node_class, on_class
from elastipod.pods import Container, ContainerKey, ContainerKind, Node, Pod, Workload
from elastipod.quantities import NOTHING, Resources
from elastipod.reasons import Reason
from recommender.histogram import Floats, Ints
from recommender.prices import PriceTable
from recommender.ranges import Cap, Resource
from recommender.sums import Cost, difference, sum_of, used_sum
from recommender.wholepods import beyond, container_limits, pod_target

_NOT_MEASURED: Final = (None, None)
_NOTHING_BEYOND: Final = (0, 0)
_Whole = tuple[Resources, Resources]
"""What a pod should request as a whole, and what it may use so at most."""
_NO_WHOLE: Final[_Whole] = (NOTHING, NOTHING)


class Direction(StrEnum):
    """Where a workload's reservation should go."""

    LESS = "less"
    MORE = "more"
    KEEP = "keep"
    UNKNOWN = "unknown"


class Advised(Struct, frozen=True):
    """What is recommended for one pod's container, and how much that is worth."""

    target: Resources
    confidence_days: float = 0.0
    reason: str = ""
    lower: Resources = NOTHING
    upper: Resources = NOTHING
    uncapped: Resources = NOTHING
    caps: tuple[Cap, ...] = ()

    def cuts(self, resource: Resource) -> list[Cap]:
        """What cut its target down, in order."""
        most = resource.of(self.uncapped)
        return [
            one
            for one in self.caps
            if one.resource is resource and one.reason.startswith("CappedBy") and (most is None or one.amount <= most)
        ]

    def needed(self, resource: Resource) -> int | None:
        """The target, or more where something cut it down: what is reserved up to this is not wasted."""
        target = resource.of(self.target)
        return None if target is None else max(target, resource.of(self.uncapped) or 0)

    @property
    def needs(self) -> Resources:
        """What is needed of each resource."""
        return Resources(*map(self.needed, Resource))

    def sized(self, requests: Resources) -> Resources:
        """What a container that requests so much would have: the target, and no less of its own than it needs."""

        def amount(resource: Resource) -> int | None:
            target, needed, has = resource.of(self.target), self.needed(resource), resource.of(requests)
            return has if target is None or needed is None else max(target, min(has or 0, needed))

        return Resources(*map(amount, Resource))

    def reason_for(self, resource: Resource) -> str:
        """Why its target is what it is, or is not there: what capped it last, or else what holds for the container.

        That is no reason for a resource without a target beside one that has one.
        """
        cap = next((str(one.reason) for one in reversed(self.caps) if one.resource is resource), "")
        is_of_both = self.target.is_empty or resource.of(self.target) is not None
        return cap or (self.reason if is_of_both else "")


@dataclass(frozen=True, slots=True)
class Usage:
    """What one container of a workload used over a window, in cores or bytes."""

    mean: float
    p95: float
    peak: float
    seconds: float
    """Of so much of the window something is known."""


class Account(Struct, frozen=True, gc=False):
    """One resource of one container of a workload, over all its pods."""

    key: ContainerKey
    resource: Resource
    pods: int = 0
    before: Cost = Cost()
    """Requested when elastipod first saw it."""
    requested: Cost = Cost()
    allocated: Cost = Cost()
    """Requested as the nodes have admitted it."""
    limit: Cost | None = None
    """None where one of the pods has none."""
    used: Cost | None = None
    """At this instant, of those pods that are measured; None where none is."""
    recommended: Cost | None = None
    """None where there is no recommendation: nothing is promised for it."""
    waste: Cost = Cost()
    """Reserved above what is needed: above what is recommended, or above more where a cap holds that down."""
    lacking: Cost = Cost()
    """Needed above what is reserved."""
    advised: Advised | None = None
    usage: Usage | None = None
    is_sidecar: bool | None = False
    """Whether it is a native sidecar, which stands among the init containers; None where that is not known."""
    pod_target: float | None = None
    """What a pod of it that requests this resource as a whole would request so, in cores or bytes, if its containers
    were as recommended; None where its pods do not."""
    pod_limit: float | None = None
    """What a pod of it may use at most as a whole; None where its pods do not say so."""

    @property
    def applied(self) -> Cost:
        """What is reserved less than before, whoever changed it; negative where it is more."""
        return difference(self.resource, self.before, self.requested)

    @property
    def direction(self) -> Direction:
        """Where the need is, whatever caps it; with pods that need more and others that need less, where the sum is."""
        if self.recommended is None:
            return Direction.UNKNOWN
        change = difference(self.resource, self.lacking, self.waste).amount
        return Direction.LESS if change < 0 else Direction.MORE if change > 0 else Direction.KEEP

    @property
    def confidence_days(self) -> float:
        return 0.0 if self.advised is None or self.recommended is None else self.advised.confidence_days

    @property
    def reason(self) -> str:
        """Why that is recommended, or nothing is."""
        found = "" if self.advised is None else self.advised.reason_for(self.resource)
        return found if found or self.recommended is not None else str(Reason.NO_RECOMMENDATION)


class Totals(Struct, frozen=True, gc=False):
    """The sums over accounts of one resource; no number contains another."""

    requested: Cost = Cost()
    used: Cost | None = None
    """None where no pod is measured."""
    waste: Cost = Cost()
    lacking: Cost = Cost()
    applied: Cost = Cost()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one instant, as accounts are made of it."""

    pods: Collection[tuple[Pod, Workload]]
    nodes: Mapping[str, Node]
    advised: Mapping[ContainerKey, Advised]
    used: Mapping[tuple[str, str, str], tuple[float | None, float | None]]
    """Cores and bytes by namespace, pod and container; None for what is not known."""
    before: Mapping[ContainerKey, Resources]
    """What one pod's container requested when elastipod first saw it; what is missing was as it is."""
    usage: Mapping[tuple[ContainerKey, Resource], Usage]
    by_class: Collection[Workload] = ()
    """Workloads that have sizes by class of node."""

    def key_of(self, pod: Pod, workload: Workload, container: str) -> ContainerKey:
        """What a container of a pod counts as: as that on the class of its node, where it has a size there."""
        key = ContainerKey(workload, container)
        node = self.nodes.get(pod.node_name) if self.by_class and workload in self.by_class else None
        if node is None:
            return key
        there = ContainerKey(workload, on_class(container, class_key(node_class(node))))
        return there if there in self.advised else key


def accounts(snapshot: Snapshot, prices: PriceTable) -> list[Account]:
    """Per workload, container and resource, sorted by them. Raises PriceError."""
    priced = {name: prices.of(node) for name, node in snapshot.nodes.items()}
    places: dict[ContainerKey, int] = {}
    sidecars: set[ContainerKey] = set()
    wholes: dict[ContainerKey, _Whole] = {}
    shown: list[tuple[float | None, ...]] = []
    for pod, workload in snapshot.pods:
        if not counts(pod):
            continue
        price = priced.get(pod.node_name) or prices.default()
        if not (pod.pod_requests.is_empty and pod.pod_limits.is_empty):
            wholes |= _whole(pod, workload, snapshot)
        for container, (cpu_beyond, memory_beyond) in _with_beyond(pod, workload, snapshot):
            requests, admitted, most = container.requests, allocated(container), container_limits(pod, container)
            cores, memory_bytes = snapshot.used.get((pod.namespace, pod.name, container.name), _NOT_MEASURED)
            key = snapshot.key_of(pod, workload, container.name)
            if container.kind is ContainerKind.SIDECAR:
                sidecars.add(key)
            place = places.setdefault(key, len(places))
            shown.append(
                (place, price.core_hour, requests.cpu_millicores, admitted.cpu_millicores, most.cpu_millicores, cores,
                 cpu_beyond, price.byte_hour, requests.memory_bytes, admitted.memory_bytes, most.memory_bytes,
                 memory_bytes, memory_beyond)
            )  # fmt: skip
    keys = list(places)
    rows, *columns = np.array(shown, dtype=np.float64).reshape(-1, 13).T
    cpu = _added_up(snapshot, Resource.CPU, keys, sidecars, wholes, rows.astype(np.int64), *columns[:6])
    memory = _added_up(snapshot, Resource.MEMORY, keys, sidecars, wholes, rows.astype(np.int64), *columns[6:])
    return [one for key in sorted(keys) for one in (cpu[places[key]], memory[places[key]])]


def counts(pod: Pod) -> bool:
    """Whether a pod holds a reservation of its own."""
    return bool(pod.node_name) and not pod.is_terminal and pod.deletion_at is None


def dearest(those: Sequence[Account], most: int) -> list[Account]:
    """Those of the containers that request the most by cost, in their order; all resources of a container, or none."""
    costs: dict[ContainerKey, float] = {}
    for one in those:
        costs[one.key] = costs.get(one.key, 0.0) + one.requested.per_hour
    if len(costs) <= most:
        return list(those)
    kept = set(sorted(costs, key=costs.__getitem__, reverse=True)[:most])
    return [one for one in those if one.key in kept]


def totals(those: Iterable[Account]) -> dict[Resource, Totals]:
    """The sums of each resource."""
    of: dict[Resource, list[Account]] = {resource: [] for resource in Resource}
    for one in those:
        of[one.resource].append(one)
    return {resource: _totals(resource, found) for resource, found in of.items()}


def _totals(resource: Resource, those: Sequence[Account]) -> Totals:
    used = [one.used for one in those if one.used is not None]
    return Totals(
        sum_of(resource, [one.requested for one in those]),
        used_sum(used) if used else None,
        sum_of(resource, [one.waste for one in those]),
        sum_of(resource, [one.lacking for one in those]),
        sum_of(resource, [one.applied for one in those]),
    )


def _with_beyond(pod: Pod, workload: Workload, snapshot: Snapshot) -> Iterable[tuple[Container, tuple[int, ...]]]:
    """A pod's containers, each with what it has of what the pod requests beyond them."""
    containers = pod.sized_containers
    if pod.pod_requests.is_empty:
        return zip(containers, repeat(_NOTHING_BEYOND))
    found = [snapshot.advised.get(snapshot.key_of(pod, workload, one.name)) for one in containers]
    needs = [NOTHING if one is None else one.needs for one in found]
    return zip(containers, beyond(pod.pod_requests, [one.requests for one in containers], needs), strict=True)


def _whole(pod: Pod, workload: Workload, snapshot: Snapshot) -> dict[ContainerKey, _Whole]:
    """By container, what is said of its pod."""
    keys = {one.name: snapshot.key_of(pod, workload, one.name) for one in pod.sized_containers}
    advised = {name: found.target for name, key in keys.items() if (found := snapshot.advised.get(key)) is not None}
    return dict.fromkeys(keys.values(), (pod_target(pod, advised), pod.pod_limits))


def _added_up(
    snapshot: Snapshot,
    resource: Resource,
    keys: Sequence[ContainerKey],
    sidecars: Collection[ContainerKey],
    wholes: Mapping[ContainerKey, _Whole],
    rows: Ints,
    price: Floats,
    requests: Floats,
    admitted: Floats,
    limits: Floats,
    used: Floats,
    beyond_it: Floats,
) -> list[Account]:
    """The accounts of these keys. The columns are of one container in one pod each; its row is its key's place.

    All are in millicores or bytes but what is used, so that sums of them are whole.
    """
    unit, count = (1000.0 if resource is Resource.CPU else 1.0), len(keys)
    advised = [snapshot.advised.get(key) for key in keys]
    targets = np.array([None if one is None else resource.of(one.target) for one in advised], dtype=np.float64)
    seen = [snapshot.before.get(key) for key in keys]
    firsts = np.array([None if one is None else resource.of(one) or 0 for one in seen], dtype=np.float64)
    requested = np.nan_to_num(requests) + beyond_it
    needed = np.array([None if one is None else one.needed(resource) for one in advised], dtype=np.float64)

    def costs(amounts: Floats, is_known: NDArray[np.bool_] | None = None, *, unit: float = unit) -> list[Cost | None]:
        weights = np.nan_to_num(amounts)
        sums = (np.bincount(rows, weights, count) / unit).tolist()
        paid = (np.bincount(rows, weights * price, count) / unit).tolist()
        found: list[Cost | None] = [Cost(*both) for both in zip(sums, paid, strict=True)]
        return (
            found if is_known is None else [one if known else None for one, known in zip(found, is_known, strict=True)]
        )

    def of_whole(amounts: Resources) -> float | None:
        amount = resource.of(amounts)
        return None if amount is None else amount / unit

    columns = (
        np.bincount(rows, minlength=count).tolist(),
        costs(np.where(np.isnan(firsts[rows]), requested, firsts[rows] + beyond_it)),
        costs(requested),
        costs(np.nan_to_num(admitted) + beyond_it),
        costs(limits, np.bincount(rows, np.isnan(limits), count) == 0),
        costs(used, np.bincount(rows, ~np.isnan(used), count) > 0, unit=1.0),
        costs(targets[rows], ~np.isnan(targets)),
        costs(np.fmax(requested - needed[rows], 0.0)),
        costs(np.fmax(needed[rows] - requested, 0.0)),
        advised,
        (snapshot.usage.get((key, resource)) for key in keys),
        (key in sidecars for key in keys),
        map(of_whole, (wholes.get(key, _NO_WHOLE)[0] for key in keys)),
        map(of_whole, (wholes.get(key, _NO_WHOLE)[1] for key in keys)),
    )
    return [Account(key, resource, *values) for key, *values in zip(keys, *columns, strict=True)]
