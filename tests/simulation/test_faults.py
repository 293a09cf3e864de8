"""Faults strike as their plan says, and never in a way that a real cluster could not."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator

import pytest

from elastipod.kube.calls import Call, InterceptedConnection
from elastipod.kube.errors import Conflict, Gone, KubeError, ServerError, TooManyRequests, Unreachable
from elastipod.kube.resources import PODS
from elastipod.localcluster.simulation.faults import (
    FaultKind,
    FaultPlan,
    Faults,
    FaultyConnection,
    ProcessKilled,
    draw_plan,
)
from elastipod.localcluster.simulation.virtualtime import run_virtually


class Server(InterceptedConnection):
    """Counts what reaches it and streams numbered events, two at a time."""

    def __init__(self) -> None:
        super().__init__(self)
        self.written: list[str] = []
        self.lists = 0
        self.events = [(uid, number) for number in range(40) for uid in ("one", "two")]

    async def handle(self, call: Call) -> bytes:
        if call.is_write:
            self.written.append(call.name)
            return call.body
        self.lists += 1
        return str(self.lists).encode()

    async def handle_watch(self, call: Call) -> AsyncGenerator[bytes, None]:
        for at, (uid, number) in enumerate(self.events):
            if at % 4 == 0:
                await asyncio.sleep(1)
            yield json.dumps({"uid": uid, "number": number}, separators=(",", ":")).encode()


def broken(kind: FaultKind, rate: float = 1.0, seed: int = 0) -> tuple[Server, FaultyConnection]:
    faults = Faults(FaultPlan({kind: rate}), random.Random(seed))
    faults.are_active = True
    server = Server()
    return server, FaultyConnection(server, faults)


@pytest.mark.parametrize(
    ("kind", "error", "written"),
    [
        (FaultKind.REFUSED, Unreachable, 0),
        (FaultKind.CONFLICT, Conflict, 0),
        (FaultKind.THROTTLED, TooManyRequests, 0),
        (FaultKind.FAILED, ServerError, 0),
        (FaultKind.DROPPED_ANSWER, Unreachable, 1),
        (FaultKind.KILLED, ProcessKilled, 0),
    ],
)
def test_a_call_fails_in_its_way(kind: FaultKind, error: type[BaseException], written: int) -> None:
    async def main() -> None:
        seeds = range(40)
        failed = 0
        for seed in seeds:
            server, connection = broken(kind, seed=seed)
            try:
                await connection.patch(PODS, "a", "p", b"{}")
            except (KubeError, ProcessKilled) as raised:
                failed += 1
                assert isinstance(raised, error)
                if kind is not FaultKind.KILLED:
                    assert len(server.written) == written
        assert failed

    run_virtually(main())


def test_a_process_dies_before_some_writes_and_after_others_and_then_says_no_more() -> None:
    async def main() -> None:
        written = set()
        for seed in range(200):
            server, connection = broken(FaultKind.KILLED, seed=seed)
            try:
                await connection.patch(PODS, "a", "p", b"{}")
            except ProcessKilled:
                written.add(len(server.written))
                assert connection.killed.is_set()
                with pytest.raises(ProcessKilled):
                    await connection.list(PODS)
        assert written == {0, 1}

    run_virtually(main())


def test_a_slow_write_is_given_up_in_time_and_may_still_happen() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        late = 0
        for seed in range(60):
            server, connection = broken(FaultKind.SLOW, seed=seed)
            began = loop.time()
            try:
                await connection.patch(PODS, "a", "p", b"{}")
            except Unreachable:
                assert not server.written
            assert loop.time() - began < 5.1
            before = len(server.written)
            await asyncio.sleep(20)
            late += len(server.written) - before
        assert late

    run_virtually(main())


def test_a_frozen_cache_shows_the_past_for_a_while() -> None:
    async def main() -> None:
        _, connection = broken(FaultKind.FROZEN_CACHE, rate=0.5)
        seen = []
        for _ in range(30):
            await asyncio.sleep(2)
            seen.append(await connection.list(PODS))
        assert len(set(seen)) < len(seen)
        assert seen == sorted(seen, key=int)

    run_virtually(main())


def test_a_watch_too_old_is_refused() -> None:
    async def main() -> None:
        _, connection = broken(FaultKind.GONE)
        with pytest.raises(Gone):
            await anext(connection.watch(PODS, resource_version="1"))

    run_virtually(main())


def _seen(kind: FaultKind, rate: float) -> tuple[list[tuple[str, int]], bool]:
    async def main() -> tuple[list[tuple[str, int]], bool]:
        _, connection = broken(kind, rate)
        lines: list[bytes] = []
        cut = False
        stream = connection.watch(PODS, resource_version="1")
        try:
            while True:
                lines.append(await anext(stream))
        except StopAsyncIteration:
            pass
        except Unreachable:
            cut = True
        return [(one["uid"], one["number"]) for one in map(json.loads, lines)], cut

    return run_virtually(main())


def _is_in_order(numbers: list[int]) -> bool:
    return numbers == sorted(numbers)


def _of(uid: str, seen: list[tuple[str, int]]) -> list[int]:
    return [number for one, number in seen if one == uid]


@pytest.mark.parametrize("kind", [FaultKind.REORDERED_EVENTS, FaultKind.MERGED_EVENTS, FaultKind.CUT_WATCH])
def test_the_events_of_one_object_keep_their_order(kind: FaultKind) -> None:
    seen, _ = _seen(kind, 0.3)
    assert _is_in_order(_of("one", seen))
    assert _is_in_order(_of("two", seen))


def test_events_of_different_objects_change_places() -> None:
    seen, _ = _seen(FaultKind.REORDERED_EVENTS, 0.5)
    assert sorted(seen) == sorted(Server().events)
    assert seen != Server().events


def test_events_come_twice() -> None:
    seen, _ = _seen(FaultKind.DUPLICATED_EVENTS, 0.5)
    assert len(seen) > len(Server().events)
    assert set(seen) == set(Server().events)


def test_a_cut_watch_has_given_all_that_came_before() -> None:
    seen, cut = _seen(FaultKind.CUT_WATCH, 0.4)
    assert cut
    assert seen == Server().events[: len(seen)]


def test_of_merged_events_the_last_state_of_each_object_is_seen() -> None:
    seen, _ = _seen(FaultKind.MERGED_EVENTS, 0.5)
    assert {uid: max(_of(uid, seen)) for uid in ("one", "two")} == {"one": 39, "two": 39}
    assert len(seen) < len(Server().events)


def test_a_plan_comes_from_its_seed() -> None:
    plans = [draw_plan(random.Random(seed)) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    assert all(len(plan.kinds) >= 3 for plan in plans)


def test_no_fault_strikes_while_they_are_off() -> None:
    async def main() -> None:
        server, connection = broken(FaultKind.REFUSED)
        connection._faults.are_active = False
        await connection.patch(PODS, "a", "p", b"{}")
        assert server.written == ["p"]

    run_virtually(main())
