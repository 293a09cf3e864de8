"""A limit that is an answer of its own, and one that is not: for running pods and for new ones."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.api import ElasticPolicy, ElasticPolicySpec, LimitModesJson, ObjectMeta, WorkloadSelector
from elastipod.limitmodes import LimitMode, LimitModes
from elastipod.limits import LimitRangeItem, Quota
from elastipod.pods import OwnerReference, Pod, QosClass, Workload
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from tests.updater.build import NOW, advice, amounts, container, facts, limit_range, pod, size, usage
from updater.admission.sizing import size_at_creation
from updater.facts import Facts, Urgency
from updater.fleet import Fleet
from updater.plan import Decision, decide
from updater.shape import advised_size, container_bounds

APART = LimitModes(LimitMode.INDEPENDENT, LimitMode.INDEPENDENT)
UNSET = LimitModes(LimitMode.UNSET, LimitMode.UNSET)
EXAMPLE = pod(container(requests=amounts(memory="500Mi"), limits=amounts(memory="600Mi")))


def decided(found: Pod, told: Facts) -> Decision:
    """The decision, with fresh usage of 50Mi."""
    return decide(found, msgspec.structs.replace(told, usage={"app": usage("50Mi")}), NOW)


def sizes(decision: Decision) -> tuple[Resources, Resources]:
    assert decision.resize is not None, decision
    found = decision.resize.goal["app"]
    return found.requests, found.limits


def test_request_and_limit_each_get_their_own_answer() -> None:
    found = facts(advice(amounts(memory="200Mi"), upper=amounts(memory="700Mi")), modes=APART)
    assert sizes(decided(EXAMPLE, found)) == (amounts(memory="200Mi"), amounts(memory="700Mi"))


def test_each_resource_has_its_own_mode() -> None:
    held = pod(container(requests=amounts("1", "500Mi"), limits=amounts("2", "600Mi")))
    found = advice(amounts("500m", "250Mi"), upper=amounts("1", "700Mi"))
    modes = LimitModes(LimitMode.PROPORTIONAL, LimitMode.INDEPENDENT)
    assert sizes(decided(held, facts(found, modes=modes))) == (amounts("500m", "250Mi"), amounts("1", "700Mi"))
    modes = LimitModes(LimitMode.UNSET, LimitMode.PROPORTIONAL)
    assert sizes(decided(held, facts(found, modes=modes))) == (amounts("500m", "250Mi"), amounts("2", "300Mi"))


def test_bursts_keep_their_limit_while_the_request_goes_down_r17() -> None:
    held = pod(container(requests=amounts("1", "1Gi"), limits=amounts("2", "2Gi")))
    for modes, limit in ((APART, "1600m"), (UNSET, "2"), (LimitModes(), "600m")):
        found = facts(advice(amounts("300m"), upper=amounts("1600m")), modes=modes)
        assert sizes(decided(held, found)) == (amounts("300m", "1Gi"), amounts(limit, "2Gi"))


@pytest.mark.parametrize(
    ("upper", "reason", "urgency"),
    [
        ("610Mi", Reason.WITHIN_BOUNDS, None),
        ("700Mi", Reason.DRIFTED, Urgency.DRIFTED),
        ("520Mi", Reason.DRIFTED, Urgency.DRIFTED),
    ],
)
def test_a_limit_moves_by_itself_when_it_is_a_tenth_off(upper: str, reason: Reason, urgency: Urgency | None) -> None:
    found = advice(amounts(memory="500Mi"), lower=amounts(memory="300Mi"), upper=amounts(memory=upper))
    decision = decided(EXAMPLE, facts(found, modes=APART))
    assert (decision.reason, decision.resize and decision.resize.urgency) == (reason, urgency)
    if urgency is not None:
        assert sizes(decision) == (amounts(memory="500Mi"), amounts(memory=upper))
        assert decide(EXAMPLE, facts(found, modes=APART, resized_at=NOW - 60), NOW).reason is Reason.COOLING_DOWN


def test_a_limit_that_killed_is_raised_at_once() -> None:
    killed = pod(container(requests=amounts(memory="500Mi"), limits=amounts(memory="600Mi"), killed=True))
    found = advice(amounts(memory="500Mi"), lower=amounts(memory="300Mi"), upper=amounts(memory="720Mi"))
    decision = decide(killed, facts(found, modes=APART, resized_at=NOW - 60), NOW)
    assert decision.reason is Reason.OOM_KILLED
    assert sizes(decision) == (amounts(memory="500Mi"), amounts(memory="720Mi"))


def test_the_request_goes_down_at_once_while_the_limit_goes_in_steps() -> None:
    held = pod(container(requests=amounts(memory="1000Mi"), limits=amounts(memory="2000Mi")))
    found = facts(advice(amounts(memory="100Mi"), upper=amounts(memory="700Mi")), modes=APART)
    decision = decided(held, found)
    assert decision.resize is not None
    assert decision.resize.sizes["app"] == size(amounts(memory="100Mi"), amounts(memory="1600Mi"))
    assert not decision.resize.is_last_step


def test_without_an_upper_bound_the_limit_stays() -> None:
    found = facts(msgspec.structs.replace(advice(amounts(memory="200Mi"))), modes=APART)
    assert found.advice is not None
    one = msgspec.structs.replace(found.advice.containers["app"], upper=Resources())
    found = msgspec.structs.replace(found, advice=msgspec.structs.replace(found.advice, containers={"app": one}))
    assert sizes(decided(EXAMPLE, found)) == (amounts(memory="200Mi"), amounts(memory="600Mi"))


@pytest.mark.parametrize("modes", [APART, UNSET])
def test_a_container_without_a_limit_gets_none(modes: LimitModes) -> None:
    found = facts(advice(amounts(memory="200Mi"), upper=amounts(memory="700Mi")), modes=modes)
    assert sizes(decided(pod(container(requests=amounts(memory="500Mi"))), found)) == (
        amounts(memory="200Mi"),
        amounts(),
    )


def test_of_a_running_pod_no_limit_is_taken_and_that_is_told() -> None:
    found = facts(advice(amounts(memory="200Mi"), upper=amounts(memory="700Mi")), modes=UNSET)
    decision = decided(EXAMPLE, found)
    assert sizes(decision) == (amounts(memory="200Mi"), amounts(memory="600Mi"))
    assert Reason.KEPT_LIMIT in decision.notes
    found = facts(advice(amounts(memory="900Mi")), modes=UNSET)
    assert sizes(decided(pod(container(requests=amounts("1", "500Mi"), limits=amounts(memory="600Mi"))), found)) == (
        amounts("1", "900Mi"),
        amounts(memory="900Mi"),
    )


@pytest.mark.parametrize("modes", [APART, UNSET])
def test_a_guaranteed_pod_keeps_limit_and_request_the_same_and_that_is_told(modes: LimitModes) -> None:
    both = amounts("1", "500Mi")
    held = pod(container(requests=both, limits=both))
    assert held.qos_class is QosClass.GUARANTEED
    found = facts(advice(amounts("2", "600Mi"), upper=amounts("3", "700Mi")), modes=modes)
    decision = decided(held, found)
    assert sizes(decision) == (amounts("2", "600Mi"), amounts("2", "600Mi"))
    assert Reason.KEPT_QOS_CLASS in decision.notes
    made = size_at_creation(held, found)
    assert made.sizes == {"app": size(amounts("2", "600Mi"), amounts("2", "600Mi"))}
    assert Reason.KEPT_QOS_CLASS in made.notes


@pytest.mark.parametrize("modes", [APART, UNSET])
def test_requests_only_leaves_limits_alone_whatever_the_mode(modes: LimitModes) -> None:
    told = advice(amounts(memory="200Mi"), upper=amounts(memory="900Mi"), moves_limits=False)
    found = facts(told, modes=modes)
    assert sizes(decided(EXAMPLE, found)) == (amounts(memory="200Mi"), amounts(memory="600Mi"))
    assert size_at_creation(EXAMPLE, found).sizes["app"].limits == amounts(memory="600Mi")


def test_an_independent_limit_stays_within_max_allowed_and_the_limit_range() -> None:
    told = advice(amounts(memory="200Mi"), upper=amounts(memory="900Mi"), most=amounts(memory="650Mi"))
    decision = decided(EXAMPLE, facts(told, modes=APART))
    assert sizes(decision)[1] == amounts(memory="650Mi")
    assert Reason.CAPPED_BY_MAX in decision.notes
    told = advice(amounts(memory="200Mi"), upper=amounts(memory="900Mi"))
    bounds = limit_range(LimitRangeItem("Container", max=amounts(memory="640Mi")))
    decision = decided(EXAMPLE, facts(told, modes=APART, **bounds))
    assert sizes(decision)[1] == amounts(memory="640Mi")
    assert Reason.CAPPED_BY_LIMIT_RANGE in decision.notes


@pytest.mark.parametrize(("modes", "lifted"), [(APART, "350Mi"), (UNSET, "300Mi")])
def test_a_largest_ratio_lifts_the_request_and_does_not_cut_the_limit(modes: LimitModes, lifted: str) -> None:
    told = advice(amounts(memory="200Mi"), upper=amounts(memory="700Mi"))
    decision = decided(
        EXAMPLE, facts(told, modes=modes, **limit_range(LimitRangeItem("Container", max_ratio_memory=2.0)))
    )
    assert sizes(decision) == (amounts(memory=lifted), amounts(memory="700Mi" if modes is APART else "600Mi"))


def test_a_new_pod_has_no_limit_where_none_shall_be() -> None:
    held = pod(container(requests=amounts("100m", "500Mi"), limits=amounts("1", "600Mi")))
    found = facts(advice(amounts("200m", "200Mi"), upper=amounts("2", "700Mi")), modes=UNSET)
    made = size_at_creation(held, found)
    assert made.sizes == {"app": size(amounts("200m", "200Mi"))}
    assert Reason.KEPT_LIMIT not in made.notes


@pytest.mark.parametrize(
    "item",
    [
        LimitRangeItem("Container", max=amounts(memory="8Gi")),
        LimitRangeItem("Container", default=amounts(memory="8Gi")),
        LimitRangeItem("Container", max_ratio_memory=8.0),
        LimitRangeItem("Pod", max=amounts(memory="8Gi")),
    ],
)
def test_where_a_limit_range_or_a_quota_demands_a_limit_a_new_pod_keeps_it_and_that_is_told(
    item: LimitRangeItem,
) -> None:
    held = pod(container(requests=amounts("100m", "500Mi"), limits=amounts("1", "600Mi")))
    found = advice(amounts("200m", "200Mi"))
    kept = size(amounts("200m", "200Mi"), amounts(memory="600Mi"))
    by_range = size_at_creation(held, facts(found, modes=UNSET, **limit_range(item)))
    by_quota = size_at_creation(held, facts(found, modes=UNSET), (Quota("shop", "share", {"limits.memory": 2**40}),))
    for made in (by_range, by_quota):
        assert made.sizes == {"app": kept}
        assert Reason.KEPT_LIMIT in made.notes


_amounts = st.builds(Resources, st.none() | st.integers(1, 4000), st.none() | st.integers(1, 4000))


@given(_amounts, _amounts, _amounts, _amounts, st.sampled_from(LimitMode), st.none() | st.sampled_from((1.0, 1.5, 3.0)))
def test_no_limit_is_added_or_taken_and_none_lies_below_its_request(
    requests: Resources, limits: Resources, target: Resources, upper: Resources, mode: LimitMode, ratio: float | None
) -> None:
    told = advice(target, upper=upper).containers["app"]
    bounds = container_bounds(limit_range(LimitRangeItem("Container", max_ratio_cpu=ratio))["limit_ranges"])
    made = advised_size(container(requests=requests, limits=limits), told, target, bounds, [], LimitModes(mode, mode))
    for wanted, request, limit, before in (
        (target.cpu_millicores, made.requests.cpu_millicores, made.limits.cpu_millicores, limits.cpu_millicores),
        (target.memory_bytes, made.requests.memory_bytes, made.limits.memory_bytes, limits.memory_bytes),
    ):
        assert (limit is None) == (before is None)
        assert limit is None or wanted is None or (request is not None and request <= limit)


def test_a_policy_that_comes_changes_or_goes_is_followed_at_once() -> None:
    fleet = Fleet(["elastipod"])
    held = msgspec.structs.replace(EXAMPLE, owner=OwnerReference("StatefulSet", "db", "s", "apps/v1"))
    fleet.put_pod(held.key, held)
    fleet.put_advice("shop/vpa", Workload("shop", "StatefulSet", "db"), advice(amounts(memory="200Mi")))
    assert fleet.facts(held.key).modes == LimitModes()
    for mode in (LimitMode.INDEPENDENT, LimitMode.UNSET, None):
        fleet.dirty.clear()
        spec = ElasticPolicySpec(WorkloadSelector("StatefulSet", "db"), limit_modes=LimitModesJson(memory=mode))
        policy = ElasticPolicy(metadata=ObjectMeta(name="apart", namespace="shop"), spec=spec)
        fleet.put_policy("shop/apart", policy if mode is not None else None)
        assert fleet.dirty == {held.key}
        assert fleet.facts(held.key).modes.memory == (mode or LimitMode.PROPORTIONAL)
