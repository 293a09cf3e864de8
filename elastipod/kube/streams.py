"""The API server by way of asyncio's own streams: a tenth of aiohttp's memory, for the process that runs on every node.

Owns its sockets; h11 owns the protocol. What is asked and what an answer means is rest.py's matter.
"""

import asyncio
from typing import Final
from urllib.parse import quote, urlsplit

import h11

from elastipod.clock import Clock
from elastipod.kube.access import Access, AccessError
from elastipod.kube.rest import CONNECT_SECONDS, Request, RestConnection

_IDLE_SECONDS: Final = 15.0
"""An older socket is not used again: what stands between may have forgotten it."""
_READ_BYTES: Final = 65_536


class StreamConnection(RestConnection):
    """A Connection over asyncio streams. Sockets are opened as calls need them and kept. Raises AccessError."""

    failures = (OSError, h11.RemoteProtocolError)

    def __init__(self, access: Access, clock: Clock | None = None, **seconds: float) -> None:
        super().__init__(access, clock, **seconds)
        if access.proxy:
            raise AccessError("proxy-url: this process speaks to the API server itself and can not use a proxy")
        parts = urlsplit(access.server)
        self._is_tls = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._is_tls else 80)
        self._named = parts.netloc
        self._prefix = quote(parts.path, safe="/%:@!$&'()*+,;=~")
        self._idle: list[_Socket] = []

    async def send(self, request: Request, headers: dict[str, str]) -> "_StreamAnswer":
        kept = self._kept()
        if kept is not None:
            try:
                return await self._exchange(kept, request, headers)
            except self.failures:
                # The server may have let go of it as we took it: a read may be said twice, a write must not.
                if request.method != "GET":
                    raise
        return await self._exchange(await self._open(), request, headers)

    async def close(self) -> None:
        for kept in self._idle:
            kept.drop()
        self._idle.clear()
        # The transports end in the loop's next round.
        await asyncio.sleep(0)

    def keep(self, socket: "_Socket") -> None:
        """An answer was read to its end."""
        socket.idle_since = self._clock.monotonic()
        self._idle.append(socket)

    def _kept(self) -> "_Socket | None":
        """The socket used last, if it still can be; those that can not are dropped."""
        now = self._clock.monotonic()
        usable = []
        for socket in self._idle:
            if socket.is_open and now - socket.idle_since < _IDLE_SECONDS:
                usable.append(socket)
            else:
                socket.drop()
        self._idle = usable
        return usable.pop() if usable else None

    async def _open(self) -> "_Socket":
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(
                self._host,
                self._port,
                ssl=(self._access.tls or True) if self._is_tls else None,
                server_hostname=(self._access.server_name or None) if self._is_tls else None,
                happy_eyeballs_delay=0.25,
            )
        return _Socket(reader, writer)

    async def _exchange(self, socket: "_Socket", request: Request, headers: dict[str, str]) -> "_StreamAnswer":
        all_headers = {"Host": self._named, **headers}
        if request.body or request.method in ("POST", "PATCH"):
            all_headers["Content-Length"] = str(len(request.body))
        head = h11.Request(method=request.method, target=self._prefix + request.target, headers=[*all_headers.items()])
        try:
            await socket.send(head, request.body)
            return _StreamAnswer(self, socket, await socket.head())
        except BaseException:
            socket.drop()
            raise


class _Socket:
    """One socket and where its protocol stands."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._protocol = h11.Connection(h11.CLIENT)
        self.idle_since = 0.0

    @property
    def is_open(self) -> bool:
        return not (self._reader.at_eof() or self._reader.exception() or self._writer.is_closing())

    async def send(self, head: h11.Request, body: bytes) -> None:
        if self._protocol.our_state is h11.DONE:
            self._protocol.start_next_cycle()
        events: list[h11.Event] = [head, *([h11.Data(data=body)] if body else []), h11.EndOfMessage()]
        self._writer.write(b"".join(self._protocol.send(event) or b"" for event in events))
        await self._writer.drain()

    async def head(self) -> h11.Response:
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise h11.RemoteProtocolError("the answer has no head")

    async def piece(self) -> bytes:
        """The next piece of the body, empty at its end."""
        event = await self._event()
        return bytes(event.data) if isinstance(event, h11.Data) else b""

    async def _event(self) -> object:
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            self._protocol.receive_data(await self._reader.read(_READ_BYTES))
        return event

    @property
    def is_ready(self) -> bool:
        """Whether another request may follow."""
        states = (self._protocol.our_state, self._protocol.their_state)
        return states == (h11.DONE, h11.DONE) and self.is_open

    def drop(self) -> None:
        self._writer.transport.abort()


class _StreamAnswer:
    def __init__(self, owner: StreamConnection, socket: _Socket, head: h11.Response) -> None:
        self._owner, self._socket, self._is_closed = owner, socket, False
        self.status = head.status_code
        self.retry_after = next((value.decode("latin-1") for name, value in head.headers if name == b"retry-after"), "")

    async def read(self) -> bytes:
        return await self._socket.piece()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._socket.is_ready:
            self._owner.keep(self._socket)
        else:
            self._socket.drop()
