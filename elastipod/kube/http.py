"""The API server over HTTP/1.1: sockets that are opened as calls need them, and kept.

Owns the sockets and the bytes of a request, a proxy on the way included. What is asked and what an answer means is
rest.py's matter.
"""

import asyncio
import ssl
from typing import Any, Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from elastipod.clock import Clock
from elastipod.kube.access import Access
from elastipod.kube.credentials import basic
from elastipod.kube.rest import CONNECT_SECONDS, Request, RestConnection
from elastipod.kube.sockets import BrokenOff, Socket

_IDLE_SECONDS: Final = 15.0
"""An older socket is not used again: what stands between may have forgotten it."""
_MOST_ROUNDS: Final = 20
"""Of the loop, that sockets may take to end."""
_ALTERNATIVE_SECONDS: Final = 0.25
"""RFC 8305: how long one address of a host is tried alone."""


class HttpConnection(RestConnection):
    """A Connection over sockets of its own."""

    def __init__(self, access: Access, clock: Clock | None = None, **seconds: float) -> None:
        super().__init__(access, clock, **seconds)
        self._server = urlsplit(access.server)
        self._proxy = urlsplit(access.proxy) if access.proxy else None
        self._always = {"Host": self._server.netloc}
        self._prefix = quote(self._server.path, safe="/%:@!$&'()*+,;=~")
        if self._proxy and self._server.scheme == "http":
            # RFC 9112, 3.2.2: a proxy is told the whole URL.
            self._prefix = f"http://{self._server.netloc}{self._prefix}"
            self._always |= _proxy_authorization(self._proxy)
        self._sockets: set[Socket] = set()
        self._idle: list[Socket] = []

    async def send(self, request: Request, headers: dict[str, str]) -> "_Answer":
        kept = self._kept()
        if kept is not None:
            try:
                return await self._exchange(kept, request, headers)
            except OSError:
                # The server may have let go of it as we took it: a read may be said twice, a write must not.
                if request.method != "GET":
                    raise
        return await self._exchange(await self._open(), request, headers)

    async def close(self) -> None:
        self._idle.clear()
        for socket in list(self._sockets):
            socket.drop()
        # The transports end in the loop's next rounds, those with TLS a few later.
        for _ in range(_MOST_ROUNDS):
            if not self._sockets:
                return
            await asyncio.sleep(0)

    def keep(self, socket: Socket) -> None:
        """An answer was read to its end."""
        socket.idle_since = self._clock.monotonic()
        self._idle.append(socket)

    def _kept(self) -> Socket | None:
        """The socket used last, if it still can be; those that can not are dropped."""
        now = self._clock.monotonic()
        while self._idle and not (self._idle[0].is_open and now - self._idle[0].idle_since < _IDLE_SECONDS):
            self._idle.pop(0).drop()
        while self._idle:
            socket = self._idle.pop()
            if socket.is_open:
                return socket
        return None

    async def _exchange(self, socket: Socket, request: Request, headers: dict[str, str]) -> "_Answer":
        all_headers = self._always | headers
        if request.body or request.method in ("POST", "PATCH"):
            all_headers["Content-Length"] = str(len(request.body))
        try:
            await socket.ask(_head(request.method, self._prefix + request.target, all_headers) + request.body)
            return _Answer(self, socket)
        except BaseException:
            socket.drop()
            raise

    async def _open(self) -> Socket:
        """A socket at whose other end the server is. Raises OSError."""
        first = self._proxy or self._server
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                socket = await self._connected(first)
                if self._proxy is None or self._server.scheme == "http":
                    return socket
                return await self._through(socket, self._proxy)
        except TimeoutError:
            raise ConnectionError(
                f"no connection by {first.hostname}:{_port(first)} in {CONNECT_SECONDS:g} s"
            ) from None

    async def _connected(self, to: SplitResult) -> Socket:
        loop = asyncio.get_running_loop()
        is_server, is_tls = to is self._server, to.scheme == "https"
        # uvloop tries the addresses of a host one after the other, and takes no such advice.
        advice: dict[str, Any] = {}
        if isinstance(loop, asyncio.BaseEventLoop):
            advice["happy_eyeballs_delay"] = _ALTERNATIVE_SECONDS
        try:
            _, socket = await loop.create_connection(
                self._socket,
                to.hostname or "",
                _port(to),
                ssl=((is_server and self._access.tls) or True) if is_tls else None,
                server_hostname=(is_tls and is_server and self._access.server_name) or None,
                **advice,
            )
        except OSError as error:
            raise ConnectionError(f"no connection to {to.hostname}:{_port(to)}: {error}") from error
        return socket

    async def _through(self, to_proxy: Socket, proxy: SplitResult) -> Socket:
        """A socket to the server itself, by way of its proxy."""
        host = self._server.hostname or ""
        authority = f"{f'[{host}]' if ':' in host else host}:{_port(self._server)}"
        try:
            await to_proxy.ask(_head("CONNECT", authority, {"Host": authority} | _proxy_authorization(proxy)))
            if to_proxy.status != 200:
                raise BrokenOff(f"the proxy {proxy.hostname} answered {to_proxy.status}")
            socket = self._socket()
            tls = self._access.tls or ssl.create_default_context()
            transport = await asyncio.get_running_loop().start_tls(
                to_proxy.transport, socket, tls, server_hostname=self._access.server_name or host
            )
            if transport is None:
                raise BrokenOff(f"the proxy {proxy.hostname} let go of the connection")
            socket.connection_made(transport)
        except BaseException:
            to_proxy.drop()
            raise
        # The transport is the other's now.
        self._sockets.discard(to_proxy)
        return socket

    def _socket(self) -> Socket:
        return Socket(opened=self._sockets.add, lost=self._sockets.discard)


class _Answer:
    def __init__(self, owner: HttpConnection, socket: Socket) -> None:
        self._owner, self._socket, self._is_closed = owner, socket, False
        self.status, self.retry_after = socket.status, socket.retry_after

    async def read(self) -> bytes:
        if self._is_closed:
            # The socket may be another's by now.
            raise BrokenOff("nothing more was waited for")
        return await self._socket.piece()

    def close(self) -> None:
        if not self._is_closed and self._socket.is_ready:
            self._is_closed = True
            self._owner.keep(self._socket)
        self.drop()

    def drop(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._socket.drop()


def _head(method: str, target: str, headers: dict[str, str]) -> bytes:
    """The bytes before a request's body. Raises BrokenOff for a text that would say more than it should."""
    lines = [f"{method} {target} HTTP/1.1", *[f"{name}: {value}" for name, value in headers.items()], "", ""]
    head = "\r\n".join(lines)
    if not head.isascii() or head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1:
        raise BrokenOff("the request's address or a credential holds what can not stand in a header")
    return head.encode("ascii")


def _port(url: SplitResult) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _proxy_authorization(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    return {"Proxy-Authorization": basic(unquote(proxy.username), unquote(proxy.password or ""))}
