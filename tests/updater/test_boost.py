"""More CPU while a pod starts: asked for, given at creation, and taken off in time."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.api import (
    BOOST_ANNOTATION,
    Autoscaler,
    AutoscalerSpec,
    ContainerPolicy,
    ResourcePolicy,
)
from elastipod.limits import LimitRangeItem, Quota
from elastipod.pods import Pod, QosClass
from elastipod.reasons import Reason
from tests.updater.build import NOW, advice, amounts, container, facts, limit_range, pod, size
from tests.updater.world import World
from updater.admission.settings import AdmissionSettings
from updater.admission.sizing import Sizing, size_at_creation
from updater.boost import Boost
from updater.boosted import MOST_SECONDS, Boosted, boost_text, boosted
from updater.plan import decide
from updater.sizes import Advice, advice_of

THREE_TIMES = {"cpu": {"type": "Factor", "factor": 3, "durationSeconds": 10}}


def boosting(
    found: Any = THREE_TIMES, mode: str = "Off", policies: list[ContainerPolicy] | None = None, **spec: Any
) -> Advice:
    body = {"updatePolicy": {"updateMode": mode}, "startupBoost": found, **spec}
    read = msgspec.convert(body, AutoscalerSpec)
    if policies is not None:
        read = msgspec.structs.replace(read, resource_policy=ResourcePolicy(policies))
    return advice_of(Autoscaler(spec=read))


@pytest.mark.parametrize(
    ("asked", "boost"),
    [
        (THREE_TIMES, Boost(factor=3, seconds=10)),
        ({"cpu": {"type": "Quantity", "quantity": "500m"}}, Boost(more_millicores=500)),
        ({}, None),
        (None, None),
    ],
)
def test_a_boost_is_read_as_upstream_writes_it(asked: Any, boost: Boost | None) -> None:
    found = boosting(asked)
    assert (found.boost("app"), found.problems) == (boost, ())


@pytest.mark.parametrize(
    ("cpu", "field"),
    [
        ({"type": "Factor"}, "factor"),
        ({"type": "Factor", "factor": 0}, "factor"),
        ({"type": "Factor", "factor": 2.5}, "factor"),
        ({"type": "Quantity", "quantity": "-1"}, "quantity"),
        ({"type": "Twice"}, "type"),
        ({"type": "Factor", "factor": 2, "durationSeconds": -1}, "durationSeconds"),
        ("twice", "type"),
    ],
)
def test_a_boost_that_makes_no_sense_is_named_and_boosts_nothing(cpu: Any, field: str) -> None:
    found = boosting({"cpu": cpu})
    assert found.boost("app") is None
    [problem] = found.problems
    assert problem.startswith("spec.startupBoost.cpu")
    assert field in problem


def test_a_containers_own_boost_counts_before_that_for_all_and_off_is_off() -> None:
    own = ContainerPolicy("app", startup_boost={"cpu": {"type": "Factor", "factor": 2}})
    policies = [own, ContainerPolicy("proxy", mode="Off"), ContainerPolicy("*", controlled_values="RequestsOnly")]
    found = boosting(policies=policies)
    assert found.boost("app") == Boost(factor=2)
    assert found.boost("proxy") is None
    assert found.boost("other") == Boost(factor=3, seconds=10, moves_limits=False)


def created(found: Pod, told: Advice, **more: Any) -> Sizing:
    return size_at_creation(found, facts(told, **more))


STARTING = pod(container(requests=amounts("500m", "512Mi"), limits=amounts("1", "1Gi")))
BOOSTED_SIZE = size(amounts("1500m", "512Mi"), amounts("3", "1Gi"))


def test_a_new_pod_gets_its_own_cpu_times_the_factor_also_where_nothing_else_is_set() -> None:
    made = created(STARTING, boosting())
    assert made.sizes == {"app": BOOSTED_SIZE}
    assert Reason.BOOSTED in made.notes
    given = Boosted(size(amounts("500m", "512Mi"), amounts("1", "1Gi")), BOOSTED_SIZE, 10.0)
    assert made.boosts == {"app": given}


def test_what_is_boosted_is_the_target_where_there_is_one() -> None:
    told = msgspec.structs.replace(advice(amounts("200m")), boosts=boosting().boosts)
    made = created(STARTING, told)
    assert made.sizes["app"] == size(amounts("600m", "512Mi"), amounts("1200m", "1Gi"))
    assert made.boosts["app"].had.requests.cpu == 200


def test_a_guaranteed_pod_is_boosted_as_such_and_requests_only_stay_below_the_limit() -> None:
    both = amounts("500m", "512Mi")
    made = created(pod(container(requests=both, limits=both)), boosting())
    assert made.sizes["app"] == size(amounts("1500m", "512Mi"), amounts("1500m", "512Mi"))
    only = boosting(policies=[ContainerPolicy("*", controlled_values="RequestsOnly")])
    assert created(STARTING, only).sizes["app"] == size(amounts("1", "512Mi"), amounts("1", "1Gi"))
    assert created(pod(container(requests=both, limits=both)), only).sizes == {}


def test_a_boost_stays_within_the_limit_range_and_one_that_the_quota_refuses_is_left_out() -> None:
    bounds = limit_range(LimitRangeItem("Container", max=amounts("2")))
    assert created(STARTING, boosting(), **bounds).sizes["app"].limits.cpu == 2000
    quota = Quota("shop", "share", {"requests.cpu": 1_400}, {})
    told = msgspec.structs.replace(advice(amounts("600m")), boosts=boosting().boosts)
    made = size_at_creation(STARTING, facts(told), (quota,))
    assert (made.sizes["app"].requests.cpu, made.boosts) == (600, {})


def test_no_boost_takes_cpu_above_what_the_administrator_allows_and_none_takes_it_away() -> None:
    made = size_at_creation(STARTING, facts(boosting()), max_boost_millicores=800)
    assert made.sizes["app"] == size(amounts("800m", "512Mi"), amounts("1600m", "1Gi"))
    for most in (400, 500):
        assert size_at_creation(STARTING, facts(boosting()), max_boost_millicores=most).boosts == {}
    with pytest.raises(ValueError, match="max_boost_cpu_millicores"):
        AdmissionSettings(max_boost_cpu_millicores=-1)


def test_a_stated_size_is_not_boosted() -> None:
    stated = {"app": size(amounts("700m"))}
    assert created(STARTING, boosting(), stated=stated).sizes["app"].requests.cpu == 700


def running(*, ready_at: float | None = None, started_at: float = NOW, **more: Any) -> Pod:
    """The pod as it was created, while it runs."""
    given = created(STARTING, boosting()).boosts
    shown = container(requests=BOOSTED_SIZE.requests, limits=BOOSTED_SIZE.limits)
    found = pod(shown, annotations={BOOST_ANNOTATION: boost_text(given)})
    return msgspec.structs.replace(found, ready_at=ready_at, started_at=started_at, **more)


HAD = size(amounts("500m", "512Mi"), amounts("1", "1Gi"))


def test_asked_again_about_a_boosted_pod_the_webhook_adds_nothing() -> None:
    assert size_at_creation(running(), facts(boosting())).sizes == {}


@pytest.mark.parametrize(
    ("ready_after", "ends_after"),
    [(60.0, 70.0), (None, MOST_SECONDS + 10.0), (1800.0, MOST_SECONDS + 10.0)],
    ids=["ready", "never ready", "ready after half an hour"],
)
@pytest.mark.parametrize("told", [None, boosting()], ids=["its autoscaler is gone", "it only boosts"])
def test_a_boost_ends_so_long_after_ready_and_else_at_a_hard_maximum_r29(
    ready_after: float | None, ends_after: float, told: Advice | None
) -> None:
    found = running(ready_at=None if ready_after is None else NOW + ready_after)
    before = decide(found, facts(told), NOW + ends_after - 1)
    assert (before.resize, before.look_again_at) == (None, NOW + ends_after)
    after = decide(found, facts(told), NOW + ends_after)
    assert after.reason is Reason.BOOST_ENDED
    assert after.resize is not None
    assert after.resize.sizes == {"app": HAD}


def test_each_containers_boost_ends_by_itself_r29() -> None:
    given = {
        name: Boosted(size(amounts("100m"), amounts("200m")), size(amounts("300m"), amounts("600m")), seconds)
        for name, seconds in (("app", 10.0), ("proxy", 60.0))
    }
    containers = [container(name, amounts("300m"), amounts("600m")) for name in given]
    found = pod(*containers, annotations={BOOST_ANNOTATION: boost_text(given)})
    found = msgspec.structs.replace(found, started_at=NOW, ready_at=NOW)
    resize = decide(found, facts(), NOW + 10).resize
    assert resize is not None
    assert resize.sizes == {"app": size(amounts("100m"), amounts("200m"))}


def test_while_it_starts_advice_lowers_no_cpu_and_then_its_target_comes_at_once() -> None:
    told = advice(amounts("200m"), upper=amounts("2"))
    found = running(ready_at=NOW + 60)
    before = decide(found, facts(told), NOW + 69)
    assert (before.resize, before.look_again_at) == (None, NOW + 70)
    assert Reason.BOOSTED in before.notes
    after = decide(found, facts(told), NOW + 70)
    assert after.resize is not None
    assert after.resize.sizes["app"].requests == amounts("200m", "512Mi")


def test_memory_is_sized_while_cpu_is_boosted() -> None:
    resize = decide(running(), facts(advice(amounts("200m", "1Gi"))), NOW + 69).resize
    assert resize is not None
    assert resize.sizes["app"] == size(amounts("1500m", "1Gi"), amounts("3", "2Gi"))


def test_a_target_that_is_as_large_as_the_boost_stays() -> None:
    assert decide(running(ready_at=NOW), facts(advice(amounts("1500m"))), NOW + 70).resize is None


def test_cpu_that_somebody_changed_meanwhile_is_theirs() -> None:
    changed = container(requests=amounts("2", "512Mi"), limits=amounts("3", "1Gi"))
    found = msgspec.structs.replace(running(ready_at=NOW), containers=(changed,))
    assert decide(found, facts(boosting()), NOW + 70).resize is None


@given(st.text(max_size=40) | st.dictionaries(st.just("app"), st.text(max_size=5)).map(json.dumps))
def test_an_annotation_that_can_not_be_understood_counts_as_nothing(text: str) -> None:
    found = pod(annotations={BOOST_ANNOTATION: text})
    assert boosted(found) == {}


async def test_a_boosted_pod_that_never_gets_ready_gives_its_cpu_back_in_time_r29() -> None:
    async with World() as world:
        await world.node()
        given = {"app": Boosted(size(amounts("500m"), amounts("1")), size(amounts("1500m"), amounts("3")), 10.0)}
        made = await world.pod(
            "web-a",
            await world.deployment(),
            cpu="1500m",
            cpu_limit="3",
            annotations={BOOST_ANNOTATION: boost_text(given)},
        )
        conditions = [{"type": "Ready", "status": "False"}]
        started = {"startTime": made["metadata"]["creationTimestamp"], "conditions": conditions}
        await world.status("web-a", started)
        await world.run(29, seconds=31)
        assert (await world.requests("web-a"))["cpu"] == "1500m"
        await world.run(2, seconds=31)
        assert (await world.requests("web-a"))["cpu"] == "500m"
        assert (await world.limits("web-a"))["cpu"] == "1"
        assert "BoostEnded" in str(world.explained())


def test_the_boost_of_a_burstable_pod_does_not_make_it_guaranteed() -> None:
    found = pod(container(requests=amounts("500m", "1Gi"), limits=amounts("1", "1Gi")))
    assert found.qos_class is QosClass.BURSTABLE
    only = boosting(policies=[ContainerPolicy("*", controlled_values="RequestsOnly")])
    assert created(found, only).sizes["app"].requests == amounts("999m", "1Gi")
