"""A request as a value, and a connection that lets one hand decide on each of them.

Owns nothing but the translation; what is fenced, recorded or broken on the way is for those who derive from it.
"""

from collections.abc import AsyncGenerator, Coroutine
from enum import StrEnum
from typing import Any

from msgspec import Struct

from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.resources import ResourceType


class Verb(StrEnum):
    """What is asked of the API server."""

    LIST = "list"
    WATCH = "watch"
    GET = "get"
    CREATE = "create"
    PATCH = "patch"
    DELETE = "delete"


Answering = Coroutine[Any, Any, bytes]
"""A request that is awaited; those who only pass it on add no step to it."""

WRITES = frozenset({Verb.CREATE, Verb.PATCH, Verb.DELETE})


class Call(Struct, frozen=True):
    """One request."""

    verb: Verb
    resource: ResourceType
    namespace: str | None = None
    name: str = ""
    subresource: str = ""
    body: bytes = b""
    patch_type: PatchType = PatchType.STRATEGIC
    dry_run: bool = False
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 500
    continue_token: str = ""
    resource_version: str = ""
    timeout_seconds: float = 0.0

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES

    def send(self, to: Connection) -> Answering:
        """Make the request; a watch has its own way."""
        if isinstance(to, InterceptedConnection):
            return to.handle(self)
        match self.verb:
            case Verb.LIST:
                return to.list(
                    self.resource,
                    namespace=self.namespace,
                    label_selector=self.label_selector,
                    field_selector=self.field_selector,
                    limit=self.limit,
                    continue_token=self.continue_token,
                )
            case Verb.GET:
                return to.get(self.resource, self.namespace, self.name, subresource=self.subresource)
            case Verb.CREATE:
                return to.create(
                    self.resource,
                    self.namespace,
                    self.body,
                    name=self.name,
                    subresource=self.subresource,
                    dry_run=self.dry_run,
                )
            case Verb.PATCH:
                return to.patch(
                    self.resource,
                    self.namespace,
                    self.name,
                    self.body,
                    patch_type=self.patch_type,
                    subresource=self.subresource,
                    dry_run=self.dry_run,
                )
            case Verb.DELETE:
                return to.delete(self.resource, self.namespace, self.name, body=self.body)
        raise ValueError(f"{self.verb} is a stream")

    def stream(self, to: Connection) -> AsyncGenerator[bytes, None]:
        """Start the watch."""
        return to.watch(
            self.resource,
            resource_version=self.resource_version,
            namespace=self.namespace,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            timeout_seconds=self.timeout_seconds,
        )


class InterceptedConnection:
    """A connection whose requests all pass through `handle` and `handle_watch`."""

    def __init__(self, inner: Connection) -> None:
        self.inner = inner

    @property
    def call_seconds(self) -> float:
        return self.inner.call_seconds

    def handle(self, call: Call) -> Answering:
        """Answer a request; as it stands, by passing it on."""
        return call.send(self.inner)

    def handle_watch(self, call: Call) -> AsyncGenerator[bytes, None]:
        """Answer a watch; as it stands, by passing it on."""
        return call.stream(self.inner)

    def list(
        self,
        resource: ResourceType,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        continue_token: str = "",
    ) -> Answering:
        return self.handle(
            Call(
                Verb.LIST,
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                continue_token=continue_token,
            )
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
        return self.handle_watch(
            Call(
                Verb.WATCH,
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                resource_version=resource_version,
                timeout_seconds=timeout_seconds,
            )
        )

    def get(self, resource: ResourceType, namespace: str | None, name: str, *, subresource: str = "") -> Answering:
        return self.handle(Call(Verb.GET, resource, namespace, name, subresource))

    def create(
        self,
        resource: ResourceType,
        namespace: str | None,
        body: bytes,
        *,
        name: str = "",
        subresource: str = "",
        dry_run: bool = False,
    ) -> Answering:
        return self.handle(Call(Verb.CREATE, resource, namespace, name, subresource, body, dry_run=dry_run))

    def patch(
        self,
        resource: ResourceType,
        namespace: str | None,
        name: str,
        body: bytes,
        *,
        patch_type: PatchType = PatchType.STRATEGIC,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Answering:
        return self.handle(Call(Verb.PATCH, resource, namespace, name, subresource, body, patch_type, dry_run))

    def delete(self, resource: ResourceType, namespace: str | None, name: str, *, body: bytes = b"") -> Answering:
        return self.handle(Call(Verb.DELETE, resource, namespace, name, body=body))

    async def close(self) -> None:
        await self.inner.close()
