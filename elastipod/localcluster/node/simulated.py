"""Containers that run in thought: they use what their model says, and are killed at their limits as the kernel would.

Owns what becomes of a container under limits: killed at the memory limit, held at `high`; its life in between is
simulatedlife.py's matter. Nothing happens between calls; every answer is computed for the clock's time, so that a run
under a manual or virtual clock repeats exactly.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from elastipod.clock import Clock
from elastipod.localcluster.node.hands import GroupLimits, GroupUsage
from elastipod.localcluster.node.runtime import ContainerSpec, Run, RunState, Sandbox, StartError
from elastipod.localcluster.node.simulatedlife import Life
from elastipod.localcluster.node.usagemodel import parse_usage_model

_SIGTERM: Final = 15
_SIGKILL: Final = 9


class SimulatedRuntime:
    """Runs containers in thought. `on_high` is called with the id of a container that begins to be held."""

    enforcement = "simulated"

    def __init__(self, clock: Clock) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.on_high: Callable[[str], None] = lambda _: None
        self._clock = clock
        self._containers: dict[str, Life] = {}
        self._pod_limits: dict[str, GroupLimits] = {}
        self._ended: list[Run] = []
        self._held: dict[str, None] = {}
        self._holds_over: list[tuple[str, float, float | None]] = []
        self._advanced_to = -1.0

    def recover(self) -> list[Run]:
        self._advance()
        self._ended.clear()
        return [one.run for one in self._containers.values()]

    def keep_only(self, pod_uids: set[str]) -> None:
        for uid in set(self._pod_limits) - pod_uids:
            del self._pod_limits[uid]

    def next_change_at(self) -> float | None:
        self._advance()
        at = min((one.next_at for one in self._containers.values()), default=math.inf)
        return None if at == math.inf else at

    def ended(self) -> list[Run]:
        self._advance()
        ended, self._ended = self._ended, []
        return ended

    async def start(self, spec: ContainerSpec, pod: GroupLimits, limits: GroupLimits) -> Run:
        try:
            model = parse_usage_model(spec.usage_model, spec.name)
        except ValueError as error:
            raise StartError(str(error)) from None
        now = self._clock.now()
        run = Run(spec, RunState.RUNNING, now, process_id=int(spec.container_id[:6], 16))
        self._pod_limits[spec.sandbox.uid] = pod
        self._containers[spec.container_id] = Life(run, model, limits, now, model.at(0.0))
        self._enforce(self._containers[spec.container_id])
        return run

    def set_pod_limits(self, sandbox: Sandbox, limits: GroupLimits) -> None:
        self._advance()
        self._pod_limits[sandbox.uid] = limits
        self._enforce_all(sandbox.uid)

    def set_limits(self, container_id: str, limits: GroupLimits) -> None:
        self._advance()
        found = self._as_of_now(container_id)
        if found is not None:
            found.limits = limits
            self._enforce_all(found.run.spec.sandbox.uid)

    def set_high(self, container_id: str, high_bytes: int | None) -> None:
        """As `memory.high`: a container that wants more is held, until it is raised or taken away."""
        self._advance()
        found = self._as_of_now(container_id)
        if found is not None:
            if found.high_bytes is not None and (high_bytes is None or high_bytes > found.high_bytes):
                # It goes on, and is held anew where even that is not enough.
                self._let_go(found, self._clock.now())
            was_held = found.held_since is not None
            found.high_bytes = high_bytes
            self._enforce_all(found.run.spec.sandbox.uid)
            if was_held and found.held_since is not None:
                # The kernel tells of a hold as long as it lasts.
                self.on_high(container_id)

    def limits(self, container_id: str) -> GroupLimits | None:
        found = self._containers.get(container_id)
        return found.limits if found is not None and found.is_running else None

    def in_force(self) -> Iterator[tuple[ContainerSpec, GroupLimits]]:
        """What runs, and its limits."""
        for one in self._containers.values():
            if one.is_running:
                yield one.run.spec, one.limits

    def process_id(self, container_id: str) -> int:
        """The number that stands for its process; 0 where it does not run."""
        self._advance()
        found = self._containers.get(container_id)
        return 0 if found is None else found.run.process_id

    def pod_limits(self, pod_uid: str) -> GroupLimits | None:
        return self._pod_limits.get(pod_uid)

    def high_events(self, container_id: str) -> int:
        """How often the container began to be held."""
        found = self._containers.get(container_id)
        return 0 if found is None else found.high_events

    def held_seconds(self, container_id: str) -> float:
        """How long the container was held in all."""
        found = self._as_of_now(container_id)
        return 0.0 if found is None else found.held_seconds

    def holds(self) -> list[tuple[str, float, float | None]]:
        """Container, since when and until when it was held: those held now, and those let go since last asked."""
        over, self._holds_over = self._holds_over, []
        held = ((identity, self._containers.get(identity)) for identity in self._held)
        return over + [
            (identity, one.held_since, None) for identity, one in held if one is not None and one.held_since is not None
        ]

    def lowest_memory(self, container_id: str, seconds: float) -> int | None:
        """The least a running container had in use within the last seconds; None where it does not run."""
        one = self._as_of_now(container_id)
        if one is None or not one.is_running:
            return None
        first = one.model.at(max(one.lived_seconds - seconds, 0.0))
        since = [step for step in one.model.steps if first.second < step.second <= one.lived_seconds]
        return min(one.memory_bytes, first.memory_bytes, *(step.memory_bytes for step in since))

    def usage(self, container_id: str) -> GroupUsage | None:
        found = self._as_of_now(container_id)
        if found is None or not found.is_running:
            return None
        memory = found.memory_bytes
        return GroupUsage(found.cpu_seconds, memory, memory)

    def memory_bytes(self, container_id: str) -> int | None:
        """What `usage` tells of memory; None where the container does not run. Cheap, to be asked often."""
        found = self._containers.get(container_id)
        if found is None:
            return None
        if found.next_at <= (now := self._clock.now()):
            self._live(found, now)
        return found.memory_bytes if found.is_running else None

    def stop(self, container_id: str, *, kill: bool) -> None:
        self._advance()
        found = self._as_of_now(container_id)
        if found is not None and found.is_running:
            self._end(found, self._clock.now(), signal=_SIGKILL if kill else _SIGTERM)

    def forget(self, container_id: str) -> None:
        found = self._containers.get(container_id)
        if found is not None and found.run.state is RunState.EXITED:
            del self._containers[container_id]

    async def remove_pod(self, sandbox: Sandbox) -> None:
        for identity, one in list(self._containers.items()):
            if one.run.spec.sandbox.uid == sandbox.uid:
                del self._containers[identity]
                self._held.pop(identity, None)
        self._pod_limits.pop(sandbox.uid, None)

    def log_path(self, _sandbox: Sandbox, _container: str, _attempt: int, /) -> str:
        return ""

    def _advance(self) -> None:
        now = self._clock.now()
        if self._advanced_to == now:
            return
        self._advanced_to = now
        for one in list(self._containers.values()):
            if one.next_at <= now:
                self._live(one, now)

    def _as_of_now(self, container_id: str) -> Life | None:
        """A container as it is now."""
        found = self._containers.get(container_id)
        if found is not None:
            self._live(found, self._clock.now())
        return found

    def _live(self, one: Life, now: float) -> None:
        """Let a container live until now, from one step of its model to the next."""
        while one.next_at <= now:
            second = one.next_second
            one.live(one.next_at)
            one.lived_seconds = second
            self._enforce(one)
        one.live(now)

    def _enforce_all(self, pod_uid: str) -> None:
        for one in list(self._containers.values()):
            if one.run.spec.sandbox.uid == pod_uid and one.is_running:
                one.live(self._clock.now())
                self._enforce(one)

    def _enforce(self, one: Life) -> None:
        """Know what a container wants now and what comes next, and end, kill or hold it as its limits have it."""
        one.step = one.model.at(one.lived_seconds)
        self._judge(one, one.seen_at)
        goes_on = one.is_running and one.held_since is None
        one.next_at = one.seen_at + one.next_second - one.lived_seconds if goes_on else math.inf

    def _judge(self, one: Life, now: float) -> None:
        if one.model.seconds is not None and one.lived_seconds >= one.model.seconds and one.held_since is None:
            self._end(one, now, exit_code=one.model.exit_code)
            return
        if one.high_bytes is not None and one.step.memory_bytes > one.high_bytes:
            if one.held_since is None:
                one.held_since = now
                self._held[one.run.spec.container_id] = None
                one.high_events += 1
                self.on_high(one.run.spec.container_id)
        else:
            self._let_go(one, now)
        if one.limits.memory_limit_bytes is not None and one.memory_bytes > one.limits.memory_limit_bytes:
            self._end(one, now, signal=_SIGKILL, oom_killed=True)
            return
        self._enforce_pod(one, now)

    def _enforce_pod(self, one: Life, now: float) -> None:
        uid = one.run.spec.sandbox.uid
        most = self._pod_limits[uid].memory_limit_bytes if uid in self._pod_limits else None
        if most is None:
            return
        used = sum(
            other.memory_bytes
            for other in self._containers.values()
            if other.run.spec.sandbox.uid == uid and other.is_running
        )
        if used > most:
            self._end(one, now, signal=_SIGKILL, oom_killed=True)

    def _end(self, one: Life, at: float, *, exit_code: int = 0, signal: int = 0, oom_killed: bool = False) -> None:
        one.run = replace(
            one.run,
            state=RunState.EXITED,
            finished_at=at,
            exit_code=exit_code,
            signal=signal,
            oom_killed=oom_killed,
            process_id=0,
        )
        one.next_at = math.inf
        self._let_go(one, at)
        self._ended.append(one.run)
        self.on_change()

    def _let_go(self, one: Life, at: float) -> None:
        if one.held_since is not None:
            self._holds_over.append((one.run.spec.container_id, one.held_since, at))
            one.held_since = None
            self._held.pop(one.run.spec.container_id, None)
            # What comes next in its model was as far away as the hold.
            self.on_change()
