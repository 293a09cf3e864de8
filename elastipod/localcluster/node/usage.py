"""What the pods of a node use, as metrics.k8s.io tells it.

Owns the window over which CPU is averaged. What a container used so far is the runtime's matter.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from elastipod.clock import Clock, to_rfc3339
from elastipod.localcluster.node.localpod import LocalPod
from elastipod.localcluster.node.registration import NodeSettings
from elastipod.localcluster.node.runtime import Runtime

Json = dict[str, Any]

_SHORTEST_WINDOW: Final = 0.5


class Pods(Protocol):
    """Whose usage is meant."""

    settings: NodeSettings
    pods: dict[str, LocalPod]


@dataclass(frozen=True, slots=True)
class Sample:
    """A container's usage over a window that ends at `at`."""

    at: float
    window_seconds: float
    cpu_millicores: float
    working_set_bytes: int


class NodeUsage:
    """Samples usage and keeps the last of each container."""

    def __init__(self, node: Pods, runtime: Runtime, clock: Clock) -> None:
        self._node = node
        self._runtime = runtime
        self._clock = clock
        self._counters: dict[str, tuple[float, float]] = {}
        self._samples: dict[str, Sample] = {}
        self._told: dict[str, Json | None] = {}
        """By pod UID, what is told until the next sample; None where there is nothing to tell."""

    async def run(self) -> None:
        """Sample for ever."""
        while True:
            await self._clock.sleep(self._node.settings.usage_seconds)
            self.sample()

    def sample(self) -> None:
        """Read every running container once; one that was seen only once has no rate yet."""
        now = self._clock.now()
        counters: dict[str, tuple[float, float]] = {}
        samples: dict[str, Sample] = {}
        for pod in self._node.pods.values():
            for track in pod.tracks.values():
                if not track.is_running or (used := self._runtime.usage(track.container_id)) is None:
                    continue
                identity = track.container_id
                counters[identity] = (now, used.cpu_seconds)
                # A container that is new has been measured since it began.
                before, cpu_before = self._counters.get(identity, (track.started_at or now, 0.0))
                window = now - before
                if window >= _SHORTEST_WINDOW:
                    millicores = max(used.cpu_seconds - cpu_before, 0.0) * 1000 / window
                    samples[identity] = Sample(now, window, millicores, used.working_set_bytes)
                elif identity in self._samples:
                    samples[identity] = self._samples[identity]
                    counters[identity] = (before, cpu_before)
        self._counters, self._samples = counters, samples
        self._told.clear()

    def pod_metrics(self) -> Iterator[Json]:
        """PodMetrics of running pods."""
        for uid, pod in self._node.pods.items():
            if uid not in self._told:
                self._told[uid] = self._pod_metrics(pod)
            told = self._told[uid]
            if told is not None:
                yield told

    def note_end(self, pod_uid: str) -> None:
        """A container of the pod ended: what was told of the pod no longer holds."""
        self._told.pop(pod_uid, None)

    def node_metrics(self) -> Iterator[Json]:
        """NodeMetrics of this node: the sum of its pods."""
        now = self._clock.now()
        cpu = sum(one.cpu_millicores for one in self._samples.values())
        memory = sum(one.working_set_bytes for one in self._samples.values())
        total = Sample(now, self._node.settings.usage_seconds, cpu, memory)
        yield {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "NodeMetrics",
            "metadata": {"name": self._node.settings.name, "creationTimestamp": to_rfc3339(now)},
            "timestamp": to_rfc3339(now),
            "window": f"{total.window_seconds:.3f}s",
            "usage": _usage(total),
        }

    def _pod_metrics(self, pod: LocalPod) -> Json | None:
        found = {
            name: self._samples[track.container_id]
            for name, track in pod.tracks.items()
            if track.is_running and track.container_id in self._samples
        }
        if not found:
            return None
        newest = max(found.values(), key=lambda one: one.at)
        return {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "PodMetrics",
            "metadata": {
                "namespace": pod.row.namespace,
                "name": pod.row.name,
                "labels": dict(pod.row.labels),
                "creationTimestamp": to_rfc3339(newest.at),
            },
            "timestamp": to_rfc3339(newest.at),
            "window": f"{newest.window_seconds:.3f}s",
            "containers": [{"name": name, "usage": _usage(sample)} for name, sample in found.items()],
        }


def _usage(sample: Sample) -> Json:
    return {
        "cpu": f"{round(sample.cpu_millicores * 1_000_000)}n",
        "memory": f"{sample.working_set_bytes // 1024}Ki",
    }
