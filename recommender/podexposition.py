"""Nodes and pods as metrics: what a Prometheus reads of them, of the snapshot that accounts are made of.

Owns these families. A pod has series of its own only where somebody wants that: pods come and go, and each leaves a
series behind.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from elastipod.gauges import Gauge, labels
from elastipod.pods import Container, Node, Pod
from elastipod.quantities import Resources
from recommender.nodekinds import NodeKind, kind_of
from recommender.prices import PriceTable
from recommender.ranges import Resource
from recommender.savings import Snapshot, counts
from recommender.wholepods import container_limits

NODE_USAGE: Final = Gauge("elastipod_node_usage", "Used by the pods of a node that are measured, in cores or bytes.")
PRICES: Final = (
    Gauge("elastipod_price_core_hour", "What a core costs for an hour on nodes of these labels."),
    Gauge("elastipod_price_gib_hour", "What a GiB of memory costs for an hour on nodes of these labels."),
)
POD_REQUESTS: Final = Gauge("elastipod_pod_requests", "Requested by a pod's container, in cores or bytes.")
POD_LIMITS: Final = Gauge("elastipod_pod_limits", "The limit of a pod's container, in cores or bytes; none without.")
POD_USAGE: Final = Gauge("elastipod_pod_usage", "Used by a pod's container that is measured, in cores or bytes.")
PODS_LEFT_OUT: Final = Gauge(
    "elastipod_pod_series_left_out", "Pods without series of their own, since there are more than are told of."
)


def nodes_text(snapshot: Snapshot) -> bytes:
    """What is used on each node of which something is measured."""
    used: dict[tuple[str, Resource], float] = {}
    for pod, _ in snapshot.pods:
        if not counts(pod):
            continue
        for container in pod.sized_containers:
            found = snapshot.used.get((pod.namespace, pod.name, container.name), ())
            for resource, amount in zip(Resource, found, strict=False):
                if amount is not None:
                    used[pod.node_name, resource] = used.get((pod.node_name, resource), 0.0) + amount
    series = ((labels(node=node, resource=one), amount) for (node, one), amount in sorted(used.items()))
    return NODE_USAGE.text(series).encode()


def prices_text(nodes: Iterable[Node], prices: PriceTable) -> bytes:
    """A price for each kind of node that there is; where no node is known, what holds for it."""
    kinds = {kind_of(node): prices.of(node) for node in nodes} or {NodeKind(): prices.default()}
    found = [
        (
            labels(
                instance_type=kind.instance_type,
                capacity_type=kind.capacity_type,
                region=kind.region,
                currency=prices.currency,
            ),
            price,
        )
        for kind, price in kinds.items()
    ]
    core, gib = PRICES
    text = core.text((of, price.core_hour) for of, price in found)
    return (text + gib.text((of, price.gib_hour) for of, price in found)).encode()


def pods_text(snapshot: Snapshot, most: int) -> bytes:
    """Pods one by one, the first by name; nothing at all where none is wanted."""
    if not most:
        return b""
    pods = sorted((pod for pod, _ in snapshot.pods if counts(pod)), key=lambda pod: (pod.namespace, pod.name))
    told = pods[:most]

    def used(pod: Pod, container: Container, resource: Resource) -> float | None:
        found = snapshot.used.get((pod.namespace, pod.name, container.name))
        return None if found is None else found[list(Resource).index(resource)]

    families = (
        POD_REQUESTS.text(_each(told, _stated(lambda _, one: one.requests))),
        POD_LIMITS.text(_each(told, _stated(container_limits))),
        POD_USAGE.text(_each(told, used)),
        PODS_LEFT_OUT.only(len(pods) - len(told)),
    )
    return "".join(families).encode()


_Amount = Callable[[Pod, Container, Resource], float | None]


def _each(pods: Iterable[Pod], amount_of: _Amount) -> Iterator[tuple[str, float]]:
    for pod in pods:
        for container in pod.sized_containers:
            for resource in Resource:
                amount = amount_of(pod, container, resource)
                if amount is not None:
                    where = {"namespace": pod.namespace, "pod": pod.name, "node": pod.node_name}
                    yield labels(**where, container=container.name, resource=resource), amount


def _stated(sizes: Callable[[Pod, Container], Resources]) -> _Amount:
    def amount_of(pod: Pod, container: Container, resource: Resource) -> float | None:
        amount = resource.of(sizes(pod, container))
        return None if amount is None else amount / 1000 if resource is Resource.CPU else float(amount)

    return amount_of
