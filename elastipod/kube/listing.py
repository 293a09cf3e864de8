"""Reading a whole collection once, page by page.

Owns the pages. Keeping a copy fresh is the reflector's matter.
"""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import msgspec

from elastipod.kube.connection import Connection
from elastipod.kube.decoding import BadObject, Decode, decoder, raw_page
from elastipod.kube.errors import Unreachable
from elastipod.kube.resources import ResourceType


class _Page(Protocol):
    @property
    def continue_token(self) -> str: ...


T = TypeVar("T")
P = TypeVar("P", bound=_Page)


@dataclass(slots=True)
class RawList:
    """The objects of a collection as they came, and the version of the list."""

    resource_version: str = ""
    items: list[msgspec.Raw] = field(default_factory=list)


async def list_pages(
    connection: Connection,
    resource: ResourceType,
    read: Callable[[bytes], P],
    *,
    namespace: str | None = None,
    label_selector: str = "",
    field_selector: str = "",
) -> AsyncGenerator[P, None]:
    """The collection's pages, each read as it comes. Raises KubeError; a page that is cut short is no answer."""
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
            page = read(body)
        except BadObject as error:
            raise Unreachable(f"the list of {resource.plural} is not whole: {error}") from None
        yield page
        token = page.continue_token
        if not token:
            return


async def list_raw(
    connection: Connection,
    resource: ResourceType,
    *,
    namespace: str | None = None,
    label_selector: str = "",
    field_selector: str = "",
) -> RawList:
    """The whole collection. Raises KubeError."""
    found = RawList()
    async for page in list_pages(
        connection,
        resource,
        raw_page,
        namespace=namespace,
        label_selector=label_selector,
        field_selector=field_selector,
    ):
        found.resource_version = page.version or found.resource_version
        found.items += page.items
    return found


async def list_rows(
    connection: Connection,
    resource: ResourceType,
    decode: Decode[T],
    *,
    namespace: str | None = None,
    label_selector: str = "",
    field_selector: str = "",
) -> list[T]:
    """The whole collection as rows; objects that can not be read are left out. Raises KubeError."""
    reading = decoder(decode)
    rows: list[T] = []
    async for page in list_pages(
        connection,
        resource,
        reading.page,
        namespace=namespace,
        label_selector=label_selector,
        field_selector=field_selector,
    ):
        for seen in page.seen:
            try:
                rows.append(reading.row(seen))
            except BadObject:
                continue
    return rows
