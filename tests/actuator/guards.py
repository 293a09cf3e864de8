"""One container's guard, and looks at its memory."""

from actuator.spikerules import SpikeRules, gap, gap_v1
from actuator.spikes import SpikeGuard
from actuator.spikewords import Accepted, AskApi, Granted, Instruction, MemoryReading, Seen, Tell
from elastipod.headroom import MIB
from elastipod.reasons import Reason

RULES = SpikeRules()
LIMIT = 100 * MIB
MARK = LIMIT - gap(LIMIT, RULES)


def guard(*, holds: bool = True, ceiling: int = 400 * MIB) -> SpikeGuard:
    return SpikeGuard(RULES, holds=holds, spec_bytes=LIMIT, ceiling_bytes=ceiling)


def full(limit: int = LIMIT, *, high: int | None = None, cache: int = 0, holds: bool = True) -> Seen:
    mark = limit - (gap(limit, RULES) if holds else gap_v1(limit, RULES))
    return Seen(MemoryReading(mark, limit, mark if holds and high is None else high, cache))


def calm(limit: int = LIMIT) -> Seen:
    return Seen(MemoryReading(limit // 2, limit, limit - gap(limit, RULES)))


def reasons(instructions: list[Instruction]) -> list[Reason]:
    return [one.reason for one in instructions if isinstance(one, Tell)]


def leap(one: SpikeGuard, now: float = 0.0) -> int:
    """A guard that has been given its first step, and the limit it leads to."""
    one.handle(full(holds=one.holds), now)
    one.handle(Granted(64 * MIB), now)
    return LIMIT + 64 * MIB


def raised_once(one: SpikeGuard, now: float = 0.0) -> int:
    """A guard whose first step the API has accepted, and the limit it leads to."""
    raised = leap(one, now)
    if not one.holds:
        assert one.handle(Seen(MemoryReading(LIMIT // 2, raised)), now) == [AskApi(raised)]
    one.handle(Accepted(raised), now)
    return raised


def at_hold(limit: int, taken: float, *, high: int = 0, huge: bool = False) -> Seen:
    """With so much of the gap taken."""
    mark = limit - gap(limit, RULES)
    used = mark + int(taken * (limit - mark))
    return Seen(MemoryReading(used, limit, high or mark, huge_bytes=2 * MIB * huge))
