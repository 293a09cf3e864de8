"""What the verbs read of a cluster, all at once.

Owns the one-off picture: autoscalers, pods, owners, nodes, Events. Deciding and printing are the verbs' matter.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

import msgspec

from elastipod.api import Autoscaler, ElasticNode, ElasticPolicy
from elastipod.eligible import chosen, eligible, target_of
from elastipod.kube.connection import Connection
from elastipod.kube.errors import Forbidden, NotFound
from elastipod.kube.listing import list_rows
from elastipod.kube.podrows import decode_pod
from elastipod.kube.resources import (
    AUTOSCALERS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ELASTIC_NODES,
    ELASTIC_POLICIES,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ResourceType,
)
from elastipod.kube.rows import decode_autoscaler, decode_elastic_node, decode_node, decode_policy, metadata_decoder
from elastipod.nodeclass import class_key, node_class
from elastipod.owners import Owned
from elastipod.pods import Node, Pod, Workload

T = TypeVar("T")

_WITHOUT_NODES: Final = "No node is known, nor what it costs, nor which could be given back"
_WITHOUT_OWNERS: Final = "Workloads are told of as far as what owns their pods is known"
OWNER_KINDS: Final = (REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS, CRON_JOBS)


@dataclass(frozen=True)
class Picture:
    """A cluster as it stood a moment ago."""

    pods: list[Pod]
    nodes: list[Node]
    autoscalers: list[Autoscaler]
    elastic_nodes: list[ElasticNode]
    owners: dict[str, Owned]
    policies: list[ElasticPolicy]

    def workload(self, pod: Pod) -> Workload:
        """What a pod is sized as."""
        return chosen(self.choices(pod), self._claimed)

    def choices(self, pod: Pod) -> tuple[Workload, ...]:
        """What a pod might be sized as."""
        return eligible(pod, self.owners, self.policies)

    def pods_of(self, autoscaler: Autoscaler) -> list[Pod]:
        """The pods an autoscaler speaks of."""
        meant = target_of(autoscaler)
        return [] if meant is None else [pod for pod, workload in self._placed if workload == meant]

    def node_class_key(self, pod: Pod) -> str:
        """The class of the node a pod is on, as it stands in names; nothing where that is not known."""
        return self._class_keys.get(pod.node_name, "")

    @cached_property
    def _class_keys(self) -> dict[str, str]:
        return {node.name: class_key(node_class(node)) for node in self.nodes}

    @cached_property
    def _claimed(self) -> set[Workload]:
        return {target for one in self.autoscalers if (target := target_of(one)) is not None}

    @cached_property
    def _placed(self) -> list[tuple[Pod, Workload]]:
        return [(pod, self.workload(pod)) for pod in self.pods]


async def read_picture(
    connection: Connection, namespace: str | None, label_selector: str = "", notes: list[str] | None = None
) -> Picture:
    """The picture of one namespace, or of all. Raises KubeError.

    Where `notes` are taken, a picture without nodes or owners will do: that they may not be listed is said in them.
    """
    pods, nodes, autoscalers, elastic_nodes, owners, policies = await asyncio.gather(
        list_rows(connection, PODS, decode_pod, namespace=namespace, label_selector=label_selector),
        _list_where_allowed(connection, NODES, decode_node, None, _WITHOUT_NODES, notes),
        _list_where_served(connection, AUTOSCALERS, decode_autoscaler, namespace),
        _list_where_served(connection, ELASTIC_NODES, decode_elastic_node, None),
        _list_owners(connection, namespace, notes),
        _list_where_served(connection, ELASTIC_POLICIES, decode_policy, namespace),
    )
    return Picture(pods, nodes, autoscalers, elastic_nodes, {one.uid: one for one in owners}, policies)


async def _list_owners(connection: Connection, namespace: str | None, notes: list[str] | None) -> list[Owned]:
    lists = await asyncio.gather(
        *(
            _list_where_allowed(connection, kind, metadata_decoder(kind.kind), namespace, _WITHOUT_OWNERS, notes)
            for kind in OWNER_KINDS
        )
    )
    return [one for rows in lists for one in rows]


async def _list_where_allowed(
    connection: Connection,
    resource: ResourceType,
    decode: Callable[[bytes | msgspec.Raw], T],
    namespace: str | None,
    without: str,
    notes: list[str] | None,
) -> list[T]:
    """The rows, or none where they may not be listed and that can be noted."""
    try:
        return await list_rows(connection, resource, decode, namespace=namespace)
    except Forbidden as error:
        if notes is None:
            raise
        notes.append(f"{without}: {error}")
        return []


async def _list_where_served(
    connection: Connection, resource: ResourceType, decode: Callable[[bytes | msgspec.Raw], T], namespace: str | None
) -> list[T]:
    """The rows, or none where the cluster does not know the kind."""
    try:
        return await list_rows(connection, resource, decode, namespace=namespace)
    except NotFound:
        return []
