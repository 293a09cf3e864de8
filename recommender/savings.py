"""What is reserved, used and recommended, in cores, bytes and money.

Owns the accounts of workloads and the three numbers that are kept apart: *waste* (reserved above what is recommended),
*applied* (reserved before, less what is reserved now; growth counts against it) and *realisable* (whole nodes that
would be empty: packing.py says which). What an hour costs is prices.py's matter. A pod counts from its binding to a
node until it is told to end, so that one that is replaced never counts beside its successor.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from elastipod.fit import allocated, pod_sum
from elastipod.pods import Container, ContainerKey, ContainerKind, Node, Pod, Workload
from elastipod.quantities import Resources
from recommender.packing import spare_nodes
from recommender.prices import Prices, PriceTable
from recommender.ranges import Resource


@dataclass(frozen=True, slots=True)
class Cost:
    """Cores or bytes, and money for an hour of them; negative where a difference is."""

    amount: float = 0.0
    per_hour: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.amount + other.amount, self.per_hour + other.per_hour)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.amount - other.amount, self.per_hour - other.per_hour)


class Direction(StrEnum):
    """Where a workload's reservation should go."""

    LESS = "less"
    MORE = "more"
    KEEP = "keep"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Advised:
    """What is recommended for a container, and how much that is worth."""

    target: Resources
    confidence_days: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What one container of a workload used over a window, in cores or bytes."""

    mean: float
    p95: float
    peak: float


@dataclass(slots=True)
class Account:
    """One resource of one container of a workload, over all its pods."""

    key: ContainerKey
    resource: Resource
    pods: int = 0
    before: Cost = Cost()
    """Requested when elastipod first saw it."""
    requested: Cost = Cost()
    allocated: Cost = Cost()
    """Requested as the nodes have admitted it."""
    limit: Cost | None = Cost()
    """None where one of the pods has none."""
    used: Cost = Cost()
    """At this instant."""
    usage: Usage | None = None
    recommended: Cost | None = None
    """None where there is no recommendation: nothing is promised for it."""
    waste: Cost = Cost()
    lacking: Cost = Cost()
    """Recommended above what is reserved."""
    confidence_days: float = 0.0
    reason: str = ""

    @property
    def applied(self) -> Cost:
        """What is reserved less than before; negative where it is more."""
        return self.before - self.requested

    @property
    def direction(self) -> Direction:
        """A workload of which some pods need more and others less goes where the sum does."""
        if self.recommended is None:
            return Direction.UNKNOWN
        change = self.recommended.amount - self.requested.amount
        return Direction.LESS if change < 0 else Direction.MORE if change > 0 else Direction.KEEP


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums over accounts of one resource; no number contains another."""

    requested: Cost = Cost()
    used: Cost = Cost()
    waste: Cost = Cost()
    lacking: Cost = Cost()
    applied: Cost = Cost()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one instant, as accounts are made of it."""

    pods: Collection[tuple[Pod, Workload]]
    nodes: Mapping[str, Node]
    advised: Mapping[ContainerKey, Advised]
    used: Mapping[tuple[str, str, str], tuple[float, float]]
    """Cores and bytes by namespace, pod and container."""
    before: Mapping[ContainerKey, Resources]
    """What one pod's container requested when elastipod first saw it; what is missing was as it is."""
    usage: Mapping[tuple[ContainerKey, Resource], Usage]


@dataclass(frozen=True, slots=True)
class Realisable:
    """Nodes that could be given back, and what they hold and cost."""

    nodes: tuple[str, ...] = ()
    cores: float = 0.0
    memory_bytes: float = 0.0
    per_hour: float = 0.0


def accounts(snapshot: Snapshot, prices: PriceTable) -> list[Account]:
    """Per workload, container and resource, sorted by them. Raises PriceError."""
    found: dict[tuple[ContainerKey, Resource], Account] = {}
    for pod, workload in snapshot.pods:
        if not counts(pod):
            continue
        node = snapshot.nodes.get(pod.node_name)
        price = prices.default() if node is None else prices.of(node)
        for container in pod.sized_containers:
            key = ContainerKey(workload, container.name)
            for resource in Resource:
                account = found.get((key, resource))
                if account is None:
                    account = found[key, resource] = _opened(snapshot, key, resource)
                _add(account, snapshot, pod, container, price)
    return [found[key] for key in sorted(found, key=lambda one: (one[0], list(Resource).index(one[1])))]


def counts(pod: Pod) -> bool:
    """Whether a pod holds a reservation of its own."""
    return bool(pod.node_name) and not pod.is_terminal and pod.deletion_at is None


def totals(those: Iterable[Account]) -> dict[Resource, Totals]:
    """The sums of each resource."""
    found = dict.fromkeys(Resource, Totals())
    for one in those:
        so_far = found[one.resource]
        found[one.resource] = Totals(
            so_far.requested + one.requested,
            so_far.used + one.used,
            so_far.waste + one.waste,
            so_far.lacking + one.lacking,
            so_far.applied + one.applied,
        )
    return found


def realisable(snapshot: Snapshot, prices: PriceTable, *, is_protected: Callable[[Pod], bool]) -> Realisable:
    """Which nodes would be empty if all pods were as recommended, beyond those that are. Raises PriceError.

    `is_protected` tells of a pod that no budget lets go.
    """
    pods = [pod for pod, _ in snapshot.pods if counts(pod)]
    sizes = {pod.key: _recommended(pod, workload, snapshot.advised) for pod, workload in snapshot.pods if counts(pod)}
    names = spare_nodes(
        list(snapshot.nodes.values()),
        pods,
        sizes,
        is_protected=is_protected,
        worth=lambda node: _whole(node, prices)[2],
    )
    wholes = [_whole(snapshot.nodes[name], prices) for name in names]
    cores, memory_bytes, per_hour = (sum(column) for column in zip(*wholes, strict=True)) if wholes else (0.0, 0.0, 0.0)
    return Realisable(tuple(names), cores, memory_bytes, per_hour)


def _recommended(pod: Pod, workload: Workload, advised: Mapping[ContainerKey, Advised]) -> Resources:
    """What a pod would request if it were as recommended."""

    def size(container: Container) -> Resources:
        found = None if container.kind is ContainerKind.INIT else advised.get(ContainerKey(workload, container.name))
        return container.requests if found is None else found.target.or_else(container.requests)

    return pod_sum(pod, size)


def _whole(node: Node, prices: PriceTable) -> tuple[float, float, float]:
    """A node's cores and bytes, and money for an hour of it."""
    has = node.capacity.or_else(node.allocatable)
    cores, memory_bytes = has.cpu / 1000, float(has.memory)
    return cores, memory_bytes, prices.of(node).per_hour(cores, memory_bytes)


def _opened(snapshot: Snapshot, key: ContainerKey, resource: Resource) -> Account:
    advised = snapshot.advised.get(key)
    account = Account(key, resource, usage=snapshot.usage.get((key, resource)))
    if advised is not None and resource.of(advised.target) is not None:
        account.recommended = Cost()
        account.confidence_days, account.reason = advised.confidence_days, advised.reason
    return account


def _add(account: Account, snapshot: Snapshot, pod: Pod, container: Container, price: Prices) -> None:
    resource = account.resource

    def cost(amount: float) -> Cost:
        as_both = (amount, 0.0) if resource is Resource.CPU else (0.0, amount)
        return Cost(amount, price.per_hour(*as_both))

    def stated(sizes: Resources) -> float | None:
        amount = resource.of(sizes)
        return None if amount is None else amount / 1000 if resource is Resource.CPU else float(amount)

    requested = stated(container.requests) or 0.0
    before = snapshot.before.get(account.key)
    limit = stated(container.limits)
    used = snapshot.used.get((pod.namespace, pod.name, container.name), (0.0, 0.0))
    account.pods += 1
    account.before += cost(requested if before is None else stated(before) or 0.0)
    account.requested += cost(requested)
    account.allocated += cost(stated(allocated(container)) or 0.0)
    account.limit = None if limit is None or account.limit is None else account.limit + cost(limit)
    account.used += cost(used[0] if resource is Resource.CPU else used[1])
    if account.recommended is not None:
        target = stated(snapshot.advised[account.key].target) or 0.0
        account.recommended += cost(target)
        account.waste += cost(max(requested - target, 0.0))
        account.lacking += cost(max(target - requested, 0.0))
