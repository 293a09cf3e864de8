"""The fence around the writes of a leader.

Owns refusing a write without the lead and cutting one off that would outlast it. Who leads is leadership.py's matter.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.errors import NotLeader, Unreachable
from elastipod.kube.resources import ResourceType


class FencedConnection:
    """Reads pass; writes need the lead, and end before it may be another's.

    `seconds_left` says how long nobody else may write.
    """

    def __init__(self, inner: Connection, seconds_left: Callable[[], float]) -> None:
        self._inner = inner
        self._seconds_left = seconds_left

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
        return await self._inner.list(
            resource,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            continue_token=continue_token,
        )

    def watch(
        self,
        resource: ResourceType,
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: float = 270.0,
    ) -> AsyncGenerator[bytes, None]:
        return self._inner.watch(
            resource,
            resource_version=resource_version,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_seconds=timeout_seconds,
        )

    async def get(self, resource: ResourceType, namespace: str | None, name: str, *, subresource: str = "") -> bytes:
        return await self._inner.get(resource, namespace, name, subresource=subresource)

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
        async with self._fence():
            return await self._inner.create(
                resource, namespace, body, name=name, subresource=subresource, dry_run=dry_run
            )

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
        async with self._fence():
            return await self._inner.patch(
                resource, namespace, name, body, patch_type=patch_type, subresource=subresource, dry_run=dry_run
            )

    async def delete(self, resource: ResourceType, namespace: str | None, name: str, *, body: bytes = b"") -> bytes:
        async with self._fence():
            return await self._inner.delete(resource, namespace, name, body=body)

    async def close(self) -> None:
        await self._inner.close()

    def _fence(self) -> AbstractAsyncContextManager[None]:
        left = self._seconds_left()
        if left <= 0:
            raise NotLeader("the lease is not ours, so nothing was sent")
        return within(left)


@asynccontextmanager
async def within(seconds: float) -> AsyncGenerator[None, None]:
    """A time limit; past it, the outcome is unknown."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise Unreachable(f"no answer within {seconds:.1f} s") from None
