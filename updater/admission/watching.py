"""What the webhook knows of the cluster, kept fresh: autoscalers, policies, owners of pods, LimitRanges and quotas.

Owns the reflectors, and how their objects come into a fleet. No pods: each is asked about with all that counts. Nodes
only once a size depends on the class of one.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from elastipod.api import Autoscaler, ElasticPolicy
from elastipod.clock import Clock
from elastipod.eligible import target_of
from elastipod.kube.connection import Connection
from elastipod.kube.reflector import Reflector
from elastipod.kube.resources import (
    AUTOSCALERS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ELASTIC_POLICIES,
    JOBS,
    LIMIT_RANGES,
    NODES,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    ResourceType,
)
from elastipod.kube.rows import (
    decode_autoscaler,
    decode_limit_range,
    decode_node,
    decode_policy,
    decode_quota,
    metadata_decoder,
)
from elastipod.limits import LimitRange, Quota
from elastipod.owners import Owned
from elastipod.pods import Node
from updater.fleet import Fleet
from updater.sizes import advice_of

_CONTROLLERS: Final = (REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS, CRON_JOBS)
CONTROLLER_KINDS: Final = frozenset(one.kind for one in _CONTROLLERS)
# What a cluster may lack is not waited for long.
_OPTIONAL: Final = (DAEMON_SETS, CRON_JOBS, ELASTIC_POLICIES)
_PATIENCE_SECONDS: Final = 15.0

Feed = tuple[Callable[[bytes | msgspec.Raw], Any], Callable[[str, Any, Any], None]]
"""How an object of a kind is read, and what takes it: by its key, as it was and as it is."""


def feeds(fleet: Fleet) -> dict[ResourceType, Feed]:
    """Of each kind that a size depends on."""

    def put_autoscaler(key: str, _: Autoscaler | None, new: Autoscaler | None) -> None:
        fleet.put_advice(key, target_of(new), None if new is None else advice_of(new))

    def put_policy(key: str, _: ElasticPolicy | None, new: ElasticPolicy | None) -> None:
        fleet.put_policy(key, new)

    def put_owned(_: str, old: Owned | None, new: Owned | None) -> None:
        fleet.put_owned(old, new)

    def put_limit_range(key: str, _: LimitRange | None, new: LimitRange | None) -> None:
        fleet.put_limit_range(key, new)

    def put_node(key: str, _: Node | None, new: Node | None) -> None:
        fleet.put_node(key if new is None else new.name, new)

    def put_quota(key: str, _: Quota | None, new: Quota | None) -> None:
        fleet.put_quota(key, new)

    return {
        AUTOSCALERS: (decode_autoscaler, put_autoscaler),
        NODES: (decode_node, put_node),
        ELASTIC_POLICIES: (decode_policy, put_policy),
        LIMIT_RANGES: (decode_limit_range, put_limit_range),
        RESOURCE_QUOTAS: (decode_quota, put_quota),
        **{one: (metadata_decoder(one.kind), put_owned) for one in _CONTROLLERS},
    }


class Watching:
    """Feeds a fleet without pods."""

    def __init__(self, connection: Connection, clock: Clock, fleet: Fleet) -> None:
        self._clock = clock
        self._started_at: float | None = None
        self._needs_nodes = asyncio.Event()

        def reflector(resource: ResourceType, feed: Feed) -> Reflector[Any]:
            decode, put = feed

            def changed(key: str, old: Any, new: Any) -> None:
                put(key, old, new)
                if fleet.needs_nodes:
                    self._needs_nodes.set()

            return Reflector(connection, resource, decode, clock, on_change=changed)

        self._all = {resource: reflector(resource, feed) for resource, feed in feeds(fleet).items()}
        self._nodes = self._all.pop(NODES)

    async def run(self) -> None:
        """Watch everything, for ever."""
        self._started_at = self._clock.monotonic()
        async with asyncio.TaskGroup() as group:
            for one in self._all.values():
                group.create_task(one.run())
            await self._needs_nodes.wait()
            await self._nodes.run()

    def knows_nodes(self) -> bool:
        """Whether the classes of nodes are known; they are not where nothing depends on them."""
        return self._nodes.synced

    def is_synced(self) -> bool:
        """Whether all is known that a size depends on."""
        if self._started_at is None:
            return False
        is_patient = self._clock.monotonic() - self._started_at < _PATIENCE_SECONDS
        needed = [one for resource, one in self._all.items() if is_patient or resource not in _OPTIONAL]
        if is_patient and self._needs_nodes.is_set():
            needed.append(self._nodes)
        return all(one.synced or not one.is_served for one in needed)
