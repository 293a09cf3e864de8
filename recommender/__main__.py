"""`python -m recommender`: the recommender as a process of its own."""

import sys

from elastipod.process import Program, Surroundings, run_process, run_quickly
from recommender.service import Recommender
from recommender.settings import RecommenderSettings
from recommender.sources.metrics_api import UsageSource
from recommender.sources.past import HistorySource


def _make(around: Surroundings[RecommenderSettings]) -> Recommender:
    source: UsageSource | None = None
    past: HistorySource | None = None
    settings, clock = around.settings, around.clock
    if settings.prometheus_url:
        from recommender.sources.prometheus.access import access_of
        from recommender.sources.prometheus.client import PrometheusClient
        from recommender.sources.prometheus.history import PrometheusHistory
        from recommender.sources.prometheus.live import PrometheusSource

        def client() -> PrometheusClient:
            return PrometheusClient(access_of(settings), clock, timeout_seconds=settings.prometheus_timeout_seconds)

        past = PrometheusHistory(client(), settings)
        if settings.usage_source == "prometheus":
            source = PrometheusSource(client(), settings, clock)
    return Recommender(
        around.connection, clock, settings, source=source, past=past, metrics=around.metrics, in_thread=True
    )


def main() -> int:
    """Run until told to stop."""
    program = Program(
        "recommender", RecommenderSettings, _make, elects_leader=True, at_end=Recommender.save, run=run_quickly
    )
    return run_process(program)


if __name__ == "__main__":
    sys.exit(main())
