"""From a recommendation to requests and limits: what the recommender caps and what the updater makes of that."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from elastipod.api import (
    Autoscaler,
    AutoscalerSpec,
    AutoscalerStatus,
    ContainerPolicy,
    ObjectMeta,
    ResourcePolicy,
    resource_list,
)
from elastipod.limits import LimitRange
from elastipod.pods import Container, Pod
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from recommender.capping import Surroundings, cap, narrowest
from recommender.podcapping import cap_pod
from recommender.policies import size_policy
from recommender.ranges import Capped, Range, Resource
from recommender.status import recommendation
from tests.recommender.test_podcapping import limit_ranges, resources, shown_containers, wanted_of
from updater.shape import advised_size, container_bounds, kept_apart, qos_class, with_sizes
from updater.sizes import Size, advice_of, size_of

MI, GI = 1024**2, 1024**3


def sized(
    shown: tuple[Container, ...],
    estimates: dict[str, Capped],
    policy: ContainerPolicy,
    ranges: tuple[LimitRange, ...] = (),
) -> tuple[dict[str, Size], list[Reason]]:
    """The sizes that come of estimates, by the way through a status."""
    around = Surroundings(limit_ranges=ranges)
    capped = [cap(estimates[one.name], size_policy(policy), one, around) for one in shown]
    found = recommendation(cap_pod(capped, shown, around))
    advice = advice_of(
        Autoscaler(
            metadata=ObjectMeta(name="vpa", generation=1),
            spec=AutoscalerSpec(resource_policy=ResourcePolicy(container_policies=[policy])),
            status=AutoscalerStatus(recommendation=found, observed_generation=1),
        )
    )
    reasons: list[Reason] = []
    bounds = container_bounds(ranges)
    return {
        one.name: advised_size(one, advised, advised.target, bounds, reasons)
        for one in shown
        if (advised := advice.containers.get(one.name)) is not None
    }, reasons


def one(amount: int) -> dict[str, Capped]:
    return {"app": Capped("app", None, Range(amount, amount, None, amount))}


def test_no_limit_that_follows_passes_the_policys_maximum_r18() -> None:
    shown = Container("app", requests=Resources(None, 125_000_000), limits=Resources(None, 1_048_576_000))
    assert 1_048_576_000 * GI // 125_000_000 == 9_007_199_254, "what was written before"
    found, reasons = sized((shown,), one(GI), ContainerPolicy(container_name="*", max_allowed={"memory": "8Gi"}))
    assert found["app"] == Size(Resources(None, GI), Resources(None, 8 * GI))
    assert reasons == [Reason.CAPPED_BY_MAX]


def test_a_limit_above_what_is_used_in_bursts_is_left_alone_where_the_policy_says_so_r17() -> None:
    shown = Container("app", requests=Resources(1000), limits=Resources(2000))
    steady = {"app": Capped("app", Range(300, 300, None, 300), None)}
    found, _ = sized((shown,), steady, ContainerPolicy(container_name="*", controlled_values="RequestsOnly"))
    assert found["app"] == Size(Resources(300), Resources(2000))


def test_a_container_that_was_given_nothing_on_purpose_never_gets_a_request_above_its_limit_r22() -> None:
    shown = Container("app", requests=Resources(0), limits=Resources(0))
    wanted = {"app": Capped("app", Range(100, 500, None, 500), None)}
    found, _ = sized((shown,), wanted, ContainerPolicy(container_name="*", controlled_values="RequestsOnly"))
    assert found == {}
    both, _ = sized((shown,), wanted, ContainerPolicy(container_name="*"))
    assert both["app"] == Size(Resources(500), Resources(500))


policies = st.builds(
    ContainerPolicy,
    container_name=st.just("*"),
    min_allowed=resources.map(resource_list),
    max_allowed=resources.map(resource_list),
    controlled_values=st.sampled_from([None, "RequestsAndLimits", "RequestsOnly"]),
)


@given(st.data(), shown_containers(), policies, limit_ranges)
def test_every_request_is_at_most_its_limit_and_every_limit_is_allowed_whatever_is_combined(
    data: Any, shown: tuple[Container, ...], policy: ContainerPolicy, ranges: tuple[LimitRange, ...]
) -> None:
    estimates = {one.name: data.draw(wanted_of(one.name)) for one in shown}
    found, _ = sized(shown, estimates, policy, ranges)
    by_name = {one.name: one for one in shown}
    for name, size in found.items():
        before = size_of(by_name[name])
        for resource in Resource:
            request, limit = resource.of(size.requests), resource.of(size.limits)
            if (request, limit) == (resource.of(before.requests), resource.of(before.limits)):
                continue
            assert request is not None
            low, high, _ = narrowest(ranges, "Container", resource)
            assert request >= (low or 0)
            assert (limit is None) == (resource.of(before.limits) is None)
            if limit is None or policy.controlled_values == "RequestsOnly":
                assert limit is None or request <= limit
                continue
            most = resource.of(size_policy(policy).max_allowed)
            assert request <= limit
            assert high is None or limit <= high
            assert most is None or limit <= max(most, low or 0)


@given(st.data(), shown_containers(), policies, limit_ranges)
def test_a_pods_class_stays_or_nothing_is_done_whatever_is_combined(
    data: Any, shown: tuple[Container, ...], policy: ContainerPolicy, ranges: tuple[LimitRange, ...]
) -> None:
    estimates = {one.name: data.draw(wanted_of(one.name)) for one in shown}
    found, _ = sized(shown, estimates, policy, ranges)
    pod = Pod("ns", "web-a", "u", containers=shown)
    pod = structs.replace(pod, qos_class=qos_class(with_sizes(pod, {})))
    kept = kept_apart(pod, found)
    assert kept is None or qos_class(with_sizes(pod, kept)) is pod.qos_class
