"""A watch: the changes that one caller asked to see, in order.

Owns the queue of one watcher, its bookmarks and its end. Wakes by an asyncio.Event and starts no thread.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from elastipod.localcluster.api.failures import ApiFailure, expired
from elastipod.localcluster.api.kinds import Kind
from elastipod.localcluster.api.requests import encode
from elastipod.localcluster.api.store import Change, Entry, Store, at_version

Matches = Callable[[Entry], bool]
Render = Callable[[Entry], bytes]

_MOST_WAITING: Final = 20_000
_BOOKMARK_SECONDS: Final = 60.0


def event(kind: str, body: bytes) -> bytes:
    """One watch event as a line."""
    return b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"


def _nothing() -> None:
    """Not begun: nothing to stop."""


def error_event(failure: ApiFailure) -> bytes:
    """The event that ends a watch badly."""
    return event("ERROR", encode(failure.status()))


class Watch:
    """One watcher of one kind; narrowed by namespace and selectors through `matches`."""

    def __init__(
        self,
        store: Store,
        kind: Kind,
        matches: Matches,
        *,
        since: int | None,
        initial: bool,
        bookmarks: bool,
        timeout_seconds: float,
        only: str | None = None,
        render: Render = lambda entry: entry.raw,
    ) -> None:
        self._store = store
        self._kind = kind
        self._matches = matches
        self._render = render
        self._bookmarks = bookmarks
        self._timeout_seconds = timeout_seconds
        self._waiting: deque[bytes] = deque()
        self._woken = asyncio.Event()
        self._is_over = False
        self._since = since
        self._initial = initial
        self._only = only
        self._stop: Callable[[], None] = _nothing

    def _begin(self) -> None:
        """From here on nothing is missed."""
        store, kind, since = self._store, self._kind, self._since
        self._stop = store.subscribe(kind, self._see, self._only)
        if since is not None and not store.can_replay(since):
            self._waiting.append(error_event(expired(f"too old resource version: {since} ({store.version})")))
            self.close()
        elif since is None:
            entries = sorted(store.of_kind(kind), key=lambda one: (one.namespace, one.name))
            self._waiting.extend(event("ADDED", self._render(one)) for one in entries if self._matches(one))
            if self._initial:
                self._waiting.append(self._bookmark({"k8s.io/initial-events-end": "true"}))
        else:
            for change in store.changes_after(since, kind):
                self._see(change)

    def close(self) -> None:
        """End the watch; what waits is still delivered."""
        self._is_over = True
        self._stop()
        self._woken.set()

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The events, each a line of JSON, until the time is over."""
        self._begin()
        loop = asyncio.get_running_loop()
        ending = loop.call_later(self._timeout_seconds, self.close)
        ticking = loop.call_later(_BOOKMARK_SECONDS, self._tick) if self._bookmarks else None
        try:
            while True:
                while self._waiting:
                    yield self._waiting.popleft()
                if self._is_over:
                    return
                self._woken.clear()
                await self._woken.wait()
                if ticking is not None and ticking.when() <= loop.time():
                    ticking = loop.call_later(_BOOKMARK_SECONDS, self._tick)
        finally:
            ending.cancel()
            if ticking is not None:
                ticking.cancel()
            self.close()

    def _see(self, change: Change) -> None:
        if len(self._waiting) >= _MOST_WAITING:
            self.close()
            return
        line = self._line(change)
        if line is not None:
            self._waiting.append(line)
            self._woken.set()

    def _line(self, change: Change) -> bytes | None:
        """The event as this watcher sees it: an object that comes to match is added, one that ceases to is deleted."""
        did = change.old is not None and self._matches(change.old)
        does = change.type != "DELETED" and self._matches(change.entry)
        if not (did or does):
            return None
        if change.type != "DELETED" and not does and change.old is not None:
            # It is told as it was when it was last seen here.
            return event("DELETED", self._render(at_version(change.old, change.entry.version)))
        kind = "MODIFIED" if did and does else "ADDED" if does else "DELETED"
        return event(kind, self._render(change.entry))

    def _tick(self) -> None:
        self._waiting.append(self._bookmark({}))
        self._woken.set()

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(self._store.version), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        resource = self._kind.resource
        body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return event("BOOKMARK", encode(body))
