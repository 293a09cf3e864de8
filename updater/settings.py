"""What can be set for the updater."""

import math
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class UpdaterSettings:
    """Resizes running pods in place, as recommendations and stated sizes ask."""

    recommender_names: tuple[str, ...] = ("elastipod",)
    """Only VerticalPodAutoscalers that chose one of these recommenders are acted on; `default` replaces upstream's."""
    interval_seconds: float = 1.0
    """A run at least this often, besides the runs that changes in the cluster cause at once; one with nothing to do
    costs next to nothing."""
    namespaces_off: tuple[str, ...] = ()
    """Namespaces whose pods are never touched."""
    dead_band_fraction: float = 0.1
    """A request within its bounds is left alone while it is off its target by less than this."""
    cool_down_seconds: float = 3_600.0
    """A request within its bounds is left alone this long after the pod started or was resized."""
    shrink_fraction: float = 0.2
    """A memory limit is lowered by at most this share of itself at a time."""
    step_seconds: float = 30.0
    """The wait between two such steps."""
    usage_margin_fraction: float = 0.1
    """Memory is never set below the memory in use plus this share of it."""
    usage_fresh_seconds: float = 15.0
    """A usage sample older than this lowers nothing."""
    settled_seconds: float = 60.0
    """A container younger than this is not shrunk: it may not have grown to its size yet."""
    peak_window_seconds: float = 600.0
    """How long the highest memory seen of a container counts when it may give some away."""
    donate: bool = True
    """Whether pods may give room they do not use to pods that wait for it; false forbids it everywhere."""
    donor_margin_fraction: float = 0.25
    """What a donor keeps above its usage and its recent memory peak."""
    restore_fraction: float = 0.9
    """A donor that uses this share of its request gets back what it gave."""
    retry_first_seconds: float = 5.0
    """The wait after the first try that failed; it doubles with each further one."""
    retry_most_seconds: float = 300.0
    """The longest wait between two tries."""
    deferred_seconds: float = 600.0
    """A resize deferred this long is given up, so that it reserves nothing; it is asked again when room frees."""
    in_progress_seconds: float = 3_600.0
    """A resize that is admitted and not in force after this long is given up."""
    infeasible_seconds: float = 21_600.0
    """A size that a node called infeasible is not asked again for this long, unless the node grows."""
    stand_off_seconds: float = 1_800.0
    """After something else changed a pod's resources, the pod is left alone this long."""
    most_resizes_per_minute: int = 2
    """Requests for one pod in any minute."""
    most_requests_at_once: int = 32
    """Requests under way at the API server; the only pace of resizes that restart nothing. While more wait for their
    turn, no Events are written about what goes as wanted: the log tells of each."""
    min_replicas: int = 2
    """Fewer live replicas than this are not restarted by a resize, where the policy does not say otherwise."""
    disruption_fraction: float = 0.5
    """The share of a workload's replicas that may be restarting at once; at least one."""
    stale_seconds: float = 900.0
    """When the API server was silent for longer than this, nothing is changed."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, int | float) and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{one.name} is {value}; it must be a number that is not below 0")
        for name in ("dead_band_fraction", "disruption_fraction", "restore_fraction"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie between 0 and 1")
        if not 0 < self.shrink_fraction < 1:
            raise ValueError("shrink_fraction must lie between 0 and 1")
        for name in ("interval_seconds", "step_seconds", "retry_first_seconds", "retry_most_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")
        if self.most_resizes_per_minute < 1 or self.most_requests_at_once < 1:
            raise ValueError("most_resizes_per_minute and most_requests_at_once must be at least 1")
