"""The life of one container that runs in thought.

Owns how far it is in its model, what it uses there within its limits, and when that changes by itself. What is done to
it is simulated.py's matter.
"""

import math
from dataclasses import dataclass

from elastipod.localcluster.node.hands import GroupLimits
from elastipod.localcluster.node.runtime import Run, RunState
from elastipod.localcluster.node.usagemodel import UsageModel, UsageStep


@dataclass(slots=True)
class Life:
    """A container's, from its start to its end."""

    run: Run
    model: UsageModel
    limits: GroupLimits
    seen_at: float
    step: UsageStep
    """Where it is in its model."""
    next_at: float = math.inf
    """When something happens to it by itself."""
    lived_seconds: float = 0.0
    """How far it is in its model; a container that is held does not get on."""
    cpu_seconds: float = 0.0
    high_bytes: int | None = None
    held_since: float | None = None
    held_seconds: float = 0.0
    high_events: int = 0

    @property
    def is_running(self) -> bool:
        return self.run.state is RunState.RUNNING

    @property
    def memory_bytes(self) -> int:
        wanted = self.step.memory_bytes
        return wanted if self.high_bytes is None else min(wanted, self.high_bytes)

    @property
    def cpu_millicores(self) -> int:
        wanted, most = self.step.cpu_millicores, self.limits.cpu_limit_millicores
        return wanted if most is None else min(wanted, most)

    def live(self, until: float) -> None:
        """Let time pass in which nothing happens to it."""
        passed, self.seen_at = until - self.seen_at, until
        if self.held_since is not None:
            self.held_seconds += passed
        elif self.is_running:
            self.cpu_seconds += self.cpu_millicores * passed / 1000
            self.lived_seconds += passed

    @property
    def next_second(self) -> float:
        """The second of its life in which something happens to it by itself; infinite for never."""
        step = self.model.after(self.lived_seconds)
        seconds = (self.model.seconds, None if step is None else step.second)
        return min((one for one in seconds if one is not None), default=math.inf)
