"""Which changes of a status are news, in which words, and which are not."""

import pytest

from elastipod.api import Condition
from elastipod.reasons import Reason
from recommender.banks import Speaker
from recommender.conditions import Facts, conditions
from recommender.estimators.candidates import Candidate, Estimator
from recommender.news import News, killed, news
from recommender.ranges import Cap, Resource
from recommender.samples import OomKill
from tests.recommender.test_reported import WEB

NOW = 1.8e9
MI = 1024**2
WELL = Facts(is_provided=True)


def after(*all_facts: Facts) -> list[News]:
    """What the last of these is news of, when the ones before stood in the status in turn."""
    stood: tuple[Condition, ...] = ()
    found: list[News] = []
    for facts in all_facts:
        now = conditions(facts, stood, 1, NOW)
        found, stood = news(facts, stood, now), now
    return found


def reasons(*all_facts: Facts) -> list[Reason]:
    return [one.reason for one in after(*all_facts)]


def capped(reason: Reason, by: str = "somebody", container: str = "app") -> Facts:
    return Facts(is_provided=True, caps=((container, Cap(Resource.MEMORY, reason, 1, by)),))


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (Facts(is_target_found=False, has_pods=False), Reason.TARGET_NOT_FOUND),
        (Facts(is_provided=True, metrics_lost="no cpu sample since noon"), Reason.METRICS_LOST),
        (Facts(is_provided=True, problems=("spec: it is odd",)), Reason.BAD_VALUE),
        (Facts(is_provided=True, rivals=("ns/other",)), Reason.CONFLICT),
        (Facts(unusable_history="app: status.version"), Reason.HISTORY_UNUSABLE),
        (Facts(is_provided=True, unusable_history="app: a; b", is_confident=False), Reason.HISTORY_UNUSABLE),
        (Facts(short_runs="runs of 40 s at most"), Reason.TOO_SHORT_TO_SEE),
        (capped(Reason.SCALED_HORIZONTALLY), Reason.SCALED_HORIZONTALLY),
        (capped(Reason.SIZED_AT_START), Reason.SIZED_AT_START),
        (capped(Reason.CONTRADICTION), Reason.CONTRADICTION),
        (capped(Reason.CAPPED_BY_NODE), Reason.CAPPED_BY_NODE),
    ],
)
def test_what_a_person_should_see_is_told_when_it_comes_to_be_so_and_not_while_it_stays(
    facts: Facts, reason: Reason
) -> None:
    assert reasons(facts) == reasons(WELL, facts) == [reason]
    assert reasons(facts, facts) == []
    assert after(facts)[0].message


def test_more_that_is_unusable_than_a_condition_holds_is_told_once() -> None:
    many = "; ".join(f"checkpoint-{number}: {'status.version is odd ' * 4}" for number in range(40))
    assert reasons(Facts(unusable_history=many), Facts(unusable_history=many)) == []


@pytest.mark.parametrize(
    "facts",
    [
        Facts(),
        Facts(is_provided=True, is_confident=False),
        Facts(is_history_loaded=False),
        Facts(is_provided=True, fetching="past usage is being read"),
        Facts(has_pods=False),
        Facts(has_pods=False, is_off=True),
        Facts(is_provided=True, notes=("Deployment web is sized by itself",)),
        capped(Reason.RAISED_TO_FLOOR),
        capped(Reason.RAISED_TO_MIN),
    ],
)
def test_what_each_object_goes_through_or_its_owner_did_is_no_news(facts: Facts) -> None:
    assert reasons(facts) == reasons(WELL, facts) == reasons(facts, WELL) == []


def test_the_end_of_a_fault_is_told_and_that_of_a_cap_is_not() -> None:
    lost = Facts(is_provided=True, metrics_lost="no cpu sample since noon")
    [end] = after(lost, WELL)
    assert (end.reason, end.is_normal, end.message) == (Reason.RESOLVED, True, "MetricsLost no longer holds")
    assert reasons(capped(Reason.CAPPED_BY_MAX), WELL) == []


def test_another_time_or_amount_or_cause_of_the_same_is_no_news_and_another_container_is() -> None:
    def lost(what: str) -> Facts:
        return Facts(is_provided=True, metrics_lost=what)

    assert reasons(lost("no cpu sample since noon"), lost("no usage sample since noon")) == []
    assert reasons(capped(Reason.CAPPED_BY_QUOTA, "ResourceQuota a"), capped(Reason.CAPPED_BY_QUOTA, "b; c")) == []
    assert reasons(Facts(short_runs="runs of 40 s"), Facts(short_runs="runs of 41 s")) == []
    one, other = capped(Reason.CAPPED_BY_MAX), capped(Reason.CAPPED_BY_MAX, container="proxy")
    both = Facts(is_provided=True, caps=(*one.caps, *other.caps))
    [told] = after(one, both)
    assert told.message == "the policy's maxAllowed is lower: proxy: memory CappedByMax (somebody)"


def test_several_containers_with_the_same_reason_are_told_together() -> None:
    both = Facts(is_provided=True, caps=(*capped(Reason.CAPPED_BY_MAX).caps, *capped(Reason.CAPPED_BY_MAX, "x").caps))
    assert reasons(both) == [Reason.CAPPED_BY_MAX]


def speaks(estimator: Estimator | None, *, has_record: bool = True) -> Facts:
    candidate = None if estimator is None else Candidate(estimator, "so")
    return Facts(is_provided=True, speakers=(("app", Resource.MEMORY, Speaker(candidate, has_record, 2.0, 1.0)),))


def test_an_estimator_that_lost_its_place_is_told_and_one_that_has_no_record_after_a_restart_is_not() -> None:
    by_peaks = speaks(Estimator.PEAKS)
    assert reasons(WELL, by_peaks) == []
    [back] = after(by_peaks, speaks(None))
    assert (back.reason, back.is_normal) == (Reason.NO_BETTER_ESTIMATOR, True)
    assert back.message.startswith("app: memory by histogram again, no longer by peaks; ")
    assert reasons(by_peaks, speaks(None, has_record=False)) == []
    assert reasons(by_peaks, speaks(None, has_record=False), by_peaks) == []
    assert reasons(by_peaks, speaks(None), speaks(None)) == []


def test_a_condition_that_another_recommender_left_says_nothing_that_was_told() -> None:
    left = (Condition(type="ConfigUnsupported", status="False"), Condition(type="LowConfidence", status="True"))
    now = conditions(WELL, left, 1, NOW)
    assert news(WELL, left, now) == []


def test_a_kill_is_told_with_its_limit_and_what_it_proved() -> None:
    kill = OomKill(WEB, "app", "u", "k", NOW, limit_bytes=130 * MI)
    assert killed(kill, 230.0 * MI) == News(
        Reason.OOM_KILLED,
        "container app was killed for memory at a memory limit of 130Mi; it needs 230Mi",
        about="app",
    )
    assert "with no memory limit" in killed(OomKill(WEB, "app", "u", "k", NOW), 1.0 * MI).message
