"""A cluster of which only some namespaces may be read: what is asked of all is asked of each of those.

Owns the joining of lists and watches. Each namespace's watch goes on from its own last event, whatever version the
reader has heard of another's. What lies in no namespace is asked for as it is.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

import msgspec
from msgspec import Struct

from elastipod.kube.calls import Call, InterceptedConnection, Verb
from elastipod.kube.connection import Connection
from elastipod.kube.listing import list_raw

_MOST_WAITING: Final = 1_000

_Reader = tuple[str, str, str]
"""Whose positions these are: the kind and the selectors that are asked for."""


class _Meta(Struct, rename="camel", gc=False, frozen=True):
    resource_version: str = ""


class _Object(Struct, gc=False, frozen=True):
    metadata: _Meta = _Meta()


class _Event(Struct, gc=False, frozen=True):
    object: _Object = _Object()


_events: Final = msgspec.json.Decoder(_Event)


class NamespacesConnection(InterceptedConnection):
    """Lists and watches of all namespaces become those of `namespaces`."""

    def __init__(self, inner: Connection, namespaces: Sequence[str]) -> None:
        super().__init__(inner)
        self._namespaces = tuple(namespaces)
        self._positions: dict[_Reader, dict[str, str]] = {}

    async def handle(self, call: Call) -> bytes:
        if call.verb is not Verb.LIST or not _is_of_all(call):
            return await super().handle(call)
        positions: dict[str, str] = {}
        items: list[msgspec.Raw] = []
        for namespace in self._namespaces:
            found = await list_raw(
                self.inner,
                call.resource,
                namespace=namespace,
                label_selector=call.label_selector,
                field_selector=call.field_selector,
            )
            positions[namespace] = found.resource_version
            items += found.items
        self._positions[_reader(call)] = positions
        version = next(iter(positions.values()))
        return msgspec.json.encode({"metadata": {"resourceVersion": version}, "items": items})

    def handle_watch(self, call: Call) -> AsyncGenerator[bytes, None]:
        return self._watch_each(call) if _is_of_all(call) else super().handle_watch(call)

    async def _watch_each(self, call: Call) -> AsyncGenerator[bytes, None]:
        """The events of all, until one watch ends or fails."""
        positions = self._positions.setdefault(_reader(call), {})
        queue: asyncio.Queue[tuple[str, bytes | Exception | None]] = asyncio.Queue(_MOST_WAITING)

        async def pump(namespace: str) -> None:
            version = positions.get(namespace, call.resource_version)
            try:
                own = msgspec.structs.replace(call, namespace=namespace, resource_version=version)
                async with aclosing(own.stream(self.inner)) as events:
                    async for line in events:
                        await queue.put((namespace, line))
            except Exception as error:
                await queue.put((namespace, error))
            else:
                await queue.put((namespace, None))

        pumps = [asyncio.create_task(pump(namespace)) for namespace in self._namespaces]
        try:
            while True:
                namespace, line = await queue.get()
                if line is None:
                    return
                if isinstance(line, Exception):
                    raise line
                yield line
                # Only now has the reader taken it in.
                positions[namespace] = _version(line) or positions.get(namespace, call.resource_version)
        finally:
            for task in pumps:
                task.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)


def _is_of_all(call: Call) -> bool:
    return call.namespace is None and call.resource.namespaced


def _reader(call: Call) -> _Reader:
    return call.resource.path(), call.label_selector, call.field_selector


def _version(line: bytes) -> str:
    """Nothing where the event can not be read: what that means is the reader's matter."""
    try:
        return _events.decode(line).object.metadata.resource_version
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
