"""When to hold, when to raise, when to let go.

Owns what is decided about one container's memory spike: the ladder of marks, page cache, the deadline, and the order of
spec and cgroup. Opens nothing and asks nobody: events in, instructions out (spikewords.py). What spec and node have is
agreement.py's matter, gaps and marks are spikerules.py's, the size of a raise rescues.py's, v1's leaps leaps.py's, how
the kernel makes tasks wait throttle.py's.
"""

import math
from enum import StrEnum
from typing import Final, assert_never

from actuator.agreement import Agreement
from actuator.leaps import Leap
from actuator.rescues import Rescues
from actuator.spikerules import SpikeRules, gap, mark_below
from actuator.spikewords import (
    Accepted,
    AskApi,
    Event,
    Granted,
    Instruction,
    MemoryReading,
    Refused,
    Seen,
    Tell,
    WantRoom,
    WriteHigh,
    WriteLimit,
)
from actuator.throttle import is_last_chance, seconds_to_kill
from elastipod import headroom
from elastipod.headroom import MIB, NEAR
from elastipod.reasons import Reason

_NEEDED: Final = 0.85
"""Below this share of its mark in use for good, what grew is page cache, which the kernel takes back."""
_CACHE_REST_SECONDS: Final = 1.0
_LOOKS: Final = 5
_NODES_SHARE: Final = 0.6
"""The share of a hold's time that is left to a node which raises,"""
_LAST_SHARE: Final = 0.9
"""and to one with an older size still to put in force, onto what a write before would have let grow."""
_TAKEN: Final = 0.75
"""When so much of the gap is taken before, it is written, or in huge pages"""
_HARD: Final = 0.2
"""the hold stands so far below the limit, as a share of it: tasks sleep the longest then."""
RUNGS: Final = 5


class Phase(StrEnum):
    """Where a container stands."""

    CALM = "calm"
    NEEDY = "needy"
    """At its mark, and nothing granted yet."""
    ASKED = "asked"
    """A raise was granted and asked of the API."""
    LET_GO = "let go"
    """The hold was lifted with nothing to give; the kernel decides."""


class SpikeGuard:
    """One container's guard.

    With `holds` (v2) the kernel makes tasks wait at the hold, so the spec is asked first. Without (v1) the cgroup is
    raised at once, and the spec follows when the leap is over.
    """

    __slots__ = (
        "_answer_by", "_asked", "_cache_told_at", "_deadline", "_kill_seconds", "_leap", "_left_to_node", "_limit",
        "_look_at", "_needed", "_nudge_at", "_rescues", "_since", "agreement", "ceiling_bytes", "deadline_seconds",
        "holds", "phase", "reason", "rules",
    )  # fmt: skip

    def __init__(
        self,
        rules: SpikeRules,
        *,
        holds: bool,
        spec_bytes: int,
        ceiling_bytes: int,
        base_bytes: int | None = None,
        deadline_seconds: float | None = None,
        written_bytes: int = 0,
        rescues: tuple[float, ...] = (),
        now: float = 0.0,
    ) -> None:
        self.rules, self.holds = rules, holds
        self.ceiling_bytes = ceiling_bytes
        self.deadline_seconds = min(rules.hold_seconds, deadline_seconds or rules.hold_seconds)
        self.phase = Phase.CALM
        self.reason: Reason | None = None
        self.agreement = Agreement(rules, spec_bytes, written_bytes, now)
        self._rescues = Rescues(rules, spec_bytes if base_bytes is None else base_bytes, rescues)
        self._leap = Leap(rules, now)
        self._since = self._deadline = self._answer_by = self._nudge_at = 0.0
        self._asked = self._needed = 0
        self._left_to_node = False
        self._limit: int | None = None
        self._kill_seconds = 0.0
        self._cache_told_at = -math.inf
        self._look_at = math.inf

    @property
    def unasked_bytes(self) -> int:
        """What was written in a leap that is not over, so that the API was not asked for it yet (v1); 0 is nothing."""
        return self.agreement.written_bytes if self._leap.is_on else 0

    @property
    def next_at(self) -> float:
        """When to look again without an event."""
        match self.phase:
            case Phase.NEEDY:
                return self._deadline if self.holds else math.inf
            case Phase.ASKED:
                return min(self._answer_by, self._deadline, self._look_at)
            case Phase.CALM | Phase.LET_GO:
                return self._look_at

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """One event; what to do, in this order."""
        match event:
            case Seen(reading):
                return self._seen(reading, now)
            case Granted(memory_bytes):
                return self._granted(memory_bytes, now)
            case Accepted(limit_bytes):
                return self._accepted(limit_bytes, now)
            case Refused(reason):
                self._asked, self._left_to_node = 0, False
                if self.phase is Phase.ASKED:
                    self.phase, self.reason = Phase.NEEDY, reason
                return []
            case _:
                assert_never(event)

    def _seen(self, reading: MemoryReading, now: float) -> list[Instruction]:
        limit = self._limit = reading.limit_bytes
        if limit is None:
            self.phase, self._look_at = Phase.CALM, math.inf
            return []
        again: list[Instruction] = []
        if limit < self.agreement.written_bytes and (self._leap.is_on or self.agreement.is_under_way(now)):
            # The node put an older request in force.
            limit = self._limit = self.agreement.written_bytes
            again = [WriteLimit(limit)]
        # Else whoever lowered it had the right to.
        self.agreement.written_bytes = min(self.agreement.written_bytes, limit)
        if self._leap.ends(reading.current_bytes, now):
            self.agreement.asked(now)
            again.append(AskApi(self.agreement.written_bytes))
        self._look_soon(now)
        mark = self.mark(limit, reading.tasks)
        if self.phase is Phase.LET_GO:
            if reading.current_bytes >= NEAR * mark:
                return again
            self.phase, self.reason = Phase.CALM, None
        if self.holds and now >= self._deadline and self.phase in (Phase.NEEDY, Phase.ASKED):
            return again + self._let_go(self.reason or Reason.EXPIRED, now, reading.current_bytes - mark)
        if self.phase is Phase.ASKED:
            if limit >= self._needed:
                # What was asked again meanwhile, a little higher, is left to the node.
                self._asked = min(self._asked, limit)
                return again + self._write(now)
            return again + self._unanswered(reading, mark, limit, now)
        return again + self._moved_hold(reading, mark) + self._at(reading, mark, limit, now)

    def _look_soon(self, now: float) -> None:
        self._look_at = math.inf
        if self._leap.is_on:
            self._look_at = now + self.rules.settle_seconds / _LOOKS
        if self._left_to_node if self.holds else self.agreement.is_under_way(now):
            self._look_at = now + self.rules.look_seconds

    def _at(self, reading: MemoryReading, mark: int, limit: int, now: float) -> list[Instruction]:
        """Where a look at its mark leads to."""
        if reading.current_bytes < NEAR * mark:
            return self._calm(now)
        if reading.needed_bytes < _NEEDED * mark:
            return self._cache(reading, now)
        self._kill_seconds = seconds_to_kill(mark, limit, reading.tasks, huge_pages=reading.huge_bytes > 0)
        return self._need(reading, mark, limit, now)

    def mark(self, limit_bytes: int, tasks: int = 1) -> int:
        """Where the hold, or the first usage mark, belongs under a limit."""
        return mark_below(limit_bytes, self.rules, tasks, holds=self.holds, is_leaping=self._leap.is_on)

    def ladder(self, limit_bytes: int, now: float) -> tuple[int, ...]:
        """v1's usage marks: the one below this limit, and those below the limits that the next raises lead to."""
        rungs = [self.mark(limit_bytes)]
        while len(rungs) < RUNGS and limit_bytes < self.ceiling_bytes:
            limit_bytes += self._rescues.step(now, further=len(rungs) - 1)
            rungs.append(mark_below(limit_bytes, self.rules, holds=False, is_leaping=True))
        return tuple(rungs)

    def _moved_hold(self, reading: MemoryReading, mark: int) -> list[Instruction]:
        """The hold follows the limit, whoever changed it; a limit lowered onto what is in use waits for usage."""
        if not self.holds or reading.high_bytes == mark:
            return []
        # Tasks come and go: a hold a little off is as good, and not worth a write.
        near = reading.high_bytes is not None and abs(reading.high_bytes - mark) < mark // 50
        in_gap = reading.high_bytes is not None and reading.high_bytes < (reading.limit_bytes or 0)
        return [] if near and in_gap else [WriteHigh(mark)]

    def _calm(self, now: float) -> list[Instruction]:
        if self.phase is not Phase.NEEDY:
            return []
        self.phase, self.reason = Phase.CALM, None
        return [Tell(Reason.HELD, seconds=now - self._since)] if self.holds else []

    def _cache(self, reading: MemoryReading, now: float) -> list[Instruction]:
        if now - self._cache_told_at < _CACHE_REST_SECONDS:
            return []
        self._cache_told_at = now
        return [Tell(Reason.PAGE_CACHE, over_bytes=reading.reclaimable_bytes)]

    def _need(self, reading: MemoryReading, mark: int, limit: int, now: float) -> list[Instruction]:
        if self.phase is Phase.CALM:
            self._since, self._deadline = now, now + self.deadline_seconds
            self.phase, self.reason = Phase.NEEDY, None
        if limit >= self.ceiling_bytes:
            return self._let_go(Reason.AT_CEILING, now, reading.current_bytes - mark)
        if self._rescues.is_leak(now):
            return self._let_go(Reason.LEAK_SUSPECTED, now, reading.current_bytes - mark)
        # In huge pages it passes the next hold as well, before the node has put anything in force.
        step = self._rescues.step(now, further=reading.huge_bytes > 0)
        return [WantRoom(min(step, self.ceiling_bytes - limit))]

    def _granted(self, memory_bytes: int, now: float) -> list[Instruction]:
        if self.phase is not Phase.NEEDY:
            return []
        if memory_bytes <= 0:
            self.reason = self.reason or Reason.NODE_BUDGET_EMPTY
            return [] if self.holds else [Tell(Reason.NODE_BUDGET_EMPTY)]
        return self._raise_by(memory_bytes, now)

    def _raise_by(self, memory_bytes: int, now: float) -> list[Instruction]:
        self._rescues.raised(now)
        self._asked = self._needed = max((self._limit or 0) + memory_bytes, self.agreement.written_bytes)
        if not self.holds:
            self._leap.raised(now)
            return self._write(now)
        self.agreement.begun(now)
        self.phase, self._answer_by = Phase.ASKED, now + self._patience_seconds
        if self._asked <= self.agreement.spec_bytes:
            # The spec has it already, and the kubelet is on its way.
            return self._stated(now)
        return [AskApi(self._asked)]

    @property
    def _patience_seconds(self) -> float:
        """How long a raise may take before the cgroup goes first."""
        if self.rules.node_raises:
            return min(self.deadline_seconds, self._kill_seconds) * _NODES_SHARE
        # Half of the time in which the kernel would kill, at most.
        return min(self.rules.answer_seconds, self._kill_seconds / 2)

    def _accepted(self, limit_bytes: int, now: float) -> list[Instruction]:
        self.agreement.spec_bytes = limit_bytes
        self.agreement.asked(now)
        if self.phase is not Phase.ASKED or limit_bytes < self._asked:
            return []
        return self._stated(now)

    def _stated(self, now: float) -> list[Instruction]:
        """The spec has the limit: it is written, or left to the node."""
        if not (self.rules.node_raises or self.agreement.is_node_behind):
            return self._write(now)
        self._left_to_node, self._nudge_at = True, now + self.rules.nudge_seconds
        if not self.rules.node_raises:
            self._answer_by = max(self._answer_by, self._since + self.deadline_seconds * _LAST_SHARE)
        self._look_soon(now)
        return []

    def _unanswered(self, reading: MemoryReading, mark: int, limit: int, now: float) -> list[Instruction]:
        """The API is silent, or the node: the cgroup goes first, as late as can be where the node has it.

        A restarted kubelet comes to what changes sooner than to what it finds, so it is asked again before.
        """
        is_taken = self._left_to_node and reading.current_bytes - mark >= _TAKEN * (limit - mark)
        if now >= self._answer_by or (is_taken and is_last_chance(reading, limit, now - self._since)):
            return self._write(now)
        held = self._moved_hold(reading, limit - headroom.gap(limit, fraction=_HARD) if is_taken else mark)
        if self._left_to_node and now >= self._nudge_at and self._asked + MIB <= self.ceiling_bytes:
            self._asked, self._nudge_at = self._asked + MIB, math.inf
            return [*held, AskApi(self._asked)]
        return held

    def _write(self, now: float) -> list[Instruction]:
        limit = self.agreement.written_bytes = max(self._asked, self.agreement.written_bytes)
        self._asked, self._left_to_node = 0, False
        self.phase, self.reason = Phase.CALM, None
        self._look_soon(now)
        told = Tell(Reason.RAISED, seconds=now - self._since, limit_bytes=limit)
        if not self.holds:
            return [WriteLimit(limit), told]
        return [WriteLimit(limit), WriteHigh(limit - gap(limit, self.rules)), told]

    def _let_go(self, reason: Reason, now: float, over_bytes: int = 0) -> list[Instruction]:
        self.phase, self.reason, self._left_to_node = Phase.LET_GO, reason, False
        told = Tell(reason, seconds=now - self._since, over_bytes=max(over_bytes, 0))
        return [WriteHigh(None), told] if self.holds else [told]
