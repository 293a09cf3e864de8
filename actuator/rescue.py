"""Events in, writes out: the guards of all containers on a node.

Owns the order of work in one round: look, decide, share out the node's budget, write, tell. Single-threaded; runs in
the epoll thread (watcher.py) or on the event loop (loopwatcher.py). What is decided is spikes.py's and
budget.py's matter.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, assert_never

from actuator.budget import Ask, NodeBudget, share_out
from actuator.memory import GONE, Memory, Target
from actuator.outcomes import Failed, Gone, OnOutcome, Outcome, Watched
from actuator.spikerules import SpikeRules
from actuator.spikes import Phase, SpikeGuard
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
from elastipod.clock import Clock

_LEAST_GRANT: Final = 1024 * 1024
_PAGE: Final = 4096
_RUNGS_IN_USE: Final = 3
_FAR: Final = 0.5
"""Below this share of its mark a container is swept closely only, that is four times as seldom."""


@dataclass(slots=True)
class _Slot:
    target: Target
    guard: SpikeGuard
    mark: int = 0
    """The usage from which a closer look is worth it."""
    is_far: bool = False
    """Whether its usage was far below that at the last sweep."""
    bounds: tuple[int | None, int | None] = (None, None)
    """Limit and hold as they were last seen."""
    armed: tuple[int, ...] = ()
    """Its usage marks."""


class Rescue:
    """The containers of one node. `on_rearm(key, marks)` is called when usage marks have to stand elsewhere."""

    def __init__(
        self, memory: Memory, rules: SpikeRules, budget: NodeBudget, clock: Clock, on_outcome: OnOutcome
    ) -> None:
        self._memory, self._rules, self._budget, self._clock = memory, rules, budget, clock
        self._on_outcome = on_outcome
        self.on_rearm: Callable[[str, tuple[int, ...]], None] = lambda _key, _marks: None
        self._slots: dict[str, _Slot] = {}
        self._busy: dict[str, _Slot] = {}
        """Those that are not calm, or want to look again: few, and looked after at each turn."""

    @property
    def keys(self) -> list[str]:
        return list(self._slots)

    def add(self, target: Target, now: float) -> None:
        """Take over a container that the memory has opened, or what is new of one we know."""
        slot = self._slots.get(target.key)
        if slot is not None:
            slot.target = target
            slot.guard.agreement.shown(target.spec_bytes, target.in_force_bytes, is_resizing=target.is_resizing)
            slot.guard.ceiling_bytes = target.ceiling_bytes
            return
        guard = SpikeGuard(
            self._rules,
            holds=self._memory.holds,
            spec_bytes=target.spec_bytes,
            ceiling_bytes=target.ceiling_bytes,
            base_bytes=target.base_bytes,
            deadline_seconds=target.deadline_seconds,
            written_bytes=target.written_bytes,
            rescues=target.rescues,
            now=now,
        )
        guard.agreement.is_resizing = target.is_resizing
        obstacle = self._obstacle(target)
        if obstacle is not None:
            self._memory.close(target.key)
            self._on_outcome(target.key, obstacle)
            return
        self._slots[target.key] = _Slot(target, guard)
        if self._memory.holds:
            self._on_outcome(target.key, Watched())
        self.look((target.key,), now)

    def _obstacle(self, target: Target) -> Outcome | None:
        """Why a container can not be taken over, if so."""
        try:
            reading = self._memory.reading(target.key)
        except OSError as error:
            return _unread(error)
        if reading is None:
            return Gone()
        if self._memory.holds and reading.high_bytes is not None and not target.is_leased:
            return Failed("memory.high is set by another (MemoryQoS?), so it is left alone")
        return None

    def drop(self, key: str) -> None:
        """Let go of a container: the hold is lifted, nothing is lowered."""
        self._busy.pop(key, None)
        if self._slots.pop(key, None) is not None:
            if self._memory.holds:
                self._try(key, lambda: self._memory.set_high(key, None))
            self._budget.give_back(key)
            self._memory.close(key)

    def drop_all(self) -> None:
        """Leave nothing held."""
        for key in self.keys:
            self.drop(key)

    def rearmed(self, key: str, marks: tuple[int, ...], now: float) -> None:
        """New usage marks are in place. A mark that was passed before it was armed never fires: look."""
        slot = self._slots.get(key)
        if slot is not None:
            if not slot.armed:
                self._on_outcome(key, Watched())
            slot.armed = marks
            self.look((key,), now)

    def next_at(self) -> float:
        """When a guard wants to look without an event."""
        return min((slot.guard.next_at for slot in self._busy.values()), default=math.inf)

    def due(self, now: float) -> list[str]:
        return [key for key, slot in self._busy.items() if slot.guard.next_at <= now]

    def sweep(self, keys: Iterable[str], now: float, *, closely: bool) -> None:
        """The safety net beside the events; `closely` sees also limits and holds that others changed, and who is far
        from its mark, whom the others pass over."""
        found = []
        for key in keys:
            slot = self._slots.get(key)
            if slot is None or (slot.is_far and not closely and key not in self._busy):
                continue
            usage = self._memory.usage(key)
            slot.is_far = usage < _FAR * slot.mark
            is_near = key in self._busy or usage >= slot.mark
            if is_near or (closely and self._memory.bounds(key) != slot.bounds):
                found.append(key)
        if found:
            self.look(found, now)

    def look(self, keys: Iterable[str], now: float) -> None:
        """Read each container once, decide, share out, write."""
        asks: list[Ask] = []
        readings: dict[str, MemoryReading] = {}
        for key in keys:
            slot = self._slots.get(key)
            if slot is None:
                continue
            try:
                reading = self._memory.reading(key)
            except OSError as error:
                self._on_outcome(key, _unread(error))
                continue
            if reading is None:
                self._forget(key)
                continue
            readings[key] = reading
            self._budget.use(key, reading.current_bytes)
            for instruction in slot.guard.handle(Seen(reading), now):
                if isinstance(instruction, WantRoom):
                    asks.append(Ask(key, instruction.memory_bytes, slot.target.priority))
                else:
                    self._do(key, instruction, now)
            slot.bounds = (reading.limit_bytes, reading.high_bytes)
            self._note_limit(key, slot, reading.limit_bytes or 0, now, reading.tasks)
            self._note_phase(key, slot)
        if asks:
            self._grant(asks, readings, now)

    def answer(self, key: str, answer: Accepted | Refused, now: float) -> None:
        """What the API said."""
        if isinstance(answer, Refused):
            self._budget.give_back(key)
        self._handle(key, answer, now)

    def _grant(self, asks: list[Ask], readings: dict[str, MemoryReading], now: float) -> None:
        shares = share_out(asks, self._budget.free(self._memory.available_bytes(), now))
        for ask in asks:
            share = shares[ask.key] // _PAGE * _PAGE
            if share < min(ask.memory_bytes, _LEAST_GRANT):
                share = 0
            if share:
                self._budget.take(ask.key, share, readings[ask.key].current_bytes, now)
            self._handle(ask.key, Granted(share), now)

    def _handle(self, key: str, event: Event, now: float) -> None:
        slot = self._slots.get(key)
        if slot is not None:
            for instruction in slot.guard.handle(event, now):
                self._do(key, instruction, now)
            self._note_phase(key, slot)

    def _note_phase(self, key: str, slot: _Slot) -> None:
        if slot.guard.phase is Phase.CALM and slot.guard.next_at == math.inf:
            self._busy.pop(key, None)
        elif key in self._slots:
            self._busy[key] = slot

    def _do(self, key: str, instruction: Instruction, now: float) -> None:
        match instruction:
            case WriteLimit(limit_bytes):
                self._try(key, lambda: self._memory.raise_limit(key, limit_bytes))
                slot = self._slots.get(key)
                if slot is not None:
                    self._note_limit(key, slot, limit_bytes, now)
            case WriteHigh(high_bytes):
                self._try(key, lambda: self._memory.set_high(key, high_bytes))
            case Tell():
                # The round began with the event; the write is part of it.
                took = self._clock.monotonic() - now
                self._on_outcome(key, replace(instruction, seconds=instruction.seconds + took))
            case AskApi():
                self._on_outcome(key, instruction)
            case WantRoom():
                raise AssertionError("room is shared out among all that ask in a round")
            case _:
                assert_never(instruction)

    def _note_limit(self, key: str, slot: _Slot, limit: int, now: float, tasks: int = 1) -> None:
        slot.mark = slot.guard.mark(limit, tasks) if limit else 0
        if self._memory.holds or not limit:
            return
        # One of the lower rungs shall stand in the upper part of the gap's way, so that some are left above it.
        if not any(slot.mark <= rung <= slot.mark + (limit - slot.mark) // 2 for rung in slot.armed[:_RUNGS_IN_USE]):
            self.on_rearm(key, slot.guard.ladder(limit, now))

    def _try(self, key: str, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            if error.errno in GONE:
                self._forget(key)
            else:
                self._on_outcome(key, Failed(f"{error.strerror or error}"))

    def _forget(self, key: str) -> None:
        self._busy.pop(key, None)
        slot = self._slots.pop(key, None)
        if slot is not None:
            if slot.guard.unasked_bytes:
                # The next container of its name shall have what this one needed.
                self._on_outcome(key, AskApi(slot.guard.unasked_bytes))
            self._budget.give_back(key)
            self._memory.close(key)
            self._on_outcome(key, Gone())


def _unread(error: OSError) -> Failed:
    return Failed(f"its memory can not be read: {error.strerror or error}")
