"""The API server on loopback."""

import asyncio
import contextlib
import io
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest

from elastipod.clock import SystemClock
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.failures import ApiFailure
from elastipod.localcluster.api.http import serve_http
from elastipod.localcluster.api.store import Store
from tests.build import pod_json
from tests.localcluster.served import MERGE, PODS


async def lines(
    namespace: str, pod: str, container: str, tail: int | None, previous: bool, follow: bool
) -> AsyncGenerator[bytes, None]:
    if previous:
        raise ApiFailure(400, f'previous terminated container "{container}" in pod "{pod}" not found')
    yield f"{namespace}/{pod}/{container} {tail} {follow}\n".encode()
    yield b"end\n"


@asynccontextmanager
async def asked() -> AsyncGenerator[aiohttp.ClientSession, None]:
    api = ApiServer(SystemClock(), Store(), logs=lines, spread=random.Random(5))
    server = await serve_http(api)
    try:
        async with aiohttp.ClientSession(server.url) as session:
            yield session
    finally:
        await server.close()


async def make(session: aiohttp.ClientSession, body: Any) -> None:
    async with session.post(PODS, json=body) as answer:
        assert answer.status == 201, await answer.text()


async def test_objects_travel_and_failures_are_statuses() -> None:
    async with asked() as session:
        await make(session, pod_json())
        async with session.get(f"{PODS}/web-0") as answer:
            assert (await answer.json())["metadata"]["name"] == "web-0"
        async with session.get(f"{PODS}/gone") as answer:
            assert answer.status == 404
            assert (await answer.json())["reason"] == "NotFound"
        async with session.post(PODS, data=io.BytesIO(b"x" * 4_000_000)) as answer:
            assert answer.status == 413


async def test_a_watch_streams_characters_of_many_bytes_whole() -> None:
    async with asked() as session, session.get(PODS, params={"watch": "true"}) as watch:
        for place in range(3):
            await make(session, pod_json(f"p{place}", annotations={"note": "é€" * 2000}))
        for place in range(3):
            event = msgspec.json.decode(await asyncio.wait_for(watch.content.readuntil(b"\n"), 5))
            assert event["object"]["metadata"]["name"] == f"p{place}"
            assert event["object"]["metadata"]["annotations"]["note"] == "é€" * 2000


async def test_a_server_that_closes_ends_its_watches() -> None:
    api = ApiServer(SystemClock(), Store(), spread=random.Random(5))
    server = await serve_http(api)
    async with aiohttp.ClientSession(server.url) as session, session.get(PODS, params={"watch": "true"}) as watch:
        closing = asyncio.create_task(server.close())
        with contextlib.suppress(aiohttp.ClientError):
            assert await asyncio.wait_for(watch.content.read(), 5) == b""
        await asyncio.wait_for(closing, 5)


async def test_logs_stream_and_their_failure_is_a_status() -> None:
    async with asked() as session:
        await make(session, pod_json())
        async with session.get(f"{PODS}/web-0/log", params={"tailLines": "3", "follow": "true"}) as answer:
            assert await answer.text() == "default/web-0/app 3 True\nend\n"
        async with session.get(f"{PODS}/web-0/log", params={"previous": "true"}) as answer:
            assert (answer.status, (await answer.json())["reason"]) == (400, "BadRequest")
        async with session.get(f"{PODS}/web-0/log", params={"container": "other"}) as answer:
            assert (await answer.json())["message"] == "container other is not valid for pod web-0"
        async with session.get(f"{PODS}/web-0/log", params={"timestamps": "true"}) as answer:
            assert "timestamps is not served" in (await answer.json())["message"]


async def test_it_listens_on_loopback_only() -> None:
    api = ApiServer(SystemClock(), Store(), spread=random.Random(5))
    with pytest.raises(ValueError, match="loopback only"):
        await serve_http(api, "0.0.0.0", 0)


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example"}]
)
async def test_a_web_page_is_not_answered(headers: dict[str, str]) -> None:
    async with asked() as session:
        for call in (session.get(PODS, headers=headers), session.post(PODS, headers=headers, json=pod_json())):
            async with call as answer:
                assert (answer.status, (await answer.json())["reason"]) == (403, "Forbidden")


async def test_a_request_that_fails_inside_costs_only_itself() -> None:
    async def broken(
        namespace: str, pod: str, container: str, tail: int | None, previous: bool, follow: bool
    ) -> AsyncGenerator[bytes, None]:
        raise KeyError("x")
        yield b""

    api = ApiServer(SystemClock(), Store(), logs=broken, spread=random.Random(5))
    server = await serve_http(api)
    async with aiohttp.ClientSession(server.url) as session:
        await make(session, pod_json())
        async with session.get(f"{PODS}/web-0/log") as answer:
            assert (answer.status, (await answer.json())["reason"]) == (500, "InternalError")
        async with session.patch(f"{PODS}/web-0", data=b"{}", headers={"Content-Type": MERGE}) as answer:
            assert answer.status == 200
    await server.close()
