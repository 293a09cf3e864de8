"""The port of a process, asked over real sockets."""

import asyncio
from collections.abc import AsyncGenerator

import aiohttp
import pytest

from elastipod.clock import ManualClock
from elastipod.loop import Health
from elastipod.serving import Serving
from elastipod.telemetry import Metrics


@pytest.fixture
async def serving() -> AsyncGenerator[Serving, None]:
    metrics = Metrics()
    metrics.counter("runs", "Runs.").inc()
    clock = ManualClock(0)
    served = Serving(metrics, Health(60, 0), clock, {"d/web-0": {"decision": "WithinBounds"}}.get)
    await served.start("127.0.0.1", 0)
    yield served
    await served.stop()


async def _get(serving: Serving, path: str, method: str = "GET") -> tuple[int, str]:
    url = f"http://127.0.0.1:{serving.port}{path}"
    async with aiohttp.ClientSession() as session, session.request(method, url) as answer:
        return answer.status, await answer.text()


async def test_metrics_health_and_a_pod_are_told(serving: Serving) -> None:
    assert "elastipod_runs_total 1.0" in (await _get(serving, "/metrics"))[1]
    assert await _get(serving, "/healthz") == (200, "ok\n")
    assert (await _get(serving, "/readyz"))[0] == 503
    assert await _get(serving, "/explain/d/web-0") == (200, '{"decision":"WithinBounds"}')


async def test_metrics_that_a_part_writes_itself_stand_behind_those_of_its_registry() -> None:
    metrics = Metrics()
    metrics.counter("runs", "Runs.").inc()
    more = [b""]
    served = Serving(metrics, Health(60, 0), ManualClock(0), lambda _: None, more_metrics=lambda: more[0])
    await served.start("127.0.0.1", 0)
    alone = (await _get(served, "/metrics"))[1]
    more[0] = b"# TYPE x gauge\nx 1\n"
    assert await _get(served, "/metrics") == (200, alone + more[0].decode())
    assert (await _get(served, "/metrics"))[1].endswith("\n")
    await served.stop()


async def test_what_a_part_adds_is_told_by_path_and_query() -> None:
    own = {("/samples", "since=7"): b'{"node":"n1"}'}
    served = Serving(Metrics(), Health(60, 0), ManualClock(0), lambda _: None, lambda *asked: own.get(asked))
    await served.start("127.0.0.1", 0)
    assert await _get(served, "/samples?since=7") == (200, '{"node":"n1"}')
    assert (await _get(served, "/samples?since=8"))[0] == 404
    assert await _get(served, "/healthz?since=7") == (200, "ok\n")
    await served.stop()


async def test_a_part_without_its_definitions_is_alive_and_not_ready_and_says_what_it_lacks() -> None:
    clock = ManualClock(0)
    health = Health(60, 0, last_success_at=0, lacks=lambda: ("kinds is not served",), missing=lambda: "one is missing")
    served = Serving(Metrics(), health, clock, lambda _: None)
    await served.start("127.0.0.1", 0)
    assert await _get(served, "/healthz") == (200, "ok\n")
    assert await _get(served, "/readyz") == (503, "one is missing\nkinds is not served\n")
    await served.stop()


@pytest.mark.parametrize("path", ["/", "/explain/d", "/explain/d/other", "/explain/../../etc/passwd", "/explain/d/%00"])
async def test_what_is_not_there_is_not_found(serving: Serving, path: str) -> None:
    assert (await _get(serving, path))[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_nothing_but_get_is_understood(serving: Serving, method: str) -> None:
    assert (await _get(serving, "/metrics", method))[0] == 400


@pytest.mark.parametrize(
    "request_bytes", [b"", b"\xff\xfe\n\n", b"GET /" + b"a" * 100_000, b"GET / HTTP/1.1\r\n" + b"h: x\r\n" * 5000]
)
async def test_rubbish_costs_its_connection_only(serving: Serving, request_bytes: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", serving.port)
    writer.write(request_bytes)
    writer.write_eof()
    await reader.read()
    writer.close()
    assert await _get(serving, "/healthz") == (200, "ok\n")
