"""What the verbs read of a cluster, all at once.

Owns the one-off picture: autoscalers, pods, owners, nodes, Events. Deciding and printing are the verbs' matter.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from elastipod.api import Autoscaler, ElasticNode
from elastipod.kube.connection import Connection
from elastipod.kube.errors import NotFound
from elastipod.kube.listing import list_rows
from elastipod.kube.resources import (
    AUTOSCALERS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ELASTIC_NODES,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ResourceType,
)
from elastipod.kube.rows import BadObject, decode_node, decode_pod, metadata_decoder
from elastipod.owners import Owned, topmost_workload
from elastipod.pods import Node, Pod, Workload

T = TypeVar("T")

OWNER_KINDS: Final = (REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS, CRON_JOBS)

_autoscalers: Final = msgspec.json.Decoder(Autoscaler)
_elastic_nodes: Final = msgspec.json.Decoder(ElasticNode)


@dataclass(frozen=True, slots=True)
class Picture:
    """A cluster as it stood a moment ago."""

    pods: list[Pod]
    nodes: list[Node]
    autoscalers: list[Autoscaler]
    elastic_nodes: list[ElasticNode]
    owners: dict[str, Owned]

    def workload(self, pod: Pod) -> Workload:
        """What a pod belongs to."""
        return topmost_workload(pod, self.owners)

    def pods_of(self, autoscaler: Autoscaler) -> list[Pod]:
        """The pods an autoscaler speaks of, by their owners."""
        target = autoscaler.spec.target_ref
        if target is None:
            return []
        meant = Workload(autoscaler.metadata.namespace, target.kind, target.name)
        return [pod for pod in self.pods if pod.namespace == meant.namespace and self.workload(pod) == meant]


async def read_picture(connection: Connection, namespace: str | None, label_selector: str = "") -> Picture:
    """The picture of one namespace, or of all. Raises KubeError."""
    pods, nodes, autoscalers, elastic_nodes, owners = await asyncio.gather(
        list_rows(connection, PODS, decode_pod, namespace=namespace, label_selector=label_selector),
        list_rows(connection, NODES, decode_node),
        _list_where_served(connection, AUTOSCALERS, decode_autoscaler, namespace),
        _list_where_served(connection, ELASTIC_NODES, decode_elastic_node, None),
        _list_owners(connection, namespace),
    )
    return Picture(pods, nodes, autoscalers, elastic_nodes, {one.uid: one for one in owners})


async def _list_owners(connection: Connection, namespace: str | None) -> list[Owned]:
    lists = await asyncio.gather(
        *(list_rows(connection, kind, metadata_decoder(kind.kind), namespace=namespace) for kind in OWNER_KINDS)
    )
    return [one for rows in lists for one in rows]


def decode_autoscaler(raw: bytes | msgspec.Raw) -> Autoscaler:
    """A VerticalPodAutoscaler. Raises BadObject."""
    try:
        return _autoscalers.decode(raw)
    except msgspec.DecodeError as error:
        raise BadObject(str(error)) from None


def decode_elastic_node(raw: bytes | msgspec.Raw) -> ElasticNode:
    """An ElasticNode. Raises BadObject."""
    try:
        return _elastic_nodes.decode(raw)
    except msgspec.DecodeError as error:
        raise BadObject(str(error)) from None


async def _list_where_served(
    connection: Connection, resource: ResourceType, decode: Callable[[bytes | msgspec.Raw], T], namespace: str | None
) -> list[T]:
    """The rows, or none where the cluster does not know the kind."""
    try:
        return await list_rows(connection, resource, decode, namespace=namespace)
    except NotFound:
        return []
