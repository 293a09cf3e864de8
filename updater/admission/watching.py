"""What the webhook knows of the cluster, kept fresh: autoscalers, owners of pods, LimitRanges and quotas.

Owns the reflectors. No pods: each is asked about with all that counts.
"""

import asyncio
from typing import Any, Final

from elastipod.api import Autoscaler
from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.kube.reflector import Reflector
from elastipod.kube.resources import (
    AUTOSCALERS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    LIMIT_RANGES,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
)
from elastipod.kube.rows import decode_limit_range, decode_quota, metadata_decoder
from elastipod.limits import LimitRange, Quota
from elastipod.owners import Owned
from updater.fleet import Fleet
from updater.sizes import advice_of
from updater.watching import msgspec_decoder, target_of

_CONTROLLERS: Final = (REPLICA_SETS, DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS, CRON_JOBS)
CONTROLLER_KINDS: Final = frozenset(one.kind for one in _CONTROLLERS)
# What a cluster may lack is not waited for long.
_OPTIONAL: Final = (DAEMON_SETS, CRON_JOBS)
_PATIENCE_SECONDS: Final = 15.0


class Watching:
    """Feeds a fleet without pods."""

    def __init__(self, connection: Connection, clock: Clock, fleet: Fleet) -> None:
        self._clock = clock
        self._fleet = fleet
        self._started_at: float | None = None

        def reflector(resource: Any, decode: Any, on_change: Any) -> Reflector[Any]:
            return Reflector(connection, resource, decode, clock, on_change=on_change)

        self._all = {
            AUTOSCALERS: reflector(AUTOSCALERS, msgspec_decoder(Autoscaler), self._autoscaler_changed),
            LIMIT_RANGES: reflector(LIMIT_RANGES, decode_limit_range, self._limit_range_changed),
            RESOURCE_QUOTAS: reflector(RESOURCE_QUOTAS, decode_quota, self._quota_changed),
        }
        for resource in _CONTROLLERS:
            self._all[resource] = reflector(resource, metadata_decoder(resource.kind), self._owned_changed)

    async def run(self) -> None:
        """Watch everything, for ever."""
        self._started_at = self._clock.monotonic()
        async with asyncio.TaskGroup() as group:
            for one in self._all.values():
                group.create_task(one.run())

    def is_synced(self) -> bool:
        """Whether all is known that a size depends on."""
        if self._started_at is None:
            return False
        is_patient = self._clock.monotonic() - self._started_at < _PATIENCE_SECONDS
        needed = [one for resource, one in self._all.items() if is_patient or resource not in _OPTIONAL]
        return all(one.synced or not one.is_served for one in needed)

    def _autoscaler_changed(self, key: str, _: Autoscaler | None, new: Autoscaler | None) -> None:
        self._fleet.put_advice(key, target_of(new), None if new is None else advice_of(new))

    def _owned_changed(self, _: str, old: Owned | None, new: Owned | None) -> None:
        self._fleet.put_owned(old, new)

    def _limit_range_changed(self, key: str, _: LimitRange | None, new: LimitRange | None) -> None:
        self._fleet.put_limit_range(key, new)

    def _quota_changed(self, key: str, _: Quota | None, new: Quota | None) -> None:
        self._fleet.put_quota(key, new)
