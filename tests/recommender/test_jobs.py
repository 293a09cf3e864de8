"""Runs of a job, live: the estimator of runs speaks while it has won over the histogram, and only where it may."""

import json
import random
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest

from elastipod.api import Checkpoint, ElasticPolicy, ElasticPolicySpec, LimitModesJson, ObjectMeta, UpdateMode
from elastipod.owners import Owned
from elastipod.pods import Container, ContainerKey, OwnerReference, Pod, Workload
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from recommender.annotation import HISTORY_ANNOTATION
from recommender.checkpoints import from_checkpoint, to_checkpoint
from recommender.claims import Claim
from recommender.estimators.candidates import Estimator
from recommender.estimators.histogram import Estimate, Estimates, estimate
from recommender.estimators.runs import Usage
from recommender.history import ContainerHistory
from recommender.jobrecords import UnusableRuns, read_record, run_record
from recommender.jobs import Jobs
from recommender.ranges import Resource
from recommender.recommending import Recommendations
from recommender.samples import OomKill, UsageSample
from recommender.settings import RecommenderSettings
from tests.recommender.world import MI

NIGHTLY = Workload("ns", "CronJob", "nightly")
KEY = ContainerKey(NIGHTLY, "app")
MINUTE = 60.0
WANTED = Estimate(np.full((1, 3), 8e8))
CRON = OwnerReference("CronJob", "nightly", "c")
CLIMB = [200.0] * 20 + [300.0, 500.0, 700.0, 900.0] + [900.0] * 6
"""MiB of each minute of a run."""


class Nights:
    """A CronJob whose runs use what a test says; what is recommended is what a pod asks for when it begins."""

    def __init__(self, *policies: ElasticPolicySpec) -> None:
        self.settings = RecommenderSettings()
        self.at = 1.8e9
        self.runs = 0
        self.targets: list[float] = []
        """What was recommended after each minute of the last run."""
        self.policies = tuple(
            ElasticPolicy(metadata=ObjectMeta(name=f"p{number}", namespace="ns"), spec=spec)
            for number, spec in enumerate(policies)
        )
        self.known = self._start({})

    def _start(self, histories: dict[str, ContainerHistory]) -> Recommendations:
        known = Recommendations(self.settings)
        claim = Claim("ns", "vpa", "u", 1, "elastipod", NIGHTLY, mode=UpdateMode.IN_PLACE_OR_RECREATE)
        known.set_claim(claim.key, claim)
        known.set_policies({"ns": self.policies})
        known.loaded(claim.key, histories, {})
        return known

    def saved(self) -> Checkpoint:
        row = self.known.history.row(KEY)
        assert row is not None
        found = to_checkpoint("ns", "vpa", KEY, self.known.export([row])[row], self.at)
        return msgspec.json.decode(msgspec.json.encode(found), type=Checkpoint)

    def restart(self, saved: Checkpoint | None = None) -> "Nights":
        """A recommender that knows what was saved, and the pods that run."""
        known = self._start({"app": from_checkpoint(saved or self.saved(), RecommenderSettings(), self.at, NIGHTLY)})
        for pod, _ in self.known.members.everyone():
            assert pod.owner is not None
            known.members.set_owned(None, Owned("Job", "ns", pod.owner.name, pod.owner.uid, owner=CRON))
            known.members.set_pod(pod.key, pod)
        self.known = known
        return self

    def run(self, memory: Sequence[float], *, asks: float = 2048.0, restart_at: int | None = None) -> "Nights":
        """A run of so many minutes, and half an hour of quiet."""
        known, name = self.known, f"nightly-{self.runs}"
        job = Owned("Job", "ns", name, f"job-{self.runs}", owner=CRON)
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
        for minute, used in enumerate(memory):
            if minute == restart_at:
                known = self.restart().known
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
        jobs.see(row, "young", 200.0 * MI, 0.0, found.at, found.at)
        jobs.see(row, "old", 800.0 * MI, 0.0, found.at, found.at)
        size = found._decide()
        assert minute < 3 or size >= 800


def test_who_speaks_is_counted_once() -> None:
    counts = nights(7).known.estimating.counts()
    memory = {estimator: count for (resource, estimator), count in counts.items() if resource == "memory"}
    assert memory == {str(one): int(one is Estimator.RUNS) for one in Estimator}


def test_after_a_restart_between_two_runs_the_next_has_what_it_would_have_had() -> None:
    one, other = nights(7), nights(7).restart()
    assert other._decide() == pytest.approx(one._decide(), rel=1e-4)
    assert other.told["speaks"] == "runs"
    one.run(CLIMB)
    other.run(CLIMB)
    assert other.targets == pytest.approx(one.targets, rel=1e-4)
    assert other.told["record_days"] == one.told["record_days"]


def test_a_restart_in_the_middle_of_a_run_changes_nothing_of_it_and_it_is_learned_from() -> None:
    one, other = nights(7).run(CLIMB), nights(7).run(CLIMB, restart_at=15)
    assert other.targets == pytest.approx(one.targets, rel=1e-4)
    record = other.known.export([0])[0].runs
    assert record is not None
    assert record.ended == 8
    assert len(record.earlier[-1].used_kib) == len(CLIMB)


def test_each_of_the_first_runs_outlives_a_restart() -> None:
    found = Nights(ElasticPolicySpec())
    for one in some(7):
        found.run(one).restart()
    assert found.run(CLIMB).told["speaks"] == "runs"
    assert max(found.targets[5:14]) < 0.5 * max(CLIMB)


def test_a_run_that_began_unheard_is_followed_and_not_learned_from() -> None:
    found = nights(7)
    before = found.saved()
    found.run(CLIMB, asks=2048.0)
    found.restart(before)
    late = [900.0] * 8
    row = found.known.history.row(KEY)
    assert row is not None
    found._decide()
    for _ in late:
        found.known.estimating.jobs.see(row, "late", 900.0 * MI, 2048.0 * MI, found.at - 1800, found.at)
        assert found._decide() >= 900
    for _ in range(5):
        found._decide()
    record = found.known.export([row])[row].runs
    assert record is not None
    assert record.ended == 7
    assert not record.running


def test_limits_between_two_runs_are_found_as_before_a_restart() -> None:
    found = Nights(ElasticPolicySpec(limit_modes=LimitModesJson(memory="Independent")))
    for one in some(6):
        found.run(one)
    before = found.known.estimating.stated(NIGHTLY)
    assert found.restart().known.estimating.stated(NIGHTLY) == before


def test_without_an_elastic_policy_what_was_saved_of_runs_says_nothing() -> None:
    found = nights(7)
    found.policies = ()
    found.restart()._decide()
    assert found.known.estimating.speaker(0, Resource.MEMORY) is None


def test_between_two_runs_the_administrators_word_counts_at_once() -> None:
    found = nights(7)
    found.settings = RecommenderSettings(estimator="Histogram")
    found.restart()._decide()
    assert found.known.estimating.speaker(0, Resource.MEMORY) is None


def test_what_is_kept_of_runs_is_small() -> None:
    found = Nights(ElasticPolicySpec())
    for number in range(21):
        found.run([200.0 + number] * 10)
    assert len(annotation(found)["runs"]["earlier"]) == 20
    assert len(json.dumps(annotation(found)["runs"])) < 3000
    long = run_record(Usage(MINUTE, np.array([200.0, 900.0] * 1500) * MI))
    assert len(long.used_kib) <= 240
    assert long.step_seconds * len(long.used_kib) == pytest.approx(3000 * MINUTE, rel=0.01)
    assert min(long.used_kib) == 900 * 1024


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("ended",), -1, ".ended"),
        (("choice",), 2, ".choice"),
        (("told_bytes",), -5.0, ".told_bytes"),
        (("histogram_bytes",), 1e15, ".histogram_bytes"),
        (("scores",), [[1.0]], ".scores"),
        (("scores", 2, 0), -1.0, ".scores"),
        (("earlier", 0, "used_kib"), [], ".earlier.used_kib"),
        (("earlier", 0, "used_kib", 3), 2**62, ".earlier.used_kib"),
        (("earlier", 0, "step_seconds"), 1e-6, ".earlier.step_seconds"),
        (("memory_limit",), "Sometimes", "memory_limit"),
    ],
)
def test_runs_that_were_edited_are_refused_by_name(path: tuple[Any, ...], value: object, named: str) -> None:
    body = msgspec.json.decode(six_nights())
    place: Any = body
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(UnusableRuns, match=re.escape(named)):
        read_record(msgspec.Raw(msgspec.json.encode(body)), 2e9)


def test_with_runs_that_are_refused_all_else_of_a_checkpoint_is_known() -> None:
    found = nights(2)
    checkpoint, edited = found.saved(), annotation(found)
    edited["runs"]["ended"] = -1
    assert checkpoint.metadata.annotations is not None
    checkpoint.metadata.annotations[HISTORY_ANNOTATION] = json.dumps(edited)
    history = from_checkpoint(checkpoint, RecommenderSettings(), found.at, NIGHTLY)
    assert history.set_aside == f"metadata.annotations[{HISTORY_ANNOTATION}].runs.ended: is out of range"
    assert (history.runs, history.samples) == (None, 60)


def test_ten_thousand_mutated_records_crash_nothing_f40() -> None:
    chance, now = random.Random(42), 2e9
    own, raw = six_nights(), Estimates(WANTED, WANTED, np.ones(1))
    strange = (
        "null",
        "-1",
        "0",
        "3",
        "9223372036854775808",
        "1e308",
        "1e-300",
        "1e17",
        '""',
        "[]",
        "{}",
        "true",
        "1.5",
    )
    used = refused = 0
    for number in range(10_000):
        body = msgspec.json.decode(own)
        for _ in range(chance.randint(1, 3)):
            place, key = chance.choice(list(places(body)))
            place[key] = msgspec.json.decode(chance.choice(strange))
        try:
            record = read_record(msgspec.Raw(msgspec.json.encode(body)), now)
        except UnusableRuns:
            refused += 1
            continue
        used += 1
        if number % 50 == 0:
            jobs = Jobs(MINUTE)
            jobs.want(0, kills_elsewhere=False)
            jobs.restore(0, record)
            for minute in range(6):
                jobs.see(0, "p", 3e8, 0.0, now, now + minute * MINUTE)
                jobs.turn(raw, np.zeros(1), now + minute * MINUTE)
                assert all(size >= 3e8 for size in jobs.spoken(raw).memory.target[jobs.speaking()])
    assert used > 500
    assert refused > 1500


@cache
def six_nights() -> bytes:
    """What is kept of six runs, and of one that is running."""
    found = nights(6)
    found.known.estimating.jobs.see(0, "p", 9e8, 0.0, found.at, found.at)
    return msgspec.json.encode(found.known.export([0])[0].runs)


def annotation(found: Nights) -> dict[str, Any]:
    """What stands in our annotation."""
    annotations = found.saved().metadata.annotations
    assert annotations is not None
    return dict(json.loads(annotations[HISTORY_ANNOTATION]))


def places(body: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a value in JSON."""
    for key, value in list(body.items() if isinstance(body, dict) else enumerate(body)):
        yield body, key
        if isinstance(value, dict | list):
            yield from places(value)
