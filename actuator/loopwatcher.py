"""The rescue on the event loop: for simulated memory, and wherever there is no thread.

Owns its timing there: at once at an event, at each guard's deadline, and a sweep each second.
"""

import asyncio
from typing import Final

from actuator.budget import NodeBudget
from actuator.memory import Memory, Target
from actuator.outcomes import Failed, OnOutcome, Outcome
from actuator.rescue import Rescue
from actuator.spikerules import SpikeRules
from actuator.spikewords import Accepted, Refused
from elastipod.clock import Clock

_SWEEP_SECONDS: Final = 1.0


class LoopWatcher:
    """What `Watcher` is in a thread, without one."""

    def __init__(
        self,
        memory: Memory,
        rules: SpikeRules,
        budget: NodeBudget,
        clock: Clock,
        sweep_seconds: float = _SWEEP_SECONDS,
    ) -> None:
        self.enforcement, self.holds = memory.enforcement, memory.holds
        self.on_outcome: OnOutcome = lambda _key, _outcome: None
        self._memory, self._clock, self._sweep_seconds = memory, clock, sweep_seconds
        self._rescue = Rescue(memory, rules, budget, clock, self._tell)
        self._rescue.on_rearm = lambda key, marks: self._rescue.rearmed(key, marks, clock.monotonic())
        self._due: set[str] = set()
        self._wake = asyncio.Event()

    def add(self, target: Target) -> None:
        if target.key not in self._rescue.keys:
            try:
                self._memory.open(target)
            except OSError as error:
                self.on_outcome(target.key, Failed(str(error)))
                return
        self._rescue.add(target, self._clock.monotonic())
        self._wake.set()

    def complete(self) -> None:
        """There is no guard to tell."""

    def drop(self, key: str) -> None:
        self._rescue.drop(key)

    def answer(self, key: str, answer: Accepted | Refused) -> None:
        self._rescue.answer(key, answer, self._clock.monotonic())
        self._wake.set()

    async def run(self) -> None:
        """For ever; what is held is let go when cancelled."""
        swept_at = self._clock.monotonic()
        try:
            while True:
                now = self._clock.monotonic()
                if self._due:
                    due, self._due = sorted(self._due), set()
                    self._rescue.look(due, now)
                if now - swept_at >= self._sweep_seconds:
                    self._rescue.sweep(self._rescue.keys, now, closely=True)
                    swept_at = now
                self._rescue.look(self._rescue.due(now), now)
                until = min(swept_at + self._sweep_seconds, max(self._rescue.next_at(), now + 0.001))
                await self._wait(until - self._clock.monotonic())
        finally:
            self.stop()

    def stop(self) -> None:
        """Leave nothing held."""
        self._rescue.drop_all()

    async def _wait(self, seconds: float) -> None:
        self._wake.clear()
        if self._due:
            return
        # Rounding may leave nothing of a wait whose end has not come.
        sleeping = asyncio.ensure_future(self._clock.sleep(max(seconds, 0.001)))
        sleeping.add_done_callback(lambda done: None if done.cancelled() else self._wake.set())
        try:
            await self._wake.wait()
        finally:
            sleeping.cancel()

    def _tell(self, key: str, outcome: Outcome) -> None:
        self.on_outcome(key, outcome)

    def notice(self, key: str) -> None:
        """A container reached its mark."""
        self._due.add(key)
        self._wake.set()
