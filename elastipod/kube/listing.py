"""Reading a whole collection once, page by page.

Owns the pages. Keeping a copy fresh is the reflector's matter.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from elastipod.kube.connection import Connection
from elastipod.kube.errors import Unreachable
from elastipod.kube.resources import ResourceType
from elastipod.kube.rows import BadObject

T = TypeVar("T")


class _ListMeta(Struct, rename="camel", gc=False, frozen=True):
    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")


class _List(Struct, gc=False, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


_lists: Final = msgspec.json.Decoder(_List)


@dataclass(slots=True)
class RawList:
    """The objects of a collection as they came, and the version of the list."""

    resource_version: str = ""
    items: list[msgspec.Raw] = field(default_factory=list)


async def list_raw(
    connection: Connection,
    resource: ResourceType,
    *,
    namespace: str | None = None,
    label_selector: str = "",
    field_selector: str = "",
) -> RawList:
    """The whole collection. Raises KubeError; a page that is cut short counts as no answer."""
    found = RawList()
    token = ""
    while True:
        body = await connection.list(
            resource,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            continue_token=token,
        )
        try:
            page = _lists.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unreachable(f"the list of {resource.plural} is not whole: {error}") from None
        found.resource_version = page.metadata.resource_version or found.resource_version
        found.items += page.items or ()
        token = page.metadata.continue_token
        if not token:
            return found


async def list_rows(
    connection: Connection,
    resource: ResourceType,
    decode: Callable[[bytes | msgspec.Raw], T],
    *,
    namespace: str | None = None,
    label_selector: str = "",
    field_selector: str = "",
) -> list[T]:
    """The whole collection as rows; objects that can not be read are left out. Raises KubeError."""
    found = await list_raw(
        connection, resource, namespace=namespace, label_selector=label_selector, field_selector=field_selector
    )
    rows: list[T] = []
    for raw in found.items:
        try:
            rows.append(decode(raw))
        except BadObject:
            continue
    return rows
