"""What comes of a spike: a raise carried on until spec and cgroup agree, and what is told of it.

Owns that a raise is recorded, that the spec follows what was written (by us before a restart, or by the guard while we
were away), and that a cgroup goes back to a spec which the API would not raise. One request's way to the API is
asking.py's matter, the words of Events and metrics telling.py's.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from actuator.asking import Asker
from actuator.leases import Leases
from actuator.outcomes import SpikeWatcher
from actuator.protection import Protection
from actuator.shrinking import Done, ShrinkStep
from actuator.spikewords import Accepted, Refused, Tell
from actuator.telling import Numbers, Teller
from elastipod.clock import Clock
from elastipod.reasons import Reason
from elastipod.telemetry import get_logger

log = get_logger(__name__)

Lower = Callable[[str, str, int], ShrinkStep]
"""Takes the next step of a container's limit down to an amount: the group of its pod, its own, the bytes."""


class Raises:
    """The raises of one node's containers. `lower` None takes nothing back."""

    def __init__(
        self,
        asker: Asker,
        protection: Protection,
        leases: Leases,
        watcher: SpikeWatcher,
        teller: Teller,
        numbers: Numbers,
        clock: Clock,
        lower: Lower | None,
    ) -> None:
        self._asker, self._protection, self._leases, self._watcher = asker, protection, leases, watcher
        self._teller, self._numbers, self._clock, self._lower = teller, numbers, clock, lower
        self._telling: set[asyncio.Task[None]] = set()
        asker.on_answer = self._answered

    # What the watcher wants.

    def ask(self, key: str, limit_bytes: int) -> None:
        """Have the spec carry a limit."""
        known = self._protection.guarded.get(key)
        if known is not None:
            known.is_leaping = False
        self._asker.ask(key, limit_bytes, partial(self._protection.find, key))
        self._record(key, ours=limit_bytes, pending=limit_bytes)
        # Without holds one leap is many raises; its end, where the API is asked, tells of the last.
        last = known.told if known is not None and not self._watcher.holds else None
        if isinstance(last, Tell) and last.reason is Reason.RAISED:
            self._tell(key, last)

    def spiked(self, key: str, told: Tell) -> None:
        """What became of a spike."""
        self._numbers.spike(told, self._protection.find(key))
        known = self._protection.guarded.get(key)
        if told.reason is not Reason.PAGE_CACHE:
            if known is not None:
                known.tell(told, self._clock.now())
            log.info(
                "spike",
                container=key,
                reason=told.reason.value,
                limit_bytes=told.limit_bytes,
                milliseconds=round(told.seconds * 1000, 2),
            )
        if told.reason is Reason.RAISED and not self._watcher.holds:
            if known is not None:
                known.is_leaping = True
            self._record(key, ours=told.limit_bytes, pending=told.limit_bytes, rescued=True)
            return
        if told.reason is Reason.RAISED:
            self._record(key, ours=told.limit_bytes, rescued=True)
        self._tell(key, told)

    def _answered(self, key: str, answer: Accepted | Refused) -> None:
        known = self._protection.guarded.get(key)
        if isinstance(answer, Refused):
            self._record(key, pending=0)
            if known is not None:
                known.is_above = True
            if self._protection.find(key) is not None:
                self.spiked(key, Tell(answer.reason))
        elif known is not None:
            known.accepted_bytes = answer.limit_bytes
        self._watcher.answer(key, answer)

    # What is left of it, looked at in each run.

    def adopt(self, raised: Mapping[str, int]) -> None:
        """What the guard raised while we were away, by group, is ours to ask of the API."""
        for key, known in self._protection.guarded.items() if raised else ():
            limit_bytes = raised.get(known.target.group)
            if limit_bytes is not None:
                self._record(key, ours=limit_bytes, pending=limit_bytes)

    def ask_again(self) -> None:
        """What an earlier run of ours had raised and not asked to the end: the spec follows the cgroup."""
        for key, pending in self._leases.pending():
            known = self._protection.guarded.get(key)
            if known is None or known.is_leaping or self._asker.is_asking(key):
                continue
            if pending > max(known.target.spec_bytes, known.accepted_bytes):
                self._asker.ask(key, pending, partial(self._protection.find, key))

    async def take_back(self) -> None:
        """Bring cgroups down to a spec that the API would not raise, a step at a time, as usage allows."""
        for key, known in list(self._protection.guarded.items()):
            if not known.is_above:
                continue
            if self._lower is None or self._asker.is_asking(key):
                known.is_above = False
                continue
            target = known.target
            try:
                step = await asyncio.to_thread(self._lower, target.pod_group, target.group, target.spec_bytes)
            except OSError as error:
                log.info("not lowered", container=key, error=str(error))
                step = Done()
            if isinstance(step, Done):
                known.is_above = False

    def facts(self, key: str) -> dict[str, Any] | None:
        """What is known of the request that asks the API for a container; None where there is none."""
        if not self._asker.is_asking(key):
            return None
        return {"tries": self._asker.tries.get(key, 0), "error": self._asker.last_error.get(key, "")}

    def forget(self, key: str) -> None:
        """The container is gone."""
        self._asker.forget(key)

    async def stop(self) -> None:
        await self._asker.stop()

    def _record(self, key: str, *, ours: int = 0, pending: int | None = None, rescued: bool = False) -> None:
        known = self._protection.guarded.get(key)
        if known is None:
            return
        try:
            self._leases.note(known.target, ours=ours, pending=pending, rescued=rescued)
        except OSError as error:
            # It is written with the next decision.
            self._protection.decide_again(known.target.pod_uid)
            log.warning("rescue not recorded", container=key, error=str(error))

    def _tell(self, key: str, told: Tell) -> None:
        found = self._protection.find(key)
        if found is not None:
            task = asyncio.create_task(self._teller.tell_spike(found[0], found[1].name, told))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)
