"""One pod's resize as it stands, what can happen to it, and what is to be done then.

Owns the words of the state machine; attempts.py owns its rules.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from elastipod.pods import Pod
from elastipod.reasons import Reason
from updater.plan import Resize


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


@dataclass(frozen=True, slots=True)
class Attempt:
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
    def gives_way(self) -> bool:
        """Whether a resize that somebody else asked for takes its place."""
        return self.state in (State.WANTED, State.REFUSED, State.DONE)

    @property
    def waits_for_room(self) -> bool:
        """Whether free room on its node may help."""
        return self.reason in (Reason.NO_ROOM, Reason.DEFERRED) and not self.is_under_way


# What happens to an attempt.


@dataclass(frozen=True, slots=True)
class Wanted:
    """The plan wants a resize; `fits` tells whether the node has the room, `refusal` what else stands against it."""

    resize: Resize
    node: str
    generation: int
    fits: bool = True
    refusal: Reason | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The API server took the request; `pod` is its answer."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Failed:
    """The API server did not take it. `is_permanent` for a refusal of this shape; conflicts are tried again at once."""

    key: str
    reason: Reason
    message: str
    is_permanent: bool = False
    is_conflict: bool = False
    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """The pod as the cluster shows it."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Found:
    """A pod whose resize is under way and that no attempt is known of, as after a restart of ours."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Gone:
    """The pod was deleted, replaced or has ended."""

    key: str
    uid: str


@dataclass(frozen=True, slots=True)
class RoomFreed:
    """A pod of the node ended, shrank or left, or the node takes more."""

    node: str
    node_grew: bool = False
    by: str = ""
    """The pod that freed it; it is not asked again for its own sake."""


@dataclass(frozen=True, slots=True)
class RulesChanged:
    """A quota freed, a LimitRange or a disruption budget of the namespace changed."""

    namespace: str


@dataclass(frozen=True, slots=True)
class TimeCame:
    """The instant an attempt waited for."""

    key: str


Event = Wanted | Accepted | Failed | Seen | Found | Gone | RoomFreed | RulesChanged | TimeCame

# What is to be done.


@dataclass(frozen=True, slots=True)
class Send:
    """Ask the API server now; the room is to be granted first."""

    key: str


@dataclass(frozen=True, slots=True)
class PlanAgain:
    """Decide anew for the pod, now."""

    key: str


@dataclass(frozen=True, slots=True)
class LookAgainAt:
    """Come back with TimeCame at an instant."""

    key: str
    at: float


@dataclass(frozen=True, slots=True)
class PutBack:
    """Put the pod's spec back to what is allocated."""

    key: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Say what became of it."""

    key: str
    reason: Reason
    message: str = ""


Instruction = Send | PlanAgain | LookAgainAt | PutBack | Tell
