"""The updater's view of the cluster, kept fresh.

Owns the reflectors and what each change means: which pods to decide about anew, and which events the attempts are told.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from elastipod.api import Autoscaler, ElasticPolicy, resources
from elastipod.clock import Clock
from elastipod.eligible import target_of
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
    JOBS,
    LIMIT_RANGES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
)
from elastipod.kube.rows import (
    decode_autoscaler,
    decode_limit_range,
    decode_node,
    decode_policy,
    decode_quota,
    metadata_decoder,
)
from elastipod.kube.shapes import RequirementsShape
from elastipod.limits import LimitRange, Quota
from elastipod.owners import Owned
from elastipod.pods import Node, Pod
from elastipod.quantities import QuantityError
from updater.attempt import Event, Gone, RoomFreed, RulesChanged, Seen
from updater.fleet import Controller, Fleet
from updater.sizes import Size, advice_of

_CONTROLLERS: Final = (REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS, CRON_JOBS)
# What a cluster may lack, or a namespace may forbid to read, is not waited for.
_OPTIONAL: Final = (DAEMON_SETS, CRON_JOBS, ELASTIC_POLICIES, POD_DISRUPTION_BUDGETS)


class Watching:
    """Feeds a fleet, and tells `handle` what happened to pods, nodes and rules; `wake` is called after each change."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        fleet: Fleet,
        handle: Callable[[Event], None],
        wake: Callable[[], None],
    ) -> None:
        self._fleet = fleet
        self._handle = handle
        self._clock = clock
        self._started_at: float | None = None

        def reflector(resource: Any, decode: Any, on_change: Any) -> Reflector[Any]:
            def changed(key: str, old: Any, new: Any) -> None:
                on_change(key, old, new)
                wake()

            return Reflector(connection, resource, decode, clock, on_change=changed)

        self._pods = reflector(PODS, decode_pod, self.pod_changed)
        self._nodes = reflector(NODES, decode_node, self.node_changed)
        self._all = {
            NODES: self._nodes,
            PODS: self._pods,
            AUTOSCALERS: reflector(AUTOSCALERS, decode_autoscaler, self.autoscaler_changed),
            LIMIT_RANGES: reflector(LIMIT_RANGES, decode_limit_range, self.limit_range_changed),
            RESOURCE_QUOTAS: reflector(RESOURCE_QUOTAS, decode_quota, self.quota_changed),
            POD_DISRUPTION_BUDGETS: reflector(POD_DISRUPTION_BUDGETS, decode_disruption_limit, self.budget_changed),
            ELASTIC_POLICIES: reflector(ELASTIC_POLICIES, decode_policy, self.policy_changed),
        }
        for resource in _CONTROLLERS:
            self._all[resource] = reflector(resource, controller_decoder(resource.kind), self.owned_changed)

    async def run(self) -> None:
        """Watch everything, for ever."""
        self._started_at = self._clock.monotonic()
        async with asyncio.TaskGroup() as group:
            for one in self._all.values():
                group.create_task(one.run())

    def is_ready(self, patience_seconds: float = 15.0) -> bool:
        """Whether enough is known to act: all kinds, or after a while at least pods and nodes.

        A rule that is not known yet is one that the API server still holds us to.
        """
        if not (self._pods.synced and self._nodes.synced):
            return False
        if all(one.synced for resource, one in self._all.items() if resource not in _OPTIONAL):
            return True
        return self._started_at is not None and self._clock.monotonic() - self._started_at >= patience_seconds

    def age_seconds(self) -> float:
        """How old the oldest of what matters most is."""
        return max(self._pods.age_seconds(), self._nodes.age_seconds())

    async def refresh_pod(self, key: str) -> None:
        """Read a pod anew. Raises KubeError."""
        await self._pods.refresh(key)

    def pod_changed(self, key: str, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._handle(Gone(key, old.uid))
        freed = self._fleet.put_pod(key, new)
        if new is not None:
            self._handle(Gone(key, new.uid) if new.is_terminal else Seen(new))
        if freed:
            self._handle(RoomFreed(freed, by=key))

    def node_changed(self, name: str, _: Node | None, new: Node | None) -> None:
        if self._fleet.put_node(name, new):
            self._handle(RoomFreed(name, node_grew=True))

    def autoscaler_changed(self, key: str, _: Autoscaler | None, new: Autoscaler | None) -> None:
        self._fleet.put_advice(key, target_of(new), None if new is None else advice_of(new))

    def owned_changed(self, _: str, old: Owned | None, new: Owned | None) -> None:
        self._fleet.put_owned(old, new)

    def limit_range_changed(self, key: str, _: LimitRange | None, new: LimitRange | None) -> None:
        self._handle(RulesChanged(self._fleet.put_limit_range(key, new)))

    def quota_changed(self, key: str, old: Quota | None, new: Quota | None) -> None:
        namespace = self._fleet.put_quota(key, new)
        if _has_more(old, new):
            self._handle(RulesChanged(namespace))

    def budget_changed(self, key: str, _: DisruptionLimit | None, new: DisruptionLimit | None) -> None:
        self._handle(RulesChanged(self._fleet.put_budget(key, new)))

    def policy_changed(self, key: str, _: ElasticPolicy | None, new: ElasticPolicy | None) -> None:
        self._fleet.put_policy(key, new)


class _ContainerShape(Struct, frozen=True, gc=False):
    name: str = ""
    resources: RequirementsShape | None = None


class _PodSpecShape(Struct, frozen=True, gc=False):
    containers: tuple[_ContainerShape, ...] = ()


class _TemplateShape(Struct, frozen=True, gc=False):
    spec: _PodSpecShape | None = None


class _SpecShape(Struct, frozen=True, gc=False):
    template: _TemplateShape | None = None


class _ControllerShape(Struct, frozen=True, gc=False):
    spec: _SpecShape | None = None


_controllers: Final = msgspec.json.Decoder(_ControllerShape)


def controller_decoder(kind: str) -> Callable[[bytes | msgspec.Raw], Controller]:
    """A decoder of controllers of one kind; a template that can not be read counts as none."""
    decode_owned = metadata_decoder(kind)

    def decode(raw: bytes | msgspec.Raw) -> Controller:
        return Controller(**msgspec.structs.asdict(decode_owned(raw)), template=_template(raw))

    return decode


def _template(raw: bytes | msgspec.Raw) -> dict[str, Size]:
    try:
        spec = _controllers.decode(raw).spec
        pod = spec.template.spec if spec is not None and spec.template is not None else None
        return {
            one.name: Size(resources(one.resources.requests), resources(one.resources.limits))
            for one in (pod.containers if pod is not None else ())
            if one.resources is not None
        }
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, QuantityError):
        return {}


def _has_more(old: Quota | None, new: Quota | None) -> bool:
    """Whether a quota leaves more of something than before."""
    if old is None or new is None:
        return True
    return any(
        new.hard.get(key, amount) > amount or new.used.get(key, 0) < old.used.get(key, 0)
        for key, amount in old.hard.items()
    )
