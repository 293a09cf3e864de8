"""What may be said: refused by the field's name, whatever the field holds."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod import api
from elastipod.localcluster.api.customschemas import CUSTOM
from elastipod.localcluster.api.podspec import canonical_quantity, nano
from elastipod.localcluster.api.schema import Shape
from tests.build import deployment_json, job_json, pod_json, running_status
from tests.localcluster.served import AUTOSCALERS, DEPLOYMENTS, MERGE, PODS, Served

Json = dict[str, Any]
POLICIES = "/apis/elastipod.io/v1alpha1/namespaces/default/elasticpolicies"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def autoscaler(**spec: Any) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    kind = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler"}
    return {**kind, "metadata": {"name": "web"}, "spec": {"targetRef": target, **spec}}


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


def test_request_and_limit_zero_are_taken_and_stay_best_effort() -> None:
    made = Served().post(PODS, pod_json(cpu="0", memory=None, cpu_limit="0"))
    assert made["status"]["qosClass"] == "BestEffort"


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
    (
        POLICIES,
        {"apiVersion": "elastipod.io/v1alpha1", "kind": "ElasticPolicy", "metadata": {"name": "web"}},
    ),
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
