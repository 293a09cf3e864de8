"""What a VerticalPodAutoscaler's status says, and when it is worth a write."""

import math

import numpy as np
import pytest

from elastipod.api import AutoscalerStatus, Condition, ContainerRecommendation, Recommendation
from recommender.conditions import Facts, conditions
from recommender.estimators.histogram import Estimate, Estimates
from recommender.settings import RecommenderSettings
from recommender.status import Published, says_the_same

NOW = 1.8e9


def types(facts: Facts) -> dict[str, str]:
    return {one.type: one.status for one in conditions(facts, (), 3, NOW)}


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        (Facts(is_provided=True, is_confident=False), "LowConfidence"),
        (Facts(is_history_loaded=False), "FetchingHistory"),
        (Facts(metrics_lost="no usage since 12:00"), "MetricsLost"),
        (Facts(is_target_found=False), "TargetNotFound"),
        (Facts(has_pods=False), "NoPodsMatched"),
        (Facts(problems=("spec.targetRef: kind and name are needed",)), "ConfigUnsupported"),
    ],
)
def test_each_condition_is_set_while_it_holds_and_goes_away(facts: Facts, kind: str) -> None:
    found = conditions(facts, (), 3, NOW)
    assert {one.type for one in found} == {kind, "RecommendationProvided"}
    assert all(one.observed_generation == 3 and one.last_transition_time for one in found)
    after = conditions(Facts(is_provided=True), found, 3, NOW + 60)
    assert [(one.type, one.status) for one in after] == [("RecommendationProvided", "True")]


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    first = conditions(Facts(is_provided=False), (), 1, NOW)
    same = conditions(Facts(is_provided=False, has_pods=False), first, 2, NOW + 600)
    changed = conditions(Facts(is_provided=True), same, 2, NOW + 1200)
    times = [
        next(one.last_transition_time for one in found if one.type == "RecommendationProvided")
        for found in (first, same, changed)
    ]
    assert times[0] == times[1] != times[2]


def test_conditions_of_others_are_left_alone() -> None:
    other = Condition(type="Paused", status="True", last_transition_time="2026-11-29T12:00:00Z")
    assert other in conditions(Facts(), (other,), 1, NOW)


def test_unusable_history_is_named_whether_or_not_there_is_a_recommendation() -> None:
    lost = Facts(unusable_history="app: status.version", is_confident=False)
    assert types(lost)["RecommendationProvided"] == "False"
    [_, provided] = conditions(Facts(True, unusable_history="app: status.version", is_confident=False), (), 1, NOW)
    assert "status.version" in provided.message


def estimates(lower: float, target: float, upper: float) -> Estimates:
    values = np.array([[lower, target, upper]])
    return Estimates(Estimate(values), Estimate(np.full((1, 3), math.nan)), np.ones(1))


NOBODY = np.full((1, 4), math.nan)


@pytest.mark.parametrize(
    ("after", "requests", "is_moved"),
    [
        ((0.5, 1.0, 2.0), NOBODY, False),
        ((0.5, 1.04, 2.0), NOBODY, False),
        ((0.5, 1.06, 2.0), NOBODY, True),
        ((0.5, 1.0, 1.5), NOBODY, False),
        ((0.5, 1.0, 1.3), NOBODY, True),
        ((0.5, 1.0, math.inf), NOBODY, True),
        ((0.5, 1.0, 1.5), np.array([[1.8, 1.8, math.nan, math.nan]]), True),
        ((0.6, 1.0, 2.0), np.array([[0.55, 0.9, math.nan, math.nan]]), True),
        ((math.nan, math.nan, math.nan), NOBODY, False),
    ],
)
def test_a_status_is_written_when_it_moves_a_decision_or_a_readers_picture(
    after: tuple[float, float, float], requests: np.ndarray, is_moved: bool
) -> None:
    published = Published(RecommenderSettings())
    before = estimates(0.5, 1.0, 2.0)
    assert published.moved(before, requests)[0]
    published.write(before, np.array([0]))
    assert bool(published.moved(estimates(*after), requests)[0]) is is_moved


def status(cpu: str, upper: str = "2") -> AutoscalerStatus:
    one = ContainerRecommendation(container_name="app", target={"cpu": cpu}, upper_bound={"cpu": upper})
    return AutoscalerStatus(Recommendation(container_recommendations=[one]), [], 1)


def test_small_differences_are_none_where_a_tolerance_says_so() -> None:
    assert says_the_same(status("1"), status("1020m", "2500m"), 0.05, 0.5)
    assert not says_the_same(status("1"), status("1020m"))
    assert not says_the_same(status("1"), status("1100m"), 0.05, 0.5)
    assert not says_the_same(status("1"), AutoscalerStatus(), 0.05, 0.5)
