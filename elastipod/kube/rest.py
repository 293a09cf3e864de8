"""The Kubernetes API as HTTP requests.

Owns paths, queries, headers, time limits, and what an answer means. Sockets are http.py's, which derives from it.
Retries nothing on its own but a refused credential: when to try again is the caller's to decide, who knows what is at
stake.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, Protocol
from urllib.parse import quote

import msgspec

from elastipod.clock import Clock, SystemClock
from elastipod.kube.access import Access
from elastipod.kube.connection import PatchType
from elastipod.kube.errors import BadRequest, RawStatus, Unreachable, status_error
from elastipod.kube.resources import ResourceType

CONNECT_SECONDS: Final = 5.0
_CALL_SECONDS: Final = 5.0
_LIST_SECONDS: Final = 30.0
_WATCH_GRACE_SECONDS: Final = 5.0
_MOST_EVENT_BYTES: Final = 16 * 1024 * 1024
_MOST_BODY_BYTES: Final = 256 * 1024 * 1024
"""The metrics of a cluster come in one piece: 100,000 pods are 50 MB."""
_MOST_FAILURE_BYTES: Final = 65_536
_MOST_NAME: Final = 253
_ALWAYS: Final = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "elastipod"}


class Request(msgspec.Struct, frozen=True):
    """One HTTP request, its path and query quoted."""

    method: str
    path: str
    query: str = ""
    body: bytes = b""
    content_type: str = "application/json"

    @property
    def target(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path


class Answer(Protocol):
    """An HTTP response whose body is still to be read."""

    @property
    def status(self) -> int: ...

    @property
    def retry_after(self) -> str:
        """The header's text; empty where there is none."""
        ...

    async def read(self) -> bytes:
        """The next piece of the body, empty at its end."""
        ...

    def close(self) -> None:
        """No more will be read: the socket is kept where the body is at its end, and dropped otherwise."""
        ...

    def drop(self) -> None:
        """No more is to come, whoever reads: the socket is dropped."""
        ...


class RestConnection(ABC):
    """A Connection to a real API server."""

    def __init__(
        self,
        access: Access,
        clock: Clock | None = None,
        *,
        call_seconds: float = _CALL_SECONDS,
        watch_grace_seconds: float = _WATCH_GRACE_SECONDS,
    ) -> None:
        self._access = access
        self._clock = clock or SystemClock()
        self.call_seconds = call_seconds
        self._watch_grace_seconds = watch_grace_seconds

    @abstractmethod
    async def send(self, request: Request, headers: dict[str, str]) -> Answer:
        """The answer's head. Redirects are not followed. Raises OSError where there is none."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of sockets."""

    async def list(
        self,
        resource: ResourceType,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
    ) -> bytes:
        query = _query(
            limit=str(limit), labelSelector=label_selector, fieldSelector=field_selector, **{"continue": continue_token}
        )
        return await self._call(Request("GET", _path(resource, namespace), query), _LIST_SECONDS)

    async def watch(
        self,
        resource: ResourceType,
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: float = 270.0,
    ) -> AsyncGenerator[bytes, None]:
        query = _query(
            watch="1",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=str(max(int(timeout_seconds), 1)),
            labelSelector=label_selector,
            fieldSelector=field_selector,
        )
        # A connection that went silent is noticed here, as no one else would.
        longest = timeout_seconds + self._watch_grace_seconds
        async with self._stream(Request("GET", _path(resource, namespace), query), longest) as pieces:
            async for line in _lines(pieces):
                yield line

    async def get(self, resource: ResourceType, namespace: str | None, name: str, *, subresource: str = "") -> bytes:
        return await self._call(Request("GET", _path(resource, namespace, name, subresource)))

    async def create(
        self,
        resource: ResourceType,
        namespace: str | None,
        body: bytes,
        *,
        name: str = "",
        subresource: str = "",
        dry_run: bool = False,
    ) -> bytes:
        path = _path(resource, namespace, name if subresource else None, subresource)
        return await self._call(Request("POST", path, _dry(dry_run), body))

    async def patch(
        self,
        resource: ResourceType,
        namespace: str | None,
        name: str,
        body: bytes,
        *,
        patch_type: PatchType = PatchType.STRATEGIC,
        subresource: str = "",
        dry_run: bool = False,
    ) -> bytes:
        path = _path(resource, namespace, name, subresource)
        return await self._call(Request("PATCH", path, _dry(dry_run), body, patch_type.value))

    async def delete(self, resource: ResourceType, namespace: str | None, name: str, *, body: bytes = b"") -> bytes:
        return await self._call(Request("DELETE", _path(resource, namespace, name), body=body))

    async def _call(self, request: Request, seconds: float | None = None) -> bytes:
        """The whole body of a good answer. Raises StatusError for the others."""
        try:
            async with asyncio.timeout(seconds or self.call_seconds):
                answer = await self._good(request)
                try:
                    pieces, size = [], 0
                    while piece := await answer.read():
                        pieces.append(piece)
                        size += len(piece)
                        if size > _MOST_BODY_BYTES:
                            raise Unreachable(f"{request.method} {request.path}: more than {_MOST_BODY_BYTES} bytes")
                finally:
                    answer.close()
        except OSError as error:
            raise _unreachable(request, error) from error
        return _readable(b"".join(pieces))

    @asynccontextmanager
    async def _stream(self, request: Request, seconds: float) -> AsyncGenerator[AsyncGenerator[bytes, None], None]:
        """The pieces of a good answer's body as they come; `seconds` are for all of it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        try:
            async with asyncio.timeout_at(deadline):
                answer = await self._good(request)
            # Whoever reads on is told then; a limit for each piece would cost as much as its reading.
            end = loop.call_at(deadline, answer.drop)
            try:
                yield _pieces(answer)
            finally:
                end.cancel()
                answer.close()
        except OSError as error:
            raise _unreachable(request, error) from error

    async def _good(self, request: Request) -> Answer:
        """An answer that is good, its body unread."""
        credential = self._access.credential
        for is_last in (False, True):
            headers = {**_ALWAYS, "Content-Type": request.content_type} if request.body else dict(_ALWAYS)
            authorization = await credential.authorization(self._clock.monotonic())
            if authorization:
                headers["Authorization"] = authorization
            answer = await self.send(request, headers)
            if answer.status < 300:
                return answer
            try:
                if answer.status == 401 and not is_last:
                    credential.refused()
                    continue
                raise status_error(RawStatus(answer.status, await _failure(answer), answer.retry_after))
            finally:
                answer.close()
        raise AssertionError("the last try ends in an answer or an error")


def _unreachable(request: Request, error: Exception) -> Unreachable:
    why = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
    return Unreachable(f"{request.method} {request.path}: {why}")


async def _pieces(answer: Answer) -> AsyncGenerator[bytes, None]:
    while piece := await answer.read():
        yield piece


async def _failure(answer: Answer) -> bytes:
    body = b""
    while len(body) < _MOST_FAILURE_BYTES and (piece := await answer.read()):
        body += piece
    return body[:_MOST_FAILURE_BYTES]


async def _lines(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The lines of a stream, however it is cut."""
    parts: list[bytes] = []
    size = 0
    async for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for end in whole:
            line = b"".join((*parts, end))
            parts, size = [], 0
            if line.strip():
                yield _readable(line)
        if rest:
            parts.append(rest)
            size += len(rest)
        if size > _MOST_EVENT_BYTES:
            raise Unreachable(f"a watch event is larger than {_MOST_EVENT_BYTES} bytes")
    if parts:
        raise Unreachable("the watch ended in the middle of an event")


def _readable(body: bytes) -> bytes:
    """The body as UTF-8, what is none of it replaced: one bad byte must not cost a whole list."""
    if body.isascii():
        return body
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode("utf-8", "replace").encode("utf-8")
    return body


def _path(resource: ResourceType, namespace: str | None, name: str | None = None, subresource: str = "") -> str:
    """The URL path. Raises BadRequest for a name that could lead elsewhere."""
    return resource.path(_segment(namespace), _segment(name), subresource)


def _segment(text: str | None) -> str | None:
    if text is None:
        return None
    # apimachinery's IsValidPathSegmentName.
    if not text or len(text) > _MOST_NAME or text in (".", "..") or "/" in text or "%" in text:
        raise BadRequest(400, "BadRequest", f"{text[:60]!r} can not be the name of an object")
    return quote(text, safe="")


def _query(**fields: str) -> str:
    return "&".join(f"{name}={quote(value, safe='/,!:')}" for name, value in fields.items() if value)


def _dry(dry_run: bool) -> str:
    return "dryRun=All" if dry_run else ""
