"""When to hold, when to raise, when to let go.

Owns what is decided about one container's memory spike: the ladder of marks, page cache and leaks, the deadline, and
the order of spec and cgroup. The gap below a limit is elastipod/headroom.py's. Opens nothing and asks nobody: events
in, instructions out. Measured on Linux 6.1 to 7.3; the formulas are calculate_high_delay's (mm/memcontrol.c).
"""

import math
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from elastipod import headroom
from elastipod.headroom import MIB, NEAR
from elastipod.reasons import Reason

_PAGE: Final = 4096
_NEEDED: Final = 0.85
"""Below this share of its mark in use for good, what grew is page cache, which the kernel takes back."""
_CACHE_REST_SECONDS: Final = 1.0
_STILL_BYTES: Final = MIB
_LOOKS: Final = 5
_SLEEP_SECONDS: Final = 2.0
"""MEMCG_MAX_HIGH_DELAY_JIFFIES."""
_NODES_SHARE: Final = 0.6
"""The share of a hold's time that is left to a node which raises,"""
_LAST_SHARE: Final = 0.9
"""and to one with an older size still to put in force, onto what a write before would have let grow."""
_TAKEN: Final = 0.75
"""When so much of the gap is taken meanwhile,"""
_HARD: Final = 0.2
"""the hold stands so far below the limit, as a share of it: tasks sleep the longest then."""
_BURST_BYTES: Final = 512 * 1024
"""What a task takes at most between two sleeps (two batches of charges)."""
RUNGS: Final = 5
_LEAPING: Final = 2
"""So many gaps below the limit a mark stands in a leap (v1): who grew through the last is soon at the next."""
_MOST_DOUBLINGS: Final = 6


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


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """A container's memory at one moment; limits None where there are none."""

    current_bytes: int
    limit_bytes: int | None
    high_bytes: int | None = None
    reclaimable_bytes: int = 0
    huge_bytes: int = 0
    """What of it lies in huge pages, near a mark (v2)."""
    tasks: int = 1
    oom_kills: int = 0

    @property
    def needed_bytes(self) -> int:
        """What the kernel cannot take back."""
        return max(self.current_bytes - self.reclaimable_bytes, 0)


def seconds_to_kill(high_bytes: int, max_bytes: int, tasks: int = 1, *, huge_pages: bool = False) -> float:
    """How long tasks that allocate at full speed take from `high` to `max` in the kernel's throttle.

    Charges of huge pages pass it until small ones follow, so that one sleep of a task is all that is sure.
    """
    if high_bytes <= 0:
        return 0.0
    x = max(max_bytes - high_bytes, 0) / high_bytes
    seconds = 85 * x**3 * (high_bytes / MIB) / max(tasks, 1)
    return min(seconds, _SLEEP_SECONDS) if huge_pages else seconds


def gap(limit_bytes: int, rules: SpikeRules, tasks: int = 1) -> int:
    """How far below the limit the hold stands (v2)."""
    return headroom.gap(limit_bytes, rules.budget_seconds, tasks, rules.gap_fraction)


def gap_v1(limit_bytes: int, rules: SpikeRules) -> int:
    """How far below the limit the first mark stands (v1)."""
    return headroom.gap_v1(limit_bytes, rules.gap_fraction)


def first_step(base_bytes: int, rules: SpikeRules) -> int:
    """The smallest raise of a container; the next of the same spike double."""
    return max(int(base_bytes * rules.step_fraction), rules.least_step_bytes) // _PAGE * _PAGE


class Phase(StrEnum):
    """Where a container stands."""

    CALM = "calm"
    NEEDY = "needy"
    """At its mark, and nothing granted yet."""
    ASKED = "asked"
    """A raise was granted and asked of the API."""
    LET_GO = "let go"
    """The hold was lifted with nothing to give; the kernel decides."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A look at the container, after an event or in the sweep."""

    reading: MemoryReading


@dataclass(frozen=True, slots=True)
class Granted:
    """What the node's budget gives; 0 is nothing."""

    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """The API accepted a limit: it stands in the spec."""

    limit_bytes: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The API refuses the raise for good."""

    reason: Reason


Event = Seen | Granted | Accepted | Refused


@dataclass(frozen=True, slots=True)
class WantRoom:
    """Ask the node's budget."""

    memory_bytes: int


@dataclass(frozen=True, slots=True)
class AskApi:
    """Ask the API for this limit, again until it answers."""

    limit_bytes: int


@dataclass(frozen=True, slots=True)
class WriteLimit:
    """Raise the cgroup: the pod, then the container."""

    limit_bytes: int


@dataclass(frozen=True, slots=True)
class WriteHigh:
    """Move the hold; None lifts it."""

    high_bytes: int | None


@dataclass(frozen=True, slots=True)
class Tell:
    """What became of a spike."""

    reason: Reason
    seconds: float = 0.0
    over_bytes: int = 0
    limit_bytes: int = 0


Instruction = WantRoom | AskApi | WriteLimit | WriteHigh | Tell


class SpikeGuard:
    """One container's guard.

    With `holds` (v2) the kernel makes tasks wait at the hold, so the spec is asked first. Without (v1) the cgroup is
    raised at once, and the spec follows when the leap is over.
    """

    __slots__ = (
        "_answer_by", "_ask_by", "_asked", "_cache_told_at", "_deadline", "_first_raise_at", "_grown_at",
        "_grown_bytes", "_is_behind", "_kill_seconds", "_left_to_node", "_limit", "_look_at", "_nudge_at", "_rescues",
        "_shown_bytes", "_since", "_steps", "_under_way_until", "base_bytes", "ceiling_bytes", "deadline_seconds",
        "holds", "in_force_bytes", "is_resizing", "phase", "reason", "rules", "spec_bytes", "written_bytes",
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
        self.spec_bytes = spec_bytes
        """The limit in the spec, as far as we know."""
        self.base_bytes = spec_bytes if base_bytes is None else base_bytes
        self.ceiling_bytes = ceiling_bytes
        self.written_bytes = written_bytes
        """The highest limit we wrote; no patch may carry less."""
        self.deadline_seconds = min(rules.hold_seconds, deadline_seconds or rules.hold_seconds)
        self.in_force_bytes: int | None = spec_bytes
        """The limit that the node says is in force; None where it does not say."""
        self.is_resizing = False
        """Whether the node has a resize of the pod still to put in force, be it of its CPU."""
        self.phase = Phase.CALM
        self.reason: Reason | None = None
        self._rescues: deque[float] = deque(rescues, maxlen=max(rules.most_rescues, 1))
        self._since = self._deadline = self._answer_by = self._nudge_at = 0.0
        self._asked = 0
        self._left_to_node = self._is_behind = False
        self._steps = 0
        self._limit: int | None = None
        self._kill_seconds = 0.0
        self._first_raise_at = -math.inf
        self._cache_told_at = -math.inf
        # An earlier run's request may be under way as well.
        self._under_way_until = now + rules.force_seconds if written_bytes else -math.inf
        self._look_at = math.inf
        self._shown_bytes = spec_bytes
        self._ask_by = math.inf
        self._grown_bytes, self._grown_at = 0, now

    @property
    def unasked_bytes(self) -> int:
        """What was written in a leap that is not over, so that the API was not asked for it yet (v1); 0 is nothing."""
        return self.written_bytes if self._is_leaping else 0

    @property
    def _is_leaping(self) -> bool:
        return self._ask_by < math.inf

    @property
    def rescues(self) -> tuple[float, ...]:
        """When rescues began."""
        return tuple(self._rescues)

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

    @property
    def target_bytes(self) -> int:
        """The limit the spec shall have: what was written, or is asked."""
        return max(self.written_bytes, self._asked)

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
        if limit < self.written_bytes and (self._is_leaping or self._is_under_way(now)):
            # The node put an older request in force.
            limit = self._limit = self.written_bytes
            again = [WriteLimit(limit)]
        # Else whoever lowered it had the right to.
        self.written_bytes = min(self.written_bytes, limit)
        again += self._leapt(reading.current_bytes, now)
        self._look_soon(now)
        mark = self.mark(limit, reading.tasks)
        if self.phase is Phase.LET_GO:
            if reading.current_bytes >= NEAR * mark:
                return again
            self.phase, self.reason = Phase.CALM, None
        if self.holds and now >= self._deadline and self.phase in (Phase.NEEDY, Phase.ASKED):
            return again + self._let_go(self.reason or Reason.EXPIRED, now, reading.current_bytes - mark)
        if self.phase is Phase.ASKED:
            if limit >= self._asked:
                return again + self._write(now)
            return again + self._unanswered(reading, mark, limit, now)
        return again + self._moved_hold(reading, mark) + self._at(reading, mark, limit, now)

    def _is_under_way(self, now: float) -> bool:
        """Whether a request of ours may still be put in force, and be an older one than what is written."""
        return self.written_bytes != self.in_force_bytes and now < self._under_way_until

    def _leapt(self, current_bytes: int, now: float) -> list[Instruction]:
        """v1: the API is asked once a leap is over. A request in its midst would be put in force by the kubelet when
        the cgroup is further up already, and lower it; and it takes time from those who raise."""
        if not self._is_leaping:
            self._grown_bytes = current_bytes
            return []
        if current_bytes > self._grown_bytes + _STILL_BYTES:
            self._grown_bytes, self._grown_at = current_bytes, now
        is_over = current_bytes < self._grown_bytes - _STILL_BYTES or now >= min(
            self._grown_at + self.rules.settle_seconds, self._ask_by
        )
        if not is_over:
            return []
        self._ask_by, self._under_way_until = math.inf, now + self.rules.force_seconds
        return [AskApi(self.written_bytes)]

    def _look_soon(self, now: float) -> None:
        self._look_at = math.inf
        if self._is_leaping:
            self._look_at = now + self.rules.settle_seconds / _LOOKS
        if self._left_to_node if self.holds else self._is_under_way(now):
            self._look_at = now + self.rules.look_seconds

    def shown(self, spec_bytes: int, in_force_bytes: int | None, *, is_resizing: bool = False) -> None:
        """What the cluster shows of the container: its spec, and what the node says is in force or has still to be."""
        if spec_bytes < self.written_bytes <= self._shown_bytes:
            # The spec had come up to what we wrote: somebody lowered it since.
            self.written_bytes = spec_bytes
        self.spec_bytes = self._shown_bytes = spec_bytes
        self.in_force_bytes, self.is_resizing = in_force_bytes, is_resizing
        self._is_behind = self._is_behind and is_resizing

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
        if self.holds:
            return limit_bytes - gap(limit_bytes, self.rules, tasks)
        return limit_bytes - gap_v1(limit_bytes, self.rules) * (_LEAPING if self._is_leaping else 1)

    def ladder(self, limit_bytes: int, now: float) -> tuple[int, ...]:
        """v1's usage marks: the one below this limit, and those below the limits that the next raises lead to."""
        rungs, raises = [self.mark(limit_bytes)], self._steps_so_far(now)
        while len(rungs) < RUNGS and limit_bytes < self.ceiling_bytes:
            limit_bytes += self._step(raises)
            raises += 1
            rungs.append(limit_bytes - _LEAPING * gap_v1(limit_bytes, self.rules))
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
        if self._leaks(now):
            return self._let_go(Reason.LEAK_SUSPECTED, now, reading.current_bytes - mark)
        # In huge pages it passes the next hold as well, before the node has put anything in force.
        step = self._step(self._steps_so_far(now) + (reading.huge_bytes > 0))
        return [WantRoom(min(step, self.ceiling_bytes - limit))]

    def _step(self, raises: int) -> int:
        return first_step(self.base_bytes, self.rules) << min(raises, _MOST_DOUBLINGS)

    def _steps_so_far(self, now: float) -> int:
        return self._steps if now - self._first_raise_at <= self.rules.rescue_seconds else 0

    def _leaks(self, now: float) -> bool:
        """Whether this would be one rescue too many; a raise within a rescue's time belongs to it."""
        if now - self._first_raise_at <= self.rules.rescue_seconds:
            return False
        full = len(self._rescues) == self.rules.most_rescues
        return full and now - self._rescues[0] <= self.rules.rescue_window_seconds

    def _granted(self, memory_bytes: int, now: float) -> list[Instruction]:
        if self.phase is not Phase.NEEDY:
            return []
        if memory_bytes <= 0:
            self.reason = self.reason or Reason.NODE_BUDGET_EMPTY
            return [] if self.holds else [Tell(Reason.NODE_BUDGET_EMPTY)]
        return self._raise_by(memory_bytes, now)

    def _raise_by(self, memory_bytes: int, now: float) -> list[Instruction]:
        if now - self._first_raise_at > self.rules.rescue_seconds:
            self._first_raise_at, self._steps = now, 0
            self._rescues.append(now)
        self._steps += 1
        self._asked = max((self._limit or 0) + memory_bytes, self.written_bytes)
        if not self.holds:
            self._ask_by = min(self._ask_by, now + self.rules.leap_seconds)
            self._grown_at = now
            return self._write(now)
        self._under_way_until = now + self.rules.force_seconds
        self.phase, self._answer_by = Phase.ASKED, now + self._patience_seconds
        # From here on what is under way is our own request.
        self._is_behind = self.is_resizing
        if self._asked <= self.spec_bytes:
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
        self.spec_bytes = limit_bytes
        self._under_way_until = now + self.rules.force_seconds
        if self.phase is not Phase.ASKED or limit_bytes < self._asked:
            return []
        return self._stated(now)

    def _stated(self, now: float) -> list[Instruction]:
        """The spec has the limit: it is written, or left to the node."""
        # A node that has an earlier size still to put in force would lower what we wrote onto what is in use.
        is_behind = self.in_force_bytes is not None and self.in_force_bytes < self.written_bytes
        if not (self.rules.node_raises or self._is_behind or is_behind):
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
        is_hard = self._left_to_node and reading.current_bytes - mark >= _TAKEN * (limit - mark)
        if now >= self._answer_by or (is_hard and self._is_last_chance(reading, limit, now)):
            return self._write(now)
        held = self._moved_hold(reading, limit - headroom.gap(limit, fraction=_HARD) if is_hard else mark)
        if self._left_to_node and now >= self._nudge_at and self._asked + MIB <= self.ceiling_bytes:
            self._asked, self._nudge_at = self._asked + MIB, math.inf
            return [*held, AskApi(self._asked)]
        return held

    def _is_last_chance(self, reading: MemoryReading, limit: int, now: float) -> bool:
        """Whether those who do not sleep may take all that is left before the next look."""
        sleeps = reading.huge_bytes > 0 and now < self._since + _SLEEP_SECONDS * _LAST_SHARE
        return limit - reading.current_bytes < (reading.tasks - sleeps) * _BURST_BYTES

    def _write(self, now: float) -> list[Instruction]:
        limit = self.written_bytes = max(self._asked, self.written_bytes)
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
