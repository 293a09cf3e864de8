"""What runs in a pod, as a node sees it.

Owns the words and the protocol that real processes (processes.py) and simulated ones (simulated.py) both fulfil.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from elastipod.localcluster.node.hands import GroupLimits, GroupUsage
from elastipod.pods import QosClass


class StartError(Exception):
    """A container that could not be started; the message is shown in its status."""


class RuntimeFailure(Exception):
    """An operation of the runtime that failed; the message is shown in the pod's condition."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A pod, as its runtime knows it."""

    uid: str
    namespace: str
    name: str
    qos_class: QosClass


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One run of one container."""

    sandbox: Sandbox
    name: str
    container_id: str
    attempt: int
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    working_folder: str = ""
    problem: str = ""
    """Why its command can not be run."""
    usage_model: str = ""
    """The pod's `elastipod.io/simulated-usage`; real processes have no use for it."""


class RunState(StrEnum):
    """Where one run of a container stands."""

    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a container, as it stands. Instants are Unix seconds."""

    spec: ContainerSpec
    state: RunState
    started_at: float
    process_id: int = 0
    finished_at: float = 0.0
    exit_code: int = 0
    signal: int = 0
    oom_killed: bool = False
    message: str = ""


class Runtime(Protocol):
    """Starts, sizes, measures and ends containers. Failures are StartError and RuntimeFailure."""

    enforcement: str
    """`cgroup v1`, `cgroup v2` or `simulated`."""

    on_change: Callable[[], None]
    """Called when a run may have ended."""

    def recover(self) -> list[Run]:
        """The runs that an earlier process left, running or ended, to be taken over."""
        ...

    def keep_only(self, pod_uids: set[str]) -> None:
        """Drop what is kept of all other pods: none of them has a run."""
        ...

    def next_change_at(self) -> float | None:
        """When a run will end or be killed by itself, where that is known."""
        ...

    def ended(self) -> list[Run]:
        """The runs that ended since this was last asked."""
        ...

    async def start(self, spec: ContainerSpec, pod: GroupLimits, limits: GroupLimits) -> Run:
        """Make the pod's group where there is none, and start the container in its own. Raises StartError."""
        ...

    def set_pod_limits(self, sandbox: Sandbox, limits: GroupLimits) -> None: ...

    def set_limits(self, container_id: str, limits: GroupLimits) -> None: ...

    def limits(self, container_id: str) -> GroupLimits | None:
        """What is in force; None where the container is gone."""
        ...

    def usage(self, container_id: str) -> GroupUsage | None: ...

    def stop(self, container_id: str, *, kill: bool) -> None:
        """Ask the container to end (SIGTERM), or end it (SIGKILL to all its processes)."""
        ...

    def forget(self, container_id: str) -> None:
        """Drop a run that ended: its files and its group, not its log."""
        ...

    async def remove_pod(self, sandbox: Sandbox) -> None:
        """Leave nothing of a pod: processes, groups, logs."""
        ...

    def log_path(self, sandbox: Sandbox, container: str, attempt: int, /) -> str:
        """The file with a run's output; empty where there is none."""
        ...
