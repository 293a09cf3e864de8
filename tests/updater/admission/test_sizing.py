"""What holds for every size at creation, whatever pod, advice and bounds."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.api import BOOST_ANNOTATION, UpdateMode
from elastipod.limitmodes import LimitMode, LimitModes
from elastipod.limits import LimitRange, LimitRangeItem, Quota
from elastipod.pods import Container, ContainerKind, Pod, QosClass
from elastipod.quantities import NOTHING, Resources
from elastipod.reasons import Reason
from tests.updater.build import Mi, advice, amounts, container, facts, limit_range, pod, size
from updater.admission.sizing import Sizing, size_at_creation
from updater.boost import Boost
from updater.boosted import boost_text
from updater.facts import Facts
from updater.precheck import limit_range_problem
from updater.shape import container_bounds, qos_class, with_sizes
from updater.sizes import Advice, ContainerAdvice, size_of

_amount = st.one_of(st.integers(1, 40), st.integers(1, 4_000))
_maybe = st.none() | _amount


@st.composite
def _resources(draw: st.DrawFn) -> Resources:
    return Resources(draw(_maybe), draw(_maybe))


@st.composite
def _containers(draw: st.DrawFn, name: str) -> Container:
    """A container as the API server lets it in: request at most limit, and defaulted from it."""
    limits, requests = draw(_resources()), draw(_resources())
    if draw(st.booleans()):
        requests = limits
    requests = requests.or_else(limits)
    cpu = None if requests.cpu_millicores is None else min(requests.cpu, limits.cpu_millicores or requests.cpu)
    memory = None if requests.memory_bytes is None else min(requests.memory, limits.memory_bytes or requests.memory)
    return Container(name, draw(st.sampled_from(ContainerKind)), Resources(cpu, memory), limits)


@st.composite
def _pods(draw: st.DrawFn) -> Pod:
    names = ("app", "proxy", "setup")[: draw(st.integers(1, 3))]
    return Pod("shop", "", "", containers=tuple(draw(_containers(name)) for name in names))


@st.composite
def _facts(draw: st.DrawFn) -> Facts:
    advised = {}
    for name in draw(st.sets(st.sampled_from(("app", "proxy", "setup")))):
        least, most = draw(_resources()), draw(_resources())
        target, upper = draw(_resources()), draw(_resources())
        advised[name] = ContainerAdvice(target, target, upper, least, most.or_else(NOTHING), draw(st.booleans()))
    stated = {}
    for name in draw(st.sets(st.sampled_from(("app", "proxy")))):
        requests, limits = draw(_resources()), draw(_resources())
        if not (requests.is_empty and limits.is_empty):
            stated[name] = size(
                Resources(
                    requests.cpu_millicores and min(requests.cpu, limits.cpu_millicores or requests.cpu),
                    requests.memory_bytes and min(requests.memory, limits.memory_bytes or requests.memory),
                ),
                limits,
            )
    ranges: tuple[LimitRange, ...] = ()
    if draw(st.booleans()):
        ratio = draw(st.none() | st.sampled_from((1.0, 1.5, 2.0)))
        item = LimitRangeItem("Container", draw(_resources()), draw(_resources()), max_ratio_cpu=ratio)
        ranges = (LimitRange("shop", "bounds", (item,)),)
    boost = st.none() | st.builds(Boost, st.integers(1, 5), st.integers(0, 50), moves_limits=st.booleans())
    boosts = {name: draw(boost) for name in draw(st.sets(st.sampled_from(("app", "*", ""))))}
    mode = draw(st.sampled_from((UpdateMode.INITIAL, UpdateMode.OFF)))
    found = Advice("vpa", mode, "elastipod", advised, boosts=boosts)
    modes = LimitModes(draw(st.sampled_from(LimitMode)), draw(st.sampled_from(LimitMode)))
    return Facts(found, stated=stated, limit_ranges=ranges, bounds=container_bounds(ranges), modes=modes)


def _created(pod: Pod, sizing: Sizing) -> Pod:
    return msgspec.structs.replace(
        pod,
        annotations={BOOST_ANNOTATION: boost_text(sizing.boosts)} if sizing.boosts else {},
        containers=tuple(
            msgspec.structs.replace(one, requests=found.requests, limits=found.limits)
            if (found := sizing.sizes.get(one.name))
            else one
            for one in pod.containers
        ),
    )


def _class_of(pod: Pod) -> QosClass:
    return qos_class(with_sizes(pod, {}))


@given(_pods(), _facts())
def test_whatever_is_asked_a_second_time_adds_nothing(pod: Pod, facts: Facts) -> None:
    made = _created(pod, size_at_creation(pod, facts))
    assert size_at_creation(made, facts).sizes == {}


@given(_pods(), _facts())
def test_a_sized_pod_is_one_that_the_api_server_takes(pod: Pod, facts: Facts) -> None:
    sizing = size_at_creation(pod, facts)
    made = _created(pod, sizing)
    assert all(size != size_of(one) for one in pod.containers if (size := sizing.sizes.get(one.name)))
    if sizing.sizes:
        assert limit_range_problem(made, {}, facts.limit_ranges) == ""
        for one in made.containers:
            if one.name in sizing.sizes:
                assert one.kind is not ContainerKind.INIT
                assert one.limits.cpu_millicores is None or one.requests.cpu <= one.limits.cpu
                assert one.limits.memory_bytes is None or one.requests.memory <= one.limits.memory


@given(_pods(), _facts())
def test_the_qos_class_stays_unless_there_was_none(pod: Pod, facts: Facts) -> None:
    made = _created(pod, size_at_creation(pod, facts))
    if _class_of(pod) is not QosClass.BEST_EFFORT:
        assert _class_of(made) is _class_of(pod)


def test_a_guaranteed_pod_keeps_request_and_limit_equal() -> None:
    both = amounts("500m", "512Mi")
    sizing = size_at_creation(pod(container(requests=both, limits=both)), facts(advice(amounts("250m", "300Mi"))))
    assert sizing.sizes == {"app": size(amounts("250m", "300Mi"), amounts("250m", "300Mi"))}


def test_a_guaranteed_pod_whose_limits_shall_stay_keeps_its_size() -> None:
    both = amounts("500m", "512Mi")
    found = advice(amounts("250m", "300Mi"), moves_limits=False)
    sizing = size_at_creation(pod(container(requests=both, limits=both)), facts(found))
    assert (sizing.sizes, sizing.reason) == ({}, Reason.KEPT_QOS_CLASS)


def test_requests_only_leaves_the_limit_and_stays_below_it() -> None:
    found = advice(amounts("2", "300Mi"), moves_limits=False)
    sizing = size_at_creation(pod(), facts(found))
    assert sizing.sizes == {"app": size(amounts("1", "300Mi"), amounts("1", "1Gi"))}


def test_a_target_within_the_bounds_is_taken_too_as_upstream_does() -> None:
    found = advice(amounts("510m"), lower=amounts("100m"), upper=amounts("1"))
    assert size_at_creation(pod(), facts(found)).sizes["app"].requests == amounts("510m", "512Mi")


def test_a_resource_that_is_not_controlled_stays() -> None:
    assert size_at_creation(pod(), facts(advice(amounts("510m")))).sizes["app"].requests.memory == 512 * Mi


def test_a_pod_whose_sum_a_limit_range_forbids_keeps_its_size() -> None:
    found = limit_range(LimitRangeItem("Pod", max=amounts("1")))
    sizing = size_at_creation(pod(), facts(advice(amounts("900m")), **found))
    assert (sizing.sizes, sizing.reason) == ({}, Reason.LIMIT_RANGE)


def test_the_quota_counts_what_the_whole_pod_asks_for() -> None:
    quota = Quota("shop", "share", {"requests.cpu": 1_000}, {"requests.cpu": 400})
    within, above = facts(advice(amounts("600m"))), facts(advice(amounts("601m")))
    assert size_at_creation(pod(), within, (quota,)).reason is Reason.SIZED_AT_CREATION
    assert size_at_creation(pod(), above, (quota,)).reason is Reason.QUOTA_EXCEEDED


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"is_mirror": True}, Reason.MIRROR_POD), ({"has_pod_level_resources": True}, Reason.UNSUPPORTED_POD)],
)
def test_static_pods_and_pods_sized_as_a_whole_are_left_alone(change: dict[str, bool], reason: Reason) -> None:
    found = msgspec.structs.replace(pod(), **change)
    sizing = size_at_creation(found, facts(advice(amounts("250m"))))
    assert (sizing.sizes, sizing.reason) == ({}, reason)


def test_a_status_that_claims_a_qos_class_does_not_count() -> None:
    claimed = msgspec.structs.replace(pod(), qos_class=QosClass.GUARANTEED)
    found = facts(advice(amounts("250m"), moves_limits=False))
    assert size_at_creation(claimed, found).reason is Reason.SIZED_AT_CREATION


def test_a_limit_is_in_proportion_to_the_request_that_a_limit_range_leaves() -> None:
    found = facts(advice(amounts("10m")), **limit_range(LimitRangeItem("Container", min=amounts("50m"))))
    made = size_at_creation(pod(container(requests=amounts("100m"), limits=amounts("200m"))), found)
    assert made.sizes["app"] == size(amounts("50m"), amounts("100m"))
