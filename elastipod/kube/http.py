"""The API server over HTTP.

Owns sockets, timeouts and what an answer means. Retries nothing on its own but a refused credential: when to try again
is the caller's to decide, who knows what is at stake.
"""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from yarl import URL

from elastipod.clock import Clock, SystemClock
from elastipod.kube.access import Access
from elastipod.kube.connection import PatchType
from elastipod.kube.errors import BadRequest, RawStatus, Unreachable, status_error
from elastipod.kube.resources import ResourceType

_CONNECT_SECONDS: Final = 5.0
_CALL_SECONDS: Final = 5.0
_LIST_SECONDS: Final = 30.0
_WATCH_GRACE_SECONDS: Final = 5.0
_MOST_EVENT_BYTES: Final = 16 * 1024 * 1024
_MOST_FAILURE_BYTES: Final = 65_536
_MOST_NAME: Final = 253


class HttpConnection:
    """A Connection to a real API server. Sockets are opened at the first call and kept."""

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
        self._call_seconds = call_seconds
        self._watch_grace_seconds = watch_grace_seconds
        self._opened: aiohttp.ClientSession | None = None

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
        return await self._call("GET", _path(resource, namespace), query, seconds=_LIST_SECONDS)

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
        try:
            async with await self._send("GET", _path(resource, namespace), query, seconds=longest) as answer:
                async for line in _lines(answer):
                    yield line
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(f"watch {resource.plural}", error) from error

    async def get(self, resource: ResourceType, namespace: str | None, name: str, *, subresource: str = "") -> bytes:
        return await self._call("GET", _path(resource, namespace, name, subresource), {})

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
        return await self._call("POST", path, _dry(dry_run), body=body)

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
        return await self._call("PATCH", path, _dry(dry_run), body=body, content_type=patch_type.value)

    async def delete(self, resource: ResourceType, namespace: str | None, name: str, *, body: bytes = b"") -> bytes:
        return await self._call("DELETE", _path(resource, namespace, name), {}, body=body)

    async def close(self) -> None:
        """Let go of sockets."""
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        body: bytes = b"",
        content_type: str = "application/json",
        seconds: float | None = None,
    ) -> bytes:
        try:
            answer = await self._send(
                method, path, query, body=body, content_type=content_type, seconds=seconds or self._call_seconds
            )
            async with answer:
                return _readable(await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(f"{method} {path}", error) from error

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        seconds: float,
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> aiohttp.ClientResponse:
        """An answer that is good, its body unread. Raises StatusError for the others."""
        credential = self._access.credential
        options: dict[str, Any] = {
            "data": body or None,
            "allow_redirects": False,
            "timeout": aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_SECONDS),
        }
        if self._access.server_name:
            options["server_hostname"] = self._access.server_name
        url = URL(f"{self._access.server}{path}", encoded=True).with_query(query)
        for is_last in (False, True):
            headers = {"Content-Type": content_type} if body else {}
            authorization = await credential.authorization(self._clock.monotonic())
            if authorization:
                headers["Authorization"] = authorization
            answer = await self._session().request(method, url, headers=headers, **options)
            if answer.status < 300:
                return answer
            async with answer:
                if answer.status == 401 and not is_last:
                    credential.refused()
                    continue
                failure = await answer.content.read(_MOST_FAILURE_BYTES)
            break
        raise status_error(RawStatus(answer.status, failure, answer.headers.get("Retry-After", "")))

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=self._access.tls or True),
                headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "elastipod"},
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                proxy=self._access.proxy or None,
            )
        return self._opened


async def _lines(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """The lines of a stream, however its chunks are cut."""
    parts: list[bytes] = []
    size = 0
    async for chunk in answer.content.iter_any():
        *whole, rest = chunk.split(b"\n")
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


def _query(**fields: str) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _unreachable(what: str, error: BaseException) -> Unreachable:
    return Unreachable(f"{what}: {str(error) or type(error).__name__}")
