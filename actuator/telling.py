"""What the actuator shows: Events on pods, the ElasticNode's status, metrics.

Owns their words and their rate. They are a courtesy: a failure to write one holds nothing up.
"""

from typing import Final

import msgspec

from actuator.spikewords import Tell
from elastipod.api import ElasticNodeStatus
from elastipod.clock import Clock, to_rfc3339
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.errors import Conflict, KubeError, NotFound
from elastipod.kube.events import EventWriter, Subject
from elastipod.kube.resources import ELASTIC_NODES
from elastipod.owners import workload_told_by
from elastipod.pods import Container, Pod
from elastipod.quantities import show_memory
from elastipod.reasons import Reason
from elastipod.telemetry import Metrics, get_logger

log = get_logger(__name__)

COMPONENT: Final = "elastipod-actuator"
HEARTBEAT_SECONDS: Final = 300.0
_SAME_EVENT_SECONDS: Final = 60.0
_GOOD: Final = (Reason.RAISED, Reason.HELD)
_RESULTS: Final = {
    Reason.RAISED: "raised",
    Reason.PAGE_CACHE: "cache",
    Reason.EXPIRED: "expired",
    Reason.HELD: "relaxed",
}
_DENIED: Final = "denied"
_MOST_SPIKED: Final = 500


class Numbers:
    """The actuator's metrics. Spikes are told by workload as well, as far as there are not too many on the node."""

    def __init__(self, metrics: Metrics) -> None:
        self._holds = metrics.counter("holds", "Memory spikes by what became of them", "result")
        for result in (*_RESULTS.values(), _DENIED):
            # What has not happened yet is 0, so that the first time shows as growth.
            self._holds.labels(result)
        self._of_workloads = metrics.workload_counter(
            "holds", "Memory spikes by workload and by what became of them", "result", most=_MOST_SPIKED
        )
        self._seconds = metrics.histogram(
            "hold_seconds",
            "Seconds from a spike's first event to its end",
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 6),
        )
        self._raises = metrics.counter("raises", "Memory limits raised in a spike")
        self._over = metrics.histogram(
            "over_high_bytes", "Bytes above the mark when it was noticed", buckets=(2**16, 2**20, 2**22, 2**24, 2**26)
        )
        self._restores = metrics.gauge("guard_restores", "Holds lifted by the guard since it started")
        self._watched = metrics.gauge("protected_containers", "Containers under protection")

    def spike(self, told: Tell, spiked: tuple[Pod, Container] | None) -> None:
        """What became of a spike; None for a container that is gone."""
        result = _RESULTS.get(told.reason, _DENIED)
        self._holds.labels(result).inc()
        if spiked is not None:
            pod, container = spiked
            self._of_workloads.count(workload_told_by(pod), container.name, result)
        if told.reason is not Reason.PAGE_CACHE:
            self._seconds.observe(told.seconds)
            self._over.observe(told.over_bytes)
        if told.reason is Reason.RAISED:
            self._raises.inc()

    def node(self, watched: int, restores: int) -> None:
        self._watched.set(watched)
        self._restores.set(restores)


class Teller:
    """Writes Events and the node's status."""

    def __init__(self, connection: Connection, clock: Clock, node: str) -> None:
        self._connection, self._clock, self._node = connection, clock, node
        self._events = EventWriter(connection, clock, COMPONENT, every_seconds=_SAME_EVENT_SECONDS, host=node)
        self._status: ElasticNodeStatus | None = None
        self._status_at = float("-inf")

    async def tell_spike(self, pod: Pod, container: str, told: Tell) -> None:
        """An Event, unless the same was said a short while ago. Page cache is no event worth one."""
        if told.reason is Reason.PAGE_CACHE:
            return
        limit = f"; its memory limit is {show_memory(told.limit_bytes)} now" if told.limit_bytes else ""
        text = f"container {container}: {told.reason.explanation}{limit} ({told.seconds * 1000:.1f} ms)"
        try:
            await self._events.write(
                Subject.of_pod(pod), told.reason, text, is_normal=told.reason in _GOOD, about=container
            )
        except KubeError as error:
            log.info("event not written", pod=pod.key, reason=told.reason.value, error=str(error))

    async def tell_node(self, status: ElasticNodeStatus) -> None:
        """The node's status, when it says something new or the last is old; what could not be written is next time."""
        now = self._clock.now()
        if status == self._status and now - self._status_at < HEARTBEAT_SECONDS:
            return
        try:
            await self._write(status, now)
        except KubeError as error:
            log.warning("node status not written", node=self._node, error=str(error))
            return
        self._status, self._status_at = status, now

    async def _write(self, status: ElasticNodeStatus, now: float) -> None:
        stamped = msgspec.structs.replace(status, last_heartbeat=to_rfc3339(now))
        # What is no longer said has to be taken away.
        fields = {"message": "", "allocated": None, "actual": None} | msgspec.to_builtins(stamped)
        body = msgspec.json.encode({"status": fields})
        try:
            await self._patch(body)
        except NotFound:
            fresh = {
                "apiVersion": ELASTIC_NODES.api_version,
                "kind": ELASTIC_NODES.kind,
                "metadata": {"name": self._node},
                "spec": {},
            }
            try:
                await self._connection.create(ELASTIC_NODES, None, msgspec.json.encode(fresh))
            except Conflict:
                log.info("elastic node exists already", node=self._node)
            await self._patch(body)

    async def _patch(self, body: bytes) -> None:
        await self._connection.patch(
            ELASTIC_NODES, None, self._node, body, patch_type=PatchType.MERGE, subresource="status"
        )
