"""Requests to the API server as metrics."""

from collections.abc import AsyncGenerator

import pytest

from elastipod.clock import ManualClock
from elastipod.kube.calls import Call, InterceptedConnection, Verb
from elastipod.kube.counting import CountedConnection
from elastipod.kube.errors import KubeError, RawStatus, Unreachable, status_error
from elastipod.kube.resources import PODS
from elastipod.telemetry import Metrics

RESIZE = Call(Verb.PATCH, PODS, "default", "web-0", "resize")
WATCH = Call(Verb.WATCH, PODS)


class Server(InterceptedConnection):
    """Takes half a second, and then answers or fails."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(self)
        self.clock = clock
        self.failure: KubeError | None = None

    async def handle(self, call: Call) -> bytes:
        self.clock.advance(0.5)
        if self.failure is not None:
            raise self.failure
        return b"{}"

    async def handle_watch(self, call: Call) -> AsyncGenerator[bytes, None]:
        yield await self.handle(call)


class World:
    def __init__(self) -> None:
        clock, self._metrics = ManualClock(), Metrics()
        self.server = Server(clock)
        self.connection = CountedConnection(self.server, clock, self._metrics)

    def count(self, verb: str, resource: str, code: str) -> float | None:
        labels = {"verb": verb, "resource": resource, "code": code}
        return self._metrics.registry.get_sample_value("elastipod_api_requests_total", labels)

    def seconds(self, verb: str, part: str) -> float | None:
        return self._metrics.registry.get_sample_value(f"elastipod_api_request_seconds_{part}", {"verb": verb})


async def test_a_request_counts_by_what_was_asked_and_how_long_it_took() -> None:
    world = World()
    for _ in range(3):
        assert await RESIZE.send(world.connection) == b"{}"
    assert world.count("patch", "pods/resize", "2xx") == 3
    assert (world.seconds("patch", "count"), world.seconds("patch", "sum")) == (3, 1.5)


@pytest.mark.parametrize(
    ("failure", "code"),
    [(status_error(RawStatus(403, b"no")), "403"), (status_error(RawStatus(429, b"")), "429"), (Unreachable(), "none")],
)
async def test_a_request_that_fails_counts_by_its_code_and_is_told_on(failure: KubeError, code: str) -> None:
    world = World()
    world.server.failure = failure
    with pytest.raises(type(failure)):
        await RESIZE.send(world.connection)
    assert world.count("patch", "pods/resize", code) == 1
    assert world.seconds("patch", "count") is None
    with pytest.raises(type(failure)):
        _ = [line async for line in WATCH.stream(world.connection)]
    assert world.count("watch", "pods", code) == 1


async def test_a_watch_counts_once_at_its_end_whoever_ends_it() -> None:
    world = World()
    assert [line async for line in WATCH.stream(world.connection)] == [b"{}"]
    assert world.count("watch", "pods", "2xx") == 1
    left = WATCH.stream(world.connection)
    assert await anext(left) == b"{}"
    await left.aclose()
    assert world.count("watch", "pods", "2xx") == 2
