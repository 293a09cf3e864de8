"""A memory limit lowered on a real cgroup, one step at a call.

Owns the order of files on the way down: on v2 the hold first, so that nothing grows into the new limit between the look
and the write; the container, then its pod. May block while the kernel reclaims: never called in the watcher's thread.
"""

import errno
from contextlib import suppress

from actuator.cgroup import CgroupWrite, memory_writes
from actuator.nodehands import NodeHands, numbers
from actuator.shrinking import Lower, Reclaim, ShrinkRules, ShrinkStep, Usage, Wait, next_step
from elastipod.clock import Clock
from elastipod.reasons import Reason


class Lowering:
    """Lowers limits of containers."""

    def __init__(self, hands: NodeHands, clock: Clock, rules: ShrinkRules | None = None) -> None:
        self._hands, self._clock = hands, clock
        self._rules = rules or ShrinkRules()

    def step(self, pod_group: str, group: str, wanted_bytes: int) -> ShrinkStep:
        """The next step, done. OSError where the group is gone."""
        limit = self._hands.memory_limit(group)
        usage = self._usage(group)
        step = next_step(usage.memory_bytes + wanted_bytes if limit is None else limit, wanted_bytes, usage,
                         self._clock.monotonic(), self._rules)  # fmt: skip
        match step:
            case Reclaim(memory_bytes):
                self._reclaim(group, memory_bytes)
            case Lower(limit_bytes):
                return self._lower(pod_group, group, limit, limit_bytes)
        return step

    def _usage(self, group: str) -> Usage:
        used = self._hands.usage(group)
        stat = numbers(self._hands.text(group, "memory.stat"))
        names = (
            ("inactive_file", "active_file")
            if self._hands.version == 2
            else ("total_inactive_file", "total_active_file")
        )
        reclaimable = sum(stat.get(name, 0) for name in names)
        return Usage(used.memory_bytes, self._clock.monotonic(), self._hands.pressure(group), reclaimable)

    def _reclaim(self, group: str, memory_bytes: int) -> None:
        file, value = ("memory.reclaim", str(memory_bytes)) if self._hands.version == 2 else ("memory.force_empty", "0")
        # As much as there was; what is left shows in the next look.
        with suppress(OSError):
            self._hands.write(CgroupWrite(group, file, value, may_lack=True))

    def _lower(self, pod_group: str, group: str, now: int | None, goal: int) -> ShrinkStep:
        if self._hands.version == 2:
            before = self._hands.number(group, "memory.high")
            self._hands.write(CgroupWrite(group, "memory.high", str(goal if before is None else min(before, goal))))
            if self._usage(group).memory_bytes * (1 + self._rules.margin_fraction) > goal:
                self._hands.write(CgroupWrite(group, "memory.high", "max" if before is None else str(before)))
                return Wait(Reason.KEPT_ABOVE_USAGE)
        try:
            self._hands.write_all(memory_writes(self._hands.version, group, now, goal))
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return Wait(Reason.KEPT_ABOVE_USAGE)
        pod = self._hands.memory_limit(pod_group)
        if pod is not None and now is not None:
            with suppress(OSError):
                self._hands.write_all(memory_writes(self._hands.version, pod_group, pod, max(pod - (now - goal), goal)))
        return Lower(goal)
