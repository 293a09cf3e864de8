"""The truth about a simulated cluster, for those who judge a run.

Owns reading it from the store, the nodes, their runtimes and what they stored; and metrics.k8s.io, which can be made to
fail.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from elastipod.clock import Clock
from elastipod.kube.podrows import decode_pod
from elastipod.localcluster.api.kinds import POD
from elastipod.localcluster.api.store import Store
from elastipod.localcluster.node.checkpoint import MemoryCheckpoint
from elastipod.localcluster.node.hands import GroupLimits
from elastipod.localcluster.node.node import LocalNode
from elastipod.localcluster.node.registration import NodeSettings
from elastipod.localcluster.node.simulated import SimulatedRuntime
from elastipod.localcluster.node.sizes import Size
from elastipod.localcluster.simulation.invariants import Hold, NodeTruth
from elastipod.localcluster.simulation.meterfaults import Meter
from elastipod.pods import Container, ResizeProgress

Json = dict[str, Any]


@dataclass(slots=True)
class Home:
    """A node of the cluster: its kubelet in this life, and what outlives it."""

    settings: NodeSettings
    runtime: SimulatedRuntime
    checkpoint: MemoryCheckpoint
    node: LocalNode


class Truth:
    """What is so, whatever anyone believes."""

    def __init__(self, store: Store, clock: Clock, meter: Meter) -> None:
        self.store = store
        self.homes: list[Home] = []
        self._meter = meter
        self._clock = clock

    def now(self) -> float:
        return self._clock.monotonic()

    def unix_now(self) -> float:
        return self._clock.now()

    def nodes(self, names: Collection[str]) -> Iterable[NodeTruth]:
        for home in self.homes:
            if home.settings.name in names:
                allocated = home.node.kubelet.allocated_sum()
                yield NodeTruth(home.settings.name, home.settings.allocatable, allocated, tuple(self._unstored(home)))

    def lowest_memory(self, pod_uid: str, container: str, seconds: float) -> int | None:
        for home in self.homes:
            pod = home.node.pods.get(pod_uid)
            track = pod.tracks.get(container) if pod is not None else None
            if track is not None:
                return home.runtime.lowest_memory(track.container_id, seconds)
        for home in self.homes:
            # A kubelet that was just started knows nothing yet.
            for spec, _ in home.runtime.in_force():
                if spec.sandbox.uid == pod_uid and spec.name == container:
                    return home.runtime.lowest_memory(spec.container_id, seconds)
        return None

    def holds(self) -> Iterable[Hold]:
        for home in self.homes:
            for container, since, ended_at in home.runtime.holds():
                offset = self._clock.now() - self._clock.monotonic()
                yield Hold(container, since - offset, None if ended_at is None else ended_at - offset)

    def metrics_lost_since(self, _namespace: str, /) -> float | None:
        return self._meter.lost_since

    def pod_metrics(self) -> Iterator[Json]:
        return self._meter.answer(one for home in self.homes for one in home.node.usage.pod_metrics())

    def node_metrics(self) -> Iterator[Json]:
        return self._meter.answer(one for home in self.homes for one in home.node.usage.node_metrics())

    def unsettled(self) -> Iterator[tuple[str, str]]:
        """Running containers whose spec is not what is in force, and how they differ.

        A resize that the node defers is settled: it waits for room, and that is shown.
        """
        for entry in self.store.of_kind(POD):
            pod = decode_pod(entry.raw)
            if not pod.is_running or pod.resize_progress is ResizeProgress.DEFERRED:
                continue
            for one in pod.sized_containers:
                if one.is_running and not _is_in_force(one):
                    told = f"wants {one.requests} {one.limits}, has {one.allocated} {one.actual_limits}"
                    yield f"{pod.key}/{one.name}", f"{pod.resize_progress}: {told}"

    def _unstored(self, home: Home) -> Iterator[str]:
        """Containers whose size in force is none that their node has stored; memory may have been raised beside it."""
        stored = home.checkpoint.saved
        for spec, limits in home.runtime.in_force():
            pod = spec.sandbox
            known = (sizes.get(pod.uid, {}).get(spec.name) for sizes in (stored.actuated, stored.allocated))
            if any(one is not None and _has_cpu_of(limits, one) for one in known):
                continue
            entry = self.store.get(POD, pod.namespace, pod.name)
            if entry is not None and entry.json["metadata"]["uid"] == pod.uid:
                yield f"{pod.namespace}/{pod.name}/{spec.name}"


def _has_cpu_of(limits: GroupLimits, size: Size) -> bool:
    return limits.cpu_request_millicores == size.requests.cpu_millicores and limits.cpu_limit_millicores == (
        size.limits.cpu_millicores or None
    )


def _is_in_force(container: Container) -> bool:
    limits = container.actual_limits
    return container.allocated is None or (
        container.allocated == container.requests and (limits is None or limits == container.limits)
    )
