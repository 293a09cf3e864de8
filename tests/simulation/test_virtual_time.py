"""Time in a simulation jumps, never waits, and nothing outside takes part."""

import asyncio
import socket

import pytest

from elastipod.clock import LoopClock, SystemClock
from elastipod.localcluster.simulation.virtualtime import NothingLeft, VirtualTimeLoop, run_virtually


def test_an_hour_passes_at_once() -> None:
    async def main() -> float:
        clock = LoopClock(epoch=1_000.0)
        await clock.sleep(3_600)
        return clock.now()

    clock = SystemClock()
    began = clock.monotonic()
    assert run_virtually(main()) == 4_600.0
    assert clock.monotonic() - began < 1.0


def test_timers_ring_in_their_order_and_together_in_the_order_they_were_set() -> None:
    rung: list[str] = []

    async def ring(name: str, after: float) -> None:
        await asyncio.sleep(after)
        rung.append(f"{name}@{asyncio.get_running_loop().time():.1f}")

    async def main() -> None:
        await asyncio.gather(ring("c", 2), ring("a", 0.5), ring("b", 2), ring("d", 1))

    run_virtually(main())
    assert rung == ["a@0.5", "d@1.0", "c@2.0", "b@2.0"]


def test_a_pause_is_told_before_time_moves_and_not_otherwise() -> None:
    pauses: list[float] = []

    async def main() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        await asyncio.sleep(3)
        await asyncio.sleep(4)

    loop = VirtualTimeLoop(lambda: pauses.append(loop.time()))
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
    assert pauses == [0.0, 3.0]


def test_waiting_for_nothing_is_an_error_and_no_hang() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NothingLeft):
        run_virtually(main())


def test_threads_and_sockets_are_refused() -> None:
    async def with_thread() -> None:
        await asyncio.to_thread(len, "")

    async def with_socket() -> None:
        ours, theirs = socket.socketpair()
        try:
            ours.setblocking(False)
            await asyncio.get_running_loop().sock_recv(ours, 1)
        finally:
            ours.close()
            theirs.close()

    with pytest.raises(RuntimeError, match="thread"):
        run_virtually(with_thread())
    with pytest.raises(RuntimeError, match="sockets"):
        run_virtually(with_socket())
