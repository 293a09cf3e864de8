"""The API server on loopback."""

import asyncio
import contextlib
import io
import random
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from yarl import URL

from elastipod.clock import SystemClock
from elastipod.kube import resources as kube
from elastipod.kube.access import load_access
from elastipod.kube.errors import StatusError, Unreachable
from elastipod.kube.http import HttpConnection
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.failures import ApiFailure
from elastipod.localcluster.api.http import HttpServer, serve_http
from elastipod.localcluster.api.logs import LogWish
from elastipod.localcluster.api.store import Store
from elastipod.localcluster.folder import kubeconfig
from tests.build import pod_json
from tests.localcluster.served import MERGE, PODS


async def lines(namespace: str, pod: str, container: str, wish: LogWish) -> AsyncGenerator[bytes, None]:
    if wish.is_previous:
        raise ApiFailure(400, f'previous terminated container "{container}" in pod "{pod}" not found')
    yield f"{namespace}/{pod}/{container} {wish.tail} {wish.follows}\n".encode()
    yield b"end\n"


def session_of(server: HttpServer) -> aiohttp.ClientSession:
    return stranger_to(server, {"Authorization": f"Bearer {server.token}"})


def stranger_to(server: HttpServer, headers: dict[str, str] | None = None) -> aiohttp.ClientSession:
    trusting = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=server.certificate))
    return aiohttp.ClientSession(server.url, connector=trusting, headers=headers)


@asynccontextmanager
async def asked() -> AsyncGenerator[aiohttp.ClientSession, None]:
    api = ApiServer(SystemClock(), Store(), logs=lines, spread=random.Random(5))
    server = await serve_http(api)
    try:
        async with session_of(server) as session:
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
    async with session_of(server) as session, session.get(PODS, params={"watch": "true"}) as watch:
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
        async with session.get(f"{PODS}/web-0/log", params={"stream": "Stderr"}) as answer:
            assert "stream is not served" in (await answer.json())["message"]


async def test_it_listens_on_loopback_only() -> None:
    api = ApiServer(SystemClock(), Store(), spread=random.Random(5))
    with pytest.raises(ValueError, match="loopback only"):
        await serve_http(api, "0.0.0.0", 0)


@asynccontextmanager
async def served() -> AsyncGenerator[HttpServer, None]:
    server = await serve_http(ApiServer(SystemClock(), Store(), spread=random.Random(5)))
    try:
        yield server
    finally:
        await server.close()


@pytest.mark.parametrize(
    "said",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Basic d3Jvbmc6d3Jvbmc=",
        "Bearer \u00e9",
        "{token}",
        "Basic {token}",
    ],
)
@pytest.mark.parametrize("path", [PODS, "/api", "/openapi/v3", "/nowhere"])
async def test_who_does_not_say_the_token_is_told_nothing(said: str | None, path: str) -> None:
    async with served() as server, stranger_to(server) as session:
        headers = {} if said is None else {"Authorization": said.format(token=server.token)}
        for method in ("GET", "POST", "PATCH", "DELETE"):
            async with session.request(method, path, headers=headers, data=b"{}") as answer:
                status = await answer.json()
                assert (answer.status, status["kind"], status["reason"]) == (401, "Status", "Unauthorized")
                assert server.token not in status["message"]


async def test_a_refused_request_is_not_read() -> None:
    async with (
        served() as server,
        stranger_to(server) as session,
        session.post(PODS, data=io.BytesIO(b"x" * 4_000_000)) as answer,
    ):
        assert answer.status == 401


async def test_anyone_may_ask_whether_it_is_well_and_which_version_it_is() -> None:
    async with served() as server, stranger_to(server) as session:
        for path in ("/healthz", "/livez", "/readyz", "/version"):
            async with session.get(path) as answer:
                assert answer.status == 200
            async with session.get(path, headers={"Authorization": "Bearer wrong"}) as answer:
                assert answer.status == 401
            async with session.post(path, data=b"{}") as answer:
                assert answer.status == 401
        # No way around by another spelling of a path.
        for path in ("/healthz/..%2fapi", "/version/", "/healthz%2f..%2fapi"):
            async with session.get(URL(f"{server.url}{path}", encoded=True)) as answer:
                assert answer.status == 401


@asynccontextmanager
async def led_by(kubeconfig: str, folder: Path) -> AsyncGenerator[HttpConnection, None]:
    path = folder / "kubeconfig"
    path.write_text(kubeconfig)
    connection = HttpConnection(load_access(str(path), None, {}))
    try:
        yield connection
    finally:
        await connection.close()


async def test_a_kubeconfig_leads_to_its_own_server_only(tmp_path: Path) -> None:
    async with served() as server, served() as other:
        own = kubeconfig("test", server)
        async with led_by(own, tmp_path) as connection:
            assert b"PodList" in await connection.list(kube.PODS)
        async with led_by(own.replace(server.token, other.token), tmp_path) as connection:
            with pytest.raises(StatusError, match="Unauthorized"):
                await connection.list(kube.PODS)
        # Another user's program that took the port of a cluster that died gets no token.
        async with led_by(own.replace(server.url, other.url), tmp_path) as connection:
            with pytest.raises(Unreachable, match="certificate"):
                await connection.list(kube.PODS)


async def test_a_request_that_fails_inside_costs_only_itself() -> None:
    async def broken(namespace: str, pod: str, container: str, wish: LogWish) -> AsyncGenerator[bytes, None]:
        raise KeyError("x")
        yield b""

    api = ApiServer(SystemClock(), Store(), logs=broken, spread=random.Random(5))
    server = await serve_http(api)
    async with session_of(server) as session:
        await make(session, pod_json())
        async with session.get(f"{PODS}/web-0/log") as answer:
            assert (answer.status, (await answer.json())["reason"]) == (500, "InternalError")
        async with session.patch(f"{PODS}/web-0", data=b"{}", headers={"Content-Type": MERGE}) as answer:
            assert answer.status == 200
    await server.close()
