"""Which node a pod runs on.

Owns the order in which pods are placed, the binding, and telling why a pod has no place. Which node has room is
room.py's matter. It makes no room by ending others.
"""

import asyncio
from typing import Any, Final

import msgspec

from elastipod.backoff import Backoff
from elastipod.clock import Clock, to_rfc3339
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.errors import Conflict, KubeError, NotFound
from elastipod.kube.events import Subject
from elastipod.kube.podrows import decode_pod
from elastipod.kube.reflector import Reflector
from elastipod.kube.resources import NODES, PODS
from elastipod.kube.rows import decode_node
from elastipod.localcluster.node.recorder import Recorder
from elastipod.localcluster.room import Room
from elastipod.localcluster.waking import wait_for_wake
from elastipod.pods import Node, Pod
from elastipod.telemetry import get_logger

log = get_logger(__name__)

_AGAIN: Final = Backoff(first_seconds=1.0, most_seconds=30.0)
_PERIODIC_SECONDS: Final = 60.0


class Scheduler:
    """Binds pods that have no node. `run()` for ever, or `step()` by step."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self.wake = asyncio.Event()
        self._connection = connection
        self._clock = clock
        self._recorder = Recorder(connection, clock, "default-scheduler")
        self._room = Room()
        self._waiting: dict[str, Pod] = {}
        """By UID, the pods without a node."""
        self._bound: set[str] = set()
        """UIDs of pods that were bound and are not seen so yet."""
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

    async def step(self) -> bool:
        """Place all that can be placed; False when the API failed and it is to be tried again."""
        if not (self._pods.synced and self._nodes.synced):
            return True
        well = True
        for pod in sorted(self._waiting.values(), key=lambda one: (-one.priority, one.created_at, one.key)):
            if pod.uid not in self._waiting:
                continue
            node = self._room.place(pod)
            try:
                if node is None:
                    await self._refuse(pod, self._room.explain(pod))
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
        self._bound.add(pod.uid)
        self._waiting.pop(pod.uid, None)
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
        if old is not None and (new is None or new.uid != old.uid):
            self._waiting.pop(old.uid, None)
            self._bound.discard(old.uid)
            self._told.pop(old.uid, None)
            self._room.leave_out(old.uid)
        if new is not None:
            self._see(new)
        if self._waiting:
            self.wake.set()

    def _see(self, pod: Pod) -> None:
        if pod.node_name:
            self._waiting.pop(pod.uid, None)
            self._bound.discard(pod.uid)
            self._room.count(pod)
        elif pod.is_terminal or pod.deletion_at is not None:
            self._waiting.pop(pod.uid, None)
        elif pod.uid not in self._bound:
            self._waiting[pod.uid] = pod

    def _on_node(self, key: str, old: Node | None, new: Node | None) -> None:
        self._room.put_node(key, new)
        if old is None or new is None or _without_version(old) != _without_version(new):
            self.wake.set()


def _without_version(node: Node) -> Node:
    return msgspec.structs.replace(node, resource_version="")


def _subject(pod: Pod) -> Subject:
    return Subject("Pod", pod.namespace, pod.name, pod.uid)
