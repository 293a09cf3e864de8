"""Usage from the actuators, which read their node's cgroups.

Owns asking them all at once, what is believed of an answer, and which nodes' usage is missing since when. A sender is
believed about the pods of its own node only. Where they are is senders.py's matter.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final

import aiohttp
import msgspec

from elastipod.clock import Clock, to_rfc3339
from elastipod.kube.errors import KubeError
from elastipod.minutes import MOST_ANSWER_BYTES, MOST_MINUTES, PATH, ContainerMinute, Minute, NodeMinutes
from elastipod.pods import Pod
from elastipod.telemetry import get_logger
from recommender.samples import UsageSample
from recommender.sources.metrics_api import MOST_BYTES, MOST_CORES, SourceError, UsageReading
from recommender.sources.senders import Sender

log = get_logger(__name__)

_ANSWER_SECONDS: Final = 5.0
_ALL_SECONDS: Final = 20.0
_AT_ONCE: Final = 32
_LOOK_SECONDS: Final = 240.0
"""New actuators are looked for this often: what they keep meanwhile is not lost."""
_NAMED: Final = 3
_MOST_AT: Final = 2**53
_answers: Final = msgspec.json.Decoder(NodeMinutes)


class ActuatorSource:
    """All actuators as one source. `pod_of` is what is known of a pod by namespace and name."""

    def __init__(
        self,
        find: Callable[[], Awaitable[list[Sender]]],
        pod_of: Callable[[str, str], Pod | None],
        clock: Clock,
        answer_seconds: float = _ANSWER_SECONDS,
    ) -> None:
        self._find, self._pod_of, self._clock, self._answer_seconds = find, pod_of, clock, answer_seconds
        self._began_at = clock.monotonic()
        self._senders: dict[str, Sender] = {}
        self._looked_at = -math.inf
        self._looked_for: set[str] = set()
        """Those whose silence was a reason to look already."""
        self._known: dict[str, list[int]] = {}
        """The names of the last minutes of each sender that were counted."""
        self._silent: dict[str, tuple[float, str]] = {}
        """Since when a node's usage is missing, and why."""
        self._foreign: dict[str, str] = {}
        """A pod that a node's actuator spoke of and that is not on it."""

    async def read(self) -> UsageReading:
        """The minutes that ended since the last reading. Raises KubeError or SourceError where nobody answers."""
        await self._look_around()
        senders = sorted(self._senders.values(), key=lambda one: (one.node in self._silent, one.node))
        if not senders:
            raise SourceError("no actuator was found")
        reading, by_age = UsageReading(), [list[UsageSample]() for _ in range(MOST_MINUTES)]
        # Each answer is counted as it comes: all at once are many times what is kept of them.
        told = await self._ask(senders, lambda sender, answer: self._take(sender, answer, reading, by_age))
        missing = {sender.node: why for sender, why in zip(senders, told, strict=True) if why}
        self._note(missing)
        reading.problem = self._problem()
        if len(missing) == len(senders):
            raise SourceError(reading.problem)
        reading.samples, *earlier = by_age
        reading.earlier = [one for one in reversed(earlier) if one]
        return reading

    async def _look_around(self) -> None:
        now = self._clock.monotonic()
        silent = {one.uid for one in self._senders.values() if one.node in self._silent}
        if now - self._looked_at < _LOOK_SECONDS and silent <= self._looked_for and self._senders:
            return
        try:
            found = await self._find()
        except KubeError:
            if not self._senders:
                raise
            return
        self._looked_at, self._looked_for = now, silent
        self._senders = {one.node: one for one in found}
        uids = {one.uid for one in found}
        self._known = {uid: known for uid, known in self._known.items() if uid in uids}
        for node in (self._silent.keys() | self._foreign.keys()) - self._senders.keys():
            self._silent.pop(node, None)
            self._foreign.pop(node, None)

    async def _ask(self, senders: list[Sender], take: Callable[[Sender, NodeMinutes], None]) -> list[str]:
        """Take what each says; why it says nothing, where it does not."""
        gate = asyncio.Semaphore(_AT_ONCE)
        limits = aiohttp.ClientTimeout(total=self._answer_seconds)
        deadline = asyncio.get_running_loop().time() + _ALL_SECONDS

        async def one(session: aiohttp.ClientSession, sender: Sender) -> str:
            async with gate:
                if asyncio.get_running_loop().time() > deadline:
                    return "there was no time left to ask it"
                try:
                    take(sender, _checked(sender, await self._get(session, sender)))
                    return ""
                except (aiohttp.ClientError, TimeoutError, ValueError, SourceError) as error:
                    return (str(error) or "it does not answer in time")[:100]

        async with aiohttp.ClientSession(timeout=limits, auto_decompress=False) as session:
            return await asyncio.gather(*(one(session, sender) for sender in senders))

    async def _get(self, session: aiohttp.ClientSession, sender: Sender) -> bytes:
        known = self._known.get(sender.uid)
        url = f"{sender.url}{PATH}?since={known[-1] if known else 0}"
        async with session.get(url, allow_redirects=False, headers={"Accept-Encoding": "identity"}) as answer:
            if answer.status == 404:
                raise SourceError("its actuator reads no usage (sample_seconds is 0)")
            if answer.status != 200:
                raise SourceError(f"HTTP {answer.status}")
            body = bytearray()
            async for chunk in answer.content.iter_chunked(65_536):
                body += chunk
                if len(body) > MOST_ANSWER_BYTES:
                    raise SourceError("its answer is too long")
            return bytes(body)

    def _take(
        self, sender: Sender, answer: NodeMinutes, reading: UsageReading, by_age: list[list[UsageSample]]
    ) -> None:
        """Count an answer's minutes once. What ended before we began was counted by whoever led before us."""
        known = self._known.setdefault(sender.uid, [])
        since_began = self._clock.monotonic() - self._began_at
        fresh = {one.at: one for one in answer.minutes if one.at not in known and one.age_seconds <= since_began}
        known += fresh
        del known[: -2 * MOST_MINUTES]
        foreign = ""
        for samples, minute in zip(by_age, reversed(fresh.values()), strict=False):
            foreign = self._take_minute(sender.node, minute, reading, samples) or foreign
        if foreign and sender.node not in self._foreign:
            log.warning("an actuator tells of a pod that is not on its node", node=sender.node, pod=foreign)
        if foreign:
            self._foreign[sender.node] = foreign
        elif fresh:
            self._foreign.pop(sender.node, None)

    def _take_minute(self, node: str, minute: Minute, reading: UsageReading, into: list[UsageSample]) -> str:
        """Count what is of this node; a pod that is not, if any was named."""
        foreign = ""
        for one in minute.containers:
            pod = self._pod_of(one.namespace, one.pod)
            if pod is None or pod.uid != one.pod_uid or not pod.node_name:
                # Gone, another of the same name by now, or not heard of yet.
                continue
            if pod.node_name != node:
                foreign = pod.key
                reading.bad_entries += 1
                continue
            memory = _amount(one.memory_peak_bytes, MOST_BYTES, reading)
            into.append(
                UsageSample(one.namespace, one.pod, one.container, float(minute.at), _cores(one, reading), memory)
            )
        return foreign

    def _note(self, missing: dict[str, str]) -> None:
        fresh = missing.keys() - self._silent.keys()
        if fresh:
            nodes = sorted(fresh)[: 10 * _NAMED]
            log.warning("usage of nodes is missing", nodes=nodes, count=len(fresh), error=missing[nodes[0]])
        now = self._clock.now()
        self._silent = {node: (self._silent.get(node, (now, ""))[0], why) for node, why in missing.items()}

    def _problem(self) -> str:
        """Which nodes' usage is missing since when and why, and who is not believed."""
        told = [
            f"node {node} since {to_rfc3339(since)}: {why}"
            for node, (since, why) in sorted(self._silent.items(), key=lambda one: (one[1][0], one[0]))
        ]
        told += [f"the actuator of node {node} tells of {pod}" for node, pod in sorted(self._foreign.items())]
        more = [f"and {len(told) - _NAMED} more"] if len(told) > _NAMED else []
        return "; ".join(told[:_NAMED] + more)


def _checked(sender: Sender, body: bytes) -> NodeMinutes:
    """An answer that may be counted. Raises SourceError."""
    try:
        answer = _answers.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"its answer can not be read: {error}") from None
    if answer.node != sender.node:
        raise SourceError(f"what answers there says that it is of node {answer.node[:60]!r}")
    if len(answer.minutes) > MOST_MINUTES:
        raise SourceError(f"it tells of {len(answer.minutes)} minutes, and only {MOST_MINUTES} are kept")
    if any(abs(one.at) > _MOST_AT for one in answer.minutes):
        raise SourceError("it tells of a minute at no time")
    if any(one.age_seconds < 0 for one in answer.minutes):
        raise SourceError("it tells of a minute that is not over")
    return answer


def _cores(one: ContainerMinute, reading: UsageReading) -> float | None:
    """What a minute needed.

    Its average, as VPA counts it; but in the share of periods in which a limit stopped the container it would have used
    more, and there it counts as in the busiest interval.
    """
    average = _amount(one.cpu_cores, MOST_CORES, reading)
    peak = _amount(one.cpu_peak_cores, MOST_CORES, reading)
    throttled = _amount(one.throttled_fraction, 1.0, reading)
    if average is None or peak is None:
        return average
    return average + (throttled or 0.0) * max(peak - average, 0.0)


def _amount(value: float | None, most: float, reading: UsageReading) -> float | None:
    """The amount, or None for what is missing or makes no sense."""
    if value is None or 0 <= value <= most:
        return value
    reading.bad_values += 1
    return None
