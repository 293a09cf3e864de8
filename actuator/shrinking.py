"""A memory limit lowered in steps.

Owns the rule: at most a fifth at a time, never below fresh usage plus a tenth, stopped by pressure. Writes nothing.
"""

from dataclasses import dataclass
from typing import Final, assert_never

from elastipod.reasons import Reason

_PAGE: Final = 4096


@dataclass(frozen=True, slots=True)
class ShrinkRules:
    """How a shrink goes on."""

    step_fraction: float = 0.2
    margin_fraction: float = 0.1
    fresh_seconds: float = 15.0
    most_pressure: float = 0.05
    """Of the last ten seconds, the share in which tasks may have waited for memory."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What is in use, when it was read, and how hard the container finds it to get memory."""

    memory_bytes: int
    at: float
    pressure: float = 0.0
    reclaimable_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Have the kernel take back so much first (v2: memory.reclaim; v1: memory.force_empty)."""

    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Lower:
    """Write this limit next."""

    limit_bytes: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Not now, and why."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Done:
    """The limit is where it shall be."""


ShrinkStep = Reclaim | Lower | Wait | Done


def next_step(
    limit_bytes: int, wanted_bytes: int, usage: Usage, now: float, rules: ShrinkRules | None = None
) -> ShrinkStep:
    """What to do next on the way down from one limit to another."""
    rules = rules or ShrinkRules()
    if limit_bytes - wanted_bytes < _PAGE:
        return Done()
    if not 0 <= now - usage.at <= rules.fresh_seconds:
        return Wait(Reason.STALE_DATA)
    if usage.pressure > rules.most_pressure:
        return Wait(Reason.STOPPED_BY_PRESSURE)
    fifth_less = -(-int(limit_bytes * (1 - rules.step_fraction)) // _PAGE) * _PAGE
    step = max(wanted_bytes, min(fifth_less, limit_bytes - _PAGE))
    floor = -(-int(usage.memory_bytes * (1 + rules.margin_fraction)) // _PAGE) * _PAGE
    if floor <= step:
        return Lower(step)
    excess = floor - step
    if usage.reclaimable_bytes >= excess:
        return Reclaim(excess)
    return Lower(floor) if floor < limit_bytes * (1 - rules.step_fraction / 4) else Wait(Reason.KEPT_ABOVE_USAGE)


def told(step: ShrinkStep) -> str:
    """The step in words, for explain."""
    match step:
        case Reclaim(memory_bytes):
            return f"reclaiming {memory_bytes} bytes"
        case Lower(limit_bytes):
            return f"lowering to {limit_bytes} bytes"
        case Wait(reason):
            return reason.explanation
        case Done():
            return "in force"
        case _:
            assert_never(step)
