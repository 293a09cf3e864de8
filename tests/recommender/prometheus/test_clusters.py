"""Several clusters in one Prometheus are never taken for one."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from elastipod.clock import ManualClock, SystemClock
from elastipod.pods import ContainerKey, Workload
from elastipod.quantities import NOTHING
from recommender.advising import Surveyed, advise
from recommender.settings import RecommenderSettings
from recommender.sources.past import HistoryRequest, Unknown
from recommender.sources.prometheus.client import PrometheusClient
from recommender.sources.prometheus.clusters import Clusters, SeveralClusters, is_matcher
from recommender.sources.prometheus.history import PrometheusHistory
from recommender.sources.prometheus.live import PrometheusSource
from recommender.sources.prometheus.survey import survey
from tests.recommender.prometheus.fleet import DAY, MI, NOW, Fleet, steady
from tests.recommender.prometheus.server import Metrics, serving
from tests.recommender.prometheus.test_discovering import found_in

DB = Workload("shop", "StatefulSet", "db")


def seen(*metrics: list[dict[str, str]], past: tuple[dict[str, str], ...] = ()) -> str:
    """What is said of the label sets of some metrics; nothing where they are of one cluster."""
    clusters = Clusters()
    for metric in metrics:
        clusters.see(metric)
    for labels in past:
        clusters.see_past(labels)
    try:
        clusters.check()
    except SeveralClusters as error:
        return str(error)
    return ""


PROD, STAGE, UNNAMED = {"cluster": "prod"}, {"cluster": "stage"}, {"job": "kubelet"}


def test_one_cluster_is_one_however_it_is_named() -> None:
    assert seen([UNNAMED], [UNNAMED]) == ""
    assert seen([PROD], [PROD]) == ""
    # What scrapes kube-state-metrics may name no cluster.
    assert seen([PROD], [UNNAMED]) == ""
    # The label is newer than the past.
    assert seen([PROD], past=(UNNAMED, PROD)) == ""


@pytest.mark.parametrize(
    ("metrics", "past", "named"),
    [
        ([[PROD, STAGE]], (), '"prod", "stage"'),
        ([[PROD], [STAGE]], (), '"prod", "stage"'),
        ([[PROD, UNNAMED]], (), '"prod", ""'),
        ([[PROD]], (STAGE,), '"prod", "stage"'),
        ([[{"k8s_cluster_name": "a"}, {"k8s_cluster_name": "b"}]], (), 'k8s_cluster_name is "a", "b"'),
    ],
)
def test_several_are_refused_by_their_names_with_what_to_do(
    metrics: list[list[dict[str, str]]], past: tuple[dict[str, str], ...], named: str
) -> None:
    told = seen(*metrics, past=past)
    assert named in told
    assert "prometheus_matchers" in told
    # The condition and `elastipod status` show so much.
    assert len(told) <= 200


def test_of_many_and_long_names_few_are_told() -> None:
    told = seen([{"cluster": f"{number:03}{'x' * 500}"} for number in range(1000)])
    assert "and 95 more" in told
    assert len(told) < 600


@pytest.mark.parametrize("text", ['cluster="prod"', 'cluster=""', 'env=~"a|b"', 'k8s_cluster_name != "\\"x"'])
def test_a_matcher_is_taken_as_promql_writes_it(text: str) -> None:
    assert is_matcher(text)
    assert RecommenderSettings(prometheus_matchers=(text,)).prometheus_matchers == (text,)


@pytest.mark.parametrize("text", ["prod", "cluster=prod", 'a="b"} or up{x="y"', 'a="b",c="d"', '1a="b"', 'a="b\n"'])
def test_what_is_no_matcher_is_no_setting(text: str) -> None:
    assert not is_matcher(text)
    with pytest.raises(ValueError, match="prometheus_matchers"):
        RecommenderSettings(prometheus_matchers=(text,))


def test_clusters_of_jobs_that_are_not_believed_are_none() -> None:
    counts = {"container_cpu_usage": [({"job": "kubelet", **PROD}, 100.0), ({"job": "shop-app", **STAGE}, 3.0)]}
    found = found_in(counts)
    assert found.cpu is not None
    with pytest.raises(SeveralClusters):
        found_in({"container_memory": [({"job": "kubelet", **PROD}, 100.0), ({"job": "kubelet", **STAGE}, 3.0)]})
    with pytest.raises(SeveralClusters):
        found_in({"kube_pod_container_resource_requests": [(PROD, 9.0), (STAGE, 9.0)]})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Two clusters that have a pod of the same name."""
    metrics = Metrics()
    for cluster, cores, asked in (("prod", 2.0, 4), ("stage", 0.05, 1)):
        fleet = Fleet(metrics, common={"cluster": cluster})
        fleet.pod("db-0", ("StatefulSet", "db"), cores=steady(cores), memory=steady(300 * MI))
        fleet.asks("db-0", "cpu", asked)
        fleet.metric("machine_cpu_cores", 16 * asked)
        fleet.metric("machine_memory_bytes", 64 * 1024 * MI)
    with serving(metrics) as address:
        yield address


def settings_for(url: str, *matchers: str) -> RecommenderSettings:
    return RecommenderSettings(prometheus_url=url, usage_source="prometheus", prometheus_matchers=matchers)


@contextmanager
def client_for(settings: RecommenderSettings) -> Iterator[PrometheusClient]:
    client = PrometheusClient(settings.prometheus_access(), SystemClock())
    yield client
    client.close()


def surveyed(url: str, *matchers: str) -> Surveyed:
    settings = settings_for(url, *matchers)
    with client_for(settings) as client:
        return survey(client, settings, NOW)


@pytest.mark.promserver
def test_a_survey_is_of_one_cluster_that_is_chosen(url: str) -> None:
    with pytest.raises(SeveralClusters, match='cluster is "prod", "stage"'):
        surveyed(url)
    for cluster, cores, asked in (("prod", 2.0, 4000), ("stage", 0.05, 1000)):
        found = surveyed(url, f'cluster="{cluster}"')
        [(key, sized)] = found.containers.items()
        assert (key, sized.pods, sized.requests.cpu_millicores) == (ContainerKey(DB, "app"), 1, asked)
        assert found.largest_node.cpu_millicores == 16 * asked
        [advice] = advise(found, settings_for(url), NOW)
        assert advice.wants.cpu is not None
        assert cores * 1000 <= advice.wants.cpu.target <= cores * 1400


@pytest.mark.promserver
async def test_live_and_past_usage_of_several_clusters_is_not_read_until_one_is_chosen(url: str) -> None:
    request = HistoryRequest(DB, {"app": Unknown(NOW)}, {})
    for matchers in ((), ('cluster=~"prod|stage"',)):
        settings = settings_for(url, *matchers)
        with client_for(settings) as client:
            with pytest.raises(SeveralClusters):
                await PrometheusSource(client, settings, ManualClock(float(NOW))).read()
            with pytest.raises(SeveralClusters):
                await PrometheusHistory(client, settings).fetch([request], NOW, NOTHING)
    settings = settings_for(url, 'cluster="stage"')
    with client_for(settings) as client:
        [sample] = (await PrometheusSource(client, settings, ManualClock(float(NOW))).read()).samples
        assert sample.cpu_cores == pytest.approx(0.05, rel=0.01)
        assert (await PrometheusHistory(client, settings).fetch([request], NOW, NOTHING)).histories


@pytest.mark.promserver
def test_a_cluster_that_is_heard_no_more_is_not_in_anothers_past() -> None:
    metrics = Metrics()
    for cluster, until in (("prod", NOW), ("stage", NOW - DAY // 2)):
        Fleet(metrics, common={"cluster": cluster}).pod("db-0", ("StatefulSet", "db"), until=until)
    with serving(metrics) as address, pytest.raises(SeveralClusters):
        surveyed(address)
