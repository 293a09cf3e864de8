"""The API server called in process.

Owns the Connection that needs no socket: deterministic, fast, with the errors that HTTP would bring.
"""

import math
from collections.abc import AsyncGenerator
from typing import Final

from elastipod.clock import Clock
from elastipod.kube.connection import PatchType
from elastipod.kube.errors import RawStatus, status_error
from elastipod.kube.resources import ResourceType
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.requests import NOTHING, Request, Response

_PATCHES: Final = {kind: {"content-type": kind.value} for kind in PatchType}
_DRY_RUN: Final = {"dryRun": "All"}


class DirectConnection:
    """A Connection to an API server in the same process."""

    call_seconds: Final = math.inf

    def __init__(self, api: ApiServer, clock: Clock, user: str = "") -> None:
        self._api = api
        self._clock = clock
        self._user = user

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
        query = _selectors(label_selector, field_selector)
        if limit:
            query["limit"] = str(limit)
        if continue_token:
            query["continue"] = continue_token
        return self._call("GET", resource.path(namespace), query).body

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
        query = _selectors(label_selector, field_selector)
        query |= {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(int(timeout_seconds), 1)),
        }
        stream = self._call("GET", resource.path(namespace), query).stream
        if stream is not None:
            try:
                async for line in stream:
                    yield line
            finally:
                await stream.aclose()

    async def get(self, resource: ResourceType, namespace: str | None, name: str, *, subresource: str = "") -> bytes:
        return self._call("GET", resource.path(namespace, name, subresource)).body

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
        path = resource.path(namespace, name or None, subresource)
        return self._call("POST", path, _DRY_RUN if dry_run else None, body).body

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
        path = resource.path(namespace, name, subresource)
        query = _DRY_RUN if dry_run else None
        return self._call("PATCH", path, query, body, _PATCHES[patch_type]).body

    async def delete(self, resource: ResourceType, namespace: str | None, name: str, *, body: bytes = b"") -> bytes:
        return self._call("DELETE", resource.path(namespace, name), None, body).body

    async def close(self) -> None:
        """Nothing is held."""

    def _call(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
    ) -> Response:
        request = Request(method, path, query or NOTHING, headers or NOTHING, body, self._user)
        response = self._api.handle(request)
        if response.code >= 300:
            raise status_error(RawStatus(response.code, response.body, response.headers.get("Retry-After", "")))
        return response


def _selectors(labels: str, fields: str) -> dict[str, str]:
    query = {}
    if labels:
        query["labelSelector"] = labels
    if fields:
        query["fieldSelector"] = fields
    return query
