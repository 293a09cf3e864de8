"""The seam to the API server.

Owns the protocol that every part reaches Kubernetes through, in bytes. Behind it stands the real HTTP connection
(http.py), the embedded API server called in process, or either with faults injected.
"""

from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import Protocol

from elastipod.kube.resources import ResourceType


class PatchType(StrEnum):
    """How a patch body is meant; the value is its content type."""

    STRATEGIC = "application/strategic-merge-patch+json"
    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"


class Connection(Protocol):
    """What we ask of an API server. Bodies and answers are JSON bytes; failures raise KubeError."""

    @property
    def call_seconds(self) -> float:
        """How long it waits at most for an answer, but for a list or a watch; infinite where it sets no limit."""
        ...

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
        """One page of a collection, of all namespaces where none is given."""
        ...

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
        """Watch events, one JSON object each, bookmarks included; ends when the server ends it."""
        ...

    async def get(self, resource: ResourceType, namespace: str | None, name: str, *, subresource: str = "") -> bytes:
        """One object."""
        ...

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
        """A new object, or a POST to the subresource of a named one (an eviction)."""
        ...

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
        """The object as it stands after the patch."""
        ...

    async def delete(
        self,
        resource: ResourceType,
        namespace: str | None,
        name: str,
        *,
        body: bytes = b"",
    ) -> bytes:
        """Delete; the body is DeleteOptions (preconditions, gracePeriodSeconds) where given."""
        ...

    async def close(self) -> None:
        """Let go of sockets."""
        ...
