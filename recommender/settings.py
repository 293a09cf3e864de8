"""What can be set about the recommender."""

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from recommender.sources.prometheus.access import PrometheusAccess

_DAY = 86_400.0
_SOURCES = ("metrics", "prometheus", "actuators")
MAY_BE_NOTHING = frozenset(
    {
        "margin_fraction",
        "enough_confidence",
        "floor_cpu_millicores",
        "floor_memory_bytes",
        "max_allowed_cpu_millicores",
        "max_allowed_memory_bytes",
        "oom_min_bump_bytes",
        "target_tolerance",
        "bound_tolerance",
        "status_interval_seconds",
        "most_accounted_containers",
        "most_pods_told",
    }
)
"""Numbers that may be 0; the others do not work without an amount."""


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
    usage_source: str = "metrics"
    """Where usage is read each interval: `metrics` is metrics.k8s.io, `prometheus` what prometheus_url names,
    `actuators` each node's actuator. Of several, as `actuators,metrics`, the first that knows a container counts."""
    actuators_namespace: str = ""
    """Where the actuators' pods are; empty for those of a local cluster, which are no pods."""
    prometheus_url: str = ""
    """A Prometheus, or what answers like one, with the kubelets' cAdvisor series: past usage is read from it for what
    has no checkpoint, or one that is older. None where empty."""
    prometheus_username: str = ""
    """Shown to it with the password."""
    prometheus_password: str = ""
    """Better given in the environment than as a flag, which other processes see."""
    prometheus_token: str = ""
    """A bearer token; better given in the environment."""
    prometheus_token_file: str = ""
    """A file with a bearer token, read again for each request."""
    prometheus_ca_file: str = ""
    """Certificates of authorities that its certificate is checked against; the machine's own where empty."""
    prometheus_cert_file: str = ""
    """Our certificate for it."""
    prometheus_key_file: str = ""
    """The key of our certificate, where it stands in a file of its own."""
    prometheus_headers: tuple[str, ...] = ()
    """Further headers, as `X-Scope-OrgID: tenant`."""
    prometheus_proxy: str = ""
    """The proxy on the way to it; what the environment says (HTTPS_PROXY, NO_PROXY) where empty."""
    prometheus_job: str = ""
    """The job that scrapes the kubelets' cAdvisor; found by asking where empty."""
    prometheus_matchers: tuple[str, ...] = ()
    """What every series that is asked for has to match, as `cluster="prod"`; needed where it tells of several clusters,
    whose pods may be called alike."""
    prometheus_timeout_seconds: float = 30.0
    """How long one answer of it may take."""
    history_resolution_seconds: int = 300
    """How far apart amounts of past usage are; memory's peaks between them are seen."""
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
    estimator: Literal["Auto", "Histogram"] = "Auto"
    """Whether an ElasticPolicy may let the best estimator speak: `Auto`, or `Histogram` for VPA's rule everywhere."""
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
    checkpoint_interval_seconds: float = 5400.0
    """A container's history is saved this often; at once when what is saved would recommend something else, or after an
    OOM kill."""
    checkpoint_gc_seconds: float = 600.0
    """How often checkpoints that belong to nothing any more are looked for."""
    accounting_interval_seconds: float = 60.0
    """How often what is reserved, used and saved is added up for /metrics and /savings; in a large cluster seldom
    enough that it takes a hundredth of the time."""
    most_accounted_containers: int = 5_000
    """Containers of workloads that /metrics and /savings tell of, those first that cost the most;
    elastipod_workload_series_left_out says how many are not."""
    most_pods_told: int = 0
    """Pods that /metrics tells of one by one besides, or 0; elastipod_pod_series_left_out says how many it does not."""
    prices_file: str = ""
    """A CSV of what a core and a GiB cost for an hour, with the columns instance_type, capacity_type (on-demand or
    spot, as each cloud calls it), region, core_hour, gib_hour and currency; OpenCost's published defaults, in USD,
    where empty and for nodes that no row speaks of."""
    most_writes_at_once: int = 10
    """Requests to the API server under way at once."""
    most_checkpoints_per_run: int = 500
    """Checkpoints saved in one run."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                if not math.isfinite(value) or value < 0:
                    raise ValueError(f"{one.name} is {value}; it must be a number that is not below 0")
                if value == 0 and one.name not in MAY_BE_NOTHING:
                    raise ValueError(f"{one.name} must be above 0")
        for name in ("target_percentile", "lower_percentile", "upper_percentile"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} is a fraction above 0 and up to 1")
        if not self.lower_percentile <= self.target_percentile <= self.upper_percentile:
            raise ValueError("target_percentile must lie between lower_percentile and upper_percentile")
        if self.oom_bump_ratio < 1:
            raise ValueError("oom_bump_ratio must be at least 1")
        sources = self.usage_sources
        if not set(sources) <= set(_SOURCES) or len(set(sources)) != len(sources):
            raise ValueError(f"usage_source is {self.usage_source!r}; it can be {', '.join(_SOURCES)}, or several")
        if "prometheus" in sources and not self.prometheus_url:
            raise ValueError("usage_source names prometheus, which needs prometheus_url")
        self._check_matchers()
        if not 60 <= self.history_resolution_seconds <= 3600:
            raise ValueError("history_resolution_seconds lies between 60 and 3600")
        self._check_files()

    def _check_files(self) -> None:
        """What is named is there and can be read."""
        if self.prices_file:
            from recommender.prices import load_prices

            load_prices(self.prices_file)
        if self.prometheus_url:
            self.prometheus_access()

    def _check_matchers(self) -> None:
        if self.prometheus_matchers:
            from recommender.sources.prometheus.clusters import is_matcher

            for one in self.prometheus_matchers:
                if not is_matcher(one):
                    raise ValueError(f'prometheus_matchers: {one!r} is no matcher; each is written as cluster="prod"')

    def prometheus_access(self) -> "PrometheusAccess":
        """How Prometheus is reached. Raises ValueError that names the setting."""
        from recommender.sources.prometheus.access import PrometheusAccess

        try:
            return PrometheusAccess(
                url=self.prometheus_url,
                username=self.prometheus_username,
                password=self.prometheus_password,
                token=self.prometheus_token,
                token_file=self.prometheus_token_file,
                ca_file=self.prometheus_ca_file,
                cert_file=self.prometheus_cert_file,
                key_file=self.prometheus_key_file,
                headers=self.prometheus_headers,
                proxy=self.prometheus_proxy,
            )
        except ValueError as error:
            raise ValueError(f"prometheus_{error}") from None

    @property
    def usage_sources(self) -> tuple[str, ...]:
        """What usage_source names, in its order."""
        return tuple(name.strip() for name in self.usage_source.split(","))

    @property
    def shortest_seen_seconds(self) -> float:
        """A run that lasts so long is seen, however soon it is over."""
        # A rate takes two samples; actuators count a run from its start, and read it every few seconds.
        return 20.0 if self.usage_sources[0] == "actuators" else 2 * self.metrics_resolution_seconds

    @property
    def history_seconds(self) -> float:
        """How long history is kept after its last sample."""
        return self.memory_interval_seconds * self.memory_interval_count
