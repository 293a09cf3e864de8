"""Usage from metrics.k8s.io.

Owns the reading of PodMetrics. One bad entry costs only itself; what makes no sense is left out and counted.
"""

import math
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from elastipod.clock import from_rfc3339
from elastipod.kube.connection import Connection
from elastipod.kube.decoding import UNREADABLE
from elastipod.kube.listing import list_raw
from elastipod.kube.resources import POD_METRICS
from elastipod.quantities import QuantityError, parse_nano
from recommender.samples import UsageSample
from recommender.turns import in_turns

MOST_CORES: Final = 100_000.0
MOST_BYTES: Final = 1e15


class SourceError(Exception):
    """A source of usage that is not the API server does not answer, or not as it should."""


@dataclass(slots=True)
class UsageReading:
    """What a source told at one time."""

    samples: list[UsageSample] = field(default_factory=list)
    """The newest of each container."""
    earlier: list[list[UsageSample]] = field(default_factory=list)
    """Those before the newest, where a source keeps them and they were not read yet: oldest first."""
    problem: str = ""
    """What could not be read of it."""
    bad_values: int = 0
    bad_entries: int = 0


class UsageSource(Protocol):
    """Where usage comes from."""

    async def read(self) -> UsageReading:
        """The newest sample of each container. Raises KubeError or SourceError when there is no answer."""
        ...


class _Meta(Struct, gc=False):
    name: str = ""
    namespace: str = ""


class _Usage(Struct, gc=False):
    cpu: str | int | float | None = None
    memory: str | int | float | None = None


class _Container(Struct, gc=False):
    name: str = ""
    usage: _Usage | None = None


class _PodMetrics(Struct, gc=False):
    metadata: _Meta
    timestamp: str = ""
    containers: list[_Container] | None = None


class _LoosePod(Struct, gc=False):
    """The same with its containers unread, so that one that can not be read does not hide the others."""

    metadata: _Meta
    timestamp: str = ""
    containers: list[msgspec.Raw] | None = None


class _LooseUsage(Struct, gc=False):
    cpu: msgspec.Raw = msgspec.Raw(b"null")
    memory: msgspec.Raw = msgspec.Raw(b"null")


class _LooseContainer(Struct, gc=False):
    name: str = ""
    usage: _LooseUsage | None = None


_pod_metrics: Final = msgspec.json.Decoder(_PodMetrics)
_loose_pods: Final = msgspec.json.Decoder(_LoosePod)
_loose_containers: Final = msgspec.json.Decoder(_LooseContainer)
_amounts: Final[msgspec.json.Decoder[str | int | float | None]] = msgspec.json.Decoder(str | int | float | None)


class MetricsApiSource:
    """metrics.k8s.io through the API server."""

    def __init__(self, connection: Connection, namespace: str = "") -> None:
        self._connection = connection
        self._namespace = namespace or None

    async def read(self) -> UsageReading:
        found = await list_raw(self._connection, POD_METRICS, namespace=self._namespace)
        reading = UsageReading()
        async for raw in in_turns(found.items, 2000):
            read_pod_metrics(raw, reading)
        return reading


def read_pod_metrics(raw: bytes | msgspec.Raw, into: UsageReading) -> None:
    """One PodMetrics object as samples."""
    try:
        pod = _pod_metrics.decode(raw)
    except UNREADABLE:
        try:
            pod = _part_by_part(raw, into)
        except UNREADABLE:
            into.bad_entries += 1
            return
    try:
        # The stamp tells one sample from the next; a strange one only loses that.
        measured_at = from_rfc3339(pod.timestamp) if pod.timestamp else math.nan
    except ValueError:
        measured_at = math.nan
    if not pod.metadata.name or not pod.metadata.namespace:
        into.bad_entries += 1
        return
    for container in pod.containers or ():
        # Pod-level series carry no container, or the sandbox's.
        if container.name in ("", "POD"):
            into.bad_entries += 1
            continue
        usage = container.usage or _Usage()
        cpu = _amount(usage.cpu, MOST_CORES, into)
        memory = _amount(usage.memory, MOST_BYTES, into)
        if cpu is not None or memory is not None:
            into.samples.append(
                UsageSample(pod.metadata.namespace, pod.metadata.name, container.name, measured_at, cpu, memory)
            )


def _part_by_part(raw: bytes | msgspec.Raw, into: UsageReading) -> _PodMetrics:
    """What can be read of a pod that can not be read as a whole. Raises DecodeError where not even its name can."""
    pod = _loose_pods.decode(raw)
    found = []
    for one in pod.containers or ():
        try:
            container = _loose_containers.decode(one)
        except UNREADABLE:
            into.bad_entries += 1
            continue
        usage = container.usage or _LooseUsage()
        read = _Usage(_part(usage.cpu, into), _part(usage.memory, into))
        found.append(_Container(container.name, read))
    return _PodMetrics(pod.metadata, pod.timestamp, found)


def _part(raw: msgspec.Raw, into: UsageReading) -> str | int | float | None:
    try:
        return _amounts.decode(raw)
    except UNREADABLE:
        into.bad_values += 1
        return None


def _amount(text: str | float | None, most: float, into: UsageReading) -> float | None:
    """Cores or bytes; None for what is missing or makes no sense."""
    if text is None:
        return None
    if isinstance(text, str):
        amount = _usual(text)
        if amount is None:
            try:
                amount = parse_nano(text) / 1e9
            except QuantityError:
                into.bad_values += 1
                return None
    else:
        amount = text
    # Before it is a float: a whole number may be too large for one.
    if not 0 <= amount <= most:
        into.bad_values += 1
        return None
    return float(amount)


def _usual(text: str) -> float | None:
    """The two forms that metrics-server writes, without the whole grammar: `95647727n`, `12345Ki`."""
    if len(text) < 19:
        if text[-1:] == "n" and text[:-1].isdecimal():
            return int(text[:-1]) / 1e9
        if text[-2:] == "Ki" and text[:-2].isdecimal():
            return int(text[:-2]) * 1024.0
    return None
