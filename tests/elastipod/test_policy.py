from hypothesis import given
from hypothesis import strategies as st

from elastipod.api import SPIKE_ANNOTATION, ElasticPolicy, ElasticPolicySpec, ObjectMeta, SpikePolicy, WorkloadSelector
from elastipod.pods import Pod, Workload
from elastipod.policy import DONATE_ANNOTATION, Ceiling, SpikeMode, effective_policy

WEB = Workload("shop", "Deployment", "web")


def pod(**annotations: str) -> Pod:
    return Pod("shop", "web-0", "uid", annotations=annotations, labels={"app": "web"})


def policy(
    name: str,
    *,
    spike: str | None = None,
    most: str | None = None,
    donate: bool | None = None,
    selector: WorkloadSelector | None = None,
    namespace: str = "shop",
) -> ElasticPolicy:
    memory_spike = SpikePolicy(spike, most) if spike or most else None
    spec = ElasticPolicySpec(selector=selector, memory_spike=memory_spike, donate=donate)
    return ElasticPolicy(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec)


def test_where_nobody_speaks_the_default_holds() -> None:
    found = effective_policy(pod(), WEB, [], Ceiling())
    assert (found.spike, found.donate, found.spike_source) == (SpikeMode.OFF, None, "default")


def test_the_pods_own_word_beats_a_policy() -> None:
    found = effective_policy(pod(**{SPIKE_ANNOTATION: "Off"}), WEB, [policy("all", spike="Pause")], Ceiling())
    assert found.spike is SpikeMode.OFF


def test_a_policy_by_name_beats_one_by_label_beats_one_by_kind() -> None:
    policies = [
        policy("a-kind", spike="Off", donate=False, selector=WorkloadSelector(kind="Deployment")),
        policy("b-label", spike="Off", donate=True, selector=WorkloadSelector(match_labels={"app": "web"})),
        policy("c-name", spike="Pause", selector=WorkloadSelector(name="web")),
    ]
    found = effective_policy(pod(), WEB, policies, Ceiling())
    assert (found.spike, found.donate) == (SpikeMode.PAUSE, True)


def test_a_kind_without_its_group_is_any_of_that_name() -> None:
    custom = Workload(WEB.namespace, "Deployment.apps.example.io", WEB.name)
    for kind, spike in (("Deployment", "Pause"), (custom.kind, "Pause"), ("StatefulSet", "Off")):
        policies = [policy("one", spike="Pause", selector=WorkloadSelector(kind=kind))]
        assert effective_policy(pod(), custom, policies, Ceiling()).spike == spike


def test_another_namespaces_policy_does_not_count() -> None:
    assert effective_policy(pod(), WEB, [policy("x", spike="Pause", namespace="b")], Ceiling()).spike is SpikeMode.OFF


def test_what_can_not_be_understood_is_named_and_does_not_count() -> None:
    found = effective_policy(
        pod(**{SPIKE_ANNOTATION: "pause", DONATE_ANNOTATION: "maybe"}),
        WEB,
        [policy("all", spike="Pause", most="12 GB")],
        Ceiling(),
    )
    assert found.spike is SpikeMode.PAUSE
    assert found.donate is False
    assert [problem.split(" is")[0].split(":")[0] for problem in found.problems] == [
        f"annotation {SPIKE_ANNOTATION}",
        f"annotation {DONATE_ANNOTATION}",
        "ElasticPolicy all spec.memorySpike.maxAllowed",
    ]


def test_a_bound_of_a_fraction_of_a_byte_does_not_count() -> None:
    found = effective_policy(pod(), WEB, [policy("all", spike="Pause", most="512m")], Ceiling())
    assert found.spike_max_bytes is None
    assert "did you mean 512Mi?" in found.problems[0]


selectors = st.none() | st.builds(
    WorkloadSelector,
    kind=st.sampled_from([None, "Deployment", "Job"]),
    name=st.sampled_from([None, "web", "other"]),
    match_labels=st.sampled_from([None, {}, {"app": "web"}, {"app": "db"}]),
)
policies = st.lists(
    st.builds(
        policy,
        st.text("abc", min_size=1, max_size=3),
        spike=st.sampled_from([None, "Pause", "Off", "pause", ""]),
        most=st.sampled_from([None, "1Gi", "64Mi", "9999999Ei", "-1", "x"]),
        donate=st.sampled_from([None, True, False]),
        selector=selectors,
    ),
    max_size=6,
)


@given(
    policies,
    st.dictionaries(st.sampled_from([SPIKE_ANNOTATION, DONATE_ANNOTATION]), st.sampled_from(["Pause", "true", "x"])),
    st.builds(
        Ceiling,
        spike=st.sampled_from(SpikeMode),
        default_spike=st.sampled_from(SpikeMode),
        spike_max_bytes=st.none() | st.integers(0, 2**31),
        may_donate=st.booleans(),
    ),
)
def test_nothing_stated_goes_past_the_ceiling(
    stated: list[ElasticPolicy], annotations: dict[str, str], ceiling: Ceiling
) -> None:
    found = effective_policy(pod(**annotations), WEB, stated, ceiling)
    assert ceiling.spike is SpikeMode.PAUSE or found.spike is SpikeMode.OFF
    assert ceiling.may_donate or not found.donate
    assert ceiling.spike_max_bytes is None or (found.spike_max_bytes or 0) <= ceiling.spike_max_bytes
