"""What a cluster does not let us do: a right that is missing, a kind that it does not serve.

Owns noticing it in the answers, saying it once in the log, forgetting it when the answer is another, and which of it
keeps a part from being ready. Retries nothing; but what is built into the API server and not there is not asked for
again and again.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from elastipod.clock import Clock
from elastipod.kube.calls import Call, InterceptedConnection, Verb
from elastipod.kube.connection import Connection
from elastipod.kube.errors import Forbidden, NotServed, StatusError
from elastipod.kube.resources import AUTOSCALERS, CHECKPOINTS, ELASTIC_NODES, ELASTIC_POLICIES
from elastipod.reasons import Reason
from elastipod.telemetry import get_logger

log = get_logger(__name__)

_REMEMBERED_SECONDS: Final = 600.0
"""What was not met with again for so long is over, or nobody asks for it any more."""

_DEFINED: Final = (AUTOSCALERS, CHECKPOINTS, ELASTIC_POLICIES, ELASTIC_NODES)
"""Kinds that are served where a definition says so, as one does where elastipod is installed."""

_Place = tuple[str, str]
"""Verb and kind of a right; of what is not served, the kind alone."""


@dataclass(frozen=True, slots=True)
class Lack:
    """One thing that is missing, and when that was last seen."""

    reason: Reason
    verb: Verb
    kind: str
    seen_at: float

    def __str__(self) -> str:
        return f"{self.kind} is not served" if self.reason is Reason.NOT_SERVED else f"may not {self.verb} {self.kind}"


class LacksConnection(InterceptedConnection):
    """Passes everything on, and tells what was missing of late."""

    def __init__(self, inner: Connection, clock: Clock) -> None:
        super().__init__(inner)
        self._clock = clock
        self._found: dict[_Place, Lack] = {}

    def lacks(self) -> tuple[str, ...]:
        """Each in a few words, by name: `may not patch pods/resize`."""
        self._forget_old()
        return tuple(sorted(str(one) for one in self._found.values()))

    def missing_definition(self) -> str:
        """What keeps a part from being ready, or nothing: without its definitions an installation is not whole.

        Whoever waits for that (`helm install --wait`) shall not be told that all is well. It is the only lack of that
        weight: metrics come and go by others' hands, and without one right most of a part's work goes on.
        """
        self._forget_old()
        missing = {one.kind.partition("/")[0] for one in self._found.values() if one.reason is Reason.NOT_SERVED}
        if missing.isdisjoint(f"{one.plural}.{one.group}" for one in _DEFINED):
            return ""
        return "a definition is missing; those of elastipod lie in its chart, in definitions/"

    async def handle(self, call: Call) -> bytes:
        if self._found and not call.resource.group and call.subresource:
            # A definition may come back at any moment; this comes with another Kubernetes only.
            self._forget_old()
            lack = self._found.get(_path(call))
            if lack is not None:
                raise NotServed(404, "NotFound", str(lack))
        try:
            answer = await super().handle(call)
        except StatusError as error:
            self._note(call, error)
            raise
        self._note(call)
        return answer

    async def handle_watch(self, call: Call) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(super().handle_watch(call)) as lines:
                async for line in lines:
                    self._note(call)
                    yield line
        except StatusError as error:
            self._note(call, error)
            raise

    def _note(self, call: Call, error: StatusError | None = None) -> None:
        """Any answer but these two shows that what was asked for is there."""
        match error:
            case NotServed():
                self._miss(_path(call), Lack(Reason.NOT_SERVED, call.verb, _kind(call), self._clock.monotonic()), error)
                self._forget(_right(call))
            # A quota or a policy says no in other words.
            case Forbidden() if f"cannot {call.verb} resource" in error.message:
                self._miss(_right(call), Lack(Reason.FORBIDDEN, call.verb, _kind(call), self._clock.monotonic()), error)
            case _ if self._found:
                self._forget(_path(call))
                self._forget(_right(call))

    def _miss(self, place: _Place, lack: Lack, error: StatusError) -> None:
        if place not in self._found:
            log.warning("missing in the cluster", lack=str(lack), error=str(error))
        self._found[place] = lack

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        for place in [one for one, lack in self._found.items() if now - lack.seen_at > _REMEMBERED_SECONDS]:
            self._forget(place)

    def _forget(self, place: _Place) -> None:
        lack = self._found.pop(place, None)
        if lack is not None:
            log.info("no longer missing in the cluster", lack=str(lack))


def _right(call: Call) -> _Place:
    return call.verb, _kind(call)


def _path(call: Call) -> _Place:
    return "", _kind(call)


def _kind(call: Call) -> str:
    name = f"{call.resource.plural}.{call.resource.group}" if call.resource.group else call.resource.plural
    return f"{name}/{call.subresource}" if call.subresource else name
