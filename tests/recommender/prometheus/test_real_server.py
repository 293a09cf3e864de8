"""Against a real Prometheus that holds days of backfilled usage."""

from collections.abc import Iterator

import numpy as np
import pytest

from elastipod.clock import SystemClock
from elastipod.pods import ContainerKey, Workload
from elastipod.quantities import NOTHING
from recommender.histogram import MEMORY_FIRST_BUCKET, buckets_from
from recommender.history import ContainerHistory
from recommender.settings import RecommenderSettings
from recommender.sources.past import HistoryRequest, Unknown
from recommender.sources.prometheus.access import PrometheusAccess
from recommender.sources.prometheus.client import PrometheusClient, Unreachable
from recommender.sources.prometheus.discovering import discover
from recommender.sources.prometheus.grid import Wanted
from recommender.sources.prometheus.history import PrometheusHistory
from recommender.sources.prometheus.loading import HistoryLoader
from recommender.sources.prometheus.ownership import Matching
from recommender.sources.prometheus.planning import span_before
from tests.recommender.prometheus.fleet import DAY, MI, NOW, Fleet
from tests.recommender.prometheus.server import serving

pytestmark = pytest.mark.promserver

WEB = Workload("shop", "Deployment", "web")


def a_past() -> Fleet:
    fleet = Fleet()
    # Alive, and one that is gone; a peak of one scrape that no step of five minutes falls on.
    peak_at = NOW - DAY // 2 + 120
    fleet.pod("web-5d4f8c7b9d-abcde", ("ReplicaSet", "web-5d4f8c7b9d"), since=NOW - DAY, scrapes=2)
    fleet.pod(
        "web-6c9f7d5b8f-xyz42",
        ("ReplicaSet", "web-6c9f7d5b8f"),
        since=NOW - 2 * DAY,
        until=NOW - DAY,
        memory=lambda at: 700 * MI if at == peak_at - DAY else 200 * MI,
    )
    for name in ("web-5d4f8c7b9d", "web-6c9f7d5b8f"):
        fleet.owner("replicaset", name, ("Deployment", "web"), since=NOW - 2 * DAY)
    fleet.pod("db-0", ("StatefulSet", "db"), namespace="shop", memory=lambda _: 300 * MI, until=NOW)
    fleet.pod("db-0", ("StatefulSet", "db"), namespace="bank", memory=lambda _: 900 * MI, until=NOW)
    return fleet


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(a_past().metrics) as address:
        yield address


def client_of(url: str) -> PrometheusClient:
    return PrometheusClient(PrometheusAccess(url), SystemClock())


def load(url: str, *workloads: Workload, step: int = 300, days: int = 3) -> dict[ContainerKey, ContainerHistory]:
    client = client_of(url)
    found = discover(client, NOW)
    assert found.problems == ()
    loader = HistoryLoader(client, RecommenderSettings())
    span = span_before(NOW, days * DAY, step)
    matching = Matching(workloads, loader.owners(found, span))
    wanted = {}
    for instance in loader.instances(found, span):
        workload = matching.of(instance.namespace, instance.pod)
        if workload is not None:
            wanted[instance] = Wanted(ContainerKey(workload, instance.container), Unknown(NOW))
    loaded = loader.load(found, span, wanted, now=NOW)
    assert loaded.problems == []
    client.close()
    return loaded.histories


def peak_of(history: ContainerHistory) -> float:
    """The highest amount of memory that was counted, as the end of its bucket."""
    assert history.memory is not None
    buckets = buckets_from(MEMORY_FIRST_BUCKET)
    return float(buckets.upper_edge(np.array([max(bucket for bucket, _ in history.memory.weights)]))[0])


def test_history_is_that_of_all_pods_there_were_once_each_r35(url: str) -> None:
    [(key, history)] = load(url, WEB).items()
    assert key == ContainerKey(WEB, "app")
    # A day of each pod in live samples of a minute, whatever is scraped twice.
    assert history.samples == pytest.approx(2 * 1440, rel=0.01)
    assert history.first_sample_at == NOW - 2 * DAY
    assert history.last_sample_at == NOW


def test_a_peak_of_one_scrape_between_two_steps_is_seen(url: str) -> None:
    [history] = load(url, WEB).values()
    assert 700 * MI <= peak_of(history) <= 700 * MI * 1.051


def test_three_minutes_of_a_week_are_not_lost_between_steps_of_75_seconds_r23() -> None:
    peaks = [NOW - days * DAY + seconds for days, seconds in ((6, 60), (3, 7 * 60), (1, 13 * 60))]
    fleet = Fleet()
    fleet.pod(
        "web-5d4f8c7b9d-abcde",
        ("ReplicaSet", "web-5d4f8c7b9d"),
        since=NOW - 7 * DAY,
        memory=lambda at: 1.05 * 1024 * MI if at in peaks else 400 * MI,
    )
    fleet.owner("replicaset", "web-5d4f8c7b9d", ("Deployment", "web"), since=NOW - 7 * DAY)
    with serving(fleet.metrics) as url:
        [history] = load(url, WEB, step=75, days=7).values()
    assert 1.05 * 1024 * MI <= peak_of(history) <= 1.05 * 1024 * MI * 1.051


def test_pods_of_the_same_name_in_two_namespaces_are_kept_apart_r36(url: str) -> None:
    shop, bank = Workload("shop", "StatefulSet", "db"), Workload("bank", "StatefulSet", "db")
    histories = load(url, shop, bank)
    assert 300 * MI <= peak_of(histories[ContainerKey(shop, "app")]) <= 300 * MI * 1.051
    assert 900 * MI <= peak_of(histories[ContainerKey(bank, "app")]) <= 900 * MI * 1.051


def test_more_points_than_the_server_gives_at_once_come_in_pieces(url: str) -> None:
    [history] = load(url, WEB, step=60, days=9).values()
    assert history.samples == pytest.approx(2 * 1440, rel=0.01)


async def test_use_in_steps_is_the_highest_of_a_workloads_pods_where_it_is_to_be_replayed(url: str) -> None:
    client = PrometheusClient(PrometheusAccess(url), SystemClock())
    request = HistoryRequest(WEB, {"app": Unknown(NOW, NOW - 8 * DAY, NOW)}, is_replayed=True)
    fetched = await PrometheusHistory(client, RecommenderSettings()).fetch([request], NOW, NOTHING)
    [found] = fetched.steps.values()
    assert found.ends_at == NOW
    assert found.used.shape == (2, 8 * 288)
    assert np.isnan(found.used[:, : 5 * 288]).all()
    assert np.nanmax(found.used[1]) == pytest.approx(700 * MI, rel=1e-6)
    assert np.isfinite(found.used[:, -288:]).all()
    # What all of it comes to is known already.
    assert fetched.histories == {}
    request = HistoryRequest(WEB, {"app": Unknown(NOW)})
    assert (await PrometheusHistory(client, RecommenderSettings()).fetch([request], NOW, NOTHING)).steps == {}
    client.close()


def test_the_step_changes_little(url: str) -> None:
    [coarse] = load(url, WEB, step=600).values()
    [fine] = load(url, WEB, step=120).values()
    assert coarse.cpu is not None
    assert fine.cpu is not None
    assert coarse.cpu.total == pytest.approx(fine.cpu.total, rel=0.02)
    assert peak_of(coarse) == peak_of(fine)


def test_what_is_too_much_for_the_server_is_asked_in_halves() -> None:
    # Three containers at 289 points are more than it takes; at 145 points they are not.
    with serving(a_past().metrics, "--query.max-samples=700") as url:
        [history] = load(url, WEB, days=1).values()
        assert history.samples == pytest.approx(1440, rel=0.01)


def test_moved_labels_are_found() -> None:
    fleet = Fleet(names=("namespace", "pod_name", "container_name"))
    fleet.pod("web-5d4f8c7b9d-abcde", ("ReplicaSet", "web-5d4f8c7b9d"))
    fleet.owner("replicaset", "web-5d4f8c7b9d", ("Deployment", "web"))
    with serving(fleet.metrics) as url:
        [history] = load(url, WEB).values()
        assert history.samples == pytest.approx(1440, rel=0.01)


def test_what_is_missing_is_named() -> None:
    fleet = Fleet()
    fleet.metrics.add("container_memory_working_set_bytes", {"machine": "n1", "job": "x"}, [(NOW, 1)])
    with serving(fleet.metrics) as url:
        found = discover(client_of(url), NOW)
    assert found.cpu is None
    assert found.memory is None
    [cpu, memory, states] = found.problems
    assert cpu == "container_cpu_usage_seconds_total is not there: nothing scrapes the kubelets' cAdvisor"
    assert "it has job, machine" in memory
    assert "kube_pod_owner" in states


def test_series_that_a_pod_exposes_of_others_are_not_believed() -> None:
    fleet = Fleet()
    for number in range(3):
        fleet.pod(f"db-{number}", ("StatefulSet", "db"))
    fleet.job = "intruder"
    fleet.pod("db-0", None, memory=lambda _: 9000 * MI)
    with serving(fleet.metrics) as url:
        found = discover(client_of(url), NOW)
        assert found.memory is not None
        assert found.memory.jobs == ("kubelet",)
        assert any("intruder" in problem for problem in found.problems)


def test_a_server_that_is_not_there_is_named_as_such(free_port: int) -> None:
    with pytest.raises(Unreachable, match="can not be reached"):
        discover(client_of(f"http://127.0.0.1:{free_port}"), NOW)
