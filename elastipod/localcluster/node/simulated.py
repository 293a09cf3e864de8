"""Containers that run in thought: they use what their model says, and are killed at their limits as the kernel would.

Owns what becomes of a model under limits: killed at the memory limit, held at `high`, capped at the CPU limit. Nothing
happens between calls; every answer is computed for the clock's time, so that a run under a manual or virtual clock
repeats exactly.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from elastipod.clock import Clock
from elastipod.localcluster.node.hands import GroupLimits, GroupUsage
from elastipod.localcluster.node.runtime import ContainerSpec, Run, RunState, Sandbox, StartError
from elastipod.localcluster.node.usagemodel import UsageModel, parse_usage_model

_SIGTERM: Final = 15
_SIGKILL: Final = 9


@dataclass(slots=True)
class _Container:
    run: Run
    model: UsageModel
    limits: GroupLimits
    high_bytes: int | None = None
    lived_seconds: float = 0.0
    """How far it is in its model; a container that is held does not get on."""
    cpu_seconds: float = 0.0
    seen_at: float = 0.0
    held_since: float | None = None
    held_seconds: float = 0.0
    high_events: int = 0
    memory_peak: int = 0


class SimulatedRuntime:
    """Runs containers in thought. `on_high` is called with the id of a container that begins to be held."""

    enforcement = "simulated"

    def __init__(self, clock: Clock) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.on_high: Callable[[str], None] = lambda _: None
        self._clock = clock
        self._containers: dict[str, _Container] = {}
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
        times = [
            one.seen_at + second - one.lived_seconds
            for one in self._containers.values()
            if one.held_since is None and (second := _next_second(one)) is not None
        ]
        return min(times, default=None)

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
        self._containers[spec.container_id] = _Container(run, model, limits, seen_at=now)
        self._enforce(self._containers[spec.container_id])
        return run

    def set_pod_limits(self, sandbox: Sandbox, limits: GroupLimits) -> None:
        self._advance()
        self._pod_limits[sandbox.uid] = limits
        self._enforce_all(sandbox.uid)

    def set_limits(self, container_id: str, limits: GroupLimits) -> None:
        self._advance()
        found = self._containers.get(container_id)
        if found is not None:
            found.limits = limits
            self._enforce_all(found.run.spec.sandbox.uid)

    def set_high(self, container_id: str, high_bytes: int | None) -> None:
        """As `memory.high`: a container that wants more is held, until it is raised or taken away."""
        self._advance()
        found = self._containers.get(container_id)
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
        return found.limits if found is not None and found.run.state is RunState.RUNNING else None

    def in_force(self) -> Iterator[tuple[ContainerSpec, GroupLimits]]:
        """What runs, and its limits."""
        for one in self._containers.values():
            if one.run.state is RunState.RUNNING:
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
        self._advance()
        found = self._containers.get(container_id)
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
        self._advance()
        one = self._containers.get(container_id)
        if one is None or one.run.state is not RunState.RUNNING:
            return None
        first = one.model.at(max(one.lived_seconds - seconds, 0.0))
        since = [step for step in one.model.steps if first.second < step.second <= one.lived_seconds]
        return min(self._memory(one), first.memory_bytes, *(step.memory_bytes for step in since))

    def usage(self, container_id: str) -> GroupUsage | None:
        found = self._containers.get(container_id)
        if found is not None:
            self._live(found, self._clock.now())
        if found is None or found.run.state is not RunState.RUNNING:
            return None
        memory = self._memory(found)
        return GroupUsage(found.cpu_seconds, memory, memory)

    def stop(self, container_id: str, *, kill: bool) -> None:
        self._advance()
        found = self._containers.get(container_id)
        if found is not None and found.run.state is RunState.RUNNING:
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
            self._live(one, now)

    def _live(self, one: _Container, now: float) -> None:
        """Let a container live until now, from one step of its model to the next."""
        while one.run.state is RunState.RUNNING and one.seen_at < now:
            if one.held_since is not None:
                one.held_seconds += now - one.seen_at
                one.seen_at = now
                return
            second = _next_second(one)
            at = None if second is None else one.seen_at + second - one.lived_seconds
            until = now if at is None else min(at, now)
            one.cpu_seconds += self._cpu(one) * (until - one.seen_at) / 1000
            if second is None or at is None or at > now:
                one.lived_seconds += until - one.seen_at
                one.seen_at = until
            else:
                one.lived_seconds, one.seen_at = second, at
                self._enforce(one)

    def _enforce_all(self, pod_uid: str) -> None:
        for one in list(self._containers.values()):
            if one.run.spec.sandbox.uid == pod_uid and one.run.state is RunState.RUNNING:
                self._enforce(one)

    def _enforce(self, one: _Container) -> None:
        """End, kill or hold a container, as its demand and its limits have it now."""
        now = one.seen_at
        if one.model.seconds is not None and one.lived_seconds >= one.model.seconds and one.held_since is None:
            self._end(one, now, exit_code=one.model.exit_code)
            return
        wanted = one.model.at(one.lived_seconds).memory_bytes
        if one.high_bytes is not None and wanted > one.high_bytes:
            if one.held_since is None:
                one.held_since = now
                self._held[one.run.spec.container_id] = None
                one.high_events += 1
                self.on_high(one.run.spec.container_id)
            wanted = one.high_bytes
        else:
            self._let_go(one, now)
        one.memory_peak = max(one.memory_peak, wanted)
        if one.limits.memory_limit_bytes is not None and wanted > one.limits.memory_limit_bytes:
            self._end(one, now, signal=_SIGKILL, oom_killed=True)
            return
        self._enforce_pod(one, now)

    def _enforce_pod(self, one: _Container, now: float) -> None:
        uid = one.run.spec.sandbox.uid
        most = self._pod_limits[uid].memory_limit_bytes if uid in self._pod_limits else None
        if most is None:
            return
        used = sum(
            self._memory(other)
            for other in self._containers.values()
            if other.run.spec.sandbox.uid == uid and other.run.state is RunState.RUNNING
        )
        if used > most:
            self._end(one, now, signal=_SIGKILL, oom_killed=True)

    def _end(
        self, one: _Container, at: float, *, exit_code: int = 0, signal: int = 0, oom_killed: bool = False
    ) -> None:
        one.run = replace(
            one.run,
            state=RunState.EXITED,
            finished_at=at,
            exit_code=exit_code,
            signal=signal,
            oom_killed=oom_killed,
            process_id=0,
        )
        self._let_go(one, at)
        self._ended.append(one.run)
        self.on_change()

    def _let_go(self, one: _Container, at: float) -> None:
        if one.held_since is not None:
            self._holds_over.append((one.run.spec.container_id, one.held_since, at))
            one.held_since = None
            self._held.pop(one.run.spec.container_id, None)
            # What comes next in its model was as far away as the hold.
            self.on_change()

    def _memory(self, one: _Container) -> int:
        wanted = one.model.at(one.lived_seconds).memory_bytes
        return wanted if one.high_bytes is None else min(wanted, one.high_bytes)

    def _cpu(self, one: _Container) -> int:
        wanted = one.model.at(one.lived_seconds).cpu_millicores
        most = one.limits.cpu_limit_millicores
        return wanted if most is None else min(wanted, most)


def _next_second(one: _Container) -> float | None:
    """The second of its life in which something happens to a container by itself."""
    if one.run.state is not RunState.RUNNING:
        return None
    step = one.model.after(one.lived_seconds)
    seconds = [at for at in (one.model.seconds, step.second if step is not None else None) if at is not None]
    return min(seconds, default=None)
