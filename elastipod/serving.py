"""What a process shows on its port: /metrics, /healthz, /readyz and /explain/NAMESPACE/POD, and what its part adds.
Read only.

Owns the answers, and as much of HTTP as GET needs: one short request a connection, within a time. The facts are each
part's matter.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from elastipod.clock import Clock
from elastipod.loop import Health
from elastipod.telemetry import Metrics

Explain = Callable[[str], dict[str, Any] | None]
"""Facts about the pod of a key (`namespace/name`); None where nothing is known of it."""

Answer = Callable[[str, str], bytes | None]
"""JSON for a path and its query; None for what is not known."""

_REQUEST: Final = re.compile(rb"(GET|HEAD) ([!-~]{1,1024}) HTTP/1\.[01]\r?\n")
_POD: Final = re.compile(r"/explain/([a-z0-9.-]{1,253})/([a-z0-9.-]{1,253})")
_REQUEST_SECONDS: Final = 5.0
_MOST_HEADER: Final = 16_384
_TEXT: Final = "text/plain; charset=utf-8"
_WORDS: Final = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class Serving:
    """The process' port. `port` is what was bound (useful when 0 was asked for)."""

    def __init__(
        self,
        metrics: Metrics,
        health: Health,
        clock: Clock,
        explain: Explain,
        answer: Answer = lambda _path, _query: None,
        more_metrics: Callable[[], bytes] = bytes,
    ) -> None:
        """`more_metrics` are told besides those of the registry, in the same format."""
        self._metrics, self._health, self._clock, self._explain, self._own = metrics, health, clock, explain, answer
        self._more_metrics = more_metrics
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises OSError where the port is taken."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=_MOST_HEADER)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.LimitOverrunError, asyncio.IncompleteReadError):
            try:
                async with asyncio.timeout(_REQUEST_SECONDS):
                    request = _REQUEST.match(await reader.readuntil(b"\n"))
                    while request is not None and (await reader.readuntil(b"\n")).strip():
                        pass
                    writer.write(self._answer(request))
                    await writer.drain()
            finally:
                writer.close()
                await writer.wait_closed()

    def _answer(self, request: "re.Match[bytes] | None") -> bytes:
        if request is None:
            return _response(400, b"only GET is understood here\n")
        path, _, query = request[2].decode("ascii").partition("?")
        code, body, content_type = self._content(unquote(path), query)
        return _response(code, body, content_type, with_body=request[1] == b"GET")

    def _content(self, path: str, query: str) -> tuple[int, bytes, str]:
        match path:
            case "/metrics":
                return 200, generate_latest(self._metrics.registry) + self._more_metrics(), CONTENT_TYPE_LATEST
            case "/healthz":
                is_alive = self._health.is_alive(self._clock.monotonic())
                return _verdict("" if is_alive else self._health.last_error or "no run ends")
            case "/readyz":
                return _verdict(self._health.why_not_ready(), self._health.lacks())
        if (answer := self._own(path, query)) is not None:
            return 200, answer, "application/json"
        if (pod := _POD.fullmatch(path)) is None:
            return 404, b"there are /metrics, /healthz, /readyz and /explain/NAMESPACE/POD\n", _TEXT
        facts = self._explain(f"{pod[1]}/{pod[2]}")
        if facts is None:
            return 404, b"nothing is known of this pod here\n", _TEXT
        return 200, msgspec.json.encode(facts), "application/json"


def _verdict(why_not: str, lacks: Iterable[str] = ()) -> tuple[int, bytes, str]:
    text = "".join(f"{line}\n" for line in (why_not or "ok", *lacks))
    return 503 if why_not else 200, text.encode(), _TEXT


def _response(code: int, body: bytes, content_type: str = _TEXT, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {code} {_WORDS[code]}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
