"""Where the containers of living pods stand in the history, and what they ask, may use and since when they run.

Owns the way from a sample's names to a place in the history, and one row of figures for each container of a workload.
"""

import math
from collections.abc import Iterable

import numpy as np

from elastipod.api import BOOST_ANNOTATION
from elastipod.pods import Container, ContainerKey, Pod, Workload
from recommender.histogram import Floats
from recommender.history import History
from recommender.windows import InstanceKey


class Instances:
    """Places by namespace, pod and container."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._places: dict[tuple[str, str, str], int] = {}
        self._ended: dict[str, tuple[Pod, float | None]] = {}
        """Pods that ended and still have their places, as usage of their last minute may yet be told; and since when
        we know that they did, for a node's clock may be off."""
        self._requests = np.zeros((0, 4))
        self._limits = np.zeros((0, 2))
        self._live_since = np.zeros(0)

    def place(self, namespace: str, pod: str, container: str) -> int:
        """The instance of a sample; -1 where it is nobody's that is claimed."""
        return self._places.get((namespace, pod, container), -1)

    def all_places(self) -> dict[tuple[str, str, str], int]:
        """The instance of each container that is remembered, by namespace, pod and container."""
        return dict(self._places)

    def requests(self) -> Floats:
        """Per row: least and most cores, least and most bytes that living pods ask; NaN where none asks."""
        self._reserve(self._history.size)
        return self._requests[: self._history.size]

    def limits(self) -> Floats:
        """Per row: the limits in force in all its living pods, cores and bytes; NaN where none is, or they differ."""
        self._reserve(self._history.size)
        return self._limits[: self._history.size]

    def live_since(self) -> Floats:
        """Per row: since when one of its pods has been running; NaN where none is."""
        self._reserve(self._history.size)
        return self._live_since[: self._history.size]

    def put(self, pod: Pod, workload: Workload) -> None:
        """The containers of a pod count for a workload."""
        if pod.is_terminal:
            self._ended[pod.key] = pod, self._ended.get(pod.key, (pod, None))[1]
        for container in pod.sized_containers:
            row = self._history.ensure_row(ContainerKey(workload, container.name))
            if BOOST_ANNOTATION not in pod.annotations:
                self._history.see_requests(row, container.requests)
            place = self._history.ensure_instance(InstanceKey(pod.uid, container.name), row)
            self._places[pod.namespace, pod.name, container.name] = place

    def drop(self, pod: Pod) -> None:
        """Take nothing more for the containers of a pod."""
        self._ended.pop(pod.key, None)
        for container in pod.sized_containers:
            self._places.pop((pod.namespace, pod.name, container.name), None)
            self._history.forget_instance(InstanceKey(pod.uid, container.name))

    def let_go(self, now: float, after_seconds: float) -> None:
        """Take nothing more for pods that are known for so long to have ended."""
        for key, (pod, since) in list(self._ended.items()):
            if since is None:
                self._ended[key] = pod, now
            elif now - since > after_seconds:
                self.drop(pod)

    def measure(self, workload: Workload, pods: Iterable[Pod]) -> None:
        """Take down what the living ones of a workload's pods, of all of them, ask, may use and since when they run."""
        by_name: dict[str, list[tuple[Pod, Container]]] = {name: [] for name in self._history.containers(workload)}
        for pod in pods:
            for container in pod.sized_containers:
                by_name.setdefault(container.name, []).append((pod, container))
        for name, shown in by_name.items():
            row = self._history.row(ContainerKey(workload, name))
            if row is None:
                continue
            self._reserve(row + 1)
            living = [(pod, container) for pod, container in shown if not pod.is_terminal]
            cores = [one.requests.cpu_millicores / 1000 for _, one in living if one.requests.cpu_millicores is not None]
            amounts = [float(one.requests.memory_bytes) for _, one in living if one.requests.memory_bytes is not None]
            self._requests[row] = (*_ends(cores), *_ends(amounts))
            limits = [one.actual_limits or one.limits for _, one in living]
            self._limits[row] = (
                _common(one.cpu_millicores for one in limits) / 1000,
                _common(one.memory_bytes for one in limits),
            )
            # A node's clock may be off; none runs before its pod was made.
            running = [max(one.started_at or 0.0, pod.created_at) for pod, one in living if one.is_running]
            self._live_since[row] = min(running, default=math.nan)

    def _reserve(self, rows: int) -> None:
        if rows > len(self._live_since):
            more = max(rows, len(self._live_since) * 5 // 4 + 64) - len(self._live_since)
            self._requests = np.pad(self._requests, ((0, more), (0, 0)), constant_values=np.nan)
            self._limits = np.pad(self._limits, ((0, more), (0, 0)), constant_values=np.nan)
            self._live_since = np.pad(self._live_since, (0, more), constant_values=np.nan)


def _ends(amounts: Iterable[float]) -> tuple[float, float]:
    found = list(amounts)
    return (min(found), max(found)) if found else (math.nan, math.nan)


def _common(amounts: Iterable[int | None]) -> float:
    """The amount that all have; NaN where they differ, or have none."""
    found = set(amounts)
    amount = found.pop() if len(found) == 1 else None
    return math.nan if amount is None else float(amount)
