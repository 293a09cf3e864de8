"""A real kubelet with containerd, in a real cluster that is there for the whole run.

Owns what one test leaves to the next: nothing of it, and a kubelet that runs.
"""

import threading
from typing import Any, Final

import pytest

from actuator.nodehands import NodeHands
from elastipod.clock import SystemClock
from tests.contract_node.nodes import EVENTS, JOBS, METRICS, Json, KernelNode
from tests.kubernetes.binaries import why_missing
from tests.kubernetes.cluster import NODE, Cluster
from tests.localcluster.served import PODS

_CLOCK: Final = SystemClock()
_LOOK_SECONDS: Final = 0.1


class RealNode(KernelNode):
    """The node of a `Cluster`."""

    name = NODE
    patience_seconds = 240.0
    beyond = "Deferred"
    restarts_when_killed = (1, 2)
    notice_seconds = 20.0

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.hands = NodeHands(parent=cluster.control_plane.folder.name)
        self._runs = True

    def call(self, method: str, path: str, body: Any = None, content_type: str = "", **query: str) -> tuple[int, Json]:
        return self._cluster.calls.call(method, path, body, content_type, **query)

    def pause(self) -> None:
        threading.Event().wait(_LOOK_SECONDS)

    def now(self) -> float:
        return _CLOCK.now()

    def kill_kubelet(self) -> None:
        self._cluster.kill_kubelet()
        self._runs = False

    def start_kubelet(self) -> None:
        self._cluster.start_kubelet()
        self._runs = True

    def start_metrics(self) -> None:
        if why := why_missing("metrics-server"):
            pytest.skip(f"cluster: {why}")
        if self.call("GET", METRICS)[0] == 404:
            self._cluster.start_metrics()
            self.until(lambda: self.call("GET", METRICS)[0], lambda code: code == 200, "metrics.k8s.io is served")

    def clean(self) -> None:
        """Leave nothing of a test."""
        if not self._runs:
            self.start_kubelet()
        for path in (JOBS, PODS):
            self.call("DELETE", path, {"propagationPolicy": "Background"})
        self.until(lambda: self.done("GET", PODS)["items"], lambda left: not left, "all pods are gone")
        self.until(self._groups, lambda left: not left, "all their cgroups are gone")
        self.call("DELETE", EVENTS)

    def _groups(self) -> list[str]:
        levels = ("kubepods", "kubepods/burstable", "kubepods/besteffort")
        return [name for level in levels for name in self.hands.children(level) if name.startswith("pod")]
