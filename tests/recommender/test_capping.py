"""A recommendation within what is allowed, and every cap told."""

from dataclasses import replace
from typing import Any

import pytest

from elastipod.api import ContainerPolicy, ContainerRecommendation, resource_list
from elastipod.limitmodes import LimitMode, LimitModes
from elastipod.limits import LimitRange, LimitRangeItem
from elastipod.pods import Container, StartSize
from elastipod.quantities import NOTHING, Resources, parse_cpu, parse_memory, show_memory
from elastipod.reasons import Reason
from recommender.capping import Hold, Surroundings, cap
from recommender.policies import SizePolicy, size_policy
from recommender.ranges import Cap, Capped, Range, Resource, range_of
from recommender.status import recommendation

MI, GI = 1024**2, 1024**3


def wanted(cpu: int | None = None, memory: int | None = None, name: str = "app") -> Capped:
    """A recommendation whose bounds are half and twice the target."""

    def span(amount: int | None) -> Range | None:
        return None if amount is None else Range(amount // 2, amount, amount * 2, amount)

    return Capped(name, span(cpu), span(memory))


def reasons(capped: Capped) -> list[Reason]:
    return [one.reason for one in capped.caps]


def within(most: Resources = NOTHING, least: Resources = NOTHING, kind: str = "Container") -> Surroundings:
    return Surroundings(limit_ranges=(LimitRange("ns", "lr", (LimitRangeItem(kind, min=least, max=most),)),))


def memory(capped: Capped) -> Range:
    assert capped.memory is not None
    return capped.memory


def test_the_users_minimum_replaces_our_floor_r11() -> None:
    floor = Surroundings(floor=Resources(1, 250 * MI))
    policy = size_policy(ContainerPolicy(min_allowed={"memory": "32Mi"}))
    found = cap(wanted(memory=29 * MI), policy, None, floor)
    assert memory(found).target == 32 * MI
    assert reasons(found) == [Reason.RAISED_TO_MIN]


def test_a_floor_is_told_r11() -> None:
    found = cap(wanted(memory=4 * MI), SizePolicy(), None, Surroundings(floor=Resources(1, 10 * MI)))
    assert found.caps == (Cap(Resource.MEMORY, Reason.RAISED_TO_FLOOR, 10 * MI, "the recommender's floor"),)


def test_the_policys_maximum_holds_for_target_and_bounds_but_not_for_the_uncapped_target() -> None:
    policy = SizePolicy(max_allowed=Resources(memory_bytes=1 * GI))
    found = cap(wanted(memory=3 * GI), policy, None, Surroundings())
    assert memory(found) == Range(1 * GI, 1 * GI, 1 * GI, 3 * GI)
    assert reasons(found) == [Reason.CAPPED_BY_MAX]


def test_the_clusters_maximum_holds_where_the_policys_is_higher() -> None:
    policy = SizePolicy(max_allowed=Resources(memory_bytes=2 * GI))
    found = cap(wanted(memory=3 * GI), policy, None, Surroundings(most=Resources(None, 1 * GI)))
    assert memory(found).target == 1 * GI
    assert reasons(found) == [Reason.CAPPED_BY_MAX, Reason.CAPPED_BY_GLOBAL_MAX]


def test_no_number_is_above_the_largest_node_r27() -> None:
    node = Surroundings(largest_node=Resources(4000, 8 * GI))
    found = cap(wanted(cpu=100_000, memory=100 * 1024 * GI), SizePolicy(), None, node)
    assert memory(found) == Range(8 * GI, 8 * GI, 8 * GI, 8 * GI)
    assert found.cpu == Range(4000, 4000, 4000, 4000)


def test_only_controlled_resources_are_recommended() -> None:
    policy = size_policy(ContainerPolicy(controlled_resources=["memory"]))
    found = cap(wanted(cpu=100, memory=GI), policy, None, Surroundings())
    assert found.cpu is None
    assert found.memory is not None


def test_a_container_with_mode_off_gets_no_recommendation() -> None:
    found = cap(wanted(cpu=100, memory=GI), size_policy(ContainerPolicy(mode="Off")), None, Surroundings())
    assert recommendation([found]) is None


def test_a_request_stays_below_a_limit_that_is_left_alone_r22() -> None:
    shown = Container("app", requests=Resources(100, 64 * MI), limits=Resources(200, 128 * MI))
    found = cap(wanted(cpu=500, memory=GI), SizePolicy(requests_only=True), shown, Surroundings())
    assert memory(found).target == 128 * MI
    assert reasons(found) == [Reason.CAPPED_BY_LIMIT, Reason.CAPPED_BY_LIMIT]


def test_a_limit_of_nothing_gets_no_request_r22() -> None:
    shown = Container("app", requests=Resources(0, None), limits=Resources(0, None))
    found = cap(wanted(cpu=500), SizePolicy(requests_only=True), shown, Surroundings())
    assert found.cpu is None
    assert reasons(found) == [Reason.BEST_EFFORT]


def test_a_limit_range_bounds_the_limit_that_follows_in_proportion_r18() -> None:
    shown = Container("app", requests=Resources(100, 100 * MI), limits=Resources(200, 400 * MI))
    found = cap(wanted(memory=GI), SizePolicy(), shown, within(most=Resources(None, GI)))
    assert memory(found).target == 256 * MI
    assert reasons(found) == [Reason.CAPPED_BY_LIMIT_RANGE]


def test_a_limit_range_wins_over_the_policys_minimum() -> None:
    policy = SizePolicy(min_allowed=Resources(memory_bytes=2 * GI))
    found = cap(wanted(memory=GI), policy, None, within(most=Resources(None, GI)))
    assert memory(found).target == GI


def test_a_limit_range_raises_to_its_minimum() -> None:
    found = cap(wanted(memory=MI), SizePolicy(), None, within(least=Resources(None, 64 * MI)))
    assert memory(found).target == 64 * MI


def test_limit_ranges_that_contradict_each_other_leave_nothing_to_recommend() -> None:
    around = Surroundings(
        limit_ranges=(
            LimitRange("ns", "low", (LimitRangeItem("Container", max=Resources(None, GI)),)),
            LimitRange("ns", "high", (LimitRangeItem("Container", min=Resources(None, 2 * GI)),)),
        )
    )
    found = cap(wanted(cpu=100, memory=GI), SizePolicy(), None, around)
    assert found.memory is None
    assert found.cpu is not None
    assert found.caps == (Cap(Resource.MEMORY, Reason.CONTRADICTION, GI, "LimitRange high, low"),)


def test_a_minimum_above_the_maximum_leaves_nothing_to_recommend() -> None:
    policy = size_policy(ContainerPolicy(min_allowed={"memory": "2Gi"}, max_allowed={"memory": "1Gi"}))
    found = cap(wanted(memory=GI), policy, None, Surroundings())
    assert found.memory is None
    assert reasons(found) == [Reason.CONTRADICTION]
    assert policy.problems == ("minAllowed.memory is above maxAllowed.memory; memory gets no recommendation",)


def test_a_minimum_that_no_node_has_leaves_nothing_to_recommend() -> None:
    around = replace(within(least=Resources(None, 2 * GI)), largest_node=Resources(None, GI))
    found = cap(wanted(memory=GI), SizePolicy(), None, around)
    assert found.memory is None
    assert reasons(found)[-1] is Reason.CONTRADICTION


def test_a_limit_that_follows_is_cut_before_its_request_falls_below_the_namespaces_minimum() -> None:
    shown = Container("app", requests=Resources(None, 100 * MI), limits=Resources(None, 800 * MI))
    found = cap(wanted(memory=GI), SizePolicy(), shown, within(Resources(None, GI), Resources(None, 256 * MI)))
    assert memory(found).target == 256 * MI


def test_each_cap_says_whose_it_is() -> None:
    around = Surroundings(Resources(1, MI), Resources(None, 6 * GI), Resources(None, 3 * GI))
    around = replace(
        around, limit_ranges=(LimitRange("ns", "lr", (LimitRangeItem("Container", max=Resources(None, 4 * GI)),)),)
    )
    policy = SizePolicy(max_allowed=Resources(memory_bytes=8 * GI))
    found = cap(wanted(memory=9 * GI), policy, None, around)
    assert [(one.reason, one.amount // GI, one.by) for one in found.caps] == [
        (Reason.CAPPED_BY_MAX, 8, "containerPolicies"),
        (Reason.CAPPED_BY_GLOBAL_MAX, 6, "the recommender's maximum"),
        (Reason.CAPPED_BY_LIMIT_RANGE, 4, "LimitRange lr"),
        (Reason.CAPPED_BY_NODE, 3, "the largest node"),
    ]


def test_a_resource_that_a_horizontal_autoscaler_scales_on_is_held() -> None:
    around = Surroundings(holds=(Hold(Resource.CPU, "HorizontalPodAutoscaler web"),))
    found = cap(wanted(cpu=100, memory=GI), SizePolicy(), None, around)
    assert found.cpu is None
    assert memory(found).target == GI
    assert found.caps == (Cap(Resource.CPU, Reason.SCALED_HORIZONTALLY, 100, "HorizontalPodAutoscaler web"),)


def test_only_the_container_that_a_horizontal_autoscaler_scales_on_is_held() -> None:
    around = Surroundings(holds=(Hold(Resource.CPU, "HorizontalPodAutoscaler web", "app"),))
    assert cap(wanted(cpu=100), SizePolicy(), None, around).cpu is None
    assert cap(wanted(cpu=100, name="proxy"), SizePolicy(), None, around).cpu is not None


def told(amount: int | None, resource: str = "memory", **more: Any) -> Container:
    """A container with 512Mi and twice that as its limit, whose process read a size at its start."""
    size = StartSize(resource, "env GOMEMLIMIT", amount)
    return Container("app", requests=Resources(1000, 512 * MI), limits=Resources(4000, GI), start_sizes=(size,), **more)


def test_a_process_that_read_its_limit_at_its_start_is_not_shrunk_while_it_runs_r15() -> None:
    found = cap(wanted(memory=300 * MI), SizePolicy(), told(None), Surroundings(in_place=True))
    assert memory(found).target == 512 * MI
    assert found.caps == (Cap(Resource.MEMORY, Reason.KEPT_FOR_RUNTIME, 512 * MI, "env GOMEMLIMIT"),)


def test_a_process_that_reads_its_limit_anew_when_it_is_recreated_may_shrink_r15() -> None:
    found = cap(wanted(memory=300 * MI), SizePolicy(), told(None), Surroundings())
    assert memory(found).target == 300 * MI
    assert found.caps == (Cap(Resource.MEMORY, Reason.SIZED_AT_START, 300 * MI, "env GOMEMLIMIT"),)


@pytest.mark.parametrize("in_place", [True, False])
def test_a_limit_stays_above_the_heap_that_a_process_was_told_r15(in_place: bool) -> None:
    found = cap(wanted(memory=100 * MI), SizePolicy(), told(700 * MI), Surroundings(in_place=in_place))
    assert memory(found).target == 350 * MI


def test_a_raise_is_told_to_take_effect_at_a_restart_r15() -> None:
    found = cap(wanted(memory=800 * MI), SizePolicy(), told(None), Surroundings(in_place=True))
    assert memory(found).target == 800 * MI
    assert reasons(found) == [Reason.SIZED_AT_START]


def test_a_limit_that_stays_lets_the_request_shrink_r15() -> None:
    found = cap(wanted(memory=300 * MI), SizePolicy(requests_only=True), told(None), Surroundings(in_place=True))
    assert memory(found).target == 300 * MI


def test_a_process_told_its_processors_at_its_start_is_told_of_a_change_r16() -> None:
    found = cap(wanted(cpu=250), SizePolicy(), told(4000, "cpu"), Surroundings(in_place=True))
    assert found.cpu is not None
    assert found.cpu.target == 250
    assert found.caps == (Cap(Resource.CPU, Reason.SIZED_AT_START, 250, "env GOMEMLIMIT"),)
    assert cap(wanted(cpu=1000), SizePolicy(), told(4000, "cpu"), Surroundings()).caps == ()


def test_memory_is_written_in_whole_bytes_rounded_up_r19() -> None:
    found = range_of((1.5, 731_815_514.666, 9e9), 1.0)
    assert found == Range(2, 731_815_515, 9_000_000_000, 731_815_515)
    made = recommendation([Capped("app", None, found)])
    assert made is not None
    [one] = made.container_recommendations or []
    assert one == ContainerRecommendation(
        container_name="app",
        target={"memory": "731815515"},
        lower_bound={"memory": "2"},
        upper_bound={"memory": "9000000000"},
        uncapped_target={"memory": "731815515"},
    )
    assert resource_list(Resources(None, parse_memory("731815514666m"))) == {"memory": "731815515"}


def test_thousandths_of_a_byte_are_shown_rounded_up_r20() -> None:
    assert parse_memory("107374182400m") == 107_374_183
    assert show_memory(parse_memory("107374182400m")) == "103Mi"


def test_quantities_are_read_as_kubernetes_reads_them_r21() -> None:
    assert [parse_memory(text) for text in ("129e6", "1E", "1e3", "0.1Ki")] == [129_000_000, 10**18, 1000, 103]
    assert [parse_cpu(text) for text in ("95647727n", ".5", "5.", "+1")] == [96, 500, 5000, 1000]


def test_a_policy_field_that_makes_no_sense_is_named_and_the_others_hold() -> None:
    found = size_policy(
        ContainerPolicy(
            mode="Sometimes",
            min_allowed={"cpu": "lots", "memory": "64Mi"},
            max_allowed={"memory": "32Mi"},
            controlled_resources=["memory", "gpu"],
            oom_bump_up_ratio="0.5",
            oom_min_bump_up="-1",
        )
    )
    assert found.min_allowed == Resources(None, 64 * MI)
    assert found.oom_bump_ratio is None
    named = [problem.split(":")[0].split(" ")[0] for problem in found.problems]
    assert named == [
        "mode",
        "controlledResources",
        "minAllowed.cpu",
        "minAllowed.memory",
        "oomBumpUpRatio",
        "oomMinBumpUp",
    ]


APART = LimitModes(memory=LimitMode.INDEPENDENT)


def test_a_limit_that_is_apart_does_not_narrow_its_request_by_a_ratio() -> None:
    shown = Container("app", requests=Resources(None, 256 * MI), limits=Resources(None, GI))
    around = within(most=Resources(None, GI))
    assert memory(cap(wanted(memory=600 * MI), SizePolicy(), shown, around)).target == 256 * MI
    found = cap(wanted(memory=600 * MI), SizePolicy(), shown, replace(around, limit_modes=APART))
    assert memory(found) == Range(300 * MI, 600 * MI, GI, 600 * MI)
    assert found.limit_apart(Resource.MEMORY) == GI


def test_a_limit_that_is_apart_stays_above_what_a_process_was_told_when_it_started() -> None:
    found = cap(wanted(memory=100 * MI), SizePolicy(), told(700 * MI), Surroundings(limit_modes=APART))
    assert memory(found) == Range(50 * MI, 100 * MI, 700 * MI, 100 * MI)


def test_requests_only_leaves_limits_alone_whatever_their_mode() -> None:
    shown = Container("app", requests=Resources(None, 256 * MI), limits=Resources(None, 512 * MI))
    found = cap(wanted(memory=600 * MI), SizePolicy(requests_only=True), shown, Surroundings(limit_modes=APART))
    assert memory(found).target == 512 * MI
    assert found.limit_apart(Resource.MEMORY) is None
