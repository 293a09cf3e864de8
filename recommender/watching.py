"""What the recommender watches of the cluster, and what changed since it last looked.

Owns the reflectors and the queues between their callbacks and the next run. Decides nothing.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, TypeVar

from elastipod.api import ElasticPolicy
from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.kube.disruptions import DisruptionLimit, decode_disruption_limit
from elastipod.kube.podrows import decode_pod
from elastipod.kube.reflector import Reflector
from elastipod.kube.resources import (
    AUTOSCALERS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    ELASTIC_POLICIES,
    HORIZONTAL_POD_AUTOSCALERS,
    JOBS,
    LIMIT_RANGES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    ResourceType,
)
from elastipod.kube.rows import decode_limit_range, decode_node, decode_policy, decode_quota, metadata_decoder
from elastipod.limits import LimitRange, Quota
from elastipod.owners import Owned
from elastipod.pods import Node, Pod, Workload
from elastipod.quantities import NOTHING, Resources
from recommender.capping import Hold
from recommender.claims import Claim, claim_decoder
from recommender.oomkills import shows_new_kill
from recommender.scaling import Scaler, decode_scaler, holds
from recommender.settings import RecommenderSettings

T = TypeVar("T")

_OWNERS: Final = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS, CRON_JOBS)
_CHAIN: Final = (REPLICA_SETS, JOBS)
"""Owners that have owners: without them a pod's workload is not known."""
_PATIENCE_SECONDS: Final = 30.0
"""How long the first run waits for what only caps a recommendation; a right for it may be missing."""


class Watches:
    """The cluster as the recommender sees it."""

    def __init__(
        self, connection: Connection, clock: Clock, settings: RecommenderSettings, wake: asyncio.Event
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._namespace = settings.namespace or None
        self._wake = wake
        self._started_at = clock.monotonic()
        self.pods: dict[str, Pod | None] = {}
        """Pods that changed, as they are now; None where gone. The reader takes these and the following away."""
        self.kills: list[tuple[Pod | None, Pod]] = []
        """Changes that tell of an OOM kill: the pod before and after."""
        self.owners: list[tuple[Owned | None, Owned | None]] = []
        self.claims: dict[str, Claim | None] = {}
        self.urgent: set[str] = set()
        """Claims that somebody changed."""
        self.namespaces: set[str] = set()
        """Namespaces whose LimitRanges or quotas changed."""
        self.policies: set[str] = set()
        """Namespaces whose ElasticPolicies changed."""
        self.nodes_changed = False
        self.scalers_changed = False
        self._pods = self._reflector(PODS, decode_pod, self._on_pod)
        self._claims = self._reflector(AUTOSCALERS, claim_decoder(settings.recommender_names), self._on_claim)
        self._limit_ranges = self._reflector(LIMIT_RANGES, decode_limit_range, self._on_limits)
        self._quotas = self._reflector(RESOURCE_QUOTAS, decode_quota, self._on_limits)
        self._scalers = self._reflector(HORIZONTAL_POD_AUTOSCALERS, decode_scaler, self._on_scaler)
        self._nodes = self._reflector(NODES, decode_node, self._on_node)
        self._budgets = self._reflector(POD_DISRUPTION_BUDGETS, decode_disruption_limit, lambda _key, _old, _new: None)
        self._policies = self._reflector(ELASTIC_POLICIES, decode_policy, self._on_policy)
        self._caps: tuple[Reflector[Any], ...] = (self._limit_ranges, self._quotas, self._scalers, self._nodes)
        self._owners = {one: self._reflector(one, metadata_decoder(one.kind), self._on_owned) for one in _OWNERS}

    async def run(self) -> None:
        """Keep fresh, for ever; wake the reader when the first lists are in."""
        reflectors: list[Reflector[Any]] = [
            self._pods,
            self._claims,
            *self._caps,
            self._policies,
            self._budgets,
            *self._owners.values(),
        ]
        await asyncio.gather(*(reflector.run() for reflector in reflectors), self._wake_when_synced())

    @property
    def is_synced(self) -> bool:
        """Whether enough is known to recommend anything."""
        needed = self._pods.synced and self._claims.synced and all(self._owners[one].synced for one in _CHAIN)
        caps_known = all(one.synced for one in self._caps)
        caps_known &= self._policies.synced or not self._policies.is_served
        return needed and (caps_known or self._clock.monotonic() - self._started_at > _PATIENCE_SECONDS)

    def limit_ranges(self, namespaces: Collection[str]) -> dict[str, tuple[LimitRange, ...]]:
        """The LimitRanges of each of these namespaces."""
        return _of_each(namespaces, self._limit_ranges.items.values(), lambda one: one.namespace)

    def quotas(self, namespaces: Collection[str]) -> dict[str, tuple[Quota, ...]]:
        """The ResourceQuotas of each of these namespaces."""
        return _of_each(namespaces, self._quotas.items.values(), lambda one: one.namespace)

    def policies_of(self, namespaces: Collection[str]) -> dict[str, tuple[ElasticPolicy, ...]]:
        """The ElasticPolicies of each of these namespaces."""
        return _of_each(namespaces, self._policies.items.values(), lambda one: one.metadata.namespace)

    def holds(self) -> dict[Workload, tuple[Hold, ...]]:
        """What is left alone for HorizontalPodAutoscalers, by what they scale."""
        found: dict[Workload, list[Scaler]] = {}
        for scaler in self._scalers.items.values():
            found.setdefault(scaler.target, []).append(scaler)
        return {workload: holds(scalers) for workload, scalers in found.items()}

    def nodes(self) -> dict[str, Node]:
        """All nodes, by name."""
        return dict(self._nodes.items)

    def disruption_limits(self) -> tuple[DisruptionLimit, ...] | None:
        """All PodDisruptionBudgets; None where they can not be known."""
        return tuple(self._budgets.items.values()) if self._budgets.synced else None

    def largest_node(self) -> Resources:
        """The most that any node has, per resource."""
        largest = NOTHING
        for node in self._nodes.items.values():
            largest = largest.largest(node.allocatable)
        return largest

    async def _wake_when_synced(self) -> None:
        while not self.is_synced:
            await self._clock.sleep(0.1)
        self._wake.set()

    def _reflector(
        self,
        resource: ResourceType,
        decode: Callable[[Any], T],
        on_change: Callable[[str, T | None, T | None], None],
    ) -> Reflector[T]:
        namespace = self._namespace if resource.namespaced else None
        return Reflector(self._connection, resource, decode, self._clock, namespace=namespace, on_change=on_change)

    def _on_pod(self, key: str, old: Pod | None, new: Pod | None) -> None:
        self.pods[key] = new
        if new is not None and shows_new_kill(old, new):
            self.kills.append((old, new))
            self._wake.set()

    def _on_claim(self, key: str, old: Claim | None, new: Claim | None) -> None:
        self.claims[key] = new
        # What changes in a status alone is mostly our own writing.
        if old is None or new is None or (old.uid, old.generation) != (new.uid, new.generation):
            self.urgent.add(key)
            self._wake.set()

    def _on_owned(self, _: str, old: Owned | None, new: Owned | None) -> None:
        self.owners.append((old, new))

    def _on_limits(self, _: str, old: LimitRange | Quota | None, new: LimitRange | Quota | None) -> None:
        if old != new:
            self.namespaces.update(one.namespace for one in (old, new) if one is not None)

    def _on_policy(self, _: str, old: ElasticPolicy | None, new: ElasticPolicy | None) -> None:
        self.policies.update(one.metadata.namespace for one in (old, new) if one is not None)

    def _on_scaler(self, _: str, old: Scaler | None, new: Scaler | None) -> None:
        if old != new:
            self.scalers_changed = True

    def _on_node(self, _: str, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or old.allocatable != new.allocatable:
            self.nodes_changed = True


def _of_each(
    namespaces: Collection[str], items: Iterable[T], namespace_of: Callable[[T], str]
) -> dict[str, tuple[T, ...]]:
    found: dict[str, list[T]] = {one: [] for one in namespaces}
    for item in items:
        if (namespace := namespace_of(item)) in found:
            found[namespace].append(item)
    return {namespace: tuple(those) for namespace, those in found.items()}
