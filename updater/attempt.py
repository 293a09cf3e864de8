"""One pod's resize as it stands, what can happen to it, and what is to be done then.

Owns the words of the state machine; attempts.py owns its rules.
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from elastipod.pods import Pod
from elastipod.reasons import Reason
from updater.plan import Resize
from updater.sizes import Size


class State(StrEnum):
    """Where an attempt stands."""

    WANTED = "Wanted"
    RESERVED = "Reserved"
    REQUESTED = "Requested"
    DEFERRED = "Deferred"
    IN_PROGRESS = "InProgress"
    INFEASIBLE = "Infeasible"
    REFUSED = "Refused"
    DONE = "Done"
    ABANDONED = "Abandoned"


_UNDER_WAY: Final = frozenset({State.RESERVED, State.REQUESTED, State.DEFERRED, State.IN_PROGRESS})


class Attempt(Struct, frozen=True, gc=False):
    """One pod's resize, as it stands."""

    key: str
    uid: str
    node: str
    state: State
    resize: Resize
    since: float
    """When it came into this state."""
    first_at: float
    """When this size was first wanted."""
    reason: Reason
    """Why it is in this state."""
    message: str = ""
    tries: int = 0
    next_at: float | None = None
    """When it is tried or looked at again, if nothing happens before."""
    generation: int = 0
    """The pod's generation that carries the request."""

    @property
    def is_under_way(self) -> bool:
        return self.state in _UNDER_WAY

    @property
    def awaits_answer(self) -> bool:
        """Whether neither the API server nor the node has said anything yet: nothing newer is asked meanwhile."""
        return self.state in (State.RESERVED, State.REQUESTED)

    @property
    def gives_way(self) -> bool:
        """Whether a resize that somebody else asked for takes its place."""
        return self.state in (State.WANTED, State.REFUSED, State.DONE)

    @property
    def waits_for_room(self) -> bool:
        """Whether free room on its node may help."""
        return self.reason in (Reason.NO_ROOM, Reason.DEFERRED) and not self.is_under_way


# What happens to an attempt.


class Wanted(Struct, frozen=True, gc=False):
    """The plan wants a resize; `fits` tells whether the node has the room, `refusal` what else stands against it."""

    resize: Resize
    node: str
    generation: int
    fits: bool = True
    refusal: Reason | None = None
    message: str = ""


class Accepted(Struct, frozen=True, gc=False):
    """The API server took the request."""

    key: str
    uid: str
    generation: int
    """The pod's generation that carries it."""
    sizes: dict[str, Size]
    """Of all containers, as the API server wrote them: it may have been told to change what was asked."""


class Failed(Struct, frozen=True, gc=False):
    """The API server did not take it. `is_permanent` for a refusal of this shape; conflicts are tried again at once."""

    key: str
    reason: Reason
    message: str
    is_permanent: bool = False
    is_conflict: bool = False
    retry_after_seconds: float | None = None


class Seen(Struct, frozen=True, gc=False):
    """The pod as the cluster shows it."""

    pod: Pod


class Found(Struct, frozen=True, gc=False):
    """A pod whose resize is under way and that no attempt is known of, as after a restart of ours."""

    pod: Pod


class Gone(Struct, frozen=True, gc=False):
    """The pod was deleted, replaced or has ended."""

    key: str
    uid: str


class RoomFreed(Struct, frozen=True, gc=False):
    """A pod of the node ended, shrank or left, or the node takes more."""

    node: str
    node_grew: bool = False
    by: str = ""
    """The pod that freed it; it is not asked again for its own sake."""


class RulesChanged(Struct, frozen=True, gc=False):
    """A quota freed, a LimitRange or a disruption budget of the namespace changed."""

    namespace: str


class TimeCame(Struct, frozen=True, gc=False):
    """The instant an attempt waited for."""

    key: str


Event = Wanted | Accepted | Failed | Seen | Found | Gone | RoomFreed | RulesChanged | TimeCame

# What is to be done.


class Send(Struct, frozen=True, gc=False):
    """Ask the API server now; the room is to be granted first."""

    key: str


class PlanAgain(Struct, frozen=True, gc=False):
    """Decide anew for the pod, now."""

    key: str


class LookAgainAt(Struct, frozen=True, gc=False):
    """Come back with TimeCame at an instant."""

    key: str
    at: float


class PutBack(Struct, frozen=True, gc=False):
    """Put the pod's spec back to what is allocated."""

    key: str


class Tell(Struct, frozen=True, gc=False):
    """Say what became of it."""

    key: str
    reason: Reason
    message: str = ""


Instruction = Send | PlanAgain | LookAgainAt | PutBack | Tell
