"""What holds for the spikes of all containers of a node, and the gaps and steps that follow from it.

The gap below a limit is elastipod/headroom.py's.
"""

from dataclasses import dataclass
from typing import Final

from elastipod import headroom
from elastipod.headroom import MIB

_PAGE: Final = 4096
_LEAPING: Final = 2
"""So many gaps below the limit a mark stands in a leap (v1): who grew through the last is soon at the next."""


@dataclass(frozen=True, slots=True)
class SpikeRules:
    """What holds for all containers of a node."""

    hold_seconds: float = 5.0
    answer_seconds: float = 1.0
    """So long the API has to accept a raise before the cgroup is raised without it."""
    budget_seconds: float = 1.0
    """The time the gap shall give us, with as many tasks allocating as run."""
    step_fraction: float = 0.25
    least_step_bytes: int = 64 * MIB
    most_rescues: int = 3
    rescue_window_seconds: float = 600.0
    rescue_seconds: float = 30.0
    """Raises within this time of a rescue's first belong to it."""
    gap_fraction: float = 0.0
    """The hold's gap as a share of the limit; 0 computes it."""
    force_seconds: float = 10.0
    """So long after a request of ours the node may still put an older size in force."""
    look_seconds: float = 0.004
    """Between two looks while it may, where there is no hold."""
    settle_seconds: float = 0.25
    """Where there is no hold, a leap is over when usage has not grown for so long,"""
    leap_seconds: float = 3.0
    """or this long after its first raise. The API is asked then."""
    node_raises: bool = False
    """Whether an accepted raise is left to the node (v2); the cgroup goes first when the node is late."""
    nudge_seconds: float = 3.0
    """An accepted raise that the node did not come to in this time is asked again, a little higher."""


def gap(limit_bytes: int, rules: SpikeRules, tasks: int = 1) -> int:
    """How far below the limit the hold stands (v2)."""
    return headroom.gap(limit_bytes, rules.budget_seconds, tasks, rules.gap_fraction)


def gap_v1(limit_bytes: int, rules: SpikeRules) -> int:
    """How far below the limit the first mark stands (v1)."""
    return headroom.gap_v1(limit_bytes, rules.gap_fraction)


def mark_below(limit_bytes: int, rules: SpikeRules, tasks: int = 1, *, holds: bool, is_leaping: bool = False) -> int:
    """Where the hold (v2), or the first usage mark (v1), belongs under a limit."""
    if holds:
        return limit_bytes - gap(limit_bytes, rules, tasks)
    return limit_bytes - gap_v1(limit_bytes, rules) * (_LEAPING if is_leaping else 1)


def first_step(base_bytes: int, rules: SpikeRules) -> int:
    """The smallest raise of a container; the next of the same spike double."""
    return max(int(base_bytes * rules.step_fraction), rules.least_step_bytes) // _PAGE * _PAGE
