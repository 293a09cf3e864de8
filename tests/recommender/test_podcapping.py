"""The containers of a pod together within what the pod may have, and everything at once for any combination."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from elastipod.limitmodes import LimitMode, LimitModes
from elastipod.limits import LimitRange, LimitRangeItem, Quota
from elastipod.pods import Container, ContainerKind, Pod
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from recommender.capping import Surroundings, cap, narrowest
from recommender.podcapping import cap_pod, cap_shapes, shapes_of
from recommender.policies import SizePolicy
from recommender.ranges import Cap, Capped, Range, Resource
from tests.recommender.test_capping import GI, memory, reasons, wanted, within


def containers(*names: str, limit: int = GI) -> tuple[Container, ...]:
    """Containers with a GiB of memory each."""
    return tuple(Container(name, requests=Resources(None, GI), limits=Resources(None, limit)) for name in names)


def pod(*shown: Container, **more: Any) -> Pod:
    return Pod("ns", "web-a", "u", phase="Running", containers=shown, **more)


def quota(**hard_and_used: int) -> Surroundings:
    return Surroundings(
        quotas=(
            Quota("ns", "q", {"requests.memory": hard_and_used["hard"]}, {"requests.memory": hard_and_used["used"]}),
        )
    )


def targets(found: tuple[Capped, ...]) -> list[int]:
    return [memory(one).target for one in found]


def test_a_limit_range_for_pods_cuts_all_containers_by_the_same_fraction() -> None:
    around = within(most=Resources(None, 2 * GI), kind="Pod")
    found = cap_pod([wanted(memory=3 * GI, name="a"), wanted(memory=GI, name="b")], containers("a", "b"), around)
    assert targets(found) == [3 * GI // 2, GI // 2]
    assert all(reasons(one) == [Reason.CAPPED_BY_LIMIT_RANGE] for one in found)


def test_a_limit_range_for_pods_leaves_room_for_containers_that_are_not_sized() -> None:
    around = within(most=Resources(None, 2 * GI), kind="Pod")
    assert targets(cap_pod([wanted(memory=3 * GI, name="a")], containers("a", "b"), around)) == [GI]


def test_a_limit_range_for_pods_raises_all_containers_by_the_same_fraction() -> None:
    around = within(least=Resources(None, 4 * GI), kind="Pod")
    found = cap_pod([wanted(memory=GI, name="a"), wanted(memory=GI // 2, name="b")], containers("a", "b", "c"), around)
    assert targets(found) == [2 * GI, GI]


def test_limits_that_are_apart_give_way_before_any_request_does() -> None:
    shown = containers("a", "b", limit=4 * GI)
    ones = [
        replace(wanted(memory=GI, name=name), limit_modes=LimitModes(memory=LimitMode.INDEPENDENT)) for name in "ab"
    ]
    found = cap_pod(ones, shown, within(most=Resources(None, 3 * GI), kind="Pod"))
    assert targets(found) == [GI, GI]
    assert [memory(one).upper for one in found] == [3 * GI // 2, 3 * GI // 2]


def test_what_gives_way_keeps_its_own_minimum() -> None:
    around = replace(
        within(least=Resources(None, GI)),
        limit_ranges=(
            *within(least=Resources(None, GI)).limit_ranges,
            *within(most=Resources(None, 3 * GI), kind="Pod").limit_ranges,
        ),
    )
    capped = [cap(wanted(memory=one * GI, name=name), SizePolicy(), None, around) for name, one in (("a", 4), ("b", 1))]
    assert targets(cap_pod(capped, containers("a", "b"), around)) == [2 * GI, GI]


def test_minima_that_are_more_than_the_pod_may_have_leave_nothing_to_recommend() -> None:
    ranges = (
        *within(least=Resources(None, 2 * GI)).limit_ranges,
        *within(most=Resources(None, 3 * GI), kind="Pod").limit_ranges,
    )
    around = Surroundings(limit_ranges=ranges)
    capped = [cap(wanted(memory=2 * GI, name=name), SizePolicy(), None, around) for name in "ab"]
    found = cap_pod(capped, containers("a", "b"), around)
    assert [one.memory for one in found] == [None, None]
    assert found[0].caps[-1] == Cap(Resource.MEMORY, Reason.CONTRADICTION, 2 * GI, "LimitRange lr")


def test_nothing_is_cut_to_next_to_nothing_r07() -> None:
    around = replace(within(most=Resources(None, GI), kind="Pod"), floor=Resources(1, GI // 8))
    shown = containers("a", "b")
    capped = cap(wanted(memory=GI, name="a"), SizePolicy(), shown[0], around)
    [found] = cap_pod([capped], shown, around)
    assert found.memory is None
    assert reasons(found) == [Reason.CONTRADICTION]
    [alone] = cap_pod([capped], shown[:1], around)
    assert memory(alone).target == GI


def test_a_pod_is_never_larger_than_the_largest_node() -> None:
    around = Surroundings(largest_node=Resources(None, 8 * GI))
    shown = containers("a", "b", "c")
    found = cap_pod(
        [wanted(memory=7 * GI, name="a"), wanted(memory=7 * GI, name="b")],
        shown,
        around,
        [pod(*shown, overhead=Resources(None, GI))],
    )
    assert targets(found) == [3 * GI, 3 * GI]
    assert found[0].caps == (Cap(Resource.MEMORY, Reason.CAPPED_BY_NODE, 3 * GI, "the largest node"),)


def test_the_pods_own_requests_bound_its_containers_together() -> None:
    shown = containers("a", "b")
    limited = pod(*shown, pod_requests=Resources(None, 3 * GI))
    found = cap_pod(
        [wanted(memory=2 * GI, name="a"), wanted(memory=4 * GI, name="b")], shown, Surroundings(), [limited]
    )
    assert targets(found) == [GI, 2 * GI]
    assert reasons(found[0]) == [Reason.CAPPED_BY_POD]


def test_pods_share_equally_what_a_quota_has_left() -> None:
    shown = containers("a")
    found = cap_pod([wanted(memory=5 * GI, name="a")], shown, quota(hard=10 * GI, used=6 * GI), [pod(*shown)] * 2)
    assert targets(found) == [3 * GI]
    assert found[0].caps == (Cap(Resource.MEMORY, Reason.CAPPED_BY_QUOTA, 3 * GI, "ResourceQuota q"),)


def test_a_quota_that_is_overdrawn_asks_nobody_to_shrink() -> None:
    shown = containers("a")
    found = cap_pod([wanted(memory=5 * GI, name="a")], shown, quota(hard=GI, used=10 * GI), [pod(*shown)])
    assert targets(found) == [GI]


def test_a_quota_for_some_pods_only_says_nothing_here() -> None:
    around = Surroundings(quotas=(Quota("ns", "q", {"requests.memory": GI}, {}, is_scoped=True),))
    shown = containers("a")
    assert targets(cap_pod([wanted(memory=5 * GI, name="a")], shown, around, [pod(*shown)])) == [5 * GI]


def test_a_quota_for_limits_bounds_the_limits_that_follow_r18() -> None:
    around = Surroundings(quotas=(Quota("ns", "q", {"limits.memory": 8 * GI}, {"limits.memory": 4 * GI}),))
    shown = containers("a", limit=4 * GI)
    assert targets(cap_pod([wanted(memory=5 * GI, name="a")], shown, around, [pod(*shown)])) == [2 * GI]


amounts = st.one_of(st.integers(0, 40), st.integers(0, 2**50))
some = st.none() | amounts
resources = st.builds(Resources, some, some)
items = st.builds(LimitRangeItem, st.sampled_from(["Container", "Pod"]), resources, resources)
limit_ranges = st.lists(st.builds(LimitRange, st.just("ns"), st.just("lr"), st.tuples(items)), max_size=3).map(tuple)


@st.composite
def shown_containers(draw: Any) -> tuple[Container, ...]:
    """Containers as the API server takes them: no request above its limit."""
    found = []
    for name in ("app", "proxy", "aside")[: draw(st.integers(1, 3))]:
        requests, limits = draw(resources), draw(resources)
        cpu = limits.cpu_millicores if limits.cpu_millicores is None else max(limits.cpu, requests.cpu)
        most = limits.memory_bytes if limits.memory_bytes is None else max(limits.memory, requests.memory)
        found.append(Container(name, requests=requests, limits=Resources(cpu, most)))
    return tuple(found)


@st.composite
def wanted_of(draw: Any, name: str) -> Capped:
    def span() -> Range | None:
        lower, target, upper = sorted(draw(st.tuples(amounts, amounts, amounts)))
        return draw(st.sampled_from([None, Range(lower, target, upper, target), Range(lower, target, None, target)]))

    return Capped(name, span(), span())


policies = st.builds(SizePolicy, min_allowed=resources, max_allowed=resources, requests_only=st.booleans())
surroundings = st.builds(
    Surroundings,
    floor=st.just(Resources(1, 10)),
    most=resources,
    largest_node=resources,
    limit_ranges=limit_ranges,
    limit_modes=st.builds(LimitModes, st.sampled_from(LimitMode), st.sampled_from(LimitMode)),
    in_place=st.booleans(),
)
quotas = st.builds(
    Quota,
    st.just("ns"),
    st.just("q"),
    st.dictionaries(st.sampled_from(["requests.cpu", "limits.memory", "requests.memory"]), amounts),
    st.dictionaries(st.sampled_from(["requests.cpu", "limits.memory", "requests.memory"]), amounts),
)


@given(st.data(), shown_containers(), surroundings, quotas, resources)
def test_every_combination_of_caps_leaves_sizes_that_all_of_them_allow_or_names_what_contradicts(
    data: Any, shown: tuple[Container, ...], around: Surroundings, one_quota: Quota, of_pod: Resources
) -> None:
    around = replace(around, quotas=(one_quota,))
    live = pod(*shown, pod_requests=of_pod)
    sized = shown[: data.draw(st.integers(1, len(shown)))]
    by_policy = {one.name: data.draw(policies) for one in sized}
    estimates = {one.name: data.draw(wanted_of(one.name)) for one in sized}
    capped = [cap(estimates[one.name], by_policy[one.name], one, around) for one in sized]
    found = cap_pod(capped, shown, around, [live])
    for one, container in zip(found, sized, strict=True):
        for resource in Resource:
            span = one.of(resource)
            if span is None:
                is_told = any(why.resource is resource for why in one.caps)
                assert is_told or estimates[one.container].of(resource) is None
                continue
            _is_allowed(resource, span, by_policy[one.container], container, around)
    for resource in Resource:
        if any(one.of(resource) is not None for one in found):
            _is_allowed_for_pod(resource, found, shown, around, of_pod)


def _is_allowed(resource: Resource, span: Range, policy: SizePolicy, shown: Container, around: Surroundings) -> None:
    assert span.lower <= span.target
    assert span.upper is None or span.target <= span.upper
    low, high, _ = narrowest(around.limit_ranges, "Container", resource)
    assert span.target >= (low or 0)
    for most in (high, resource.of(around.most) if low is None else None, resource.of(around.largest_node)):
        assert most is None or span.target <= most
    limit = resource.of(shown.limits)
    if policy.requests_only and limit is not None:
        assert span.target <= limit
    most = resource.of(policy.max_allowed)
    assert most is None or span.target <= max(most, low or 0)


def _is_allowed_for_pod(
    resource: Resource,
    found: tuple[Capped, ...],
    shown: tuple[Container, ...],
    around: Surroundings,
    of_pod: Resources,
) -> None:
    """Where the containers that are not sized leave no room at all, those that are get nothing."""
    sizes = {one.container: span.target for one in found if (span := one.of(resource)) is not None}
    asked = sum(sizes.get(one.name, resource.of(one.requests) or 0) for one in shown)
    low, _, _ = narrowest(around.limit_ranges, "Pod", resource)
    assert asked >= (low or 0)
    for most in (resource.of(of_pod), resource.of(around.largest_node)):
        assert most is None or asked <= most


def test_pods_of_two_shapes_are_each_within_their_own_bounds() -> None:
    """A rollout renames `a` to `b`: no pod has both, and both have the sidecar."""
    a, b, side = containers("a", "b", "side")
    pods = [pod(b, side), pod(a, side), pod(b, side)]
    shown = {one.name: one for one in (a, b, side)}
    capped = [wanted(memory=amount * GI, name=name) for name, amount in (("a", 3), ("b", 5), ("side", 1))]
    for around in (
        Surroundings(largest_node=Resources(None, 6 * GI)),
        within(most=Resources(None, 6 * GI), kind="Pod"),
    ):
        assert targets(cap_shapes(capped, shapes_of(pods, shown), around, pods)) == [3 * GI, 5 * GI, GI]
    around = Surroundings(largest_node=Resources(None, 5 * GI))
    tight = cap_shapes(capped, shapes_of(pods, shown), around, pods)
    assert targets(tight) == [3 * GI, 5 * GI * 5 // 6, GI * 5 // 6]
    assert [reasons(one) for one in tight] == [[], [Reason.CAPPED_BY_NODE], [Reason.CAPPED_BY_NODE]]


def test_a_pod_of_each_shape_has_what_a_limit_range_asks_at_least() -> None:
    a, b = containers("a", "b")
    pods, around = [pod(a), pod(b)], within(least=Resources(None, 2 * GI), kind="Pod")
    capped = [wanted(memory=GI, name="a"), wanted(memory=3 * GI, name="b")]
    assert targets(cap_shapes(capped, shapes_of(pods, {"a": a, "b": b}), around, pods)) == [2 * GI, 3 * GI]


@given(st.data(), shown_containers(), surroundings)
def test_whatever_shapes_live_none_is_above_what_holds_for_a_pod_or_something_is_told(
    data: Any, shown: tuple[Container, ...], around: Surroundings
) -> None:
    around = replace(around, limit_ranges=())
    of_pods = data.draw(st.lists(st.sets(st.sampled_from(shown), min_size=1), min_size=1, max_size=3))
    pods = [pod(*sorted(those, key=shown.index)) for those in of_pods]
    capped = [cap(data.draw(wanted_of(one.name)), SizePolicy(), one, around) for one in shown]
    found = {
        one.container: one for one in cap_shapes(capped, shapes_of(pods, {one.name: one for one in shown}), around)
    }
    for one in pods:
        for resource in Resource:
            most, of_pod = resource.of(around.largest_node), [found[container.name] for container in one.containers]
            spans = [span for has in of_pod if (span := has.of(resource)) is not None]
            if most is not None and len(spans) == len(of_pod):
                assert sum(span.target for span in spans) <= most


def test_an_init_container_is_no_part_of_what_is_shared() -> None:
    shown = (*containers("app"), Container("migrate", ContainerKind.INIT, requests=Resources(None, 6 * GI)))
    around = Surroundings(largest_node=Resources(None, 8 * GI))
    assert targets(cap_pod([wanted(memory=7 * GI)], shown[:1], around, [pod(*shown)])) == [7 * GI]


def test_fractions_lose_no_byte_above_a_bound() -> None:
    shown = tuple(Container(name, requests=Resources(None, 3), limits=Resources(None, 7)) for name in "ab")
    around = within(most=Resources(None, 10), kind="Pod")
    found = cap_pod([wanted(memory=5, name="a"), wanted(memory=4, name="b")], shown, around)
    assert sum(Fraction(memory(one).target * 7, 3) for one in found) <= 10
