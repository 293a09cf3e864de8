"""Eight days of usage of many containers, from a real Prometheus into histories.

The floor is fetching the same bytes by the same questions, one after the other, and throwing them away, in the same
run; how far the loading is from fetching by as many threads as it has is told beside it.
Needs prometheus and promtool. Series are five minutes apart, as far as the history's own step.
Exit 1 where a promise is missed.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.figures import Figures
from bench.listing import resident_bytes
from elastipod.clock import SystemClock
from elastipod.pods import ContainerKey, Workload
from recommender.advising import advise
from recommender.settings import RecommenderSettings
from recommender.sources.past import Unknown
from recommender.sources.prometheus.access import PrometheusAccess
from recommender.sources.prometheus.answers import Elements, Envelope
from recommender.sources.prometheus.client import PrometheusClient
from recommender.sources.prometheus.discovering import discover
from recommender.sources.prometheus.grid import Wanted
from recommender.sources.prometheus.loading import AT_ONCE, HistoryLoader
from recommender.sources.prometheus.planning import span_before
from recommender.sources.prometheus.queries import CPU, MEMORY
from recommender.sources.prometheus.survey import survey
from tests.recommender.prometheus.server import backfill, running, why_no_prometheus

NOW = 1_800_000_000
STEP = 300
DAYS = 8
GOAL_RATIO = 1.2
GOAL_BYTES = 256 * 1024**2
GOAL_SECONDS = 60.0


class Ignored(Elements[Any]):
    """An answer that nobody reads."""

    def feed(self, _chunk: bytes) -> Iterator[Any]:
        return iter(())

    def close(self) -> tuple[list[Any], Envelope]:
        return [], Envelope("success")


class Draining(PrometheusClient):
    """Asks the same, and throws the answers to range queries away."""

    def _stream(self, path: str, form: Any, elements: Elements[Any], take: Callable[[Any], None]) -> Envelope:
        ignored = Ignored(b"", b"", elements.decoder)
        return super()._stream(path, form, ignored if path == "query_range" else elements, take)


def write_usage(path: Path, containers: int) -> None:
    """Counters and working sets that wander, as OpenMetrics."""
    chance = np.random.default_rng(1)
    times = np.arange(NOW - DAYS * 86_400 - STEP, NOW + 1, STEP)
    stamps = [f" {at}\n" for at in times.tolist()]
    with path.open("w", encoding="ascii") as file:
        for metric, kind in ((CPU, "counter"), (MEMORY, "gauge")):
            file.write(f"# TYPE {metric.removesuffix('_total')} {kind}\n")
            for number in range(containers):
                pod = f"web-{number // 2}-5d4f8c7b9d-x7k2p"
                labels = f'namespace="team-{number // 2 % 40}",pod="{pod}",container="c{number % 2}"'
                if kind == "counter":
                    values = np.cumsum(chance.lognormal(-2, 0.5, len(times)) * STEP).round(3).tolist()
                else:
                    steps = chance.normal(0, 0.01, len(times)).cumsum()
                    values = (np.exp(steps - steps.mean()) * 2e8).astype(np.int64).tolist()
                head = f'{metric}{{{labels},job="kubelet"}} '
                file.write("".join([f"{head}{value}{at}" for value, at in zip(values, stamps, strict=True)]))
        file.write("# EOF\n")


def peak_bytes() -> int:
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


class Measured:
    """The same load, by any client."""

    def __init__(self, url: str) -> None:
        self._settings = RecommenderSettings()
        self._access = PrometheusAccess(url)
        self._clock = SystemClock()
        client = PrometheusClient(self._access, self._clock)
        self._found = discover(client, NOW)
        self._span = span_before(NOW, DAYS * 86_400, STEP)
        self._wanted = {
            one: Wanted(ContainerKey(Workload(one.namespace, "Pod", one.pod), one.container), Unknown(NOW))
            for one in HistoryLoader(client, self._settings).instances(self._found, self._span)
        }
        self.histories = 0
        client.close()

    def seconds(self, kind: type[PrometheusClient], at_once: int = AT_ONCE) -> float:
        client = kind(self._access, self._clock, timeout_seconds=120)
        begun = time.perf_counter()
        loader = HistoryLoader(client, self._settings, at_once)
        self.histories = len(loader.load(self._found, self._span, self._wanted, now=NOW).histories)
        spent = time.perf_counter() - begun
        client.close()
        return spent

    def survey_seconds(self) -> float:
        client = PrometheusClient(self._access, self._clock, timeout_seconds=120)
        begun = time.perf_counter()
        advise(survey(client, self._settings, NOW), self._settings, NOW)
        spent = time.perf_counter() - begun
        client.close()
        return spent


def main() -> int:
    """Measure and print; 0 where every promise was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=2000, help="a promise in seconds is for 10,000")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if why := why_no_prometheus():
        print(f"not measured: {why}")
        return 0
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="history-") as folder:
        place = Path(folder)
        write_usage(place / "metrics.txt", given.series // 2)
        backfill(place)
        (place / "metrics.txt").unlink()
        with running(place) as url:
            measured = Measured(url)
            measured.seconds(Draining)
            base = resident_bytes()
            rounds = [
                (measured.seconds(Draining, 1), measured.seconds(Draining), measured.seconds(PrometheusClient))
                for _ in range(given.rounds)
            ]
            grown = peak_bytes() - base
            assert measured.histories == given.series // 2
            for one_by_one, at_once, loaded in rounds:
                print(
                    f"fetched {one_by_one:.2f} s, {AT_ONCE} at once {at_once:.2f} s; loaded {loaded:.2f} s", flush=True
                )
            # The round that was disturbed least; its three times were taken one after the other.
            one_by_one, at_once, loaded = min(rounds, key=sum)
            what = f"{DAYS} days of {given.series} series loaded"
            figures.show(what, loaded, "s", GOAL_RATIO * one_by_one, floor=one_by_one, of="fetching the same bytes")
            print(f"loaded in {loaded / at_once:.2f} x the time of fetching them {AT_ONCE} questions at once")
            figures.show("memory over base", grown / 1024**2, "MiB", GOAL_BYTES / 1024**2)
            share = given.series / 10_000
            spent = measured.survey_seconds()
            figures.show(f"a cluster of {given.series} series recommended for", spent, "s", GOAL_SECONDS * share)
    return figures.exit_code


if __name__ == "__main__":
    sys.exit(main())
