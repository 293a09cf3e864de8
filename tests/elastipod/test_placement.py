"""Where a pod could run, by what it and the nodes say."""

import json
from typing import Any

import pytest

from elastipod.kube.decoding import BadObject
from elastipod.kube.podrows import decode_pod
from elastipod.placement import keep_apart, may_run
from elastipod.pods import Affinity, Node, Pod
from elastipod.selectors import LabelSelector, Requirement
from tests import build

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def decoded(labels: dict[str, str] | None = None, **spec: Any) -> Pod:
    pod = build.pod_json("web", containers=[build.container_json("app")], labels=labels or {"app": "web"})
    pod["spec"].update(spec)
    return decode_pod(json.dumps(pod).encode())


def by_node(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    listed = [{"matchExpressions": term} for term in terms]
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": listed}}}


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        ({"key": "disk", "operator": "In", "values": ["ssd"]}, True),
        ({"key": "disk", "operator": "NotIn", "values": ["ssd"]}, False),
        ({"key": "gpu", "operator": "NotIn", "values": ["a"]}, True),
        ({"key": "gpu", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "DoesNotExist"}, True),
        ({"key": "cpus", "operator": "Gt", "values": ["7"]}, True),
        ({"key": "cpus", "operator": "Gt", "values": ["8"]}, False),
        ({"key": "cpus", "operator": "Lt", "values": ["9"]}, True),
        ({"key": "disk", "operator": "Lt", "values": ["9"]}, False),
        ({"key": "gpu", "operator": "Gt", "values": ["1"]}, False),
        ({"key": "cpus", "operator": "Gt", "values": []}, False),
    ],
)
def test_a_required_node_is_one_that_a_term_selects(requirement: dict[str, Any], holds: bool) -> None:
    node = Node("n1", labels={"disk": "ssd", "cpus": "8"})
    never = [{"key": "never", "operator": "Exists"}]
    assert may_run(decoded(affinity=by_node([requirement])), node, 0) is holds
    assert may_run(decoded(affinity=by_node(never, [requirement])), node, 0) is holds
    assert may_run(decoded(affinity=by_node([requirement], never)), node, 0) is holds
    assert not may_run(decoded(affinity=by_node([requirement, *never])), node, 0)


def test_no_term_selects_no_node() -> None:
    assert not may_run(decoded(affinity=by_node()), Node("n1"), 0)


def apart(selector: dict[str, Any] | None, **term: Any) -> dict[str, Any]:
    listed = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": selector, **term}]
    return {"podAntiAffinity": {_REQUIRED: listed}}


def test_either_of_two_pods_may_keep_them_apart() -> None:
    lonely, other = decoded(affinity=apart({"matchLabels": {"app": "db"}})), decoded({"app": "db"})
    assert keep_apart(lonely, [other])
    assert keep_apart(other, [lonely])
    assert not keep_apart(lonely, [decoded()])
    assert not keep_apart(decoded(affinity=apart({"matchLabels": {"app": "db"}}, namespaces=["far"])), [other])
    assert not keep_apart(decoded(affinity=apart(None)), [other])


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": apart({}, topologyKey="topology.kubernetes.io/zone")},
        {"affinity": apart({}, namespaceSelector={})},
        {"affinity": apart({}, matchLabelKeys=["pod-template-hash"])},
        {"affinity": {"podAffinity": {_REQUIRED: [{"topologyKey": "zone"}]}}},
        {
            "affinity": {
                "nodeAffinity": {
                    _REQUIRED: {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In"}]}]}
                }
            }
        },
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
    ],
)
def test_what_is_not_weighed_is_known_to_be_there(spec: dict[str, Any]) -> None:
    assert decoded(**spec).affinity.has_more


def test_what_is_only_preferred_binds_nobody() -> None:
    preferred: dict[str, Any] = {
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
        "podAntiAffinity": {},
        "nodeAffinity": None,
    }
    spread = [{"whenUnsatisfiable": "ScheduleAnyway"}]
    assert decoded(affinity=preferred, topologySpreadConstraints=spread).affinity == Affinity()
    assert decoded(affinity=None).affinity == Affinity()


@pytest.mark.parametrize("odd", [5, [], {"podAntiAffinity": {_REQUIRED: {}}}])
def test_an_affinity_of_the_wrong_kind_is_an_object_that_can_not_be_read(odd: Any) -> None:
    with pytest.raises(BadObject):
        decoded(affinity=odd)


def test_an_operator_that_is_not_known_selects() -> None:
    assert LabelSelector(match_expressions=(Requirement("a", "Near", ("b",)),)).selects({})


@pytest.mark.parametrize(
    ("annotation", "value", "stays"),
    [
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false", True),
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "true", False),
        ("karpenter.sh/do-not-disrupt", "true", True),
    ],
)
def test_a_pod_stays_where_its_owner_says_so(annotation: str, value: str, stays: bool) -> None:
    pod = build.pod_json("web", containers=[build.container_json("app")])
    pod["metadata"]["annotations"] = {annotation: value}
    assert decode_pod(json.dumps(pod).encode()).stays is stays
