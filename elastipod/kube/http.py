"""The API server by way of aiohttp: proxies, and many calls at once.

Owns its session. What is asked and what an answer means is rest.py's matter.
"""

import aiohttp
from yarl import URL

from elastipod.kube.rest import CONNECT_SECONDS, Request, RestConnection


class HttpConnection(RestConnection):
    """A Connection over aiohttp. Sockets are opened at the first call and kept."""

    failures = (OSError, aiohttp.ClientError)
    _opened: aiohttp.ClientSession | None = None

    async def send(self, request: Request, headers: dict[str, str]) -> "_AiohttpAnswer":
        return _AiohttpAnswer(
            await self._session().request(
                request.method,
                URL(f"{self._access.server}{request.target}", encoded=True),
                headers=headers,
                data=request.body or None,
                allow_redirects=False,
                server_hostname=self._access.server_name or None,
            )
        )

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=self._access.tls or True),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                proxy=self._access.proxy or None,
            )
        return self._opened


class _AiohttpAnswer:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def retry_after(self) -> str:
        return self._response.headers.get("Retry-After", "")

    async def read(self) -> bytes:
        return await self._response.content.readany()

    def close(self) -> None:
        self._response.release()
