"""What a node can give to spikes.

Owns the sum: memory available, less the eviction threshold, less what was granted and is not used yet; and who gets it
when not all can. Reads nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ask:
    """What one container needs, how important its pod is, and the smallest amount that helps."""

    key: str
    memory_bytes: int
    priority: int = 0


@dataclass(slots=True)
class _Grant:
    memory_bytes: int
    used_at: int
    until: float


class NodeBudget:
    """Memory that spikes on one node may take. A grant counts until it is used, or its time is over."""

    def __init__(self, reserve_bytes: int, grant_seconds: float = 10.0) -> None:
        self.reserve_bytes = reserve_bytes
        """The kubelet evicts pods below this: it is not ours to give."""
        self._grant_seconds = grant_seconds
        self._grants: dict[str, _Grant] = {}

    def free(self, available_bytes: int, now: float) -> int:
        """What is left to give; never negative."""
        for key in [key for key, grant in self._grants.items() if grant.until <= now]:
            del self._grants[key]
        granted = sum(grant.memory_bytes for grant in self._grants.values())
        return max(available_bytes - self.reserve_bytes - granted, 0)

    def take(self, key: str, memory_bytes: int, used_bytes: int, now: float) -> None:
        """Count a grant as open."""
        open_bytes = self._grants[key].memory_bytes if key in self._grants else 0
        self._grants[key] = _Grant(open_bytes + memory_bytes, used_bytes, now + self._grant_seconds)

    def use(self, key: str, used_bytes: int) -> None:
        """What a container has come to use of its grant shows in what is available, and counts no longer."""
        grant = self._grants.get(key)
        if grant is not None and used_bytes > grant.used_at:
            grant.memory_bytes = max(grant.memory_bytes - (used_bytes - grant.used_at), 0)
            grant.used_at = used_bytes

    def give_back(self, key: str) -> None:
        """A grant that came to nothing, or whose container is gone."""
        self._grants.pop(key, None)


def share_out(asks: Iterable[Ask], free_bytes: int) -> Mapping[str, int]:
    """Who gets how much: the more important first, equals alike; what one does not need goes to the others."""
    shares: dict[str, int] = {}
    waiting = sorted(asks, key=lambda ask: (-ask.priority, ask.memory_bytes, ask.key))
    for index, ask in enumerate(waiting):
        equals = sum(1 for other in waiting[index:] if other.priority == ask.priority)
        shares[ask.key] = min(ask.memory_bytes, free_bytes // equals)
        free_bytes -= shares[ask.key]
    return shares
