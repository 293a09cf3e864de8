"""Where the running parts are, and what they tell of a pod and of savings.

Owns finding them: each writes the address of its port beside its Lease, the actuator into its ElasticNode. A part that
does not answer is said so; nothing waits for it long.
"""

import asyncio
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import msgspec
from msgspec import Struct

from actuator.telling import HEARTBEAT_SECONDS
from elastipod.api import ObjectMeta
from elastipod.cli.cluster import Picture
from elastipod.clock import from_rfc3339
from elastipod.kube.connection import Connection
from elastipod.kube.decoding import Decoder
from elastipod.kube.errors import KubeError, NotFound
from elastipod.kube.leadership import ADDRESS_ANNOTATION, LACKS_ANNOTATION
from elastipod.kube.listing import list_rows
from elastipod.kube.podrows import decode_pod
from elastipod.kube.resources import LEASES, PODS

PART_LABEL: Final = "app.kubernetes.io/part-of=elastipod"
_ANSWER_SECONDS: Final = 2.0
_SAVINGS_SECONDS: Final = 30.0
_LATE_SECONDS: Final = 60.0
"""By how much a heartbeat may be late: a run takes its time, and the API server may not answer at once."""
_MOST_BYTES: Final = 4_000_000
_MOST_SAVINGS_BYTES: Final = 500_000_000


class NoAnswerError(Exception):
    """A part that is not there, or does not tell what it is asked; the message says which and why."""


@dataclass(frozen=True, slots=True)
class RunningPart:
    """A part of elastipod as the cluster knows it; `heard_at` is Unix seconds.

    An actuator speaks when it has something new to say, and else in minutes only; a leader renews its Lease in seconds.
    """

    name: str
    holder: str = ""
    address: str = ""
    heard_at: float | None = None
    node: str = ""
    lacks: str = ""
    """What the cluster, or its node, withholds from it."""
    silent_after_seconds: float = HEARTBEAT_SECONDS + _LATE_SECONDS
    """How long it says nothing while it is well."""

    def is_silent(self, now: float) -> bool:
        """Whether it would have been heard if it were well."""
        return self.heard_at is None or now - self.heard_at > self.silent_after_seconds


class _LeaseSpec(Struct, rename="camel", frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None


class _Lease(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _LeaseSpec = _LeaseSpec()


async def running_parts(connection: Connection, picture: Picture) -> list[RunningPart]:
    """The parts that have made themselves known, actuators one per node. Raises KubeError."""
    found = await _leaders(connection)
    for node in picture.elastic_nodes:
        if node.status is not None:
            heard_at = _instant(node.status.last_heartbeat)
            status = node.status
            found.append(RunningPart("actuator", "", status.address, heard_at, node.metadata.name, status.message))
    return sorted(found, key=lambda part: (part.name, part.node))


async def _leaders(connection: Connection) -> list[RunningPart]:
    return await list_rows(connection, LEASES, Decoder(_Lease, _running_part), label_selector=PART_LABEL)


async def leading_recommender(connection: Connection) -> RunningPart:
    """The one that leads. Raises NoAnswerError, KubeError."""
    leader = next((part for part in await _leaders(connection) if part.name == "recommender"), None)
    if leader is None:
        raise NoAnswerError("no recommender has made itself known in this cluster")
    return leader


async def ask_savings(connection: Connection, leader: RunningPart | None = None) -> bytes:
    """What the leading recommender tells of savings. Raises NoAnswerError, KubeError."""
    leader = leader or await leading_recommender(connection)
    if not leader.address:
        raise NoAnswerError("the recommender has not said where it listens")
    try:
        async with asyncio.timeout(_SAVINGS_SECONDS):
            body = await _answer(connection, leader.address, "savings", _MOST_SAVINGS_BYTES)
    except (KubeError, aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise NoAnswerError(f"the recommender does not answer at {leader.address}: {_said(error)}") from None
    if body is None:
        raise NoAnswerError(
            f"the recommender at {leader.address} tells no savings yet: it has just begun, or is older than this"
        )
    return body


async def ask_parts(connection: Connection, parts: list[RunningPart], key: str) -> dict[str, Any]:
    """What each part says of the pod of that key; a part that does not answer has an `error`."""
    answers = await asyncio.gather(*(_ask(connection, part, key) for part in parts))
    return {part.name: answer for part, answer in zip(parts, answers, strict=True)}


async def _ask(connection: Connection, part: RunningPart, key: str) -> dict[str, Any]:
    if not part.address:
        return {"error": f"the {part.name} has not said where it listens"}
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            body = await _answer(connection, part.address, f"explain/{key}", _MOST_BYTES)
        if body is None:
            return {"error": f"the {part.name} knows nothing of this pod"}
        return msgspec.json.decode(body, type=dict[str, Any])
    except (KubeError, aiohttp.ClientError, TimeoutError, msgspec.DecodeError, ValueError) as error:
        return {"error": f"the {part.name} does not answer at {part.address}: {_said(error)}"}


async def _answer(connection: Connection, address: str, path: str, most_bytes: int) -> bytes | None:
    """A part in a pod is asked through the API server, any other at its port; None where it knows nothing."""
    where = urlsplit(address)
    host, port = where.hostname or "", where.port or 80
    if not ip_address(host).is_loopback:
        selector = f"status.podIP={host}"
        pods = await list_rows(connection, PODS, decode_pod, label_selector=PART_LABEL, field_selector=selector)
        if pods:
            asked = f"proxy/{path}"
            try:
                return await connection.get(PODS, pods[0].namespace, f"{pods[0].name}:{port}", subresource=asked)
            except NotFound as error:
                # The API server gives a reason, a part says it in plain text.
                if error.reason:
                    raise
                return None
    async with aiohttp.ClientSession() as session, session.get(f"{address}/{path}") as answer:
        if answer.status == 404:
            return None
        answer.raise_for_status()
        body = b""
        async for chunk in answer.content.iter_chunked(65_536):
            body += chunk
            if len(body) > most_bytes:
                raise ValueError(f"its answer is longer than {most_bytes} bytes")
        return body


def _said(error: Exception) -> str:
    """What it says; a timeout says nothing but its name."""
    return str(error) or type(error).__name__


def _running_part(lease: _Lease) -> RunningPart:
    annotations = lease.metadata.annotations or {}
    name = lease.metadata.name.removeprefix("elastipod-")
    return RunningPart(
        name,
        lease.spec.holder_identity or "",
        annotations.get(ADDRESS_ANNOTATION, ""),
        _instant(lease.spec.renew_time),
        lacks=annotations.get(LACKS_ANNOTATION, ""),
        silent_after_seconds=float(lease.spec.lease_duration_seconds or 0),
    )


def _instant(text: str | None) -> float | None:
    try:
        return from_rfc3339(text) if text else None
    except ValueError:
        return None
