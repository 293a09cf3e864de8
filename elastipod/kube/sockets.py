"""One socket to a server that speaks HTTP/1.1: a request is written, its answer read as it comes.

Owns the socket and where its answer stands; llhttp owns the protocol. One request at a time.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, cast

import httptools

_MOST_HEAD_BYTES: Final = 65_536
_MOST_WAITING_BYTES: Final = 262_144
"""What is held of a body that nobody reads; the server waits then."""


class BrokenOff(ConnectionError):
    """There is no whole answer."""


class Socket(asyncio.Protocol):
    """A socket and the answer that comes on it; `opened` and `lost` are told of its beginning and its end."""

    status = 0
    retry_after = ""
    """The header's text; empty where there is none."""
    idle_since = 0.0
    _transport: asyncio.Transport
    _parser: httptools.HttpResponseParser

    def __init__(self, opened: "Callable[[Socket], None]", lost: "Callable[[Socket], None]") -> None:
        self._opened, self._lost = opened, lost
        self.is_open = False
        self._has_head, self._is_whole = True, True
        self._has_length = False
        """Whether the answer says where its body ends; it ends with the socket otherwise."""
        self._stays_open = True
        self._pieces: deque[bytes] = deque()
        self._waiting_bytes = self._head_bytes = 0
        self._failure = ""
        """Why no more comes. Kept as a text: an error once raised holds all that it passed through."""
        self._reader: asyncio.Future[None] | None = None

    @property
    def transport(self) -> asyncio.Transport:
        return self._transport

    @property
    def is_ready(self) -> bool:
        """Whether another request may follow."""
        return self.is_open and self._is_whole and self._stays_open and not self._pieces

    async def ask(self, request: bytes) -> None:
        """Until the head of the answer is here. Raises OSError."""
        self._has_head = self._is_whole = self._has_length = False
        self.retry_after, self._head_bytes = "", 0
        self._transport.write(request)
        while not self._has_head:
            await self._news()

    async def piece(self) -> bytes:
        """The next piece of the body, empty at its end. Raises OSError for an answer that is not whole."""
        while not self._pieces:
            if self._is_whole:
                return b""
            await self._news()
        piece = self._pieces.popleft()
        self._waiting_bytes -= len(piece)
        if not self._pieces and self.is_open:
            self._transport.resume_reading()
        return piece

    def drop(self) -> None:
        self._end("nothing more was waited for")
        self._transport.abort()

    async def _news(self) -> None:
        if self._failure:
            raise BrokenOff(self._failure)
        reader = self._reader = asyncio.get_running_loop().create_future()
        try:
            await reader
        finally:
            if self._reader is reader:
                self._reader = None

    def _end(self, failure: str) -> None:
        self.is_open = False
        self._failure = self._failure or failure
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's own are no asyncio.Transport by name.
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpResponseParser(self)
        self.is_open = True
        self._opened(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"the answer is not HTTP as asked for: {error}")
        if not self._has_head:
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_HEAD_BYTES:
                self._fail(f"the head of the answer is larger than {_MOST_HEAD_BYTES} bytes")
        if self._waiting_bytes > _MOST_WAITING_BYTES and self.is_open:
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        if self._has_head and not self._has_length and error is None:
            self._is_whole = True
        self._lost(self)
        self._end(str(error) if error else "the server ended the connection before its answer")

    def _fail(self, failure: str) -> None:
        self._end(failure)
        self._transport.abort()

    # What llhttp calls.

    def on_message_begin(self) -> None:
        if self._is_whole:
            raise BrokenOff("the server answers what nobody asked")

    def on_header(self, name: bytes, value: bytes) -> None:
        match name.lower():
            case b"content-length" | b"transfer-encoding":
                self._has_length = True
            case b"retry-after":
                self.retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._has_head = self.status >= 200

    def on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._waiting_bytes += len(piece)

    def on_message_complete(self) -> None:
        self._is_whole = self._has_head
        self._stays_open = self._parser.should_keep_alive()
