import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.api import (
    Autoscaler,
    AutoscalerSpec,
    AutoscalerStatus,
    ContainerPolicy,
    ContainerRecommendation,
    Recommendation,
    ResourcePolicy,
    UpdateMode,
    UpdatePolicy,
)
from elastipod.kube.disruptions import DisruptionLimit, decode_disruption_limit
from elastipod.reasons import Reason
from tests.updater.build import amounts, container, pod, size
from updater.budget import DisruptionBudget, Replicas
from updater.patches import allocated_sizes, is_in_force, resize_body
from updater.sizes import BadSize, advice_of, stated_sizes


def autoscaler(
    target: Any, *, mode: str = "InPlace", mode_of_containers: str | None = None, **policy: Any
) -> Autoscaler:
    found = ContainerRecommendation("app", target, target, target)
    policies = [ContainerPolicy("*", mode_of_containers, **policy)]
    return Autoscaler(
        spec=AutoscalerSpec(
            update_policy=UpdatePolicy(mode),
            resource_policy=ResourcePolicy(policies) if policy or mode_of_containers else None,
        ),
        status=AutoscalerStatus(Recommendation([found])),
    )


def test_a_stated_size_is_read_by_container() -> None:
    text = json.dumps({"app": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}})
    assert stated_sizes(text) == {"app": size(amounts("500m", "1Gi"), amounts(memory="2Gi"))}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "elastipod.io/resources is not JSON"),
        ("[]", "elastipod.io/resources must be an object"),
        ('{"app": 1}', "elastipod.io/resources.app must be an object"),
        ('{"app": {"request": {}}}', "elastipod.io/resources.app.request is not known"),
        ('{"app": {"requests": {}}}', "elastipod.io/resources.app states no amount"),
        ('{"app": {"requests": {"gpu": 1}}}', "elastipod.io/resources.app.requests.gpu can not be resized"),
        ('{"app": {"requests": {"cpu": "x"}}}', "elastipod.io/resources.app.requests.cpu: 'x'"),
        ('{"app": {"limits": {"cpu": 0}}}', "elastipod.io/resources.app.limits.cpu is 0"),
        ('{"app": {"limits": {"cpu": true}}}', "elastipod.io/resources.app.limits.cpu must be a quantity"),
        ('{"app": {"requests": {"memory": "-1Gi"}}}', "elastipod.io/resources.app.requests.memory is -1Gi"),
        ('{"app": {"limits": {"memory": "512m"}}}', "elastipod.io/resources.app.limits.memory: 512m means 0.512 byte"),
        ('{"app": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}', "elastipod.io/resources.app.requests.cpu is above"),
    ],
)
def test_a_bad_stated_size_is_refused_by_the_name_of_its_field(text: str, field: str) -> None:
    with pytest.raises(BadSize) as caught:
        stated_sizes(text)
    assert str(caught.value).startswith(field)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["app", "requests", "limits", "cpu", "memory", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.text(max_size=60) | json_values.map(json.dumps))
def test_whatever_is_stated_is_read_or_refused(text: str) -> None:
    try:
        found = stated_sizes(text)
    except BadSize:
        return
    assert all(not (one.requests.is_empty and one.limits.is_empty) for one in found.values())


def test_an_autoscaler_that_can_not_be_understood_is_named_and_does_nothing() -> None:
    assert advice_of(autoscaler({"cpu": "1"}, mode="Sometimes")).mode is UpdateMode.OFF
    found = advice_of(autoscaler({"cpu": "lots"}))
    assert found.containers == {}
    assert found.problems[0].startswith("status.recommendation for container 'app'")
    found = advice_of(autoscaler({"cpu": "1"}, max_allowed={"memory": "1 GB"}))
    assert found.problems[0].startswith("spec.resourcePolicy.containerPolicies for container 'app'")


def test_what_is_not_controlled_is_not_wanted() -> None:
    found = advice_of(autoscaler({"cpu": "1", "memory": "1Gi"}, controlled_resources=["memory"]))
    assert found.containers["app"].target == amounts(memory="1Gi")
    assert advice_of(autoscaler({"cpu": "1"}, mode="InPlace")).containers["app"].moves_limits
    assert not advice_of(autoscaler({"cpu": "1"}, controlled_values="RequestsOnly")).containers["app"].moves_limits
    assert advice_of(autoscaler({"cpu": "1"}, mode_of_containers="Off")).containers == {}


def test_a_minimum_that_a_recommendation_has_in_it_already_is_not_held_against_it() -> None:
    found = autoscaler({"cpu": "4"}, min_allowed={"cpu": "10"})
    assert advice_of(found).containers["app"].min_allowed == amounts("10")
    found = msgspec.structs.replace(
        found,
        metadata=msgspec.structs.replace(found.metadata, generation=3),
        status=AutoscalerStatus(found.status.recommendation if found.status else None, observed_generation=3),
    )
    assert advice_of(found).containers["app"].min_allowed == amounts()


def test_a_spec_is_put_back_to_what_is_allocated_and_never_below_the_memory_in_force() -> None:
    asked = container(
        requests=amounts("4", "4Gi"), limits=amounts("4", "4Gi"), actual_limits=amounts("1010m", "1200Mi")
    )
    held = pod(msgspec.structs.replace(asked, allocated=amounts("1", "1Gi")))
    assert allocated_sizes(held) == {"app": size(amounts("1", "1200Mi"), amounts("1", "1200Mi"))}
    assert allocated_sizes(pod()) == {}


@pytest.mark.parametrize(("wanted", "actual"), [("417m", "420m"), ("5m", "10m"), ("1m", "2m")])
def test_what_the_node_rounds_counts_as_reached(wanted: str, actual: str) -> None:
    held = pod(container(requests=amounts("1m", "1Gi"), actual_limits=amounts(actual, "1Gi")))
    assert is_in_force(held, {"app": size(limits=amounts(wanted))})


def test_only_what_was_set_is_compared() -> None:
    held = pod(container(requests=amounts("1", "1Gi"), limits=amounts("2", "2Gi")))
    assert is_in_force(held, {"app": size(amounts(cpu="1"))})
    assert not is_in_force(held, {"app": size(amounts(cpu="1", memory="2Gi"))})


def test_a_body_has_only_the_containers_that_change() -> None:
    held = pod(container("app", amounts("1", "1Gi")), container("helper", amounts("1", "1Gi")))
    body = json.loads(resize_body(held, {"helper": size(amounts("2", "1Gi"))}))
    assert body["metadata"] == {"uid": "uid-web-0", "resourceVersion": "7"}
    assert [one["name"] for one in body["spec"]["containers"]] == ["helper"]


def limit(allowed: int) -> DisruptionLimit:
    return decode_disruption_limit(
        json.dumps(
            {
                "metadata": {"name": "keep", "namespace": "shop"},
                "spec": {
                    "selector": {
                        "matchLabels": {"app": "web"},
                        "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["test"]}],
                    }
                },
                "status": {"disruptionsAllowed": allowed},
            }
        ).encode()
    )


def test_a_budget_speaks_of_the_pods_its_selector_names() -> None:
    found = decode_disruption_limit(json.dumps({"metadata": {"namespace": "shop"}, "spec": {"selector": {}}}).encode())
    assert found.covers("shop", {})
    assert not found.covers("other", {})


def test_a_restart_keeps_budget_min_replicas_and_share() -> None:
    budget = DisruptionBudget(0.5)
    both = Replicas(2, frozenset({"a", "b"}), 2)
    found = limit(0)
    refused = budget.obstacle("a", both, [found])
    assert refused is not None
    assert refused[0] is Reason.DISRUPTION_BUDGET
    assert "keep" in refused[1]
    assert budget.obstacle("a", both, [limit(1)]) is None
    one_down = Replicas(2, frozenset({"a"}), 1)
    assert budget.obstacle("a", one_down, []) is not None
    assert budget.obstacle("b", one_down, []) is None
    alone = Replicas(1, frozenset({"a"}), 2)
    assert budget.obstacle("a", alone, []) == (Reason.MIN_REPLICAS, "1 replicas are ready, the policy asks for 2")
    assert budget.obstacle("a", alone, [], asked=True) is None
