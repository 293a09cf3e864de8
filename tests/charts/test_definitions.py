"""The custom resource definitions: the fields that our code knows, the refusals that the embedded server gives."""

from typing import Any

import pytest
import yaml

from elastipod.localcluster.api.customschemas import CUSTOM
from elastipod.localcluster.api.schema import Shape
from tests.charts.pages import CHART
from tests.charts.rendering import needs_helm, render
from tests.kubernetes.apiserver import ApiServer
from tests.localcluster.served import AUTOSCALERS, Served
from tests.localcluster.test_validation import POLICIES, autoscaler

Json = dict[str, Any]

DEFINITIONS: dict[str, Json] = {
    one["metadata"]["name"]: one
    for one in (yaml.safe_load(path.read_text("utf-8")) for path in (CHART / "definitions").glob("*.yaml"))
}
NODES = "/apis/elastipod.io/v1alpha1/elasticnodes"
KIND: Json = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler"}


def schema(name: str) -> Json:
    found: Json = DEFINITIONS[name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def test_there_is_a_definition_of_every_custom_kind() -> None:
    assert set(DEFINITIONS) == set(CUSTOM)


@pytest.mark.parametrize("name", CUSTOM)
def test_a_definition_has_the_fields_choices_and_demands_of_the_embedded_server(name: str) -> None:
    def compare(shape: Shape, one: Json, path: str) -> None:
        if shape.type == "object":
            assert set(shape.fields) == set(one.get("properties", {})), path
            for key, field in shape.fields.items():
                compare(field, one["properties"][key], f"{path}.{key}")
            # What the schema can not demand for the sake of a clear message, the embedded server's rules do.
            assert set(shape.required) <= set(one.get("required", [])), path
        elif shape.type == "array" and shape.item is not None and shape.item.type != "any":
            compare(shape.item, one["items"], f"{path}[]")
        assert set(shape.choices) == set(one.get("enum", [])), path
        if shape.least is not None:
            assert one["minimum"] == shape.least, path

    properties = schema(name)["properties"]
    for half, shape in CUSTOM[name].fields.items():
        compare(shape, properties[half], half)


@pytest.mark.parametrize("name", CUSTOM)
def test_a_definition_is_structural(name: str) -> None:
    assert schema(name)["type"] == "object"


@needs_helm
def test_every_definition_that_is_missing_is_rendered_as_it_stands_here_and_belongs_to_no_release() -> None:
    there = "elastipod.io/v1alpha1/ElasticPolicy"
    for argv, missing in (
        ((), set(CUSTOM)),
        (("--api-versions", there), set(CUSTOM) - {"elasticpolicies.elastipod.io"}),
    ):
        rendered = {one["metadata"]["name"]: one for one in render({}, *argv).of("CustomResourceDefinition")}
        assert set(rendered) == missing
        for name, one in rendered.items():
            assert one["spec"] == DEFINITIONS[name]["spec"]
            assert one["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
            # To it a hook is to be deleted before it is made again, and with a definition go its objects.
            assert one["metadata"]["annotations"]["argocd.argoproj.io/hook"] == "Skip"


def container_policy(**policy: Any) -> Json:
    return autoscaler(resourcePolicy={"containerPolicies": [{"containerName": "*", **policy}]})


REFUSED: list[tuple[str, Json]] = [
    ("spec: Required", {"metadata": {"name": "web"}}),
    ("targetRef", {"metadata": {"name": "web"}, "spec": {}}),
    ("name", autoscaler(targetRef={"kind": "Deployment"})),
    ("updateMode", autoscaler(updatePolicy={})),
    ("updateMode", autoscaler(updatePolicy={"updateMode": "Sometimes"})),
    ("minReplicas", autoscaler(updatePolicy={"updateMode": "Off", "minReplicas": 0})),
    ("recommenders", autoscaler(recommenders=[{"name": "a"}, {"name": "b"}])),
    ("name", autoscaler(recommenders=[{}])),
    ("containerName", container_policy(containerName="")),
    ("mode", container_policy(mode="On")),
    ("minAllowed", container_policy(minAllowed={"cpu": "0.5m"})),
    ("minAllowed", container_policy(minAllowed={"cpu": "1.0005"})),
    ("maxAllowed", container_policy(maxAllowed={"memory": "1500m"})),
    ("maxAllowed", container_policy(minAllowed={"cpu": "2"}, maxAllowed={"cpu": "1"})),
    ("maxAllowed", container_policy(minAllowed={"memory": "1Gi"}, maxAllowed={"memory": "1000M"})),
    ("maxAllowed", container_policy(maxAllowed={"cpu": "much"})),
    ("maxAllowed", container_policy(maxAllowed={"cpu": "-1"})),
    ("controlledResources", container_policy(controlledResources=["disk"])),
    ("controlledValues", container_policy(controlledValues="All")),
    ("controlledValues", container_policy(mode="Off", controlledValues="RequestsAndLimits")),
    ("oomBumpUpRatio", container_policy(oomBumpUpRatio="0.9")),
    ("oomMinBumpUp", container_policy(oomMinBumpUp="-1")),
    ("memoryAggregationIntervalCount", container_policy(memoryAggregationIntervalCount=0)),
    ("factor", autoscaler(startupBoost={"cpu": {"type": "Factor"}})),
    ("quantity", autoscaler(startupBoost={"cpu": {"type": "Factor", "factor": 2, "quantity": "1"}})),
]
TAKEN: list[Json] = [
    autoscaler(),
    autoscaler(updatePolicy={"updateMode": "InPlace", "minReplicas": 1}, recommenders=[{"name": "elastipod"}]),
    container_policy(minAllowed={"cpu": 1, "memory": "64Mi"}, maxAllowed={"cpu": "1.5", "memory": 1_000_000_000}),
    container_policy(minAllowed={"cpu": "1.001", "memory": "1.5Gi"}, maxAllowed={"cpu": "64.007"}),
    container_policy(minAllowed={"cpu": "7m"}, maxAllowed={"cpu": "2e1", "memory": "1e9"}),
    container_policy(mode="Off", controlledValues="RequestsOnly", controlledResources=["cpu"]),
    container_policy(oomBumpUpRatio=1, oomMinBumpUp="0"),
    container_policy(startupBoost={"cpu": {"type": "Quantity", "quantity": "500m", "durationSeconds": 10}}),
]


@pytest.fixture(scope="module")
def defined(api_server: ApiServer) -> ApiServer:
    api_server.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CHART / "definitions"))
    api_server.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
    return api_server


@pytest.mark.apiserver
@pytest.mark.parametrize(("field", "body"), REFUSED)
def test_both_servers_refuse_by_the_same_field(defined: ApiServer, field: str, body: Json) -> None:
    said = defined.calls.refused("POST", AUTOSCALERS, KIND | body, dryRun="All")
    assert said["code"] == 422
    assert field in said["message"]
    assert field in Served().refused("POST", AUTOSCALERS, KIND | body)["message"]


@pytest.mark.apiserver
@pytest.mark.parametrize("body", TAKEN)
def test_both_servers_take_what_vpa_takes(defined: ApiServer, body: Json) -> None:
    defined.calls.post(AUTOSCALERS, KIND | body, dryRun="All", fieldValidation="Strict")
    Served().post(AUTOSCALERS, KIND | body)


@pytest.mark.apiserver
@pytest.mark.parametrize(
    ("path", "spec", "field"),
    [
        (POLICIES, {"memorySpike": {"mode": "Stop"}}, "spec.memorySpike.mode"),
        (POLICIES, {"memorySpike": {"maxAllowed": "0"}}, "spec.memorySpike.maxAllowed"),
        (POLICIES, {"memorySpike": {"maxAllowed": "-1Gi"}}, "spec.memorySpike.maxAllowed"),
        (POLICIES, {"donate": "yes"}, "spec.donate"),
        (POLICIES, {"horizontalScaling": "Maybe"}, "spec.horizontalScaling"),
        (NODES, {"wanted": [{"requests": {"cpu": "-1"}}]}, "spec.wanted[0].requests"),
    ],
)
def test_both_servers_refuse_our_own_kinds_by_field(defined: ApiServer, path: str, spec: Json, field: str) -> None:
    body: Json = {"metadata": {"name": "p"}, "spec": spec}
    kind = {"apiVersion": "elastipod.io/v1alpha1", "kind": "ElasticNode" if path == NODES else "ElasticPolicy"}
    assert field in defined.calls.refused("POST", path, kind | body, dryRun="All")["message"]
    assert field in Served().refused("POST", path, kind | body)["message"]


@pytest.mark.apiserver
def test_a_real_server_has_the_columns_that_people_know(defined: ApiServer) -> None:
    defined.calls.post(AUTOSCALERS, KIND | autoscaler(updatePolicy={"updateMode": "Off"}))
    table = defined.kubectl("get", "vpa", "web").splitlines()
    assert table[0].split() == ["NAME", "MODE", "CPU", "MEM", "PROVIDED", "AGE"]
    assert table[1].split()[:2] == ["web", "Off"]
    defined.calls.delete(f"{AUTOSCALERS}/web")
