"""Which node a pod runs on.

Owns the choice (room as the scheduler counts it, selectors, taints) and the binding. It makes no room by ending others.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from elastipod.backoff import Backoff
from elastipod.clock import Clock, to_rfc3339
from elastipod.fit import desired, node_room, pod_sum
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.errors import Conflict, KubeError, NotFound
from elastipod.kube.reflector import Reflector
from elastipod.kube.resources import NODES, PODS
from elastipod.kube.rows import decode_node, decode_pod
from elastipod.localcluster.node.recorder import Recorder, Subject
from elastipod.pods import Node, Pod, Taint, Toleration
from elastipod.quantities import Resources
from elastipod.telemetry import get_logger

log = get_logger(__name__)

_AGAIN: Final = Backoff(first_seconds=1.0, most_seconds=30.0)
_PERIODIC_SECONDS: Final = 60.0


class Room:
    """What is free on each node, less what was placed since."""

    def __init__(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        by_node: dict[str, list[Pod]] = {}
        for pod in pods:
            if pod.node_name and not pod.is_terminal:
                by_node.setdefault(pod.node_name, []).append(pod)
        self.nodes = sorted(nodes, key=lambda node: node.name)
        self.free = {node.name: node_room(node, by_node.get(node.name, ())).free_for_scheduler for node in self.nodes}
        self.slots = {node.name: node.allocatable_pods - len(by_node.get(node.name, ())) for node in self.nodes}

    def place(self, pod: Pod) -> str | None:
        """The node with most room that can take the pod; it is counted there from now on."""
        asked = pod_sum(pod, desired)
        fitting = [node for node in self.nodes if not self._objection(node, pod, asked)]
        if not fitting:
            return None
        best = min(fitting, key=lambda node: (-self._left(node, asked), node.name))
        self.free[best.name] -= asked
        self.slots[best.name] -= 1
        return best.name

    def explain(self, pod: Pod) -> str:
        """Why no node takes the pod, in the scheduler's words."""
        asked = pod_sum(pod, desired)
        counted: dict[str, int] = {}
        for node in self.nodes:
            reason = self._objection(node, pod, asked)
            counted[reason] = counted.get(reason, 0) + 1
        told = ", ".join(f"{number} {reason}" for reason, number in sorted(counted.items()))
        return f"0/{len(self.nodes)} nodes are available: {told}." if told else "no nodes available to schedule pods"

    def _objection(self, node: Node, pod: Pod, asked: Resources) -> str:
        """What is against it; empty where nothing is."""
        free = self.free[node.name]
        taint = _untolerated(node, pod)
        objections = (
            (node.is_unschedulable, "node(s) were unschedulable"),
            (not node.is_ready, "node(s) were not ready"),
            (
                any(node.labels.get(key) != value for key, value in pod.node_selector.items()),
                "node(s) didn't match Pod's node affinity/selector",
            ),
            (taint is not None, f"node(s) had untolerated taint {{{taint}}}"),
            (self.slots[node.name] <= 0, "Too many pods"),
            (0 < asked.cpu > free.cpu, "Insufficient cpu"),
            (0 < asked.memory > free.memory, "Insufficient memory"),
        )
        return next((text for holds, text in objections if holds), "")

    def _left(self, node: Node, asked: Resources) -> float:
        left = self.free[node.name] - asked
        return left.cpu / max(node.allocatable.cpu, 1) + left.memory / max(node.allocatable.memory, 1)


class Scheduler:
    """Binds pods that have no node. `run()` for ever, or `step()` by step."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self.wake = asyncio.Event()
        self._connection = connection
        self._clock = clock
        self._recorder = Recorder(connection, clock, "default-scheduler")
        self._bound: dict[str, str] = {}
        """By pod UID, what was bound and is not seen yet."""
        self._told: dict[str, str] = {}
        self._pods = Reflector(connection, PODS, decode_pod, clock, on_change=self._on_pod)
        self._nodes = Reflector(connection, NODES, decode_node, clock, on_change=self._on_node)

    async def run(self) -> None:
        """Place pods for ever: when something changes, and every minute."""
        watches = [asyncio.create_task(one.run()) for one in (self._pods, self._nodes)]
        failures = 0
        try:
            while True:
                self.wake.clear()
                failures = 0 if await self.step() else failures + 1
                delay = _AGAIN.delay_seconds(failures) if failures else _PERIODIC_SECONDS
                await wait_for_wake(self.wake, self._clock, delay)
        finally:
            for task in watches:
                task.cancel()
            await asyncio.gather(*watches, return_exceptions=True)

    def _waits(self, pod: Pod) -> bool:
        return not pod.node_name and pod.uid not in self._bound and not pod.is_terminal and pod.deletion_at is None

    async def step(self) -> bool:
        """Place all that can be placed; False when the API failed and it is to be tried again."""
        if not (self._pods.synced and self._nodes.synced):
            return True
        if not any(self._waits(pod) for pod in self._pods.items.values()):
            return True
        pods = [
            msgspec.structs.replace(pod, node_name=self._bound[pod.uid])
            if not pod.node_name and pod.uid in self._bound
            else pod
            for pod in self._pods.items.values()
        ]
        waiting = [pod for pod in pods if self._waits(pod)]
        room = Room(self._nodes.items.values(), pods)
        well = True
        for pod in sorted(waiting, key=lambda one: (-one.priority, one.created_at, one.key)):
            node = room.place(pod)
            try:
                if node is None:
                    await self._refuse(pod, room.explain(pod))
                else:
                    await self._bind(pod, node)
            except KubeError as error:
                well = False
                log.warning("pod not placed", pod=pod.key, error=str(error))
        return well

    async def _bind(self, pod: Pod, node: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._connection.create(
                PODS, pod.namespace, msgspec.json.encode(body), name=pod.name, subresource="binding"
            )
        except (NotFound, Conflict):
            # Gone, or bound already by a request whose answer was lost: the watch tells which.
            return
        self._bound[pod.uid] = node
        self._told.pop(pod.uid, None)
        text = f"Successfully assigned {pod.key} to {node}"
        await self._recorder.normal(_subject(pod), "Scheduled", text)

    async def _refuse(self, pod: Pod, why: str) -> None:
        if self._told.get(pod.uid) == why:
            return
        condition: dict[str, Any] = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": why,
            "lastProbeTime": None,
            "lastTransitionTime": to_rfc3339(self._clock.now()),
        }
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        await self._connection.patch(
            PODS,
            pod.namespace,
            pod.name,
            msgspec.json.encode(body),
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )
        self._told[pod.uid] = why
        await self._recorder.warning(_subject(pod), "FailedScheduling", why)

    def _on_pod(self, _key: str, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is not None and (pod.node_name or new is None):
                self._bound.pop(pod.uid, None)
        if new is None and old is not None:
            self._told.pop(old.uid, None)
        self.wake.set()

    def _on_node(self, _key: str, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or _without_version(old) != _without_version(new):
            self.wake.set()


async def wait_for_wake(wake: asyncio.Event, clock: Clock, seconds: float) -> None:
    """Return when woken, or after so many seconds."""
    woken = asyncio.create_task(wake.wait())
    slept = asyncio.create_task(_sleep(clock, seconds))
    try:
        await asyncio.wait((woken, slept), return_when=asyncio.FIRST_COMPLETED)
    finally:
        woken.cancel()
        slept.cancel()
        await asyncio.gather(woken, slept, return_exceptions=True)


async def _sleep(clock: Clock, seconds: float) -> None:
    await clock.sleep(seconds)


def _without_version(node: Node) -> Node:
    return msgspec.structs.replace(node, resource_version="")


def _untolerated(node: Node, pod: Pod) -> str | None:
    for taint in node.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not _is_tolerated(taint, pod.tolerations):
            return f"{taint.key}: {taint.value}"
    return None


def _is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(
        (not one.effect or one.effect == taint.effect)
        and (one.key == taint.key or (not one.key and one.operator == "Exists"))
        and (one.operator == "Exists" or one.value == taint.value)
        for one in tolerations
    )


def _subject(pod: Pod) -> Subject:
    return Subject("Pod", pod.namespace, pod.name, pod.uid)
