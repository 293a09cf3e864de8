"""The truth about a simulated cluster, for those who judge a run.

Owns reading it from the store, the nodes and their runtimes; and metrics.k8s.io, which can be made to fail.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from elastipod.clock import Clock
from elastipod.kube.rows import decode_pod
from elastipod.localcluster.failures import ApiFailure
from elastipod.localcluster.invariants import Hold, NodeTruth
from elastipod.localcluster.kinds import POD
from elastipod.localcluster.node import LocalNode
from elastipod.localcluster.simulated import SimulatedRuntime
from elastipod.localcluster.store import Store
from elastipod.pods import Container, ResizeProgress
from elastipod.quantities import Resources

Json = dict[str, Any]
_UNAVAILABLE: Final = 503


class Truth:
    """What is so, whatever anyone believes."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.lost_since: float | None = None
        """Since when metrics.k8s.io fails."""
        self._clock = clock
        self._nodes: list[tuple[LocalNode, SimulatedRuntime]] = []

    def add(self, node: LocalNode, runtime: SimulatedRuntime) -> None:
        """A node of the cluster."""
        self._nodes.append((node, runtime))

    @property
    def local_nodes(self) -> list[LocalNode]:
        return [node for node, _ in self._nodes]

    def runtime_of(self, node: LocalNode | None) -> SimulatedRuntime | None:
        return next((runtime for one, runtime in self._nodes if one is node), None)

    def now(self) -> float:
        return self._clock.monotonic()

    def unix_now(self) -> float:
        return self._clock.now()

    def nodes(self, names: Collection[str]) -> Iterable[NodeTruth]:
        for node, _ in self._nodes:
            if node.settings.name in names:
                yield NodeTruth(node.settings.name, node.settings.allocatable, node.kubelet.allocated_sum())

    def lowest_memory(self, pod_uid: str, container: str, seconds: float) -> int | None:
        for node, runtime in self._nodes:
            pod = node.pods.get(pod_uid)
            track = pod.tracks.get(container) if pod is not None else None
            if track is not None:
                return runtime.lowest_memory(track.container_id, seconds)
        return None

    def holds(self) -> Iterable[Hold]:
        for _, runtime in self._nodes:
            for container, since, ended_at in runtime.holds():
                offset = self._clock.now() - self._clock.monotonic()
                yield Hold(container, since - offset, None if ended_at is None else ended_at - offset)

    def metrics_lost_since(self, _namespace: str, /) -> float | None:
        return self.lost_since

    def pod_metrics(self) -> Iterator[Json]:
        self._answer_or_fail()
        for node, _ in self._nodes:
            yield from node.usage.pod_metrics()

    def node_metrics(self) -> Iterator[Json]:
        self._answer_or_fail()
        for node, _ in self._nodes:
            yield from node.usage.node_metrics()

    def end_state(self) -> dict[str, Any]:
        """Sizes by workload: how many pods of each size there are, whatever they are called."""
        found: dict[str, Any] = {}
        for entry in self.store.of_kind(POD):
            pod = decode_pod(entry.raw)
            owner = pod.owner.name.rpartition("-")[0] if pod.owner is not None else pod.name
            for container in pod.sized_containers:
                sizes = found.setdefault(f"{pod.namespace}/{owner}/{container.name}/{pod.phase}", [])
                sizes.append([_shown(container.requests), _shown(container.limits)])
        return {key: sorted(sizes) for key, sizes in sorted(found.items())}

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

    def _answer_or_fail(self) -> None:
        if self.lost_since is not None:
            raise ApiFailure(_UNAVAILABLE, "the metrics server does not answer")


def _is_in_force(container: Container) -> bool:
    limits = container.actual_limits
    return container.allocated is None or (
        container.allocated == container.requests
        and (limits is None or limits.memory_bytes == container.limits.memory_bytes)
    )


def _shown(amount: Resources) -> list[int]:
    return [amount.cpu, amount.memory]
