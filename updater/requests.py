"""Requests on their way, and what stands against the next one.

Owns the last checks of a decided resize (room, limits, quotas, disruption), its grant, and the requests that have no
answer yet. What is wanted, and what follows from an answer, is service.py's and attempts.py's matter.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final

from elastipod.clock import Clock
from elastipod.fit import NodeRoom
from elastipod.kube.connection import Connection
from elastipod.pods import Pod
from elastipod.quantities import format_cpu, show_memory
from elastipod.reasons import Reason
from elastipod.telemetry import get_logger
from updater.attempt import Accepted, Event, Failed, Gone, Seen, Wanted
from updater.budget import DisruptionBudget, Replicas
from updater.events import Teller
from updater.fleet import Fleet
from updater.grants import Grant
from updater.ledger import fits
from updater.plan import Resize, restarts
from updater.precheck import growth, obstacle, quota_need
from updater.sender import Sender
from updater.settings import UpdaterSettings

log = get_logger(__name__)

_PUT_BACK_AGAIN_SECONDS: Final = 10.0


class Requests:
    """What is asked of the API server, beside the runs.

    `handle` is told what became of each request; `refresh` reads a pod anew.
    """

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        settings: UpdaterSettings,
        fleet: Fleet,
        handle: Callable[[Event], None],
        refresh: Callable[[str], Awaitable[None]],
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._fleet = fleet
        self._handle = handle
        self._teller = Teller(connection, clock, lambda: len(self._tasks) > settings.most_requests_at_once)
        self._sender = Sender(connection, clock, self._teller, fleet.pods.get, refresh, settings.most_requests_at_once)
        self._budget = DisruptionBudget(settings.disruption_fraction)
        self._put_back: dict[str, tuple[str, float]] = {}
        self._restarting: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._all_answered = asyncio.Event()

    def weigh(self, pod: Pod, resize: Resize) -> tuple[Wanted, Grant]:
        """A decided resize with what stands against it now, and what it takes of the room."""
        for_scheduler, for_kubelet = growth(pod, resize.sizes)
        quota = quota_need(pod, resize.sizes) if self._fleet.quotas(pod.namespace) else {}
        grant = Grant(pod.node_name, pod.namespace, for_scheduler, for_kubelet, quota, pod.generation)
        room = self._fleet.ledger.room(pod.node_name)
        has_room = room is not None and fits(room, for_scheduler, for_kubelet)
        against = self._against(pod, resize, quota)
        if against is not None:
            return Wanted(resize, pod.node_name, pod.generation, has_room, *against), grant
        message = "" if room is None or has_room else _shown(room)
        return Wanted(resize, pod.node_name, pod.generation, has_room, message=message), grant

    def send(self, pod: Pod, resize: Resize, grant: Grant) -> None:
        """Ask for it."""
        self._fleet.ledger.grants.give(pod.uid, grant)
        if restarts(pod, resize.sizes):
            self._restarting[pod.key] = pod.uid
        self._start(self._send, pod, resize)

    def put_back(self, key: str, uid: str) -> None:
        """The spec of this pod is to say what is allocated again."""
        self._put_back[key] = (uid, 0.0)

    def puts_back(self, key: str) -> bool:
        return key in self._put_back

    def put_specs_back(self) -> None:
        """Ask for what `put_back` was told."""
        now = self._clock.now()
        for key, (uid, not_before) in list(self._put_back.items()):
            if now >= not_before:
                del self._put_back[key]
                self._start(self._put_spec_back, key, uid)

    def tell(self, pod: Pod, reason: Reason, message: str) -> None:
        """An Event on the pod."""
        self._start(self._teller.tell, pod, reason, message)

    def ended(self, key: str) -> None:
        """No resize of this pod is under way any more."""
        self._restarting.pop(key, None)

    def forget(self, key: str, uid: str) -> None:
        """The pod is gone."""
        self._fleet.ledger.grants.void(uid)
        self._put_back.pop(key, None)
        self._restarting.pop(key, None)
        self._teller.forget(uid)
        self._sender.forget(key)

    async def wait(self, seconds: float) -> None:
        """Give the answers a while to come."""
        if self._tasks:
            self._all_answered.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._all_answered.wait()

    def stop(self) -> None:
        """Drop requests that have no answer yet; what became of them shows in the cluster."""
        for task in self._tasks:
            task.cancel()

    def _against(self, pod: Pod, resize: Resize, quota: Mapping[str, int]) -> tuple[Reason, str] | None:
        """What besides room stands against a resize now."""
        found = obstacle(
            pod,
            resize.sizes,
            self._fleet.ledger.nodes.get(pod.node_name),
            quota,
            self._fleet.quotas(pod.namespace),
            self._fleet.ledger.grants.of_quota(pod.namespace),
        )
        if found is None and restarts(pod, resize.sizes):
            return self._disruption(pod, resize)
        return found

    def _disruption(self, pod: Pod, resize: Resize) -> tuple[Reason, str] | None:
        workload = self._fleet.workload(pod.key)
        if workload is None:
            return None
        pods = self._fleet.pods_of(workload)
        advice, _, _ = self._fleet.claim(pod.key)
        stated = advice.min_replicas if advice is not None else None
        replicas = Replicas(
            max(self._fleet.replicas(workload) or 0, len(pods)),
            frozenset(one.key for one in pods if one.is_ready),
            self._settings.min_replicas if stated is None else stated,
            frozenset(self._restarting),
        )
        asked = resize.reason is Reason.ASKED_BY_PERSON
        return self._budget.obstacle(pod.key, replicas, self._fleet.budgets(pod), asked=asked)

    async def _send(self, pod: Pod, resize: Resize) -> None:
        event = await self._sender.send(pod, resize)
        if isinstance(event, (Failed, Gone)):
            self._fleet.ledger.grants.void(pod.uid)
            self._restarting.pop(pod.key, None)
        self._handle(event)
        newest = self._fleet.pods.get(pod.key)
        if isinstance(event, Accepted) and newest is not None and newest.generation >= event.generation:
            # The watch was ahead of the answer, and does not tell again what the kubelet did.
            self._handle(Seen(newest))

    async def _put_spec_back(self, key: str, uid: str) -> None:
        event = await self._sender.put_back(key, uid)
        if isinstance(event, Failed):
            # Nothing may keep reserving what was given up.
            self._put_back[key] = (uid, self._clock.now() + _PUT_BACK_AGAIN_SECONDS)
        elif event is not None:
            self._handle(event)

    def _start(self, act: Callable[..., Coroutine[Any, Any, None]], *about: Any) -> None:
        task = asyncio.get_running_loop().create_task(_guarded(act, *about))
        self._tasks.add(task)
        task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._tasks:
            self._all_answered.set()


def _shown(room: NodeRoom) -> str:
    return f"free on {room.node}: cpu {format_cpu(room.free.cpu)}, memory {show_memory(room.free.memory)}"


async def _guarded(act: Callable[..., Coroutine[Any, Any, None]], *about: Any) -> None:
    try:
        await act(*about)
    except Exception:
        # One pod's failure must not end the part.
        log.exception("a request failed unexpectedly")
