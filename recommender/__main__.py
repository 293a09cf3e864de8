"""`python -m recommender`: the recommender as a process of its own."""

import sys
from functools import partial

from elastipod.minutes import MINUTE_SECONDS
from elastipod.pods import Pod
from elastipod.process import Program, Surroundings, run_process, run_quickly
from recommender.prices import load_prices
from recommender.service import Recommender
from recommender.settings import RecommenderSettings
from recommender.sources.metrics_api import MetricsApiSource, UsageSource
from recommender.sources.past import HistorySource
from recommender.sources.several import SeveralSources


def _make(around: Surroundings[RecommenderSettings]) -> Recommender:
    settings, clock, connection = around.settings, around.clock, around.connection
    past: HistorySource | None = None
    found: dict[str, UsageSource] = {"metrics": MetricsApiSource(connection, settings.namespace)}
    if settings.prometheus_url:
        from recommender.sources.prometheus.client import PrometheusClient
        from recommender.sources.prometheus.history import PrometheusHistory
        from recommender.sources.prometheus.live import PrometheusSource

        def client() -> PrometheusClient:
            access = settings.prometheus_access()
            return PrometheusClient(access, clock, timeout_seconds=settings.prometheus_timeout_seconds)

        past = PrometheusHistory(client(), settings)
        if "prometheus" in settings.usage_sources:
            found["prometheus"] = PrometheusSource(client(), settings, clock)
    if "actuators" in settings.usage_sources:
        from recommender.sources.actuators import ActuatorSource
        from recommender.sources.senders import in_pods, on_loopback

        def pod_of(namespace: str, name: str) -> Pod | None:
            return recommender.recommendations.members.pod(namespace, name)

        namespace = settings.actuators_namespace
        find = partial(in_pods, connection, namespace) if namespace else partial(on_loopback, connection)
        found["actuators"] = ActuatorSource(find, pod_of, clock)
    sources = [found[name] for name in settings.usage_sources]
    source = (
        sources[0]
        if len(sources) == 1
        else SeveralSources(sources, clock, max(settings.interval_seconds, MINUTE_SECONDS))
    )
    recommender = Recommender(
        connection,
        clock,
        settings,
        source=source,
        past=past,
        metrics=around.metrics,
        prices=load_prices(settings.prices_file),
        sees_all_pods=not around.is_of_some_namespaces,
        in_thread=True,
    )
    return recommender


def main() -> int:
    """Run until told to stop."""
    program = Program(
        "recommender",
        RecommenderSettings,
        _make,
        elects_leader=True,
        at_end=Recommender.save,
        answers=lambda part, path, _query: part.accounting.answer(path),
        more_metrics=lambda part: part.accounting.text,
        run=run_quickly,
    )
    return run_process(program)


if __name__ == "__main__":
    sys.exit(main())
