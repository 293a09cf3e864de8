"""The HTTPS endpoint that the API server posts AdmissionReviews to.

Owns the sockets and their bounds: how large, how slow and how many requests may be. h11 owns the protocol. What is not
answered in time or form is refused by its HTTP status, on which the API server creates the pod as it is
(failurePolicy Ignore). What is answered is service.py's matter.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import h11

from elastipod.telemetry import Metrics, get_logger
from updater.admission.review import BadReview

log = get_logger(__name__)

Admit = Callable[[bytes], Awaitable[bytes]]
"""From the body of a review to the body of its answer. Raises BadReview."""

PATH: Final = "/mutate"
MOST_BYTES: Final = 4 * 1024 * 1024
MOST_CONNECTIONS: Final = 32
"""Each takes a third of a mebibyte (asyncio's buffers for TLS), and one core serves no more at once anyway."""
_MOST_WAITING: Final = 1_024
_PLACE_SECONDS: Final = 0.5
"""How long a connection waits for a place; then it is closed, and the API server goes on without an answer."""
_MOST_HEADER: Final = 16_384
_READ_BYTES: Final = 65_536
_FIRST_SECONDS: Final = 2.0
"""How long a new connection may take to shake hands, and then say nothing."""
_IDLE_SECONDS: Final = 300.0
"""How long a kept one may: longer than API servers keep theirs, so that they are the ones to close."""
_GOODBYE_SECONDS: Final = 0.05
_BREATH_SECONDS: Final = 0.1


class Refused(Exception):
    """A request that gets no answer but a status and a reason."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Webhook:
    """Listens, and answers by `admit`. `port` is what was bound (useful when 0 was asked for)."""

    def __init__(self, admit: Admit, request_seconds: float, metrics: Metrics) -> None:
        self.port = 0
        self._admit = admit
        self._request_seconds = request_seconds
        self._places = asyncio.Semaphore(MOST_CONNECTIONS)
        self._accepting: asyncio.Task[None] | None = None
        self._open: dict[asyncio.Task[None], _Connection] = {}
        self._refused = metrics.counter("admission_refused", "Requests without an answer, by HTTP status", "status")

    @property
    def is_listening(self) -> bool:
        return self._accepting is not None

    async def start(self, host: str, port: int, context: ssl.SSLContext) -> None:
        """Listen. Raises OSError where the port is taken."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=_MOST_WAITING)
        listening.setblocking(False)
        self.port = listening.getsockname()[1]
        self._accepting = asyncio.create_task(self._accept(listening, context))

    async def stop(self) -> None:
        """Take no more connections, let requests at work have their answer, and end all."""
        if self._accepting is None:
            return
        self._accepting.cancel()
        for task, connection in self._open.items():
            connection.is_last = True
            if connection.is_idle:
                task.cancel()
        await asyncio.wait({self._accepting, *self._open}, timeout=self._request_seconds + _GOODBYE_SECONDS)

    async def _accept(self, listening: socket.socket, context: ssl.SSLContext) -> None:
        with listening:
            while True:
                try:
                    taken, _ = await asyncio.get_running_loop().sock_accept(listening)
                except OSError as error:
                    # No file descriptor is free, or the other side has gone.
                    log.warning("connection not taken", error=str(error))
                    await asyncio.sleep(_BREATH_SECONDS)
                    continue
                connection = _Connection(taken)
                task = asyncio.create_task(self._serve(connection, context))
                self._open[task] = connection
                task.add_done_callback(self._open.pop)

    async def _serve(self, connection: "_Connection", context: ssl.SSLContext) -> None:
        try:
            if not await self._has_place():
                self._refused.labels(status="none").inc()
                return
            try:
                with suppress(OSError, TimeoutError):
                    await connection.open(context)
                    await self._answer_all(connection)
            finally:
                self._places.release()
        finally:
            await connection.close()

    async def _has_place(self) -> bool:
        """Wait for a place, but not so long that the answer would come too late: then it is better said at once."""
        if len(self._open) > _MOST_WAITING:
            return False
        if self._places.locked():
            self._end_one_idle()
        try:
            async with asyncio.timeout(_PLACE_SECONDS):
                return await self._places.acquire()
        except TimeoutError:
            return False

    def _end_one_idle(self) -> None:
        """The connection that had its answer and then said nothing for longest has to go."""
        for task, connection in self._open.items():
            if connection.is_served and connection.is_idle:
                connection.is_idle = False
                task.cancel()
                return

    async def _answer_all(self, connection: "_Connection") -> None:
        """Request by request, until either side has enough."""
        while not connection.is_last:
            await connection.wait(_IDLE_SECONDS if connection.is_served else _FIRST_SECONDS)
            status, body = 200, b""
            try:
                async with asyncio.timeout(self._request_seconds):
                    asked = await connection.read()
                    if asked is None:
                        return
                    body = await self._admit(asked)
            except Refused as refused:
                status, body = refused.status, str(refused).encode()
            except BadReview as bad:
                status, body = 400, str(bad).encode()
            except h11.RemoteProtocolError as error:
                status, body = error.error_status_hint, str(error).encode()
            except TimeoutError:
                status, body = 408, b"the request took too long"
            if status != 200:
                self._refused.labels(status=str(status)).inc()
                log.debug("request refused", status=status, why=body.decode("utf-8", "replace"))
            async with asyncio.timeout(self._request_seconds):
                await connection.write(status, body)


class _Connection:
    """A connection and where it stands. It takes little memory until it is opened."""

    _reader: asyncio.StreamReader
    _http: h11.Connection

    def __init__(self, taken: socket.socket) -> None:
        self.is_served = False
        """A request has had its answer."""
        self.is_idle = True
        """Nothing of a next request has come."""
        self.is_last = False
        """No request is taken after this one."""
        self._is_head = False
        """The request wants an answer without its body."""
        self._socket = taken
        self._writer: asyncio.StreamWriter | None = None

    async def open(self, context: ssl.SSLContext) -> None:
        """Shake hands. Raises OSError, as an SSLError is one."""
        loop = asyncio.get_running_loop()
        self._reader = asyncio.StreamReader(_READ_BYTES)
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MOST_HEADER)
        protocol = asyncio.StreamReaderProtocol(self._reader)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol,
            self._socket,
            ssl=context,
            ssl_handshake_timeout=_FIRST_SECONDS,
            ssl_shutdown_timeout=_GOODBYE_SECONDS,
        )
        self._writer = asyncio.StreamWriter(transport, protocol, self._reader, loop)

    async def close(self) -> None:
        """Say goodbye; the other side's is waited for only where nobody needs the place."""
        if self._writer is None:
            self._socket.close()
            return
        self._writer.close()
        if self.is_last:
            with suppress(OSError, TimeoutError):
                await self._writer.wait_closed()

    async def wait(self, seconds: float) -> None:
        """Until a request begins. Raises TimeoutError."""
        if not self._http.trailing_data[0]:
            async with asyncio.timeout(seconds):
                self._http.receive_data(await self._reader.read(_READ_BYTES))
        self.is_idle = False

    async def read(self) -> bytes | None:
        """The request's body; None where the other side has gone. Raises Refused, h11.RemoteProtocolError."""
        pieces: list[bytes] = []
        size = 0
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    self._send(h11.InformationalResponse(status_code=100, headers=[]))
                self._http.receive_data(await self._reader.read(_READ_BYTES))
            elif isinstance(event, h11.Request):
                self._is_head = event.method == b"HEAD"
                _check(event)
            elif isinstance(event, h11.Data):
                size += len(event.data)
                if size > MOST_BYTES:
                    raise Refused(413, f"at most {MOST_BYTES} bytes are taken")
                pieces.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                return b"".join(pieces)
            else:
                return None

    async def write(self, status: int, body: bytes) -> None:
        """The answer. After one that is not 200 the connection ends, as the request may not have been read."""
        content_type = "application/json" if status == 200 else "text/plain; charset=utf-8"
        self.is_last |= status != 200
        headers = [("Content-Type", content_type), ("Content-Length", str(len(body)))]
        if self.is_last:
            headers.append(("Connection", "close"))
        shown = b"" if self._is_head else body
        self._send(h11.Response(status_code=status, headers=headers), h11.Data(data=shown), h11.EndOfMessage())
        assert self._writer is not None
        await self._writer.drain()
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        else:
            self.is_last = True
        self.is_served = self.is_idle = True

    def _send(self, *events: h11.Event) -> None:
        assert self._writer is not None
        self._writer.write(b"".join(self._http.send(event) or b"" for event in events))


def _check(request: h11.Request) -> None:
    """That it is a review that can be read, before its body is. Raises Refused."""
    headers = dict(request.headers)
    if request.target.partition(b"?")[0] != PATH.encode():
        raise Refused(404, f"there is only {PATH}")
    if request.method != b"POST":
        raise Refused(405, "an AdmissionReview is posted")
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
        raise Refused(415, "Content-Type must be application/json")
    if b"content-encoding" in headers:
        raise Refused(415, "a body must not be compressed")
    if int(headers.get(b"content-length", b"0")) > MOST_BYTES:
        raise Refused(413, f"at most {MOST_BYTES} bytes are taken")
