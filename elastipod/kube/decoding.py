"""From the API's bytes to rows.

Owns how an object, a page of a list and a watch's event are taken apart, and what holds for an object that can not be
read: it costs itself only (BadObject). What a row is, is its decoder's matter.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T")
S = TypeVar("S")
Decode = Callable[[bytes | msgspec.Raw], T]

UNREADABLE: Final = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What msgspec raises for text that is not what it should be."""


class BadObject(ValueError):
    """An object that can not be read; the message says why."""


class Metadata(Protocol):
    """What every object has."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def resource_version(self) -> str: ...


class Seen(NamedTuple):
    """An object as it came, and what it is known by."""

    key: str
    """`namespace/name`, or `name` where the kind has no namespaces."""
    version: str
    content: Any
    """For the decoder it came from."""


class RawPage(NamedTuple):
    """A part of a list, its objects not looked at."""

    version: str
    continue_token: str
    items: list[msgspec.Raw]


class Event(NamedTuple):
    """A line of a watch."""

    type: str
    seen: Seen


class WatchError(NamedTuple):
    """The line that ends a watch."""

    status: bytes


class _Meta(Struct, rename="camel", gc=False, frozen=True):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Key(Struct, gc=False, frozen=True):
    metadata: _Meta = _Meta()


class _ListMeta(Struct, rename="camel", gc=False, frozen=True):
    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")


class _Page(Struct, gc=False, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


class _Event(Struct, Generic[S], gc=False, frozen=True):
    type: str
    object: S


_keys: Final = msgspec.json.Decoder(_Key)
_pages: Final = msgspec.json.Decoder(_Page)
_events: Final = msgspec.json.Decoder(_Event[msgspec.Raw])


class Decoder(Generic[T]):
    """Reads the objects of one kind; called with one object's bytes, it gives its row or raises BadObject.

    What is known of an object by its metadata is read together with the rest of it.
    """

    def __init__(
        self,
        shape: type[S],
        row: Callable[[S], T],
        metadata: Callable[[S], Metadata] = attrgetter("metadata"),
    ) -> None:
        """`row` makes a row of a shape; it may raise BadObject."""
        self._row, self._metadata = row, metadata
        self._shapes = msgspec.json.Decoder(shape)
        self._events = msgspec.json.Decoder(_Event[shape])  # type: ignore[valid-type]

    def __call__(self, raw: bytes | msgspec.Raw) -> T:
        return self._row(decoded(self._shapes.decode, raw))

    def row(self, seen: Seen) -> T:
        """Raises BadObject."""
        return self(seen.content) if isinstance(seen.content, msgspec.Raw) else self._row(seen.content)

    def seen(self, raw: msgspec.Raw) -> Seen:
        """What an object is known by; it may still have no row. Raises BadObject where not even that can be read."""
        try:
            content = self._shapes.decode(raw)
        except UNREADABLE:
            return _seen(_raw_metadata(raw), raw)
        return _seen(self._metadata(content), content)

    def event(self, line: bytes) -> Event | WatchError:
        """Raises BadObject."""
        try:
            event = self._events.decode(line)
            if event.type != "ERROR":
                return Event(event.type, _seen(self._metadata(event.object), event.object))
        except UNREADABLE:
            pass
        raw = decoded(_events.decode, line)
        if raw.type == "ERROR":
            return WatchError(bytes(raw.object))
        return Event(raw.type, _seen(_raw_metadata(raw.object), raw.object))


def whole(shape: type[S]) -> Decoder[S]:
    """For objects that are read as they are."""
    return Decoder(shape, lambda one: one)


def decoder(decode: Decode[T]) -> Decoder[T]:
    """A plain function as a decoder, which then goes over the bytes a second time."""
    return decode if isinstance(decode, Decoder) else Decoder(msgspec.Raw, decode, _raw_metadata)


def raw_page(body: bytes) -> RawPage:
    """Raises BadObject."""
    page = decoded(_pages.decode, body)
    return RawPage(page.metadata.resource_version, page.metadata.continue_token, page.items or [])


def decoded(decode: Callable[[bytes | msgspec.Raw], S], raw: bytes | msgspec.Raw) -> S:
    """What a msgspec decoder makes of bytes. Raises BadObject."""
    try:
        return decode(raw)
    except UNREADABLE as error:
        raise BadObject(str(error)) from None


def _raw_metadata(raw: msgspec.Raw) -> Metadata:
    """Raises BadObject."""
    return decoded(_keys.decode, raw).metadata


def _seen(meta: Metadata, content: Any) -> Seen:
    return Seen(f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name, meta.resource_version, content)
