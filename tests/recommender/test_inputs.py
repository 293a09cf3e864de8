"""What comes from outside: usage, VerticalPodAutoscalers, clocks, settings."""

import dataclasses
import json
import random
from typing import Any

import pytest

from elastipod.clock import ManualClock
from elastipod.kube.decoding import BadObject
from elastipod.pods import Workload
from elastipod.quantities import Resources
from elastipod.settings import SettingsError, load_settings
from recommender.claims import claim_decoder
from recommender.settings import RecommenderSettings
from recommender.sources.metrics_api import UsageReading, read_pod_metrics
from recommender.timeline import Timeline
from tests.recommender.world import autoscaler_json

MI = 1024**2


def metrics(*containers: Any, **more: Any) -> bytes:
    return json.dumps(
        {
            "metadata": {"name": "web-a", "namespace": "ns"},
            "timestamp": "2026-11-29T12:00:00Z",
            "window": "30s",
            "containers": list(containers),
            **more,
        }
    ).encode()


def usage(name: str = "app", cpu: Any = "95647727n", memory: Any = "2048Ki") -> dict[str, Any]:
    return {"name": name, "usage": {"cpu": cpu, "memory": memory}}


def read(*bodies: bytes) -> UsageReading:
    reading = UsageReading()
    for body in bodies:
        read_pod_metrics(body, reading)
    return reading


def test_usage_is_read_in_cores_and_bytes() -> None:
    [sample] = read(metrics(usage())).samples
    assert (sample.namespace, sample.pod, sample.container) == ("ns", "web-a", "app")
    assert (sample.cpu_cores, sample.memory_bytes) == (0.095647727, 2 * MI)


@pytest.mark.parametrize(("text", "cores"), [("250m", 0.25), ("2", 2.0), (3, 3.0), ("1e-1", 0.1), ("0", 0.0)])
def test_usage_is_read_in_every_form_r21(text: Any, cores: float) -> None:
    [sample] = read(metrics(usage(cpu=text))).samples
    assert sample.cpu_cores == cores


@pytest.mark.parametrize("bad", ["NaN", "+Inf", "-1", -5, "1e308", "", "lots", "9" * 5000])
def test_a_value_that_makes_no_sense_costs_only_itself_r31(bad: Any) -> None:
    reading = read(metrics(usage(cpu=bad)))
    assert reading.bad_values == 1
    [sample] = reading.samples
    assert sample.cpu_cores is None
    assert sample.memory_bytes == 2 * MI


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1" + "0" * 5000, "1e999", "-1e999", "true", "[]"])
def test_a_number_that_no_float_holds_costs_only_itself_r36(number: str) -> None:
    """Also beside a container that is none, and under a stamp that is none."""
    body = metrics(usage(cpu="#"), usage("proxy"), timestamp="0001-01-01T00:00:00").replace(b'"#"', number.encode())
    reading = read(body.replace(b'"containers": [', b'"containers": [7, '))
    assert [(one.container, one.cpu_cores, one.memory_bytes) for one in reading.samples] == [
        ("app", None, 2 * MI),
        ("proxy", 0.095647727, 2 * MI),
    ]
    assert (reading.bad_values, reading.bad_entries) == (1, 1)


def test_an_interval_that_no_float_holds_counts_as_not_set() -> None:
    policy = {"containerName": "app", "memoryAggregationIntervalSeconds": 10**400, "oomMinBumpUp": 10**400}
    found = claim(resourcePolicy={"containerPolicies": [policy]})
    assert found.policy("app").memory_interval_seconds is None
    [problem] = found.problems
    assert "memoryAggregationIntervalSeconds: must be 1 to 2147483647" in problem


def test_a_missing_value_is_missing_and_not_zero_r38() -> None:
    [sample] = read(metrics({"name": "app", "usage": {"cpu": "1"}})).samples
    assert sample.memory_bytes is None
    assert read(metrics({"name": "app"})).samples == []


def test_one_bad_entry_costs_only_itself_r36() -> None:
    reading = read(b'{"metadata": 7}', metrics(usage()), b"{", metrics(usage("")), metrics(usage("POD")))
    assert len(reading.samples) == 1
    assert reading.bad_entries == 4


def test_mutated_usage_crashes_nothing() -> None:
    chance, body = random.Random(1), metrics(usage(), usage("proxy"))
    for _ in range(3000):
        raw = bytearray(body)
        for _ in range(chance.randint(1, 5)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        for sample in read(bytes(raw)).samples:
            assert sample.cpu_cores is None or 0 <= sample.cpu_cores < 1e6


decode_claim = claim_decoder(("elastipod",))


def claim(**spec: Any) -> Any:
    return decode_claim(json.dumps(autoscaler_json(**spec)).encode())


def test_a_claim_says_whose_it_is_and_what_for() -> None:
    found = claim(resourcePolicy={"containerPolicies": [{"containerName": "*", "minAllowed": {"cpu": "50m"}}]})
    assert found.recommender == "elastipod"
    assert found.target == Workload("default", "Deployment", "web")
    assert found.policy("any").min_allowed == Resources(50, None)
    assert found.problems == ()


def test_a_containers_own_policy_is_not_merged_with_the_one_for_all() -> None:
    policies = [
        {"containerName": "*", "minAllowed": {"cpu": "50m"}},
        {"containerName": "app", "maxAllowed": {"cpu": "1"}},
        {"containerName": "app", "mode": "Off"},
    ]
    found = claim(resourcePolicy={"containerPolicies": policies})
    assert found.policy("app").min_allowed == Resources()
    assert found.policy("app").max_allowed == Resources(1000, None)
    assert found.problems == ("spec.resourcePolicy.containerPolicies[2]: 'app' has one before",)


def test_a_bound_of_a_fraction_of_a_byte_is_refused_by_name() -> None:
    found = claim(resourcePolicy={"containerPolicies": [{"containerName": "app", "maxAllowed": {"memory": "512m"}}]})
    assert found.policy("app").max_allowed == Resources()
    assert "maxAllowed.memory: 512m means 0.512 byte; did you mean 512Mi?" in found.problems[0]


def test_a_claim_with_only_a_target_has_defaults_r70() -> None:
    body = autoscaler_json()
    del body["spec"]["recommenders"]
    found = decode_claim(json.dumps(body).encode())
    assert (found.recommender, found.problems) == ("default", ())


def test_a_bad_field_of_a_claim_costs_itself_only_and_is_named() -> None:
    policies = [
        {"containerName": "app", "mode": "Off"},
        {"containerName": "*", "minAllowed": 5, "maxAllowed": {"cpu": "1", "memory": []}, "controlledResources": "cpu"},
        7,
    ]
    found = claim(
        updatePolicy={"updateMode": "Off", "minReplicas": 2.5}, resourcePolicy={"containerPolicies": policies}
    )
    assert found.recommender == "elastipod"
    assert found.target == Workload("default", "Deployment", "web")
    assert not found.acts
    assert found.policy("app").is_off
    assert found.policy("other").max_allowed == Resources(1000, None)
    for named in (
        "spec.updatePolicy.minReplicas:",
        "spec.resourcePolicy.containerPolicies[1].minAllowed:",
        "spec.resourcePolicy.containerPolicies[1].maxAllowed.memory:",
        "spec.resourcePolicy.containerPolicies[1].controlledResources:",
        "spec.resourcePolicy.containerPolicies[2]:",
    ):
        assert any(problem.startswith(named) for problem in found.problems), named
    assert len(found.problems) == 5


@pytest.mark.parametrize("policy", [7, {"updateMode": 7}, {"updateMode": "Sometimes"}])
def test_a_mode_that_can_not_be_read_is_off_and_named(policy: object) -> None:
    found = claim(updatePolicy=policy)
    assert not found.acts
    assert found.problems[0].startswith("spec.updatePolicy")


def test_a_bad_condition_in_a_status_costs_no_recommendation() -> None:
    recommended = {"containerRecommendations": [{"containerName": "app", "target": {"cpu": "1"}}]}
    status = {"recommendation": recommended, "conditions": [{"type": 5}], "observedGeneration": "x"}
    found = decode_claim(json.dumps({**autoscaler_json(), "status": status}).encode())
    assert found.status.recommendation is not None
    assert found.problems == ()


STRANGE: list[Any] = [None, "", 0, -1, 2**63, 1.5, True, [], {}, [None], "x" * 1_000_000, "\u202e\x00", "NaN", "1e999"]
FIELDS = [
    ("targetRef",),
    ("targetRef", "kind"),
    ("targetRef", "name"),
    ("recommenders",),
    ("updatePolicy",),
    ("updatePolicy", "updateMode"),
    ("updatePolicy", "minReplicas"),
    ("resourcePolicy",),
    ("resourcePolicy", "containerPolicies"),
    ("resourcePolicy", "containerPolicies", 0, "containerName"),
    ("resourcePolicy", "containerPolicies", 0, "mode"),
    ("resourcePolicy", "containerPolicies", 0, "minAllowed"),
    ("resourcePolicy", "containerPolicies", 0, "minAllowed", "cpu"),
    ("resourcePolicy", "containerPolicies", 0, "maxAllowed", "memory"),
    ("resourcePolicy", "containerPolicies", 0, "controlledResources"),
    ("resourcePolicy", "containerPolicies", 0, "controlledValues"),
    ("resourcePolicy", "containerPolicies", 0, "oomBumpUpRatio"),
    ("resourcePolicy", "containerPolicies", 0, "memoryAggregationIntervalSeconds"),
]


@pytest.mark.parametrize("path", FIELDS, ids=lambda path: ".".join(map(str, path)))
def test_every_field_with_every_strange_value_is_read_or_named_f79(path: tuple[Any, ...]) -> None:
    for value in STRANGE:
        policy = {"containerName": "app", "minAllowed": {"cpu": "1"}, "maxAllowed": {"memory": "1Gi"}}
        body = autoscaler_json(updatePolicy={"updateMode": "Off"}, resourcePolicy={"containerPolicies": [policy]})
        place = body["spec"]
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        found = decode_claim(json.dumps(body).encode())
        assert found.name == "vpa"
        found.policy("app")


def test_a_claim_without_readable_metadata_is_a_bad_object() -> None:
    for body in (b"[]", b'{"metadata": []}', b"{", b""):
        with pytest.raises(BadObject):
            decode_claim(body)


def test_what_another_recommender_writes_into_its_own_is_no_change() -> None:
    body = autoscaler_json()
    body["status"] = {"recommendation": {"containerRecommendations": [{"containerName": "a", "target": {"cpu": "1"}}]}}
    ours = decode_claim(json.dumps(body).encode())
    assert ours.status.recommendation is not None
    body["spec"]["recommenders"] = [{"name": "another"}]
    before = decode_claim(json.dumps(body).encode())
    body["status"] = {"recommendation": {"containerRecommendations": []}}
    assert decode_claim(json.dumps(body).encode()) == before


def test_a_leap_of_the_wall_clock_ages_nothing_f14() -> None:
    class Leaping(ManualClock):
        leap = 0.0

        def now(self) -> float:
            return self.at + self.leap

    clock = Leaping()
    timeline = Timeline(clock)
    clock.leap, start = 10 * 365 * 86_400.0, clock.at
    clock.advance(60)
    assert timeline.now() == start + 60
    clock.leap = 2.0
    assert timeline.now() == start + 62


@pytest.mark.parametrize(
    ("flag", "value"), [("half-life-seconds", "0"), ("target-percentile", "1.5"), ("oom-bump-ratio", "0.9")]
)
def test_settings_that_make_no_sense_are_refused_by_name(flag: str, value: str) -> None:
    with pytest.raises(SettingsError, match=flag.replace("-", "_")):
        load_settings(RecommenderSettings, [f"--{flag}", value], {})


def test_no_number_among_settings_is_below_nothing_or_none_and_few_are_nothing() -> None:
    numbers = [one for one in dataclasses.fields(RecommenderSettings) if isinstance(one.default, int | float)]
    assert len(numbers) > 30
    for one in numbers:
        for value in ("-1", "nan", "inf") if isinstance(one.default, float) else ("-1",):
            with pytest.raises(SettingsError, match=one.name):
                load_settings(RecommenderSettings, [f"--{one.name.replace('_', '-')}={value}"], {})
    for name in ("most-writes-at-once", "memory-interval-count", "checkpoint-interval-seconds", "metrics-lost-seconds"):
        with pytest.raises(SettingsError, match=f"{name.replace('-', '_')} must be above 0"):
            load_settings(RecommenderSettings, [f"--{name}=0"], {})
