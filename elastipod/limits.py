"""What a namespace allows: LimitRange and ResourceQuota, as values.

Owns their shape and the question whether a quota has room. How they are read is kube/rows.py's matter.
"""

from msgspec import Struct

from elastipod.quantities import NOTHING, Resources


class LimitRangeItem(Struct, frozen=True, gc=False):
    """One entry of a LimitRange: `type` is Container or Pod (others do not concern pods)."""

    type: str
    min: Resources = NOTHING
    max: Resources = NOTHING
    default: Resources = NOTHING
    default_request: Resources = NOTHING
    max_ratio_cpu: float | None = None
    max_ratio_memory: float | None = None


class LimitRange(Struct, frozen=True, gc=False):
    """A LimitRange of a namespace."""

    namespace: str
    name: str
    items: tuple[LimitRangeItem, ...] = ()


class Quota(Struct, frozen=True, gc=False):
    """A ResourceQuota's hard and used amounts of what a resize moves.

    Keys are `requests.cpu`, `limits.cpu` (millicores), `requests.memory`, `limits.memory` (bytes); `cpu` and `memory`
    mean requests.
    """

    namespace: str
    name: str
    hard: dict[str, int] = {}
    used: dict[str, int] = {}
    is_scoped: bool = False
    """Whether it speaks of some pods of the namespace only."""

    def lacking(self, more: dict[str, int]) -> str:
        """The key that would be exceeded by this much more, or nothing."""
        for key, amount in more.items():
            if amount > 0 and key in self.hard and self.used.get(key, 0) + amount > self.hard[key]:
                return key
        return ""
