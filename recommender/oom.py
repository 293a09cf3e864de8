"""What an OOM kill proves, as a floor under a container's memory.

Owns how the floor grows. A kill at limit L proves a need above L and no more. So the floor stands one step above the
largest proven amount; a kill at an amount below the floor, which is then not in force or capped by policy, proves
nothing new; a kill at the floor itself shows that the step was too small, and the next is twice as large.
"""

from typing import Final

from msgspec import Struct, structs

MOST_KILL_IDS: Final = 256
_MOST_DOUBLINGS: Final = 10
_SAME: Final = 0.99
"""Nodes and policies round: a limit this close to the floor is the floor."""


class OomEvidence(Struct, frozen=True, gc=False):
    """What the kills of a workload's container have shown."""

    floor_bytes: float = 0.0
    proven_bytes: float = 0.0
    """The largest of limit, peak and request at a kill."""
    at: float = 0.0
    """The newest kill."""
    kills: int = 0
    repeats: int = 0
    """Kills at a size that was recommended because of a kill."""
    kill_ids: tuple[str, ...] = ()
    """Kills that were counted, oldest first."""


def after_kill(
    evidence: OomEvidence, kill_id: str, at: float, used_bytes: float, bump_ratio: float, min_bump_bytes: float
) -> OomEvidence:
    """The evidence after one more kill; the same kill again changes nothing.

    `used_bytes` is what the kill proves: max(limit, peak, request).
    """
    if kill_id in evidence.kill_ids:
        return evidence
    floor, repeats = evidence.floor_bytes, evidence.repeats
    if used_bytes >= floor * _SAME:
        repeats = min(repeats + 1, _MOST_DOUBLINGS) if floor else 0
        step = max(used_bytes * (bump_ratio - 1.0), min_bump_bytes)
        floor = used_bytes + step * 2.0**repeats
    return structs.replace(
        evidence,
        floor_bytes=floor,
        proven_bytes=max(evidence.proven_bytes, used_bytes),
        at=max(evidence.at, at),
        kills=evidence.kills + 1,
        repeats=repeats,
        kill_ids=(*evidence.kill_ids, kill_id)[-MOST_KILL_IDS:],
    )
