import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.api import UpdateMode
from elastipod.headroom import least_limit
from elastipod.limitmodes import LimitMode, LimitModes
from elastipod.limits import LimitRangeItem
from elastipod.pods import Pod, QosClass
from elastipod.quantities import Resources
from elastipod.reasons import Reason
from tests.updater.build import NOW, Mi, advice, amounts, container, facts, limit_range, pod, size, usage
from updater.facts import Facts, Urgency
from updater.fleet import Fleet
from updater.plan import decide, in_order, restarts, unclaimed
from updater.precheck import limit_range_problem
from updater.shape import qos_class, with_sizes
from updater.sizes import Size
from updater.steps import held_memory_limit


def after(found: Pod, sizes: dict[str, Size]) -> Pod:
    """The pod once the sizes are in force."""
    return msgspec.structs.replace(
        found,
        containers=tuple(
            msgspec.structs.replace(
                one,
                requests=sizes[one.name].requests,
                limits=sizes[one.name].limits,
                allocated=sizes[one.name].requests,
                actual_requests=sizes[one.name].requests,
                actual_limits=sizes[one.name].limits,
            )
            if one.name in sizes
            else one
            for one in found.containers
        ),
    )


def test_a_pod_between_its_bounds_is_left_alone() -> None:
    held = pod(container(requests=amounts("2", "2Gi")))
    found = facts(advice(amounts(memory="2100Mi"), lower=amounts(memory="1536Mi"), upper=amounts(memory="2560Mi")))
    assert decide(held, found, NOW).reason is Reason.WITHIN_BOUNDS


def test_a_pod_below_its_lower_bound_gets_its_target_and_the_limit_keeps_its_proportion() -> None:
    decision = decide(pod(), facts(advice(amounts("1", "1Gi"))), NOW)
    assert decision.reason is Reason.OUTSIDE_BOUNDS
    assert decision.resize is not None
    assert decision.resize.urgency is Urgency.STARVED
    assert decision.resize.sizes == {"app": size(amounts("1", "1Gi"), amounts("2", "2Gi"))}


def test_within_bounds_and_a_tenth_off_waits_for_the_cool_down() -> None:
    found = advice(amounts("600m"), lower=amounts("400m"), upper=amounts("2"))
    waiting = decide(pod(), facts(found, resized_at=NOW - 60), NOW)
    assert (waiting.reason, waiting.look_again_at) == (Reason.COOLING_DOWN, NOW - 60 + 3600)
    later = decide(pod(), facts(found, resized_at=NOW - 3600), NOW)
    assert later.reason is Reason.DRIFTED


def test_less_than_a_tenth_off_is_left_alone() -> None:
    found = advice(amounts("520m"), lower=amounts("400m"), upper=amounts("2"))
    assert decide(pod(), facts(found), NOW).reason is Reason.WITHIN_BOUNDS


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        (UpdateMode.OFF, Reason.MODE_OFF),
        (UpdateMode.INITIAL, Reason.MODE_INITIAL),
        (UpdateMode.RECREATE, Reason.MODE_INITIAL),
        (UpdateMode.IN_PLACE, Reason.OUTSIDE_BOUNDS),
        (UpdateMode.IN_PLACE_OR_RECREATE, Reason.OUTSIDE_BOUNDS),
        (UpdateMode.AUTO, Reason.OUTSIDE_BOUNDS),
    ],
)
def test_the_mode_decides_whether_running_pods_are_touched(mode: UpdateMode, reason: Reason) -> None:
    assert decide(pod(), facts(advice(amounts("1"), mode=mode)), NOW).reason is reason


def test_a_guaranteed_pod_keeps_request_and_limit_equal() -> None:
    held = pod(container(requests=amounts("1", "1Gi"), limits=amounts("1", "1Gi")))
    resize = decide(held, facts(advice(amounts("2", "2Gi"))), NOW).resize
    assert resize is not None
    assert resize.sizes == {"app": size(amounts("2", "2Gi"), amounts("2", "2Gi"))}


def test_a_guaranteed_pod_under_requests_only_is_left_alone() -> None:
    held = pod(container(requests=amounts("1", "1Gi"), limits=amounts("1", "1Gi")))
    assert decide(held, facts(advice(amounts("2"), moves_limits=False)), NOW).reason is Reason.KEPT_QOS_CLASS


def test_a_burstable_pod_never_lands_on_equality() -> None:
    held = pod(container(requests=amounts("500m", "1Gi"), limits=amounts("1", "1Gi")))
    resize = decide(held, facts(advice(amounts("1"), moves_limits=False)), NOW).resize
    assert resize is not None
    assert resize.sizes["app"].requests.cpu_millicores == 999


def test_a_best_effort_pod_stays_as_it_is() -> None:
    held = pod(container(requests=Resources(0, 0), limits=Resources(0, 0)))
    assert decide(held, facts(advice(amounts("1", "1Gi"))), NOW).reason is Reason.BEST_EFFORT


def test_a_container_with_zero_stated_gets_both_or_nothing() -> None:
    held = pod(container("a", Resources(0, 0), Resources(0, 0)), container("app2", amounts("1", "1Gi")))
    resize = decide(held, facts(advice(amounts("1", "64Mi"), name="a")), NOW).resize
    assert resize is not None
    assert resize.sizes["a"] == size(amounts("1", "64Mi"), amounts("1", "64Mi"))


def test_a_written_limit_stays_within_max_allowed() -> None:
    held = pod(container(requests=amounts(memory="1Mi"), limits=amounts(memory="1Gi")))
    decision = decide(held, facts(advice(amounts(memory="1Gi"), most=amounts(memory="8Gi"))), NOW)
    assert decision.resize is not None
    assert decision.resize.sizes["app"].limits.memory_bytes == 8192 * Mi
    assert Reason.CAPPED_BY_MAX in decision.notes


def test_a_written_limit_stays_within_the_limit_range() -> None:
    found = facts(
        advice(amounts("1", "1Gi")),
        **limit_range(LimitRangeItem("Container", max=amounts("1500m", "1536Mi"))),
    )
    resize = decide(pod(), found, NOW).resize
    assert resize is not None
    assert resize.sizes["app"].limits == amounts("1500m", "1536Mi")


def test_a_limit_range_of_the_pod_forbids_with_its_name() -> None:
    found = facts(advice(amounts("1", "1Gi")), **limit_range(LimitRangeItem("Pod", max=amounts("1", "1Gi"))))
    decision = decide(pod(), found, NOW)
    assert (decision.reason, decision.resize) == (Reason.LIMIT_RANGE, None)
    assert "LimitRange bounds: its cpu limit must be at most 1 for the pod" in decision.message


def test_memory_is_not_lowered_without_a_fresh_sample() -> None:
    found = advice(amounts(memory="256Mi"))
    for known in ({}, {"app": usage("100Mi", age=16)}):
        decision = decide(pod(), facts(found, usage=known), NOW)
        assert (decision.reason, decision.resize, decision.needs_usage) == (Reason.STALE_DATA, None, True)


def test_a_memory_limit_goes_down_a_fifth_at_a_time_and_the_request_with_it() -> None:
    resize = decide(pod(), facts(advice(amounts(memory="256Mi")), usage={"app": usage("100Mi")}), NOW).resize
    assert resize is not None
    assert resize.sizes["app"].limits.memory_bytes == -(-1024 * Mi * 8 // 10)
    assert resize.sizes["app"].requests.memory == resize.sizes["app"].limits.memory // 2
    assert not resize.is_last_step


def test_a_memory_limit_is_never_asked_to_where_the_actuator_would_raise_it() -> None:
    held = pod(container(requests=amounts("500m", "1Gi"), limits=amounts("1", "1Gi")))
    found = advice(amounts(memory="256Mi"))
    decision = decide(held, facts(found, usage={"app": usage("850Mi")}), NOW)
    assert decision.resize is not None
    assert decision.resize.sizes["app"].limits.memory == least_limit(850 * Mi) > 935 * Mi
    assert Reason.KEPT_ABOVE_USAGE in decision.notes
    leapt = msgspec.structs.replace(usage("100Mi"), memory_peak_bytes=850 * Mi)
    assert decide(held, facts(found, usage={"app": leapt}), NOW).resize == decision.resize
    wavering = decide(held, facts(found, usage={"app": usage("900Mi")}), NOW)
    assert (wavering.resize, wavering.reason) == (None, Reason.KEPT_ABOVE_USAGE)


def test_a_request_without_a_limit_goes_down_at_once() -> None:
    held = pod(container(requests=amounts("1", "4Gi")))
    resize = decide(held, facts(advice(amounts(memory="256Mi")), usage={"app": usage("100Mi")}), NOW).resize
    assert resize is not None
    assert resize.sizes["app"].requests.memory_bytes == 256 * Mi
    assert resize.is_last_step


def test_a_young_container_is_not_shrunk() -> None:
    held = pod(container(requests=amounts("1", "4Gi"), started_at=NOW - 30))
    decision = decide(held, facts(advice(amounts(memory="256Mi")), usage={"app": usage("100Mi")}), NOW)
    assert decision.reason is Reason.COOLING_DOWN


def test_a_falling_memory_limit_travels_alone() -> None:
    found = facts(advice(amounts("1", "256Mi")), usage={"app": usage("100Mi")})
    first = decide(pod(), found, NOW).resize
    assert first is not None
    assert first.sizes == {"app": size(amounts("1", "512Mi"), amounts("2", "1Gi"))}
    second = decide(after(pod(), first.sizes), found, NOW).resize
    assert second is not None
    assert second.sizes["app"].requests.cpu == 1000
    assert second.sizes["app"].limits.memory < 1024 * Mi


def test_no_patch_carries_less_memory_than_the_container_was_given() -> None:
    raised = container(requests=amounts("500m", "512Mi"), limits=amounts("1", "1Gi"), actual_limits=amounts("1", "2Gi"))
    resize = decide(pod(raised), facts(advice(amounts("1", "512Mi"))), NOW).resize
    assert resize is not None
    assert resize.sizes["app"] == size(amounts("1", "512Mi"), amounts("2", "2Gi"))


def test_a_killed_container_goes_first_and_without_cool_down() -> None:
    killed = pod(container(requests=amounts("1", "1Gi"), limits=amounts("2", "1Gi"), killed=True), name="a")
    starved = pod(name="b")
    found = facts(advice(amounts(memory="1200Mi"), lower=amounts(memory="1Gi")), resized_at=NOW - 1)
    resizes = [decide(starved, facts(advice(amounts("9"))), NOW).resize, decide(killed, found, NOW).resize]
    assert [(one.key, one.reason) for one in in_order(filter(None, resizes), {})] == [
        ("shop/a", Reason.OOM_KILLED),
        ("shop/b", Reason.OUTSIDE_BOUNDS),
    ]


def test_the_order_is_killed_asked_starved_stated_saving() -> None:
    stated = {"app": size(amounts("2"))}
    cases = {
        "saving": (pod(name="saving"), facts(advice(amounts("100m")))),
        "stated": (pod(name="stated"), facts(stated=stated)),
        "starved": (pod(name="starved"), facts(advice(amounts("2")))),
        "asked": (pod(name="asked"), facts(stated=stated, asked=True)),
    }
    resizes = [decide(one, found, NOW).resize for one, found in cases.values()]
    found = [one.key.partition("/")[2] for one in in_order(filter(None, resizes), {})]
    assert found == ["asked", "starved", "stated", "saving"]


def test_a_stated_size_beats_the_recommendation_and_drags_the_limit_only_as_far_as_needed() -> None:
    found = facts(advice(amounts("4")), stated={"app": size(amounts("800m", "2Gi"))})
    resize = decide(pod(), found, NOW).resize
    assert resize is not None
    assert resize.reason is Reason.STATED_ON_WORKLOAD
    assert resize.sizes["app"] == size(amounts("800m", "2Gi"), amounts("1", "2Gi"))


def test_a_stated_size_that_would_change_the_qos_class_is_refused_by_name() -> None:
    held = pod(container(requests=amounts("1", "1Gi"), limits=amounts("1", "1Gi")))
    decision = decide(held, facts(stated={"app": size(limits=amounts("2"), requests=amounts("1"))}), NOW)
    assert (decision.reason, decision.resize) == (Reason.QOS_CLASS, None)


def test_a_container_without_advice_makes_no_one_act() -> None:
    held = pod(container("a", amounts("1", "1Gi")), container("b", amounts("1", "1Gi")))
    found = advice(amounts("1", "1Gi"), name="b")
    assert decide(held, facts(found), NOW).resize is None


def test_two_autoscalers_on_one_pod_act_not_at_all() -> None:
    assert decide(pod(), facts(conflict=True), NOW).reason is Reason.CONFLICT
    assert decide(pod(), facts(foreign="default"), NOW).reason is Reason.NOT_OURS


def test_in_a_namespace_that_is_off_no_advice_counts_and_the_reason_is_told() -> None:
    fleet = Fleet(["elastipod"], ["shop"])
    assert decide(pod(), fleet.facts_of(pod()), NOW).reason is Reason.NAMESPACE_OFF
    assert unclaimed(fleet.facts_of(pod())) is Reason.NAMESPACE_OFF


def test_a_donor_is_not_raised_by_its_recommendation() -> None:
    found = facts(advice(amounts("1")), given={"app": amounts("500m")})
    decision = decide(pod(), found, NOW)
    assert decision.resize is None
    assert Reason.DONATED in decision.notes


def test_a_restart_is_seen_only_for_the_resource_that_asks_for_it() -> None:
    held = pod(container(requests=amounts("1", "1Gi"), memory_restart=True))
    assert not restarts(held, {"app": size(amounts("2", "1Gi"))})
    assert restarts(held, {"app": size(amounts("1", "2Gi"))})


def test_a_pod_that_can_not_be_resized_says_why() -> None:
    plain = pod()
    found = facts(advice(amounts("1")))
    for change, reason in (
        ({"is_mirror": True}, Reason.MIRROR_POD),
        ({"is_windows": True}, Reason.UNSUPPORTED_POD),
        ({"has_pod_level_resources": True}, Reason.UNSUPPORTED_POD),
        ({"phase": "Pending"}, Reason.NOT_RUNNING),
        ({"deletion_at": NOW}, Reason.NOT_RUNNING),
    ):
        assert decide(msgspec.structs.replace(plain, **change), found, NOW).reason is reason
    blind = msgspec.structs.replace(plain.containers[0], actual_requests=None)
    assert decide(msgspec.structs.replace(plain, containers=(blind,)), found, NOW).reason is Reason.UNSUPPORTED_NODE


def test_at_the_cap_the_state_says_so() -> None:
    held = pod(container(requests=amounts("1", "8Gi"), limits=amounts(memory="12Gi")))
    decision = decide(held, facts(advice(amounts("1", "8Gi"), most=amounts(memory="8Gi"))), NOW)
    assert (decision.resize, decision.notes) == (None, (Reason.CAPPED_BY_MAX,))


cpus = st.integers(1, 64_000)
memories = st.integers(1, 64 * 1024).map(lambda mebibytes: mebibytes * Mi)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    containers = []
    for index in range(draw(st.integers(1, 3))):
        shape = draw(st.sampled_from(["guaranteed", "burstable", "requests", "memory", "none"]))
        requests = Resources(draw(cpus), draw(memories))
        limits = Resources(requests.cpu + draw(st.integers(0, 9000)), requests.memory + draw(memories))
        if shape == "guaranteed":
            limits = requests
        elif shape == "requests":
            limits = Resources()
        elif shape == "memory":
            limits = Resources(None, limits.memory)
        elif shape == "none":
            requests = limits = Resources()
        containers.append(container(f"c{index}", requests, limits))
    return pod(*containers)


@st.composite
def advised(draw: st.DrawFn, held: Pod) -> Facts:
    one = {}
    for container_ in held.containers:
        if draw(st.booleans()):
            target = Resources(draw(st.none() | cpus), draw(st.none() | memories))
            most = Resources(draw(st.none() | cpus), draw(st.none() | memories))
            upper = Resources(draw(st.none() | cpus), draw(st.none() | memories))
            found = advice(target, upper=upper, most=most, moves_limits=draw(st.booleans()))
            one[container_.name] = found.containers["app"]
    known = {
        container_.name: usage(f"{draw(st.integers(0, 64 * 1024))}Mi", age=draw(st.sampled_from([1.0, 14.9, 15.1])))
        for container_ in held.containers
    }
    stated = {
        container_.name: size(Resources(draw(st.none() | cpus), draw(st.none() | memories)))
        for container_ in held.containers
        if draw(st.integers(0, 4)) == 0
    }
    item = LimitRangeItem(
        draw(st.sampled_from(["Container", "Pod"])),
        max=Resources(draw(st.none() | cpus), draw(st.none() | memories)),
        max_ratio_memory=draw(st.none() | st.sampled_from((1.0, 1.5, 4.0))),
    )
    return facts(
        msgspec.structs.replace(advice(Resources()), containers=one),
        usage=known,
        stated=stated,
        modes=LimitModes(draw(st.sampled_from(LimitMode)), draw(st.sampled_from(LimitMode))),
        **(limit_range(item) if draw(st.booleans()) else {}),
    )


@given(st.data())
def test_every_step_keeps_qos_request_below_limit_and_memory_above_usage(data: st.DataObject) -> None:
    held = data.draw(pods())
    found = data.draw(advised(held))
    resize = decide(held, found, NOW).resize
    if resize is None:
        return
    whole = with_sizes(held, resize.sizes)
    assert qos_class(whole) is held.qos_class
    assert held.qos_class is not QosClass.BEST_EFFORT
    lowered = 0
    for name, new in resize.sizes.items():
        old = held.container(name)
        assert old is not None
        for request, limit in (
            (new.requests.cpu_millicores, new.limits.cpu_millicores),
            (new.requests.memory_bytes, new.limits.memory_bytes),
        ):
            assert limit is None or request is None or request <= limit
        before, now_limit = held_memory_limit(old), new.limits.memory_bytes
        if before is not None:
            assert now_limit is not None
            if now_limit < before:
                lowered += 1
                sample = found.usage[name]
                assert NOW - sample.at <= 15
                assert now_limit >= sample.memory_bytes * 1.1
                assert now_limit >= before * 0.8
        if old.requests.cpu_millicores is not None:
            assert new.requests.cpu_millicores is not None
    assert limit_range_problem(held, resize.sizes, found.limit_ranges) == ""


@given(st.data())
def test_following_the_advice_ends_at_a_fixpoint(data: st.DataObject) -> None:
    held = data.draw(pods())
    found = data.draw(advised(held))
    known = {name: usage("1Mi") for name in found.usage}
    found = msgspec.structs.replace(found, usage=known)
    for _ in range(80):
        resize = decide(held, found, NOW).resize
        if resize is None:
            break
        held = after(held, resize.sizes)
        found = msgspec.structs.replace(found, on_the_way=not resize.is_last_step)
    assert decide(held, found, NOW).resize is None
