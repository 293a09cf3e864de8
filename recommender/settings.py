"""What can be set about the recommender."""

from dataclasses import dataclass

_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class RecommenderSettings:
    """Recommends CPU and memory for containers from what they used."""

    recommender_names: tuple[str, ...] = ("elastipod",)
    """VerticalPodAutoscalers that name one of these in spec.recommenders are ours; `default` also means those that
    name none."""
    namespace: str = ""
    """Look at this namespace only; all where empty."""
    interval_seconds: float = 60.0
    """How often usage is read and recommendations are looked at again."""
    metrics_resolution_seconds: float = 60.0
    """How far apart usage samples are; confidence counts samples in these steps."""
    metrics_lost_seconds: float = 180.0
    """After so long without a usable sample a workload's MetricsLost condition is set."""
    half_life_seconds: float = _DAY
    """Time after which a sample counts half as much."""
    cpu_sample_weight: float = 0.1
    """Weight of one CPU sample in a histogram."""
    memory_interval_seconds: float = _DAY
    """Memory is recommended from the peaks of intervals this long."""
    memory_interval_count: int = 8
    """History is kept this many memory intervals after its last sample."""
    target_percentile: float = 0.9
    """The target covers this fraction of usage."""
    lower_percentile: float = 0.5
    """The lower bound covers this fraction of usage."""
    upper_percentile: float = 0.95
    """The upper bound covers this fraction of usage."""
    margin_fraction: float = 0.15
    """Added to every percentile, as a fraction of it."""
    confidence_interval_seconds: float = _DAY
    """Confidence is 1 after this much history."""
    enough_confidence: float = 0.125
    """Below this confidence no upper bound is shown and LowConfidence is set."""
    floor_cpu_millicores: int = 1
    """No container is recommended less CPU, unless its policy's minAllowed says so."""
    floor_memory_bytes: int = 10 * 1024**2
    """No container is recommended less memory, unless its policy's minAllowed says so."""
    max_allowed_cpu_millicores: int = 0
    """No container is recommended more CPU; 0 for no such maximum."""
    max_allowed_memory_bytes: int = 0
    """No container is recommended more memory; 0 for no such maximum."""
    oom_bump_ratio: float = 1.2
    """After an OOM kill, memory grows at least by this ratio."""
    oom_min_bump_bytes: int = 100 * 1024**2
    """After an OOM kill, memory grows at least by this much."""
    target_tolerance: float = 0.05
    """A target is written again when it moved by more than this fraction."""
    bound_tolerance: float = 0.5
    """A bound that changes no decision is written again when it moved by more than this fraction."""
    status_interval_seconds: float = 60.0
    """A status is written at most this often, save after an OOM kill or a change of its spec."""
    checkpoint_interval_seconds: float = 1200.0
    """A container's history is saved this often; at once when its recommendation moved or after an OOM kill."""
    checkpoint_gc_seconds: float = 600.0
    """How often checkpoints that belong to nothing any more are looked for."""
    most_writes_at_once: int = 10
    """Requests to the API server under way at once."""
    most_checkpoints_per_run: int = 500
    """Checkpoints saved in one run."""

    def __post_init__(self) -> None:
        for name in (
            "interval_seconds",
            "metrics_resolution_seconds",
            "half_life_seconds",
            "memory_interval_seconds",
            "confidence_interval_seconds",
            "cpu_sample_weight",
        ):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0")
        for name in ("target_percentile", "lower_percentile", "upper_percentile"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} is a fraction above 0 and up to 1")
        if not self.lower_percentile <= self.target_percentile <= self.upper_percentile:
            raise ValueError("target_percentile must lie between lower_percentile and upper_percentile")
        if self.oom_bump_ratio < 1:
            raise ValueError("oom_bump_ratio must be at least 1")

    @property
    def history_seconds(self) -> float:
        """How long history is kept after its last sample."""
        return self.memory_interval_seconds * self.memory_interval_count
