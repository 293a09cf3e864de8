"""What containers use, as metrics.k8s.io tells, kept with the peak of the last minutes.

Owns asking for samples and their age. A sample that can not be read, is negative or lies in the future counts as
missing.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from elastipod.api import ResourceList, resources
from elastipod.clock import Clock, from_rfc3339
from elastipod.kube.connection import Connection
from elastipod.kube.errors import KubeError, NotFound
from elastipod.kube.resources import POD_METRICS
from elastipod.quantities import QuantityError
from updater.steps import Usage

_ONE_BY_ONE: Final = 8
_SKEW_SECONDS: Final = 5.0


class _Container(Struct, frozen=True, gc=False):
    name: str = ""
    usage: ResourceList = {}


class _Meta(Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""


class _Metrics(Struct, frozen=True, gc=False):
    metadata: _Meta = _Meta()
    timestamp: str = ""
    containers: tuple[_Container, ...] = ()


class _ListMeta(Struct, frozen=True, gc=False):
    continue_token: str = msgspec.field(name="continue", default="")


class _List(Struct, frozen=True, gc=False):
    metadata: _ListMeta = _ListMeta()
    items: tuple[msgspec.Raw, ...] = ()


_one: Final = msgspec.json.Decoder(_Metrics)
_list: Final = msgspec.json.Decoder(_List)


class UsageBook:
    """The newest sample of each container of the pods that were asked about."""

    def __init__(self, connection: Connection, clock: Clock, peak_window_seconds: float = 600.0) -> None:
        self._connection = connection
        self._clock = clock
        self._window = peak_window_seconds
        self._usage: dict[str, dict[str, Usage]] = {}
        self._peaks: dict[tuple[str, str], deque[tuple[float, int]]] = {}
        self.failures = 0

    def of(self, key: str) -> Mapping[str, Usage]:
        """By container name; empty where nothing is known."""
        return self._usage.get(key, {})

    def all(self) -> Mapping[str, Mapping[str, Usage]]:
        """By pod key, then container name."""
        return self._usage

    def forget(self, key: str) -> None:
        """The pod is gone."""
        for name in self._usage.pop(key, ()):
            self._peaks.pop((key, name), None)

    def is_fresh(self, key: str, seconds: float) -> bool:
        """Whether all that is known of a pod is younger than this."""
        known = self._usage.get(key)
        return bool(known) and all(self._clock.now() - one.at <= seconds for one in (known or {}).values())

    async def refresh(self, keys: Iterable[str], wait_seconds: float = 2.0) -> None:
        """Ask about these pods; what does not answer in time stays as old as it is."""
        wanted = sorted(set(keys))
        if not wanted:
            return
        try:
            async with asyncio.timeout(wait_seconds):
                if len(wanted) <= _ONE_BY_ONE:
                    await asyncio.gather(*(self._ask(key) for key in wanted))
                else:
                    await self._ask_all(set(wanted))
        except (KubeError, TimeoutError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.failures += 1

    async def _ask(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        try:
            self.take(await self._connection.get(POD_METRICS, namespace, name))
        except NotFound:
            return

    async def _ask_all(self, wanted: set[str]) -> None:
        namespaces = {key.partition("/")[0] for key in wanted}
        namespace = namespaces.pop() if len(namespaces) == 1 else None
        token = ""
        while True:
            page = _list.decode(await self._connection.list(POD_METRICS, namespace=namespace, continue_token=token))
            for raw in page.items:
                self.take(raw, wanted.__contains__)
            token = page.metadata.continue_token
            if not token:
                return

    def take(self, raw: bytes | msgspec.Raw, is_wanted: Callable[[str], bool] | None = None) -> None:
        """Read one PodMetrics."""
        try:
            found = _one.decode(raw)
            at = from_rfc3339(found.timestamp)
        except (ValueError, RecursionError):
            self.failures += 1
            return
        key = f"{found.metadata.namespace}/{found.metadata.name}"
        if (is_wanted is not None and not is_wanted(key)) or at > self._clock.now() + _SKEW_SECONDS:
            return
        for container in found.containers:
            try:
                amounts = resources(container.usage)
            except QuantityError:
                self.failures += 1
                continue
            if amounts.cpu_millicores is None or amounts.memory_bytes is None or min(amounts.cpu, amounts.memory) < 0:
                continue
            self._note(key, container.name, Usage(at, amounts.cpu, amounts.memory))

    def _note(self, key: str, name: str, sample: Usage) -> None:
        known = self._usage.setdefault(key, {})
        old = known.get(name)
        if old is not None and old.at > sample.at:
            return
        # Falling peaks only: the first of them is the highest of the window.
        peaks = self._peaks.setdefault((key, name), deque())
        while peaks and peaks[-1][1] <= sample.memory_bytes:
            peaks.pop()
        peaks.append((sample.at, sample.memory_bytes))
        while sample.at - peaks[0][0] > self._window:
            peaks.popleft()
        known[name] = msgspec.structs.replace(sample, memory_peak_bytes=peaks[0][1])
