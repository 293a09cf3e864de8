"""Runs of a job, live: the estimator of runs speaks while it has won over the histogram, and only where it may."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from elastipod.api import ElasticPolicy, ElasticPolicySpec, ObjectMeta, UpdateMode
from elastipod.owners import Owned
from elastipod.pods import Container, ContainerKey, OwnerReference, Pod, Workload
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from recommender.claims import Claim
from recommender.estimators.candidates import Estimator
from recommender.estimators.histogram import estimate
from recommender.ranges import Resource
from recommender.recommending import Recommendations
from recommender.samples import OomKill, UsageSample
from recommender.settings import RecommenderSettings
from tests.recommender.world import MI

NIGHTLY = Workload("ns", "CronJob", "nightly")
KEY = ContainerKey(NIGHTLY, "app")
MINUTE = 60.0
CLIMB = [200.0] * 20 + [300.0, 500.0, 700.0, 900.0] + [900.0] * 6
"""MiB of each minute of a run."""


class Nights:
    """A CronJob whose runs use what a test says; what is recommended is what a pod asks for when it begins."""

    def __init__(self, *policies: ElasticPolicySpec) -> None:
        self.known = Recommendations(RecommenderSettings())
        self.at = 1.8e9
        self.runs = 0
        self.targets: list[float] = []
        """What was recommended after each minute of the last run."""
        claim = Claim("ns", "vpa", "u", 1, "elastipod", NIGHTLY, mode=UpdateMode.IN_PLACE_OR_RECREATE)
        self.known.set_claim(claim.key, claim)
        self.known.loaded(claim.key, {}, {})
        found = [
            ElasticPolicy(metadata=ObjectMeta(name=f"p{number}", namespace="ns"), spec=spec)
            for number, spec in enumerate(policies)
        ]
        self.known.set_policies("ns", tuple(found))

    def run(self, memory: Sequence[float], *, asks: float = 2048.0) -> "Nights":
        """A run of so many minutes, and half an hour of quiet."""
        known, name = self.known, f"nightly-{self.runs}"
        job = Owned("Job", "ns", name, f"job-{self.runs}", owner=OwnerReference("CronJob", "nightly", "c"))
        known.members.set_owned(None, job)
        shown = (Container("app", requests=Resources(100, int(asks * MI)), is_running=True),)
        owner = OwnerReference("Job", name, job.uid)
        pod = Pod(
            "ns",
            f"{name}-x",
            f"u-{name}",
            phase="Running",
            owner=owner,
            created_at=self.at,
            containers=shown,
            restart_policy="Never",
        )
        known.members.set_pod(pod.key, pod)
        self.runs += 1
        self.targets = []
        for used in memory:
            known.learn([UsageSample("ns", pod.name, "app", self.at, 0.1, used * MI)], self.at)
            self.targets.append(self._decide())
        known.members.set_pod(pod.key, None)
        for _ in range(30):
            self._decide()
        return self

    def _decide(self) -> float:
        self.known.decide(self.at)
        self.at += MINUTE
        estimates, row = self.known.judgement.estimates, self.known.history.row(KEY)
        assert estimates is not None
        assert row is not None
        return float(estimates.memory.target[row]) / MI

    @property
    def told(self) -> dict[str, Any]:
        [container] = self.known.explain(NIGHTLY, self.at)["containers"]
        return dict(container["estimators"]["memory"])


def some(count: int) -> Iterator[list[float]]:
    for number in range(count):
        yield [used * (1 + 0.01 * number) for used in CLIMB]


def nights(count: int) -> Nights:
    found = Nights(ElasticPolicySpec())
    for one in some(count):
        found.run(one)
    return found


def test_after_five_runs_a_run_has_what_it_needs_before_it_needs_it_and_less_before() -> None:
    found = nights(7)
    assert found.told["speaks"] == "runs"
    assert found.told["how"] == "what followed in the nearest of up to 20 earlier runs"
    found.run(CLIMB)
    for minute, used in enumerate(CLIMB[1:]):
        assert found.targets[minute] >= used
    assert max(found.targets[5:14]) < 0.5 * max(CLIMB)
    assert max(found.targets) <= 1.25 * max(CLIMB)
    assert found.told["histogram_says"] >= 900 * MI


def test_between_two_runs_it_says_what_the_next_begins_with() -> None:
    found = nights(7)
    begins = found._decide()
    assert 200 * 1.06 < begins < 400


def test_a_first_run_holds_what_was_asked_for_and_the_histogram_speaks_until_one_has_ended() -> None:
    slow = [200.0 + 10 * minute for minute in range(30)]
    found = Nights(ElasticPolicySpec()).run(slow, asks=1024)
    histogram = estimate(found.known.history, RecommenderSettings()).memory.target[0] / MI
    assert found.targets[-1] == pytest.approx(histogram, rel=0.1)
    found.run(slow, asks=1024)
    assert found.told["speaks"] == "histogram"


def test_a_run_that_outgrows_all_before_it_has_what_it_needs_before_it_needs_it() -> None:
    strange = [200.0] * 5 + [200.0 * 1.1**minute for minute in range(25)]
    found = nights(7).run(strange)
    assert found.told["speaks"] == "runs"
    assert max(strange) > 2 * max(CLIMB)
    assert all(size >= used for size, used in zip(found.targets, strange[1:], strict=False))


def test_harm_that_the_histogram_would_not_have_done_takes_it_back() -> None:
    found = nights(7).run([200.0, 200.0, 200.0, 950.0, 950.0, 200.0])
    assert found.told["speaks"] == "histogram"
    assert found.told["reason"] != Reason.ADMITTED


def test_a_kill_at_its_size_is_harm_too_and_proves_what_is_needed() -> None:
    found = nights(7)
    size = found._decide()
    kill = OomKill(NIGHTLY, "app", "u-x", "kill-1", found.at, int(size * MI), int(size * MI))
    assert found.known.learn_kill(kill)
    found.run([200.0] * 4)
    assert min(found.targets) >= size + 100


@pytest.mark.parametrize("policies", [(), (ElasticPolicySpec(estimator="Histogram"),)])
def test_where_the_best_estimator_may_not_speak_all_is_as_the_histogram_says_to_the_bit(
    policies: tuple[ElasticPolicySpec, ...],
) -> None:
    found = Nights(*policies)
    for one in some(6):
        found.run(one)
    raw = estimate(found.known.history, RecommenderSettings())
    estimates = found.known.judgement.estimates
    assert estimates is not None
    np.testing.assert_array_equal(estimates.memory.values, raw.memory.values)
    assert found.known.estimating.speaker(0, Resource.MEMORY) is None


def test_two_runs_at_once_have_what_the_larger_needs() -> None:
    found = nights(7)
    row = found.known.history.row(KEY)
    jobs = found.known.estimating.jobs
    assert row is not None
    for minute in range(25):
        jobs.see(row, "young", 200.0 * MI, 0.0, found.at)
        jobs.see(row, "old", 800.0 * MI, 0.0, found.at)
        size = found._decide()
        assert minute < 3 or size >= 800


def test_who_speaks_is_counted_once() -> None:
    counts = nights(7).known.estimating.counts()
    memory = {estimator: count for (resource, estimator), count in counts.items() if resource == "memory"}
    assert memory == {str(one): int(one is Estimator.RUNS) for one in Estimator}
