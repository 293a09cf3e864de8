"""A kubeconfig's proxy is gone through, by TLS to the server itself."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from elastipod.kube.access import Access
from elastipod.kube.errors import Unreachable
from elastipod.kube.http import HttpConnection
from elastipod.kube.resources import NODES
from tests.kube.wire.rawserver import TLS, said, server_tls, serving

TRUSTING = ssl.create_default_context(cafile=str(TLS / "server.crt"))
TUNNEL = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Proxy:
    """Says `answer` to CONNECT and, where that is a 200, passes on what either side says."""

    def __init__(self, answer: bytes = TUNNEL) -> None:
        self._answer = answer
        self.heads: list[str] = []
        self.handling: list[asyncio.Task[None]] = []
        self.address = ""

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.handling.append(asyncio.ensure_future(self._handle(reader, writer)))

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        writer.write(self._answer)
        if self._answer == TUNNEL:
            host, _, port = head.split()[1].rpartition(":")
            to_reader, to_writer = await asyncio.open_connection(host.strip("[]"), int(port))
            await asyncio.gather(_passed(reader, to_writer), _passed(to_reader, writer))
        await _ended(writer)


async def _passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
    await _ended(writer)


async def _ended(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


@asynccontextmanager
async def proxying(proxy: Proxy) -> AsyncGenerator[Proxy, None]:
    listening = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        listening.close()
        await asyncio.gather(*proxy.handling)


async def asked(access: Access, times: int = 1) -> list[bytes]:
    connection = HttpConnection(access, call_seconds=2.0)
    try:
        return [await connection.get(NODES, None, "n") for _ in range(times)]
    finally:
        await connection.close()


async def test_a_server_with_tls_is_spoken_to_through_a_tunnel_that_is_kept() -> None:
    async with serving(said(b"1"), said(b"2"), tls=server_tls("server")) as server, proxying(Proxy()) as proxy:
        access = Access(server.address, tls=TRUSTING, proxy=f"http://me:p%40ss@{proxy.address}")
        assert await asked(access, times=2) == [b"1", b"2"]
    (head,) = proxy.heads
    assert head.startswith(f"CONNECT {server.address[8:]} HTTP/1.1\r\nHost: {server.address[8:]}\r\n")
    assert f"Proxy-Authorization: Basic {base64.b64encode(b'me:p@ss').decode()}\r\n" in head
    assert "Proxy-Authorization" not in server.requests[0]


async def test_the_server_behind_a_proxy_must_be_the_one_that_is_meant() -> None:
    async with serving(said(b"1"), tls=server_tls("elsewhere")) as server, proxying(Proxy()) as proxy:
        with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await asked(Access(server.address, tls=TRUSTING, proxy=f"http://{proxy.address}"))
    assert server.requests == []


async def test_a_refusal_of_the_proxy_is_told() -> None:
    async with proxying(Proxy(said(b"", "407 Proxy Authentication Required"))) as proxy:
        with pytest.raises(Unreachable, match=r"the proxy 127\.0\.0\.1 answered 407"):
            await asked(Access("https://kube.invalid", tls=TRUSTING, proxy=f"http://{proxy.address}"))


async def test_a_server_without_tls_is_asked_by_its_whole_url() -> None:
    async with serving(said(b"1")) as proxy:
        access = Access("http://kube.invalid:8080/below", proxy=f"http://me:x@{proxy.address[7:]}")
        assert await asked(access) == [b"1"]
    head = proxy.requests[0]
    assert head.startswith("GET http://kube.invalid:8080/below/api/v1/nodes/n HTTP/1.1\r\nHost: kube.invalid:8080\r\n")
    assert f"Proxy-Authorization: Basic {base64.b64encode(b'me:x').decode()}\r\n" in head
