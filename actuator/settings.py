"""What can be set for the actuator."""

import math
from dataclasses import dataclass
from typing import Literal

from actuator.spikerules import SpikeRules
from elastipod.policy import Ceiling, SpikeMode
from elastipod.quantities import QuantityError, stated_memory


@dataclass(frozen=True, slots=True)
class ActuatorSettings:
    """Puts allocated resources in force on its node, and gives a spiking container more memory before it is killed."""

    node_name: str = ""
    """The node this process runs on."""
    namespaces_off: tuple[str, ...] = ()
    """Namespaces whose pods are never touched."""
    interval_seconds: float = 10.0
    """A run at least this often, besides the runs that changes of the node's pods cause at once."""
    state_folder: str = "/run/elastipod"
    """Where journal and heartbeat lie, for the guard and for the next start; on a tmpfs or a disk of the node's own."""
    cgroup_root: str = "/sys/fs/cgroup"
    """Where the node's cgroups are mounted."""
    cgroup_parent: str = ""
    """The kubelet's --cgroup-root as a folder in each hierarchy: `kubelet`, or `kubelet.slice`; empty for the top."""
    memory_spike: Literal["Pause", "Off"] = "Pause"
    """What holds for pods that say nothing: Pause or Off."""
    memory_spike_allowed: bool = True
    """Whether pods may be paused and raised at all; false forbids it everywhere."""
    memory_spike_max: str = ""
    """No spike raises a container's memory limit above this amount, such as 8Gi; empty sets no amount."""
    memory_spike_max_factor: float = 4.0
    """No spike raises a container's memory limit above this many times the limit it had before."""
    hold_seconds: float = 5.0
    """No hold lasts longer; pods with a nearer liveness deadline are let go before it."""
    answer_seconds: float = 1.0
    """So long the API has to accept a raise; then the cgroup is raised first and the request repeated."""
    node_raises: bool = False
    """Whether the kubelet raises (cgroup v2), half a second slower; the cgroup goes first only where that is late."""
    settle_seconds: float = 0.25
    """Where there is no hold (cgroup v1), the API is asked when a raised container has not grown for this long."""
    step_fraction: float = 0.25
    """A raise is at least this share of the container's limit; the next of the same spike are larger."""
    step_least: str = "64Mi"
    """A raise is at least this amount."""
    rescues: int = 3
    """A container that was rescued so often within rescue_window_seconds is taken for a leak and left to the kernel."""
    rescue_window_seconds: float = 600.0
    """See rescues."""
    gap_fraction: float = 0.0
    """How far below its limit a container is held, as a share of it; 0 computes it from size and number of tasks."""
    node_reserve: str = "100Mi"
    """Memory of the node that spikes never take: the kubelet's eviction threshold."""
    direct: bool = False
    """Whether sizes in the ElasticNode's spec are put in force without a kubelet."""
    sample_seconds: float = 0.0
    """How often the usage of every container is read, for a recommender whose usage_source names the actuators; 0 for
    never, for one that does not ask."""
    retry_first_seconds: float = 0.2
    """The wait before a raise that the API did not answer is asked again; it doubles with each further try."""
    retry_most_seconds: float = 10.0
    """The longest wait between two such tries."""

    def __post_init__(self) -> None:
        if self.memory_spike not in tuple(SpikeMode):
            raise ValueError(f"memory_spike is {self.memory_spike!r}; it can be Pause or Off")
        for name in (
            "interval_seconds",
            "hold_seconds",
            "answer_seconds",
            "settle_seconds",
            "rescue_window_seconds",
            "retry_first_seconds",
            "retry_most_seconds",
        ):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be above 0")
        if self.hold_seconds > 60:
            raise ValueError("hold_seconds must not be above 60: no container may stand still longer")
        if self.sample_seconds and not 1 <= self.sample_seconds <= 30:
            raise ValueError("sample_seconds must lie between 1 and 30, or be 0")
        if not 0 < self.step_fraction <= 4:
            raise ValueError("step_fraction must lie between 0 and 4")
        if not 0 <= self.gap_fraction <= 0.5:
            raise ValueError("gap_fraction must lie between 0 and 0.5")
        if not 1 <= self.memory_spike_max_factor <= 1000:
            raise ValueError("memory_spike_max_factor must lie between 1 and 1000")
        if not 1 <= self.rescues <= 1000:
            raise ValueError("rescues must lie between 1 and 1000")
        for name in ("step_least", "node_reserve", *(("memory_spike_max",) if self.memory_spike_max else ())):
            self.amount(name)

    def amount(self, name: str) -> int:
        """A setting that is an amount of memory, in bytes. Raises ValueError with its name."""
        try:
            amount = stated_memory(getattr(self, name))
        except QuantityError as error:
            raise ValueError(f"{name}: {error}") from None
        if amount < 0:
            raise ValueError(f"{name} must not be negative")
        return amount

    @property
    def rules(self) -> SpikeRules:
        return SpikeRules(
            hold_seconds=self.hold_seconds,
            answer_seconds=self.answer_seconds,
            settle_seconds=self.settle_seconds,
            step_fraction=self.step_fraction,
            least_step_bytes=self.amount("step_least"),
            most_rescues=self.rescues,
            rescue_window_seconds=self.rescue_window_seconds,
            gap_fraction=self.gap_fraction,
            budget_seconds=5.0 if self.node_raises else 1.0,
            node_raises=self.node_raises,
        )

    @property
    def ceiling(self) -> Ceiling:
        return Ceiling(
            spike=SpikeMode.PAUSE if self.memory_spike_allowed else SpikeMode.OFF,
            default_spike=SpikeMode(self.memory_spike),
            spike_max_bytes=self.amount("memory_spike_max") if self.memory_spike_max else None,
        )
