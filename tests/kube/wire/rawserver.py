"""A server that misbehaves in any way, as its script says."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

TLS = Path(__file__).parent.parent / "tls"

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


class RawServer:
    """Answers each request with the next bytes of a script."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[str] = []
        self.connections = 0
        self.closed = asyncio.Event()
        """Set once the server has let go of a socket."""
        self.address = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next((int(x[16:]) for x in head.split("\r\n") if x.lower().startswith("content-length: ")), 0)
                body = (await reader.readexactly(length)).decode()
                self.requests.append(head + body)
                answer = self.answers.pop(0)
                if callable(answer):
                    await answer(writer)
                    return
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self.closed.set()


@asynccontextmanager
async def serving(*answers: Answer, tls: ssl.SSLContext | None = None) -> AsyncGenerator[RawServer, None]:
    server = RawServer(*answers)
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    server.address = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        listening.close()


def said(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(*chunks: bytes, end: bool = True) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in chunks) + (b"0\r\n\r\n" if end else b"")


async def silence(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


def then_cut(answer: bytes) -> Answer:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    return write


def server_tls(name: str) -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(TLS / f"{name}.crt", TLS / f"{name}.key")
    return tls
