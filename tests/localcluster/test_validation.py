"""What may be said: refused by the field's name, whatever the field holds."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod import api
from elastipod.localcluster.api.podspec import canonical_quantity, nano
from elastipod.localcluster.api.schema import Shape
from elastipod.localcluster.api.schemas import CUSTOM
from tests.build import container_json, deployment_json, job_json, pod_json, running_status
from tests.localcluster.served import AUTOSCALERS, DEPLOYMENTS, MERGE, PODS, STRATEGIC, Served

Json = dict[str, Any]
POLICIES = "/apis/elastipod.io/v1alpha1/namespaces/default/elasticpolicies"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def autoscaler(**spec: Any) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {"metadata": {"name": "web"}, "spec": {"targetRef": target, **spec}}


def container_policy(**policy: Any) -> Json:
    return autoscaler(resourcePolicy={"containerPolicies": [{"containerName": "*", **policy}]})


def fields(failure: Json) -> list[str]:
    return [cause["field"] for cause in failure["details"]["causes"]]


POLICY = "spec.resourcePolicy.containerPolicies[0]"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"metadata": {"name": "web"}}, "spec"),
        ({"metadata": {"name": "web"}, "spec": {}}, "spec.targetRef"),
        (autoscaler(targetRef={"kind": "Deployment"}), "spec.targetRef.name"),
        (autoscaler(updatePolicy={}), "spec.updatePolicy.updateMode"),
        (autoscaler(updatePolicy={"updateMode": "Sometimes"}), "spec.updatePolicy.updateMode"),
        (autoscaler(updatePolicy={"updateMode": "Off", "minReplicas": 0}), "spec.updatePolicy.minReplicas"),
        (autoscaler(updatePolicy={"updateMode": "Off", "minReplicas": "2"}), "spec.updatePolicy.minReplicas"),
        (autoscaler(updatePolicy={"updateMode": False}), "spec.updatePolicy.updateMode"),
        (autoscaler(recommenders=[{"name": "a"}, {"name": "b"}]), "spec.recommenders"),
        (autoscaler(recommenders=[{}]), "spec.recommenders[0].name"),
        (container_policy(containerName=""), f"{POLICY}.containerName"),
        (container_policy(mode="On"), f"{POLICY}.mode"),
        (container_policy(minAllowed={"cpu": "0.5m"}), f"{POLICY}.minAllowed[cpu]"),
        (container_policy(maxAllowed={"memory": "1500m"}), f"{POLICY}.maxAllowed[memory]"),
        (container_policy(minAllowed={"cpu": "2"}, maxAllowed={"cpu": "1"}), f"{POLICY}.maxAllowed[cpu]"),
        (container_policy(maxAllowed={"cpu": "much"}), f"{POLICY}.maxAllowed[cpu]"),
        (container_policy(maxAllowed={"cpu": True}), f"{POLICY}.maxAllowed[cpu]"),
        (container_policy(maxAllowed={"cpu": "-1"}), f"{POLICY}.maxAllowed[cpu]"),
        (container_policy(controlledResources=["disk"]), f"{POLICY}.controlledResources[0]"),
        (container_policy(controlledValues="All"), f"{POLICY}.controlledValues"),
        (container_policy(mode="Off", controlledValues="RequestsAndLimits"), f"{POLICY}.controlledValues"),
        (container_policy(oomBumpUpRatio="0.9"), f"{POLICY}.oomBumpUpRatio"),
        (container_policy(oomMinBumpUp="-1"), f"{POLICY}.oomMinBumpUp"),
        (container_policy(memoryAggregationIntervalCount=0), f"{POLICY}.memoryAggregationIntervalCount"),
        (autoscaler(startupBoost={"cpu": {"type": "Factor"}}), "spec.startupBoost.cpu.factor"),
    ],
)
def test_an_autoscaler_that_vpa_would_refuse_is_refused_by_its_field(body: Json, field: str) -> None:
    failure = Served().refused("POST", AUTOSCALERS, body)
    assert failure["code"] == 422
    assert field in fields(failure)


@pytest.mark.parametrize(
    "body",
    [
        autoscaler(),
        autoscaler(updatePolicy={"updateMode": "InPlace", "minReplicas": 1}, recommenders=[{"name": "elastipod"}]),
        container_policy(minAllowed={"cpu": 1, "memory": "64Mi"}, maxAllowed={"cpu": "1.5", "memory": 1e9}),
        container_policy(mode="Off", controlledValues="RequestsOnly", controlledResources=["cpu"]),
        container_policy(startupBoost={"cpu": {"type": "Quantity", "quantity": "500m", "durationSeconds": 10}}),
    ],
)
def test_an_autoscaler_that_vpa_takes_is_taken(body: Json) -> None:
    Served().post(AUTOSCALERS, body)


def test_unknown_fields_of_custom_kinds_are_named_with_their_path() -> None:
    server = Served()
    failure = server.refused("POST", AUTOSCALERS, container_policy(maxAlowed={}))
    assert failure["message"] == f'strict decoding error: unknown field "{POLICY}.maxAlowed"'
    failure = server.refused("POST", POLICIES, {"metadata": {"name": "p"}, "spec": {"memorySpikes": {}}})
    assert (failure["code"], "spec.memorySpikes" in failure["message"]) == (400, True)
    server.post(AUTOSCALERS, autoscaler())
    status: Json = {"status": {"recomendation": {}}}
    assert "status.recomendation" in server.refused("PATCH", f"{AUTOSCALERS}/web/status", status, MERGE)["message"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"memorySpike": {"mode": "Stop"}}, "spec.memorySpike.mode"),
        ({"memorySpike": {"maxAllowed": "0"}}, "spec.memorySpike.maxAllowed"),
        ({"memorySpike": {"maxAllowed": []}}, "spec.memorySpike.maxAllowed"),
        ({"donate": "yes"}, "spec.donate"),
        ({"selector": {"matchLabels": {"a": 1}}}, "spec.selector.matchLabels[a]"),
    ],
)
def test_a_policy_of_ours_is_refused_by_its_field(spec: Json, field: str) -> None:
    failure = Served().refused("POST", POLICIES, {"metadata": {"name": "p"}, "spec": spec})
    assert (failure["code"], fields(failure)) == (422, [field])


@pytest.mark.parametrize(
    ("kind", "struct"),
    [
        ("verticalpodautoscalers.autoscaling.k8s.io", api.Autoscaler),
        ("verticalpodautoscalercheckpoints.autoscaling.k8s.io", api.Checkpoint),
        ("elasticpolicies.elastipod.io", api.ElasticPolicy),
        ("elasticnodes.elastipod.io", api.ElasticNode),
    ],
)
def test_every_field_that_we_write_is_known_to_the_server(kind: str, struct: type[msgspec.Struct]) -> None:
    def compare(info: Any, shape: Shape, path: str) -> None:
        if isinstance(info, msgspec.inspect.UnionType):
            info = next(one for one in info.types if not isinstance(one, msgspec.inspect.NoneType))
        if isinstance(info, msgspec.inspect.StructType):
            for one in info.fields:
                assert one.encode_name in shape.fields, f"{path}.{one.encode_name}"
                compare(one.type, shape.fields[one.encode_name], f"{path}.{one.encode_name}")
        elif isinstance(info, msgspec.inspect.ListType) and shape.item is not None:
            compare(info.item_type, shape.item, path)

    info = msgspec.inspect.type_info(struct)
    assert isinstance(info, msgspec.inspect.StructType)
    for half in info.fields:
        if half.encode_name in ("spec", "status") and half.encode_name in CUSTOM[kind].fields:
            compare(half.type, CUSTOM[kind].fields[half.encode_name], half.encode_name)


NEVER = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        (pod_json("Web"), "metadata.name"),
        (pod_json("a" * 254), "metadata.name"),
        (pod_json(labels={"a": "b" * 64}), "metadata.labels"),
        (pod_json(labels={"-": "b"}), "metadata.labels"),
        (pod_json(annotations={"a": "b" * 262_145}), "metadata.annotations"),
        (pod_json(containers=[]), "spec.containers"),
        (pod_json(containers=[container_json("A")]), "spec.containers[0].name"),
        (pod_json(containers=[container_json("a" * 64)]), "spec.containers[0].name"),
        (pod_json(containers=[container_json(), container_json()]), "spec.containers[1].name"),
        (pod_json(containers=[container_json(image="")]), "spec.containers[0].image"),
        (pod_json(cpu="2", cpu_limit="1"), "spec.containers[0].resources.requests"),
        (pod_json(cpu="many"), "spec.containers[0].resources.requests[cpu]"),
        (pod_json(memory="-1"), "spec.containers[0].resources.requests[memory]"),
        (pod_json(restartPolicy="Perhaps"), "spec.restartPolicy"),
        (pod_json(restartPolicy=5), "spec.restartPolicy"),
        (pod_json(terminationGracePeriodSeconds=-1), "spec.terminationGracePeriodSeconds"),
        (
            pod_json(restartPolicy="Never", containers=[container_json(resizePolicy=NEVER)]),
            "spec.containers[0].resizePolicy",
        ),
        (
            pod_json(initContainers=[container_json("i", resizePolicy=NEVER)]),
            "spec.initContainers[0].resizePolicy[0].restartPolicy",
        ),
        (
            pod_json(
                containers=[container_json(resizePolicy=[{"resourceName": "disk", "restartPolicy": "NotRequired"}])]
            ),
            "spec.containers[0].resizePolicy[0].resourceName",
        ),
        ({"metadata": {"name": "a"}}, "spec"),
        ({"metadata": {}, "spec": {"containers": [container_json()]}}, "metadata.name"),
        ({"metadata": [], "spec": {"containers": [container_json()]}}, "metadata"),
        ({"metadata": {"name": "a", "labels": {"x": 1}}, "spec": {"containers": []}}, "metadata.labels[x]"),
        ({"metadata": {"name": 5}, "spec": {"containers": []}}, "metadata.name"),
        ({"metadata": {"name": "a"}, "spec": {"containers": {}}}, "spec.containers"),
        ({"metadata": {"name": "a"}, "spec": {"containers": ["x"]}}, "spec.containers[0]"),
        (
            {"metadata": {"name": "a", "ownerReferences": [{"uid": "x"}]}, "spec": {}},
            "metadata.ownerReferences[0].kind",
        ),
    ],
)
def test_a_pod_that_is_wrong_is_refused_by_its_field(pod: Json, field: str) -> None:
    failure = Served().refused("POST", PODS, pod)
    assert failure["code"] == 422
    assert field in fields(failure)


def test_request_and_limit_zero_are_taken_and_stay_best_effort() -> None:
    made = Served().post(PODS, pod_json(cpu="0", memory=None, cpu_limit="0"))
    assert made["status"]["qosClass"] == "BestEffort"


def test_a_misspelt_field_is_refused_where_strictness_is_asked_for() -> None:
    pod = pod_json()
    pod["spec"]["containers"][0]["resource"] = {}
    server = Served()
    failure = server.refused("POST", PODS, pod, fieldValidation="Strict")
    assert failure["message"] == 'strict decoding error: unknown field "spec.containers[0].resource"'
    server.post(PODS, pod)
    deployment = deployment_json(containers=[{**container_json(), "comand": []}])
    failure = server.refused("POST", DEPLOYMENTS, deployment, fieldValidation="Strict")
    assert 'unknown field "spec.template.spec.containers[0].comand"' in failure["message"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (DEPLOYMENTS, deployment_json(selector={"matchLabels": {"a": "b"}}), "spec.template.metadata.labels"),
        (DEPLOYMENTS, deployment_json(selector={}), "spec.selector"),
        (DEPLOYMENTS, deployment_json(replicas=-1), "spec.replicas"),
        (JOBS, job_json(template={"spec": {"containers": [container_json()]}}), "spec.template.spec.restartPolicy"),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}},
            "spec",
        ),
        (
            "/api/v1/namespaces/default/limitranges",
            {
                "metadata": {"name": "b"},
                "spec": {"limits": [{"type": "Container", "min": {"cpu": 2}, "max": {"cpu": 1}}]},
            },
            "spec.limits[0].min[cpu]",
        ),
        (
            "/api/v1/namespaces/default/resourcequotas",
            {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "x"}}},
            "spec.hard[cpu]",
        ),
        (
            "/api/v1/namespaces/default/resourcequotas",
            {"metadata": {"name": "q"}, "spec": {"hard": {"services": "1"}}},
            "spec.hard[services]",
        ),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "p"}, "value": 2**31}, "value"),
        ("/api/v1/namespaces", {"metadata": {"name": "a.b"}}, "metadata.name"),
    ],
)
def test_other_kinds_are_refused_by_their_field(path: str, body: Json, field: str) -> None:
    failure = Served().refused("POST", path, body)
    assert (failure["code"], field in fields(failure)) == (422, True)


def test_selectors_and_job_templates_never_change() -> None:
    server = Served()
    server.post(DEPLOYMENTS, deployment_json())
    patch = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}}}}
    assert "spec.selector" in fields(server.refused("PATCH", f"{DEPLOYMENTS}/web", patch, MERGE))
    server.post(JOBS, job_json())
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "x"}]}}}}
    assert fields(server.refused("PATCH", f"{JOBS}/genome", patch, STRATEGIC)) == ["spec.template"]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        (2, "2"),
        (0.1, "100m"),
        ("1024Mi", "1Gi"),
        ("0.5Gi", "512Mi"),
        ("129e6", "129e6"),
        ("1000000", "1M"),
        ("0.1Ki", "102400m"),
        ("100n", "100n"),
        ("0Mi", "0"),
        ("512", "512"),
        ("+1", "1"),
    ],
)
def test_quantities_come_back_as_kubernetes_writes_them(text: Any, canonical: str) -> None:
    assert canonical_quantity(text) == canonical


@given(st.integers(0, 2**40), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi", "e3", "E"]))
def test_a_canonical_quantity_is_worth_the_same_and_stays(number: int, suffix: str) -> None:
    once = canonical_quantity(f"{number}{suffix}")
    assert nano(once) == nano(f"{number}{suffix}")
    assert canonical_quantity(once) == once


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PATHS = st.sampled_from(
    [
        ("metadata",),
        ("metadata", "labels"),
        ("metadata", "ownerReferences"),
        ("metadata", "finalizers"),
        ("metadata", "generateName"),
        ("spec",),
        ("spec", "containers"),
        ("spec", "initContainers"),
        ("spec", "resources"),
        ("spec", "overhead"),
        ("spec", "tolerations"),
        ("spec", "selector"),
        ("spec", "template"),
        ("spec", "updatePolicy"),
        ("spec", "resourcePolicy"),
        ("spec", "limits"),
        ("spec", "hard"),
        ("status",),
        ("status", "containerStatuses"),
        ("status", "conditions"),
        ("kind",),
        ("value",),
    ]
)
WHOLE = [
    (PODS, pod_json("web")),
    (DEPLOYMENTS, deployment_json("web")),
    (JOBS, job_json("web")),
    (AUTOSCALERS, autoscaler()),
    (POLICIES, {"metadata": {"name": "web"}}),
    ("/api/v1/nodes", {"metadata": {"name": "web"}}),
    ("/api/v1/namespaces/default/limitranges", {"metadata": {"name": "web"}, "spec": {"limits": []}}),
    ("/api/v1/namespaces/default/resourcequotas", {"metadata": {"name": "web"}, "spec": {}}),
]


def put_in(body: Json, path: tuple[str, ...], value: Any) -> Json:
    if len(path) == 1:
        return {**body, path[0]: value}
    inner = body.get(path[0])
    return {**body, path[0]: put_in(inner if isinstance(inner, dict) else {}, path[1:], value)}


@given(st.sampled_from(WHOLE), PATHS, VALUES)
def test_whatever_a_field_holds_the_server_answers_and_goes_on(whole: Any, path: tuple[str, ...], value: Any) -> None:
    where, body = whole
    server = Served()
    code, made = server.call("POST", where, put_in(body, path, value))
    assert code in (201, 400, 403, 422)
    server.call("POST", where, body)
    for subresource in ("", "/status", "/resize"):
        patch = put_in({}, path, value)
        code, made = server.call("PATCH", f"{where}/web{subresource}", patch, MERGE)
        assert code in (200, 400, 403, 404, 405, 409, 422), made
    pod = pod_json("after", "default")
    server.put_pod(pod, running_status(pod))
    server.get(where)
