"""What is found by asking, and what is said of the rest."""

import pytest

from elastipod.clock import SystemClock
from recommender.sources.prometheus.access import PrometheusAccess
from recommender.sources.prometheus.client import PrometheusClient
from recommender.sources.prometheus.discovering import Found, choose_jobs, discover
from recommender.sources.prometheus.queries import Names
from tests.recommender.prometheus.loopback import Answer, Question, answering, compact, vector

NOW = 1_800_000_000


def found_in(
    counts: dict[str, list[tuple[dict[str, str], float]]], job: str = "", labels: tuple[str, ...] = ("id", "job")
) -> Found:
    """What is found where queries that hold a text have an answer; others have none."""

    def answer(question: Question) -> Answer:
        if question.path.endswith("/labels"):
            return Answer(compact({"status": "success", "data": ["__name__", *labels]}))
        query = question.params["query"]
        return Answer(vector(next((answer for text, answer in counts.items() if text in query), [])))

    with answering(answer) as url:
        client = PrometheusClient(PrometheusAccess(url), SystemClock(), timeout_seconds=5)
        found = discover(client, NOW, job)
        client.close()
        return found


KUBELET = [({"job": "kubelet"}, 100.0)]


@pytest.mark.parametrize(("told", "is_closed"), [(3.0, True), (2.0, False)])
def test_ranges_are_asked_as_the_server_counts_their_ends(told: float, is_closed: bool) -> None:
    """Prometheus 2 counts both ends of a range, Prometheus 3 leaves the earlier out: each sample stands once."""
    found = found_in({"vector(1)": [({}, told)]})
    assert found.is_closed is is_closed
    assert found.window_milliseconds(300) == (299_999 if is_closed else 300_000)


def test_labels_that_most_series_have_are_taken() -> None:
    both = {
        'container_cpu_usage_seconds_total{exported_container!=""': [({"job": "federate"}, 5.0)],
        'container_cpu_usage_seconds_total{container!=""': KUBELET,
    }
    found = found_in(both)
    assert found.cpu is not None
    assert found.cpu.names == Names()
    both['container_cpu_usage_seconds_total{exported_container!=""'] = [({"job": "federate"}, 500.0)]
    found = found_in(both)
    assert found.cpu is not None
    assert found.cpu.names.pod == "exported_pod"


def test_a_resource_without_the_labels_costs_only_itself_r25() -> None:
    found = found_in({'container_memory_working_set_bytes{container!=""': KUBELET, "kube_pod_owner": [({}, 9.0)]})
    assert found.cpu is None
    assert found.memory is not None
    assert found.problems == (
        "container_cpu_usage_seconds_total: no labels name namespace, pod and container; it has id, job",
    )


def test_what_is_scraped_no_more_is_not_told_as_labels_that_are_not_there() -> None:
    found = found_in({"kube_pod_owner": [({}, 9.0)]}, labels=("namespace", "pod", "container"))
    assert "container_cpu_usage_seconds_total: no container has a series now" in found.problems[0]


def test_a_job_that_is_asked_for_is_believed_alone() -> None:
    counts = {"container_": [({"job": "kubelet"}, 100.0), ({"job": "mine"}, 3.0)]}
    found = found_in(counts, "mine")
    assert found.cpu is not None
    assert found.cpu.jobs == ("mine",)
    missing = found_in(counts, "other")
    assert missing.cpu is None
    assert "of job other" in missing.problems[0]


@pytest.mark.parametrize(
    ("counts", "believed"),
    [
        ({"kubelet": 100.0}, ("kubelet",)),
        ({"kubelet": 100.0, "shop-app": 5.0}, ("kubelet",)),
        ({"kubelet-a": 100.0, "kubelet-b": 90.0, "shop-app": 95.0}, ("kubelet-a", "kubelet-b")),
        ({"integrations/kubernetes/cadvisor": 40.0, "kubelet": 60.0}, ("integrations/kubernetes/cadvisor", "kubelet")),
        ({"": 10.0}, ("",)),
        ({}, ()),
    ],
)
def test_jobs_that_scrape_kubelets_are_believed(counts: dict[str, float], believed: tuple[str, ...]) -> None:
    assert choose_jobs(counts)[0] == believed
    assert sorted((*choose_jobs(counts)[0], *choose_jobs(counts)[1])) == sorted(counts)
