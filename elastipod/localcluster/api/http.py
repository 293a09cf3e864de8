"""The API server on loopback, for kubectl and for parts in other processes.

Owns bytes on sockets, requests in, answers and streams out, and who may ask: pods run commands here, so only who knows
the token may. What is answered is apiserver.py's matter.
"""

import asyncio
import hmac
import ipaddress
import secrets
from collections.abc import AsyncGenerator
from typing import Final

from aiohttp import web
from multidict import CIMultiDict

from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.certificate import serving_certificate
from elastipod.localcluster.api.failures import ApiFailure
from elastipod.localcluster.api.requests import JSON, Request, Response, failure_response
from elastipod.telemetry import get_logger

_MOST_BYTES: Final = 3 * 1024 * 1024
_CLOSE_SECONDS: Final = 2.0
_TOKEN_BYTES: Final = 32
_FOR_EVERYONE: Final = ("/healthz", "/livez", "/readyz", "/version")
"""What Kubernetes lets anonymous clients read."""

log = get_logger(__name__)


class HttpServer:
    """An API server that listens: `url` says where, `certificate` is its own, `token` is what it wants to hear."""

    def __init__(self, api: ApiServer) -> None:
        self.url = ""
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        self.certificate, self._tls = serving_certificate()
        self._api = api
        self._streams: set[asyncio.Task[None]] = set()
        app = web.Application(client_max_size=_MOST_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=_CLOSE_SECONDS, keepalive_timeout=300.0
        )

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises ValueError for a host that is not this machine's loopback, OSError where the port is taken."""
        if not ipaddress.ip_address(host).is_loopback:
            raise ValueError(f"the local cluster is for this machine: it listens on loopback only, not on {host}")
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port, ssl_context=self._tls).start()
        except BaseException:
            await self._runner.cleanup()
            raise
        bound = self._runner.addresses[0]
        shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        self.url = f"https://{shown}:{bound[1]}"

    async def close(self) -> None:
        """End all watches and logs, then stop to listen."""
        for stream in self._streams:
            stream.cancel()
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if not self._may_ask(request):
            message = "Unauthorized: only the kubeconfig that `elastipod local up` names holds this cluster's token"
            return _whole(failure_response(ApiFailure(401, message)))
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            message = f"the request is too large: at most {_MOST_BYTES} bytes are taken"
            return _whole(failure_response(ApiFailure(413, message)))
        asked = Request(
            request.method,
            request.rel_url.raw_path,
            dict(request.query),
            {name.lower(): value for name, value in request.headers.items()},
            body,
        )
        try:
            answer = self._api.handle(asked)
            if answer.stream is not None:
                return await self._send_stream(request, answer, answer.stream)
        except ApiFailure as failure:
            answer = failure_response(failure)
        except Exception:
            # One odd object costs its own request only.
            log.exception("request failed", method=asked.method, path=asked.path)
            answer = failure_response(ApiFailure(500, "the local cluster failed to answer; its log says why"))
        return _whole(answer)

    def _may_ask(self, request: web.Request) -> bool:
        said = request.headers.get("Authorization")
        if said is None:
            return request.method == "GET" and request.rel_url.raw_path in _FOR_EVERYONE
        return hmac.compare_digest(said.encode("utf-8", "surrogateescape"), f"Bearer {self.token}".encode())

    async def _send_stream(
        self, request: web.Request, answer: Response, stream: AsyncGenerator[bytes, None]
    ) -> web.StreamResponse:
        """Pieces as they come, until there are no more or the caller has gone."""
        response = web.StreamResponse(status=answer.code, headers={"Content-Type": answer.content_type})
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            # A log that can not be had is told as a failure: so its first piece comes before the headers.
            first = b"" if answer.content_type == JSON else await anext(stream, b"")
            await response.prepare(request)
            if first:
                await response.write(first)
            async for piece in stream:
                await response.write(piece)
            await response.write_eof()
        except ConnectionError:
            pass
        finally:
            self._streams.discard(task)
            await stream.aclose()
        return response


async def serve_http(api: ApiServer, host: str = "127.0.0.1", port: int = 0) -> HttpServer:
    """An API server that listens on loopback; port 0 takes a free one."""
    server = HttpServer(api)
    await server.start(host, port)
    return server


def _whole(answer: Response) -> web.Response:
    headers = CIMultiDict({"Content-Type": answer.content_type, "Cache-Control": "no-cache, private", **answer.headers})
    for text in answer.warnings:
        headers.add("Warning", f"299 - {_quoted(text)}")
    return web.Response(status=answer.code, body=answer.body, headers=headers)


def _quoted(text: str) -> str:
    """A text as a header has it."""
    plain = "".join(one if one.isprintable() and one.isascii() else "?" for one in text)
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
