"""A part's copy of a collection, kept fresh.

Owns listing in pages, watching, starting again after 410 with a comparison, and waiting between failures. It never
drops what it knows meanwhile, and it does not go back in time: a list older than what was seen is refused.
Recipe: client-go's reflector, less its bugs' cost (one list per 410, backoff with jitter, Retry-After).
"""

import gc
import random
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import Final, Generic, TypeVar

from elastipod.backoff import Backoff
from elastipod.clock import Clock
from elastipod.kube.connection import Connection
from elastipod.kube.decoding import BadObject, Decode, Seen, WatchError, decoder
from elastipod.kube.errors import Gone, KubeError, NotServed, RawStatus, StatusError, status_error
from elastipod.kube.listing import list_pages, list_raw
from elastipod.kube.resources import ResourceType
from elastipod.telemetry import get_logger

log = get_logger(__name__)

T = TypeVar("T")
OnChange = Callable[[str, T | None, T | None], None]

_BULK: Final = 5_000
_MOST_TOLD_SECONDS: Final = 300.0
"""A server that tells us to wait longer is asked again then."""


class Reflector(Generic[T]):
    """The objects of one kind as rows, by `namespace/name` (`name` where the kind has no namespaces).

    `on_change(key, old, new)` is called for each real change; `new` is None when the object is gone. `synced` is True
    after the first whole list.
    """

    def __init__(
        self,
        connection: Connection,
        resource: ResourceType,
        decode: Decode[T],
        clock: Clock,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        on_change: OnChange[T] | None = None,
        spread: random.Random | None = None,
    ) -> None:
        self.items: dict[str, T] = {}
        self.synced = False
        self.is_served = True
        """Whether the API server knows the kind; where it does not, there are no objects of it."""
        self.relists = 0
        self.bad_objects = 0
        self._connection = connection
        self._resource = resource
        self._decoder = decoder(decode)
        self._clock = clock
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._on_change = on_change
        self._spread = spread or random.Random(0)
        self._backoff = Backoff(first_seconds=0.5, most_seconds=30.0, jitter=0.5)
        self._versions: dict[str, str] = {}
        self._resource_version = ""
        self._newest_seen = 0
        self._heard_at: float | None = None

    def age_seconds(self) -> float:
        """How long ago the server last said anything; infinite before the first list."""
        return float("inf") if self._heard_at is None else self._clock.monotonic() - self._heard_at

    async def wait_synced(self) -> None:
        """Return once the first list is in."""
        while not self.synced:
            await self._clock.sleep(0.05)

    async def run(self) -> None:
        """List and watch for ever."""
        failures = 0
        while True:
            before = self._heard_at
            try:
                if not self._resource_version:
                    await self._list()
                await self._watch()
                failures = 0
                continue
            except Gone:
                self._resource_version = ""
                delay = 0.0 if failures == 0 else self._backoff.delay_seconds(failures, self._spread)
                failures += 1
            except KubeError as error:
                self.is_served = not isinstance(error, NotServed)
                failures = 1 if self._heard_at != before else failures + 1
                delay = self._backoff.delay_seconds(failures, self._spread)
                if isinstance(error, StatusError) and error.retry_after_seconds is not None:
                    told = min(error.retry_after_seconds, _MOST_TOLD_SECONDS)
                    delay = max(delay, told * (1 + 0.1 * self._spread.random()))
                log.warning(
                    "watch interrupted",
                    resource=self._resource.plural,
                    error=str(error),
                    next_try_seconds=round(delay, 1),
                )
            await self._clock.sleep(delay)

    async def _list(self) -> None:
        version = ""
        found: dict[str, tuple[str, T | None]] = {}
        async for page in list_pages(
            self._connection,
            self._resource,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        ):
            version = page.version or version
            with _uncollected():
                for raw in page.items:
                    # One after the other: what is taken apart is still at hand when its row is made.
                    try:
                        seen = self._decoder.seen(raw)
                    except BadObject:
                        self.bad_objects += 1
                        continue
                    is_known = self._versions.get(seen.key) == seen.version
                    found[seen.key] = (seen.version, None if is_known else self._row(seen))
        if _number(version) < self._newest_seen:
            raise StatusError(504, "Timeout", f"a list at version {version} is older than what was seen before")
        self._take(found)
        self._heard(version)
        self.relists += 1
        self.synced = self.is_served = True

    def _take(self, found: dict[str, tuple[str, T | None]]) -> None:
        for key in [key for key in self.items if key not in found]:
            self._forget(key)
        for key, (version, row) in found.items():
            if row is not None:
                self._put(key, version, row)
        if len(found) > _BULK:
            # The cyclic collector need not go over rows again and again: they hold no cycles.
            gc.freeze()

    async def _watch(self) -> None:
        timeout_seconds = 240.0 + 60.0 * self._spread.random()
        events = self._connection.watch(
            self._resource,
            resource_version=self._resource_version,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            timeout_seconds=timeout_seconds,
        )
        async with aclosing(events) as stream:
            async for line in stream:
                self._handle(line)

    def _handle(self, line: bytes) -> None:
        try:
            event = self._decoder.event(line)
        except BadObject:
            self.bad_objects += 1
            return
        if isinstance(event, WatchError):
            raise status_error(RawStatus(500, event.status))
        if event.type == "DELETED":
            self._forget(event.seen.key)
        elif event.type in ("ADDED", "MODIFIED"):
            self._renew(event.seen)
        self._heard(event.seen.version)

    async def refresh(self, key: str) -> None:
        """Read one object anew, where the watch seems to have kept back what became of it. Raises KubeError."""
        namespace, _, name = key.rpartition("/")
        found = await list_raw(
            self._connection, self._resource, namespace=namespace or None, field_selector=f"metadata.name={name}"
        )
        for raw in found.items:
            with suppress(BadObject):
                self._renew(self._decoder.seen(raw))
        if not found.items:
            self._forget(key)

    def _renew(self, seen: Seen) -> None:
        """What is known of an object, unless that is newer."""
        if _number(seen.version) >= _number(self._versions.get(seen.key, "")):
            row = self._row(seen)
            if row is not None:
                self._put(seen.key, seen.version, row)

    def _heard(self, version: str) -> None:
        self._heard_at = self._clock.monotonic()
        if version:
            self._resource_version = version
            self._newest_seen = max(self._newest_seen, _number(version))

    def _row(self, seen: Seen) -> T | None:
        """None where it can not be read: what was known of it before stays."""
        try:
            return self._decoder.row(seen)
        except BadObject as error:
            self.bad_objects += 1
            log.warning("object left out", resource=self._resource.plural, key=seen.key, error=str(error))
            return None

    def _put(self, key: str, version: str, row: T) -> None:
        old = self.items.get(key)
        self.items[key] = row
        self._versions[key] = version
        if self._on_change is not None and old != row:
            self._on_change(key, old, row)

    def _forget(self, key: str) -> None:
        old = self.items.pop(key, None)
        self._versions.pop(key, None)
        if old is not None and self._on_change is not None:
            self._on_change(key, old, None)


@contextmanager
def _uncollected() -> Iterator[None]:
    """No cyclic collection meanwhile: it would go over rows that are being made, and they hold no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _number(version: str) -> int:
    """Resource versions are numbers in practice; one that is not orders as the oldest."""
    return int(version) if version.isdigit() else 0
