"""What can go wrong between a process and the API server, drawn from a seed.

Owns the faults of the seam: calls that are refused, slow, answered with an error or not at all, watches that repeat,
mix up, hold back or cut, a cache that stands still, and processes that die before or after a write. What is lost from a
stream is what its next one sends again, as in a real cluster.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from elastipod.kube.calls import Call, InterceptedConnection, Verb
from elastipod.kube.connection import Connection
from elastipod.kube.errors import Conflict, Gone, KubeError, ServerError, TooManyRequests, Unreachable
from elastipod.kube.resources import LEASES
from elastipod.localcluster.node.checkpoint import Allocations, Checkpoint

CALL_SECONDS: Final = 5.0
"""How long a client waits for an answer, as the HTTP connection does."""


class FaultKind(StrEnum):
    """A way for a call, a watch or a process to fail."""

    REFUSED = "refused"
    """The server is not there."""
    SLOW = "slow"
    """The answer takes seconds, and may come after the client has given up."""
    CONFLICT = "conflict"
    """409."""
    GONE = "gone"
    """410 for a watch or a continued list."""
    THROTTLED = "throttled"
    """429 with Retry-After."""
    FAILED = "failed"
    """500, before or after the write happened."""
    DROPPED_ANSWER = "dropped answer"
    """The write happened, and nobody was told."""
    CUT_WATCH = "cut watch"
    """The stream ends; what was not sent is sent again by the next."""
    DUPLICATED_EVENTS = "duplicated events"
    REORDERED_EVENTS = "reordered events"
    """Events of different objects change places."""
    MERGED_EVENTS = "merged events"
    """Of several changes of one object only the last is seen."""
    FROZEN_CACHE = "frozen cache"
    """For a while lists and watches show the past."""
    KILLED = "killed"
    """The process dies right before or right after one of its writes."""
    NODE_KILLED = "node killed"
    """The same for a node's kubelet, whose writes to its checkpoint count as well."""
    METRICS = "metrics"
    """For the time of the faults, metrics.k8s.io is silent, empty, partial or tells nonsense."""


class ProcessKilled(BaseException):
    """The process that made this call is dead. Nothing of it may go on, so nothing but its supervisor catches this."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """How often each fault strikes (a fraction of the calls, or of the watch events), and how long calls take."""

    rates: Mapping[FaultKind, float] = field(default_factory=dict)
    latency_seconds: tuple[float, float] = (0.001, 0.03)

    @property
    def kinds(self) -> list[FaultKind]:
        return sorted(self.rates)


def draw_plan(spread: random.Random, at_least: int = 3) -> FaultPlan:
    """A plan with some kinds of faults, each at a rate of its own."""
    kinds = spread.sample(list(FaultKind), spread.randint(at_least, at_least + 3))
    return FaultPlan({kind: round(spread.uniform(0.02, 0.2), 3) for kind in kinds})


class Faults:
    """The faults of one run: its plan, whether they strike now, and how often they did."""

    def __init__(self, plan: FaultPlan, spread: random.Random) -> None:
        self.plan = plan
        self.spread = spread
        self.are_active = False
        self.counts: Counter[FaultKind] = Counter()
        self.known_lists: dict[Call, bytes] = {}
        """What a server whose cache stands still goes on answering, to processes that start anew as well."""

    def strikes(self, kind: FaultKind, share: float = 1.0) -> bool:
        """Whether this fault happens now."""
        rate = self.plan.rates.get(kind, 0.0) if self.are_active else 0.0
        if rate == 0.0 or self.spread.random() >= rate * share:
            return False
        self.counts[kind] += 1
        return True

    def latency(self) -> float:
        """How long the next call is on its way."""
        return self.spread.uniform(*self.plan.latency_seconds)


class FaultyConnection(InterceptedConnection):
    """One process' connection. `killed` is set once the process is dead; its calls never come back then."""

    def __init__(self, inner: Connection, faults: Faults) -> None:
        super().__init__(inner)
        self.killed = asyncio.Event()
        self.frozen_until = 0.0
        self._faults = faults
        self._late: set[asyncio.Task[None]] = set()

    def kill(self) -> None:
        """The process is dead from now on."""
        self.killed.set()

    async def handle(self, call: Call) -> bytes:
        self._die_if_killed()
        await asyncio.sleep(self._faults.latency())
        self._die_if_killed()
        if not call.is_write:
            await self._fail_sometimes(call)
            return await self._read(call)
        # Most writes renew a lease; a death there is the least interesting.
        share = 0.05 if call.resource is LEASES else 0.5
        if self._faults.strikes(FaultKind.KILLED, share):
            self._die()
        await self._fail_sometimes(call)
        answer = await super().handle(call)
        if self._faults.strikes(FaultKind.KILLED, share):
            self._die()
        if self._strikes(FaultKind.DROPPED_ANSWER):
            raise Unreachable("the answer was lost")
        if self._strikes(FaultKind.FAILED):
            raise ServerError(500, "InternalError", "the answer was lost within the server")
        return answer

    async def handle_watch(self, call: Call) -> AsyncGenerator[bytes, None]:
        self._die_if_killed()
        await asyncio.sleep(self._faults.latency())
        if self._strikes(FaultKind.GONE):
            raise Gone(410, "Expired", "too old resource version")
        await self._fail_sometimes(call)
        async with aclosing(call.stream(self.inner)) as stream:
            batches = _batches(stream)
            async with aclosing(batches):
                async for batch in batches:
                    await self._thaw()
                    self._die_if_killed()
                    for line in self._disturbed(batch):
                        yield line
                    if self._strikes(FaultKind.CUT_WATCH):
                        raise Unreachable("the stream was cut")

    async def _read(self, call: Call) -> bytes:
        if call.verb is not Verb.LIST:
            return await super().handle(call)
        if call.continue_token and self._strikes(FaultKind.GONE):
            raise Gone(410, "Expired", "the continue token is too old")
        if self._strikes(FaultKind.FROZEN_CACHE):
            self.frozen_until = asyncio.get_running_loop().time() + self._faults.spread.uniform(1.0, 30.0)
        known = self._faults.known_lists.get(call)
        if known is not None and self._is_frozen:
            return known
        answer = self._faults.known_lists[call] = await super().handle(call)
        return answer

    async def _fail_sometimes(self, call: Call) -> None:
        spread = self._faults.spread
        if self._strikes(FaultKind.REFUSED):
            raise Unreachable("connection refused")
        if self._strikes(FaultKind.SLOW):
            seconds = spread.uniform(0.5, 12.0)
            if seconds > CALL_SECONDS and call.is_write and spread.random() < 0.5:
                self._write_late(call, seconds)
            await asyncio.sleep(min(seconds, CALL_SECONDS))
            self._die_if_killed()
            if seconds > CALL_SECONDS:
                raise Unreachable(f"no answer within {CALL_SECONDS:.0f} s")
        if call.is_write and self._strikes(FaultKind.CONFLICT):
            raise Conflict(409, "Conflict", "the object has been modified; please apply your changes to the latest")
        if self._strikes(FaultKind.THROTTLED):
            raise TooManyRequests(429, "TooManyRequests", "wait", retry_after_seconds=float(spread.randint(1, 10)))
        if self._strikes(FaultKind.FAILED):
            raise ServerError(500, "InternalError", "something is wrong within the server")

    def _write_late(self, call: Call, seconds: float) -> None:
        """The server takes the write after the client has given it up."""

        async def write() -> None:
            await asyncio.sleep(seconds)
            try:
                await call.send(self.inner)
            except KubeError:
                return

        task = asyncio.create_task(write())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    def _disturbed(self, batch: list[bytes]) -> list[bytes]:
        """What a client sees of events that came together."""
        if len(batch) > 1 and self._strikes(FaultKind.MERGED_EVENTS):
            last = {_object_of(line): at for at, line in enumerate(batch)}
            batch = [line for at, line in enumerate(batch) if last[_object_of(line)] == at]
        if len(batch) > 1 and self._strikes(FaultKind.REORDERED_EVENTS):
            at = self._faults.spread.randrange(len(batch) - 1)
            if _object_of(batch[at]) != _object_of(batch[at + 1]):
                batch = [*batch[:at], batch[at + 1], batch[at], *batch[at + 2 :]]
        if self._strikes(FaultKind.DUPLICATED_EVENTS):
            batch = [*batch, *batch]
        return batch

    @property
    def _is_frozen(self) -> bool:
        return self._faults.are_active and asyncio.get_running_loop().time() < self.frozen_until

    async def _thaw(self) -> None:
        while self._is_frozen:
            await asyncio.sleep(0.5)

    def _strikes(self, kind: FaultKind) -> bool:
        return self._faults.strikes(kind)

    def _die(self) -> None:
        self.kill()
        raise ProcessKilled

    def _die_if_killed(self) -> None:
        if self.killed.is_set():
            raise ProcessKilled


class MortalCheckpoint:
    """A node's checkpoint, right before or right after whose storing the node may die."""

    def __init__(self, inner: Checkpoint, connection: FaultyConnection, faults: Faults) -> None:
        self._inner, self._connection, self._faults = inner, connection, faults

    def load(self) -> Allocations | None:
        return self._inner.load()

    def save(self, allocations: Allocations) -> None:
        self._die_sometimes()
        self._inner.save(allocations)
        self._die_sometimes()

    def _die_sometimes(self) -> None:
        if self._faults.strikes(FaultKind.KILLED):
            self._connection.kill()
            raise ProcessKilled


async def _batches(stream: AsyncGenerator[bytes, None]) -> AsyncGenerator[list[bytes], None]:
    """The events of a stream, those together that came without a pause between them."""
    waiting: list[bytes] = []
    arrived = asyncio.Event()
    failure: list[BaseException] = []

    async def collect() -> None:
        try:
            async for line in stream:
                waiting.append(line)
                arrived.set()
        except KubeError as error:
            failure.append(error)
        finally:
            arrived.set()

    collecting = asyncio.create_task(collect())
    try:
        while True:
            await arrived.wait()
            # What follows in the same turn of the loop belongs together.
            await asyncio.sleep(0)
            arrived.clear()
            if waiting:
                batch, waiting[:] = list(waiting), []
                yield batch
            elif failure:
                raise failure[0]
            elif collecting.done():
                return
            if collecting.done():
                arrived.set()
    finally:
        collecting.cancel()
        await asyncio.wait([collecting])


def _object_of(line: bytes) -> bytes:
    """Enough of an event to tell its object from others: its metadata's uid."""
    start = line.find(b'"uid":"')
    return line[start : line.find(b'"', start + 7)] if start >= 0 else line
