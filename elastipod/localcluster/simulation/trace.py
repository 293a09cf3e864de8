"""What was written, by whom, and what stood before and after.

Owns the record of a simulated run: its trace, and those who look at each write as it happens.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from elastipod.clock import Clock
from elastipod.kube.calls import Call, InterceptedConnection, Verb
from elastipod.kube.connection import Connection
from elastipod.kube.errors import KubeError, StatusError
from elastipod.localcluster.api.kinds import kind_at
from elastipod.localcluster.api.store import Entry, Store

_MOST_SHOWN: Final = 2_000


class Write(Struct, frozen=True, gc=False):
    """One write as the server took or refused it. `code` is 0 where it was accepted."""

    at: float
    actor: str
    """The process that wrote, as `part/incarnation`; the cluster's own are `cluster/...`."""
    call: Call
    code: int
    before: Entry | None
    after: Entry | None

    @property
    def part(self) -> str:
        return self.actor.partition("/")[0]

    @property
    def what(self) -> str:
        """`pods/resize`."""
        return "/".join(part for part in (self.call.resource.plural, self.call.subresource) if part)

    @property
    def is_accepted(self) -> bool:
        return self.code == 0 and not self.call.dry_run


class Trace:
    """A run as JSON lines, byte for byte the same when the run is repeated."""

    def __init__(self, clock: Clock) -> None:
        self.events = 0
        self._clock = clock
        self._lines: list[bytes] = []

    def add(self, what: str, **facts: Any) -> None:
        """Note one thing that happened."""
        self.events += 1
        self._lines.append(msgspec.json.encode({"at": round(self._clock.monotonic(), 6), "what": what, **facts}))

    def to_bytes(self) -> bytes:
        return b"\n".join(self._lines) + b"\n"


class RecordedConnection(InterceptedConnection):
    """A connection to the API server in this process whose writes are noted as they happen."""

    def __init__(
        self,
        inner: Connection,
        store: Store,
        clock: Clock,
        actor: str,
        trace: Trace,
        on_write: Callable[[Write], None],
    ) -> None:
        super().__init__(inner)
        self._store, self._clock, self._actor = store, clock, actor
        self._trace, self._on_write = trace, on_write

    async def handle(self, call: Call) -> bytes:
        if not call.is_write:
            return await super().handle(call)
        before, code, failure = self._entry(call, call.name), 0, ""
        name = call.name
        try:
            answer = await super().handle(call)
            if call.verb is Verb.CREATE and not name:
                name = msgspec.json.decode(answer, type=_Named).metadata.name
            return answer
        except KubeError as error:
            code, failure = (error.code if isinstance(error, StatusError) else -1), str(error)
            raise
        finally:
            after = self._entry(call, name)
            self._note(call, name, code, failure)
            self._on_write(Write(self._clock.monotonic(), self._actor, call, code, before, after))

    def _entry(self, call: Call, name: str) -> Entry | None:
        kind = kind_at(call.resource.group, call.resource.version, call.resource.plural)
        return self._store.get(kind, call.namespace or "", name) if kind is not None and name else None

    def _note(self, call: Call, name: str, code: int, failure: str) -> None:
        self._trace.add(
            call.verb.value,
            actor=self._actor,
            object="/".join(part for part in (call.resource.plural, call.namespace, name, call.subresource) if part),
            body=call.body[:_MOST_SHOWN].decode("utf-8", "replace"),
            **({"code": code, "failure": failure} if code else {}),
        )


class _Meta(Struct):
    name: str = ""


class _Named(Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
