"""Reading a whole collection once, page by page.

Owns the pages. Keeping a copy fresh is the reflector's matter.
"""

from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from elastipod.kube.connection import Connection
from elastipod.kube.decoding import BadObject, Decode, RawPage, decoder, raw_page
from elastipod.kube.errors import Unreachable
from elastipod.kube.resources import ResourceType

T = TypeVar("T")


@dataclass(slots=True)
class RawList:
    """The objects of a collection as they came, and the version of the list."""

    resource_version: str = ""
    items: list[msgspec.Raw] = field(default_factory=list)


async def list_pages(
    connection: Connection,
    resource: ResourceType,
    *,
    namespace: str | None = None,
    label_selector: str = "",
    field_selector: str = "",
) -> AsyncGenerator[RawPage, None]:
    """The collection's pages as they come. Raises KubeError; a page that is cut short is no answer."""
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
            page = raw_page(body)
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
        namespace=namespace,
        label_selector=label_selector,
        field_selector=field_selector,
    ):
        for raw in page.items:
            with suppress(BadObject):
                rows.append(reading(raw))
    return rows
