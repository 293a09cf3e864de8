"""How a limit is found where a request moves.

Owns the modes, which of them holds for a workload, and the limit that is apart from its request. Guaranteed pods keep
limit and request the same, and `controlledValues: RequestsOnly` leaves limits alone, whatever a mode says.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from elastipod.api import ElasticPolicy
from elastipod.pods import Workload
from elastipod.policy import by_narrowness, selects


class LimitMode(StrEnum):
    """How a limit is found."""

    PROPORTIONAL = "Proportional"
    """It keeps its ratio to the request, as upstream's does."""
    INDEPENDENT = "Independent"
    """It is an answer of its own: the recommendation's upper bound."""
    UNSET = "Unset"
    """There is none."""


@dataclass(frozen=True, slots=True)
class LimitModes:
    """The mode of each resource."""

    cpu: LimitMode = LimitMode.PROPORTIONAL
    memory: LimitMode = LimitMode.PROPORTIONAL

    def of(self, resource: str) -> LimitMode:
        """The mode of `cpu` or `memory`."""
        return self.cpu if resource == "cpu" else self.memory


def limit_modes(workload: Workload, labels: Mapping[str, str], policies: Iterable[ElasticPolicy]) -> LimitModes:
    """What the narrowest policy that says so says, each resource by itself; what makes no sense is no statement."""
    stated = [
        policy.spec.limit_modes
        for policy in by_narrowness(policies)
        if policy.spec.limit_modes is not None and selects(policy, workload, labels)
    ]
    return LimitModes(_first(one.cpu for one in stated), _first(one.memory for one in stated))


def independent_limit(request: int, limit: int | None, upper_bound: int | None) -> int | None:
    """The limit apart from a request: the upper bound, never below the request.

    Without an upper bound, as while there is little history, it stays; a container without a limit gets none, since it
    could never be taken away again.
    """
    return None if limit is None else max(request, limit if upper_bound is None else upper_bound)


def _first(stated: Iterable[str | None]) -> LimitMode:
    known = {str(mode): mode for mode in LimitMode}
    return next((known[one] for one in stated if one in known), LimitMode.PROPORTIONAL)
