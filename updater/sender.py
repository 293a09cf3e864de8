"""Requests to `pods/resize`, and what their answers mean.

Owns the last look at the pod before a request, the request, and the reading of refusals. When to ask, and what follows
from an answer, is attempts.py's matter.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from msgspec import Struct

from elastipod.api import resources
from elastipod.clock import Clock
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.decoding import BadObject
from elastipod.kube.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    NotServed,
    StatusError,
    TooManyRequests,
)
from elastipod.kube.resources import PODS
from elastipod.kube.shapes import RequirementsShape
from elastipod.pods import Pod
from elastipod.quantities import QuantityError
from elastipod.reasons import Reason
from elastipod.telemetry import get_logger
from updater.attempt import Accepted, Event, Failed, Gone
from updater.events import Teller, has_and_wants
from updater.patches import allocated_sizes, resize_body
from updater.plan import Resize
from updater.sizes import Size, Sizes, size_of
from updater.steps import held_memory_limit

log = get_logger(__name__)


class Sender:
    """Asks the API server for resizes, so many at once at most."""

    def __init__(
        self,
        connection: Connection,
        clock: Clock,
        teller: Teller,
        newest: Callable[[str], Pod | None],
        refresh: Callable[[str], Awaitable[None]],
        most_at_once: int,
    ) -> None:
        self._connection = connection
        self._clock = clock
        self._teller = teller
        self._newest = newest
        self._refresh = refresh
        self._outdated: dict[str, str] = {}
        """By pod, the version that the API server last said is not the newest."""
        self._slots = asyncio.Semaphore(most_at_once)

    async def send(self, decided_on: Pod, resize: Resize) -> Event:
        """Ask for a resize that was decided on a view of the pod; what became of it."""
        async with self._slots:
            granted = (
                f"{has_and_wants(decided_on, resize.sizes)}; room for it is granted on node {decided_on.node_name}"
            )
            log.info("resize granted", pod=resize.key, reason=resize.reason.value, message=granted)
            await self._teller.tell(decided_on, resize.reason, granted)
            pod = self._newest(resize.key)
            if pod is None or pod.uid != resize.uid:
                return Gone(resize.key, resize.uid)
            if not _same_ground(decided_on, pod, resize.sizes):
                return Failed(resize.key, Reason.SUPERSEDED, "the pod changed meanwhile", is_conflict=True)
            return await self._patch(pod, resize.sizes)

    async def put_back(self, key: str, uid: str) -> Event | None:
        """Put a pod's spec back to what is allocated; None where nothing is to be done."""
        async with self._slots:
            pod = self._newest(key)
            if pod is None or pod.uid != uid:
                return None
            sizes = allocated_sizes(pod)
            if not sizes:
                return None
            event = await self._patch(pod, sizes)
            if isinstance(event, Accepted):
                await self._teller.tell(pod, Reason.REVERTED, has_and_wants(pod, sizes))
            return event

    async def _patch(self, pod: Pod, sizes: Sizes) -> Event:
        try:
            answer = await self._connection.patch(
                PODS,
                pod.namespace,
                pod.name,
                resize_body(pod, sizes),
                patch_type=PatchType.STRATEGIC,
                subresource="resize",
            )
            self._outdated.pop(pod.key, None)
            return accepted(pod.key, answer)
        except Conflict as error:
            await self._catch_up(pod)
            return what_it_means(pod, error)
        except KubeError as error:
            event = what_it_means(pod, error)
            log.warning("resize refused", pod=pod.key, reason=getattr(event, "reason", ""), error=str(error))
            return event
        except BadObject as error:
            return Failed(pod.key, Reason.UNREACHABLE, f"the answer can not be read: {error}")

    async def _catch_up(self, pod: Pod) -> None:
        """A watch is mostly a moment behind; what it does not tell by the second time is read."""
        if self._outdated.get(pod.key) != pod.resource_version:
            self._outdated[pod.key] = pod.resource_version
            return
        try:
            await self._refresh(pod.key)
        except KubeError as error:
            log.warning("pod not read anew", pod=pod.key, error=str(error))

    def forget(self, key: str) -> None:
        """The pod is gone."""
        self._outdated.pop(key, None)


class _Container(Struct, frozen=True, gc=False):
    name: str
    resources: RequirementsShape = RequirementsShape()


class _Meta(Struct, frozen=True, gc=False):
    uid: str
    generation: int = 0


class _Spec(Struct, frozen=True, gc=False, rename="camel"):
    containers: tuple[_Container, ...]
    init_containers: tuple[_Container, ...] = ()


class _Answer(Struct, frozen=True, gc=False):
    """Of the pod in an answer, what a watch does not tell in time."""

    metadata: _Meta
    spec: _Spec


_answers: Final = msgspec.json.Decoder(_Answer)


def accepted(key: str, raw: bytes) -> Accepted:
    """The answer to a request that was taken. Raises BadObject."""
    try:
        answer = _answers.decode(raw)
        sizes = {
            one.name: Size(resources(one.resources.requests), resources(one.resources.limits))
            for one in (*answer.spec.init_containers, *answer.spec.containers)
        }
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, QuantityError) as error:
        raise BadObject(str(error)) from None
    return Accepted(key, answer.metadata.uid, answer.metadata.generation, sizes)


def what_it_means(pod: Pod, error: KubeError) -> Event:
    """What a failed request means for its attempt."""
    key, message = pod.key, str(error)
    match error:
        case NotServed():
            why = "this API server has no pods/resize (Kubernetes 1.33 or newer has)"
            event: Event = Failed(key, Reason.NOT_SERVED, why, is_permanent=True)
        case NotFound():
            event = Gone(key, pod.uid)
        case Invalid() if "metadata.uid" in message:
            event = Gone(key, pod.uid)
        case Conflict():
            event = Failed(key, Reason.SUPERSEDED, message, is_conflict=True)
        case Invalid():
            reason = Reason.QOS_CLASS if "qos" in message.lower() else Reason.REFUSED
            event = Failed(key, reason, message, is_permanent=True)
        case Forbidden():
            reason, is_permanent = _forbidden(error)
            event = Failed(key, reason, message, is_permanent=is_permanent)
        case BadRequest():
            event = Failed(key, Reason.REFUSED, message, is_permanent=True)
        case TooManyRequests():
            event = Failed(key, Reason.REFUSED, message, retry_after_seconds=error.retry_after_seconds)
        case StatusError():
            event = Failed(key, Reason.UNREACHABLE, message, retry_after_seconds=error.retry_after_seconds)
        case _:
            event = Failed(key, Reason.UNREACHABLE, message)
    return event


def _forbidden(error: Forbidden) -> tuple[Reason, bool]:
    """Why, and whether it holds for good: a policy engine's no does until the object changes."""
    message = error.message
    # 1.36 and newer refuse what no kubelet could ever admit; older ones tell it as a condition.
    if any(cause.reason == "NodeCapacity" for cause in error.causes):
        return Reason.INFEASIBLE, False
    if "exceeded quota" in message or "must specify" in message:
        return Reason.QUOTA_EXCEEDED, False
    if "usage per Container" in message or "usage per Pod" in message or "to request ratio per" in message:
        return Reason.LIMIT_RANGE, False
    return (Reason.FORBIDDEN, False) if "cannot patch resource" in message else (Reason.REFUSED, True)


def _same_ground(decided_on: Pod, pod: Pod, sizes: Sizes) -> bool:
    """Whether what was decided still holds: the same spec, and no container was given more memory since."""
    if decided_on is pod:
        return True
    for old in decided_on.containers:
        new = pod.container(old.name)
        if new is None or size_of(new) != size_of(old):
            return False
        if old.name in sizes and (held_memory_limit(new) or 0) > (held_memory_limit(old) or 0):
            return False
    return pod.qos_class is decided_on.qos_class and pod.node_name == decided_on.node_name
