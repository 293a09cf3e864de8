"""What the recommender does, in numbers.

Owns the metrics of a run. Those of writes are theirs who write.
"""

from elastipod.clock import Clock
from elastipod.telemetry import Metrics
from recommender.recommending import Recommendations
from recommender.samples import OomKill
from recommender.settings import RecommenderSettings
from recommender.sources.metrics_api import UsageReading


class Numbers:
    """The recommender's metrics."""

    def __init__(self, known: Recommendations, clock: Clock, settings: RecommenderSettings, metrics: Metrics) -> None:
        self._known = known
        self._clock = clock
        self._bad_values = self._bad_entries = 0
        self._heard_at = clock.monotonic()
        self._samples = metrics.gauge("recommender_samples", "Usage samples since the start", "outcome")
        self._containers = metrics.gauge("recommender_containers", "Containers with a history")
        self._speakers = metrics.gauge(
            "recommender_speakers",
            "Containers that may have the best estimator, by who speaks",
            "resource",
            "estimator",
        )
        self._caps = metrics.gauge(
            "recommender_caps", "Recommendations that were cut, lifted or withheld, by why", "resource", "reason"
        )
        self._oom_kills = metrics.counter("recommender_oom_kills", "OOM kills taken as evidence")
        self._killed = metrics.workload_counter(
            "oom_kills", "OOM kills taken as evidence, by workload", most=settings.most_accounted_containers
        )
        metrics.gauge(
            "source_age_seconds", "How long ago usage was read that tells of anything, or that we began", "source"
        ).labels(settings.usage_source).set_function(lambda: clock.monotonic() - self._heard_at)

    def heard(self) -> None:
        """Usage was read that tells of something, or there is nothing that it could tell of."""
        self._heard_at = self._clock.monotonic()

    def killed(self, kill: OomKill) -> None:
        """A kill was taken as evidence."""
        self._oom_kills.inc()
        self._killed.count(kill.workload, kill.container)

    def count(self, reading: UsageReading) -> None:
        """A run is over that began with this reading."""
        counts, dropped = self._known.learning.counts, self._known.history.dropped
        self._bad_values += reading.bad_values
        self._bad_entries += reading.bad_entries
        for outcome, count in (
            ("counted", counts.counted),
            ("unclaimed", counts.unclaimed),
            ("implausible", counts.implausible),
            ("duplicate", counts.duplicate + dropped.duplicate),
            ("bad_value", self._bad_values),
            ("bad_entry", self._bad_entries),
        ):
            self._samples.labels(outcome).set(count)
        self._containers.set(len(self._known.history.rows()))
        for labels, count in self._known.estimating.counts().items():
            self._speakers.labels(*labels).set(count)
        for (resource, reason), count in self._known.caps.items():
            self._caps.labels(resource, reason).set(count)
