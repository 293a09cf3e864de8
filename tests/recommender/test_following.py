"""Containers that take whatever they are given are recognised and given no more."""

import numpy as np
import pytest

from elastipod.pods import Container, ContainerKey, OwnerReference, Pod, Workload
from elastipod.quantities import Resources, parse_memory
from recommender.claims import Claim
from recommender.following import Followers, Steps
from recommender.history import History
from recommender.recommending import Recommendations
from recommender.samples import OomKill, UsageSample
from recommender.settings import RecommenderSettings

MI, GI = 1024**2, 1024**3
DAY = 86_400.0
START = 1.8e9
JVM = Workload("ns", "StatefulSet", "jvm")


def followers(*steps: tuple[float, float]) -> Followers:
    """Usage under one limit after another."""
    found = Followers()
    found.reserve(1)
    for limit, used in steps:
        for amount in (used / 2, used, used / 3):
            found.take(np.array([0]), np.array([amount]), np.array([limit]))
    return found


@pytest.mark.parametrize(
    ("steps", "follows"),
    [
        (((1.0, 0.8), (2.0, 1.55), (3.6, 2.8)), True),
        (((0.5, 0.4), (1.0, 0.8), (2.0, 1.55), (3.6, 2.8)), True),
        (((1.0, 0.8), (2.0, 1.55)), False),
        (((1.0, 0.8), (2.0, 1.0), (3.6, 1.1)), False),
        (((1.0, 0.3), (2.0, 0.6), (3.6, 1.1)), False),
        (((3.6, 2.8), (2.0, 1.55), (1.0, 0.8)), False),
        (((1.0, 0.8), (1.005, 0.8), (1.002, 0.8)), False),
    ],
    ids=["two raises", "more", "one raise", "needs no more", "far below", "lowered", "rounded"],
)
def test_memory_that_is_the_same_fraction_of_three_rising_limits_follows_them_r14(steps: Steps, follows: bool) -> None:
    assert followers(*((limit * GI, used * GI) for limit, used in steps)).follows(0) == follows


def test_what_is_known_of_limits_outlives_a_restart_r14() -> None:
    before = followers((1.0, 0.8), (2.0, 1.55), (3.6, 2.8))
    after = followers()
    after.restore(0, before.steps(0))
    assert after.follows(0)
    after.clear(0)
    assert after.steps(0) == ()


def test_usage_without_a_limit_tells_nothing() -> None:
    found = followers()
    found.take(np.array([0]), np.array([1e9]), np.array([np.nan]))
    assert found.steps(0) == ()


class Jvm:
    """A process whose heap is most of its limit, sized as it is advised: the limit is twice the request."""

    def __init__(self, fraction: float = 0.775) -> None:
        self.known = Recommendations(RecommenderSettings())
        self.known.set_claim("ns/vpa", Claim("ns", "vpa", "u", 1, "elastipod", JVM))
        self.known.loaded("ns/vpa", {}, {})
        self.fraction = fraction
        self.request = 512 * MI
        self.day = 0

    def live(self, days: int) -> list[int]:
        """The requests it gets, one a day."""
        found = []
        for _ in range(days):
            at = START + self.day * DAY
            shown = Container(
                "app", requests=Resources(500, self.request), limits=Resources(None, 2 * self.request), is_running=True
            )
            owner = OwnerReference("StatefulSet", "jvm", "s")
            self.known.members.set_pod(
                "ns/jvm-0", Pod("ns", "jvm-0", "p", phase="Running", owner=owner, containers=(shown,))
            )
            for hour in range(24):
                used = self.fraction * 2 * self.request
                self.known.learn([UsageSample("ns", "jvm-0", "app", at + hour * 3600, 0.1, used)], at + hour * 3600)
            self.known.decide(at + DAY)
            status = self.known.status("ns/vpa", at + DAY)
            assert status.recommendation is not None
            [one] = status.recommendation.container_recommendations or []
            self.request = parse_memory(str((one.target or {})["memory"]))
            found.append(self.request)
            self.day += 1
        return found


def test_a_heap_that_follows_its_limit_is_raised_twice_and_no_more_r14() -> None:
    jvm = Jvm()
    sizes = jvm.live(12)
    assert sizes[0] > 512 * MI
    assert sizes[1] > sizes[0]
    assert len(set(sizes[1:])) == 1, "it converges"
    told = [one.message for one in jvm.known.status("ns/vpa", START).conditions or []]
    assert any("app: memory FollowsLimit" in one for one in told)


def test_a_kill_lets_it_grow_again_r14() -> None:
    jvm = Jvm()
    held = jvm.live(4)[-1]
    kill = OomKill(JVM, "app", "p", "k", START + 4 * DAY, limit_bytes=2 * held)
    assert jvm.known.learn_kill(kill)
    assert jvm.live(1)[0] > 2 * held


def test_steps_are_saved_with_the_history_r14() -> None:
    jvm = Jvm()
    jvm.live(4)
    key = ContainerKey(JVM, "app")
    row = jvm.known.history.row(key)
    assert row is not None
    other = History(RecommenderSettings())
    other.restore(key, jvm.known.history.export(row))
    assert other.followers.follows(0)
