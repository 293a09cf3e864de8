"""A recommendation within what is allowed, and every cap told."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from elastipod.api import ContainerPolicy, ContainerRecommendation, resource_list
from elastipod.limits import LimitRange, LimitRangeItem
from elastipod.pods import Container
from elastipod.quantities import NOTHING, Resources, parse_cpu, parse_memory, show_memory
from elastipod.reasons import Reason
from recommender.capping import Cap, Capped, Range, Resource, Surroundings, cap, cap_pod, range_of
from recommender.policies import SizePolicy, size_policy
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
    assert found.caps == (Cap(Resource.MEMORY, Reason.RAISED_TO_FLOOR, 10 * MI),)


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


def test_a_limit_range_for_pods_cuts_all_containers_by_the_same_fraction() -> None:
    shown = [Container(name, requests=Resources(None, GI), limits=Resources(None, GI)) for name in ("a", "b")]
    around = within(most=Resources(None, 2 * GI), kind="Pod")
    found = cap_pod([wanted(memory=3 * GI, name="a"), wanted(memory=GI, name="b")], shown, around)
    assert [memory(one).target for one in found] == [3 * GI // 2, GI // 2]
    assert all(reasons(one) == [Reason.CAPPED_BY_LIMIT_RANGE] for one in found)


def test_a_limit_range_for_pods_leaves_room_for_containers_that_are_not_sized() -> None:
    shown = [Container(name, requests=Resources(None, GI), limits=Resources(None, GI)) for name in ("a", "b")]
    found = cap_pod([wanted(memory=3 * GI, name="a")], shown, within(most=Resources(None, 2 * GI), kind="Pod"))
    assert memory(found[0]).target == GI


amounts = st.integers(0, 2**50)
some = st.none() | amounts
resources = st.builds(Resources, some, some)


@given(
    st.tuples(amounts, amounts, amounts),
    resources,
    resources,
    resources,
    resources,
    resources,
    st.builds(Container, st.just("app"), requests=resources, limits=resources),
    st.booleans(),
)
def test_lower_bound_target_and_upper_bound_stay_in_order_through_every_cap(
    spans: Any, least: Any, most: Any, node: Any, low: Any, high: Any, shown: Container, only: bool
) -> None:
    lower, target, upper = sorted(spans)
    capped = Capped("app", Range(lower, target, upper, target), Range(lower, target, None, target))
    around = Surroundings(Resources(1, 10 * MI), most, node, within(high, low).limit_ranges)
    policy = SizePolicy(min_allowed=least, max_allowed=most, requests_only=only)
    [found] = cap_pod([cap(capped, policy, shown, around)], [shown], around)
    for span in (found.cpu, found.memory):
        if span is not None:
            assert span.lower <= span.target
            assert span.upper is None or span.target <= span.upper
    if found.memory is not None and node.memory_bytes is not None:
        assert max(found.memory.target, found.memory.uncapped) <= max(node.memory_bytes, 0)
    if found.cpu is not None and only and shown.limits.cpu_millicores is not None:
        assert found.cpu.target <= shown.limits.cpu_millicores


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
