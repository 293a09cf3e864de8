"""Every refusal of `pods/resize` that Kubernetes 1.37 has: code, reason, field and wording, and what is let through."""

from typing import Any

import pytest

from tests.build import container_json, node_json, pod_json, running_status
from tests.localcluster.served import JSON_PATCH, MERGE, NODES, PODS, STRATEGIC, Served

RESIZE = f"{PODS}/web-0/resize"
Json = dict[str, Any]


def burstable(**more: Any) -> Json:
    return pod_json(cpu="100m", memory="128Mi", cpu_limit="200m", memory_limit="256Mi", node="n1", **more)


def served(pod: Json, **status: Any) -> Served:
    """A server with a node and a running pod on it."""
    server = Served()
    node = node_json("n1", cpu="2", memory="4Gi")
    node["status"]["declaredFeatures"] = [
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScalingInitContainers",
    ]
    server.post(NODES, node)
    server.put_pod(pod, {**running_status(pod), **status})
    return server


def sized(name: str = "app", *, requests: Json | None = None, limits: Json | None = None) -> Json:
    resources = {}
    if requests is not None:
        resources["requests"] = requests
    if limits is not None:
        resources["limits"] = limits
    return {"spec": {"containers": [{"name": name, "resources": resources}]}}


GUARANTEED = pod_json(cpu="200m", memory="256Mi", cpu_limit="200m", memory_limit="256Mi", node="n1")
TWO = burstable(containers=[container_json("app", cpu_limit="1"), container_json("helper", cpu_limit="1")])
INIT = burstable(initContainers=[container_json("setup", cpu_limit="1")])
SIDECAR = burstable(initContainers=[container_json("proxy", cpu_limit="1", restartPolicy="Always")])
POD_LEVEL = burstable(resources={"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1500m"}})
UNLIMITED = {**POD_LEVEL, "spec": {**POD_LEVEL["spec"], "containers": [container_json("app")]}}
"""Its containers say nothing that could stand in for a limit of the pod."""
NO_RESOURCES = {
    "containerStatuses": [{"name": "app", "state": {"running": {"startedAt": "2026-11-29T12:00:00Z"}}}],
}
QOS = "Pod QOS Class may not change as a result of resizing"
ONLY = "only cpu and memory resources are mutable"
FORBIDDEN = "FieldValueForbidden"
INVALID = "FieldValueInvalid"


def init_sized(name: str, resources: Json, **more: Any) -> Json:
    return {"spec": {"initContainers": [{"name": name, "resources": resources, **more}]}}


def replacing(path: str, value: Any) -> list[Json]:
    return [{"op": "add", "path": path, "value": value}]


RESTARTS = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
MIRROR = burstable(annotations={"kubernetes.io/config.mirror": "x"})
WINDOWS = burstable(os={"name": "windows"})
CASES: list[Any] = [
    pytest.param(MIRROR, {}, sized(requests={"cpu": "150m"}), "[]", FORBIDDEN, "static pods cannot be resized", id="1"),
    pytest.param(
        WINDOWS, {}, sized(requests={"cpu": "150m"}), "[]", FORBIDDEN, "windows pods cannot be resized", id="2"
    ),
    pytest.param(GUARANTEED, {}, sized(requests={"cpu": "100m"}), "spec", INVALID, QOS, id="4-guaranteed"),
    pytest.param(
        burstable(),
        {},
        sized(requests={"cpu": "200m", "memory": "256Mi"}),
        "spec",
        INVALID,
        QOS,
        id="4-burstable-to-guaranteed",
    ),
    pytest.param(
        pod_json(cpu=None, memory=None, node="n1"),
        {},
        sized(requests={"cpu": "100m"}),
        "spec",
        INVALID,
        QOS,
        id="4-best-effort",
    ),
    pytest.param(
        burstable(),
        NO_RESOURCES,
        sized(requests={"cpu": "150m"}),
        "spec",
        FORBIDDEN,
        "Pod running on node without support for resize",
        id="5",
    ),
    pytest.param(
        pod_json(node="n1"),
        {},
        sized(requests={"cpu": None}),
        "spec.containers[0].resources.requests",
        FORBIDDEN,
        "resource requests cannot be removed",
        id="6-requests",
    ),
    pytest.param(
        burstable(),
        {},
        sized(limits={"memory": None}),
        "spec.containers[0].resources.limits",
        FORBIDDEN,
        "resource limits cannot be removed",
        id="6-limits",
    ),
    pytest.param(
        INIT,
        {},
        init_sized("setup", {"requests": {"memory": None}}),
        "spec.initContainers[0].resources.requests",
        FORBIDDEN,
        "resource requests cannot be removed",
        id="6-init",
    ),
    pytest.param(
        burstable(), {}, sized(requests={"ephemeral-storage": "1Gi"}), "spec", FORBIDDEN, ONLY, id="7-other-resource"
    ),
    pytest.param(
        SIDECAR,
        {},
        init_sized("proxy", {"requests": {"ephemeral-storage": "1Gi"}}),
        "spec.initContainers[0]",
        FORBIDDEN,
        "only cpu and memory resources for init or sidecar containers are mutable",
        id="10",
    ),
    pytest.param(
        burstable(),
        {},
        {"spec": {"containers": [{"name": "more", "image": "x"}]}},
        "spec.containers",
        FORBIDDEN,
        "containers may not be added or removed on resize",
        id="12",
    ),
    pytest.param(
        burstable(),
        {},
        init_sized("setup", {}, image="x"),
        "spec.initContainers",
        FORBIDDEN,
        "initContainers may not be added or removed on resize",
        id="12-init",
    ),
    pytest.param(
        burstable(),
        {},
        replacing("/spec/containers/0/name", "other"),
        "spec.containers[0].name",
        FORBIDDEN,
        "containers may not be renamed or reordered on resize",
        id="13",
    ),
    pytest.param(
        burstable(),
        {},
        sized(requests={"cpu": "300m"}),
        "spec.containers[0].resources.requests",
        INVALID,
        "must be less than or equal to cpu limit of 200m",
        id="14",
    ),
    pytest.param(
        burstable(),
        {},
        replacing("/spec/containers/0/resizePolicy", RESTARTS),
        "spec",
        FORBIDDEN,
        ONLY,
        id="15",
    ),
    pytest.param(
        UNLIMITED,
        {},
        [{"op": "remove", "path": "/spec/resources/limits/cpu"}],
        "spec.resources.limits",
        FORBIDDEN,
        "pod-level resource limits cannot be removed",
        id="16-limits",
    ),
    pytest.param(
        POD_LEVEL,
        {},
        replacing("/spec/resources/requests/hugepages-2Mi", "2Mi"),
        "spec",
        FORBIDDEN,
        "only cpu and memory resources are mutable at pod-level",
        id="17",
    ),
    pytest.param(
        burstable(),
        {"nodeAllocatableResourceClaimStatuses": [{"name": "x"}]},
        sized(requests={"cpu": "150m"}),
        "spec",
        FORBIDDEN,
        "pods with node allocatable resource claims cannot be resized",
        id="18",
    ),
    pytest.param(
        burstable(),
        {},
        sized(requests={"cpu": "-1"}),
        "spec.containers[0].resources.requests[cpu]",
        INVALID,
        "must be greater than or equal to 0",
        id="19-negative",
    ),
    pytest.param(
        burstable(),
        {},
        sized(requests={"cpu": "1Zi"}),
        "patch",
        INVALID,
        "quantities must match the regular expression",
        id="19-no-quantity",
    ),
]


@pytest.mark.parametrize(("pod", "status", "patch", "field", "reason", "detail"), CASES)
def test_a_resize_that_kubernetes_refuses_is_refused_in_its_words(
    pod: Json, status: Json, patch: Any, field: str, reason: str, detail: str
) -> None:
    server = served(pod, **status)
    before = server.get(f"{PODS}/web-0")
    content_type = JSON_PATCH if isinstance(patch, list) else STRATEGIC
    failure = server.refused("PATCH", RESIZE, patch, content_type)
    assert (failure["code"], failure["reason"]) == (422, "Invalid")
    causes = failure["details"]["causes"]
    assert (field, reason) in [(cause["field"], cause["reason"]) for cause in causes]
    assert detail in next(
        cause["message"] for cause in causes if cause["field"] == field and detail in cause["message"]
    )
    assert field == "patch" or failure["message"].startswith('Pod "web-0" is invalid: ')
    assert server.get(f"{PODS}/web-0") == before


def test_an_init_container_that_restarts_on_resize_cannot_be_resized() -> None:
    pod = burstable(initContainers=[container_json("setup", cpu_limit="1")])
    server = served(pod)
    patch = replacing("/spec/initContainers/0/resizePolicy", RESTARTS)
    failure = server.refused("PATCH", RESIZE, patch, JSON_PATCH)
    messages = [cause["message"] for cause in failure["details"]["causes"]]
    assert (
        "Forbidden: non-sidecar init containers with a resize policy of RestartContainer cannot be resized" in messages
    )


def test_a_qos_change_names_the_stored_class() -> None:
    failure = served(GUARANTEED).refused("PATCH", RESIZE, sized(requests={"cpu": "100m"}), STRATEGIC)
    assert failure["message"] == f'Pod "web-0" is invalid: spec: Invalid value: "Guaranteed": {QOS}'


def test_several_refusals_are_listed_in_brackets() -> None:
    failure = served(burstable()).refused(
        "PATCH", RESIZE, sized(requests={"ephemeral-storage": "1Gi"}, limits={"cpu": None}), STRATEGIC
    )
    assert failure["message"].startswith('Pod "web-0" is invalid: [spec.')
    assert len(failure["details"]["causes"]) >= 2


@pytest.mark.parametrize(
    ("pod", "patch"),
    [
        pytest.param(burstable(), sized(requests={"cpu": "150m"}), id="more cpu"),
        pytest.param(burstable(), sized(requests={"memory": "64Mi"}, limits={"memory": "128Mi"}), id="less memory"),
        pytest.param(pod_json(node="n1"), sized(limits={"memory": "256Mi"}), id="a limit added"),
        pytest.param(INIT, init_sized("setup", {"requests": {"cpu": "200m"}}), id="an init container"),
        pytest.param(SIDECAR, init_sized("proxy", {"requests": {"cpu": "200m"}}), id="a sidecar"),
        pytest.param(TWO, sized("helper", requests={"cpu": "200m"}), id="the second container"),
        pytest.param(POD_LEVEL, {"spec": {"resources": {"requests": {"cpu": "1200m"}}}}, id="pod-level"),
        pytest.param(
            GUARANTEED, sized(requests={"cpu": "300m"}, limits={"cpu": "300m"}), id="guaranteed, both together"
        ),
    ],
)
def test_what_kubernetes_allows_raises_the_generation_by_one(pod: Json, patch: Json) -> None:
    server = served(pod)
    before = server.get(f"{PODS}/web-0")["metadata"]
    after = server.patch(RESIZE, patch)["metadata"]
    assert after["generation"] == before["generation"] + 1
    assert int(after["resourceVersion"]) > int(before["resourceVersion"])


def test_a_resize_that_changes_nothing_keeps_the_resource_version() -> None:
    server = served(burstable())
    before = server.get(f"{PODS}/web-0")
    assert server.patch(RESIZE, sized(requests={"cpu": "0.1"}, limits={"memory": "262144Ki"})) == before


def test_everything_but_resources_is_dropped_without_a_word() -> None:
    server = served(burstable())
    patch = sized(requests={"cpu": "150m"})
    patch["metadata"] = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    patch["spec"]["containers"][0]["image"] = "registry.local/other:2"
    patch["spec"]["nodeSelector"] = {"e": "f"}
    patch["status"] = {"phase": "Failed"}
    after = server.patch(RESIZE, patch)
    assert after["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "150m"
    assert after["spec"]["containers"][0]["image"] == "registry.local/app:1"
    assert "labels" not in after["metadata"]
    assert "annotations" not in after["metadata"]
    assert "nodeSelector" not in after["spec"]
    assert after["status"]["phase"] == "Running"


def test_another_uid_is_refused() -> None:
    server = served(burstable())
    failure = server.refused("PATCH", RESIZE, {"metadata": {"uid": "other"}, **sized(requests={"cpu": "1"})}, STRATEGIC)
    assert (failure["code"], failure["details"]["causes"][0]["field"]) == (422, "metadata.uid")
    test = [{"op": "test", "path": "/metadata/uid", "value": "other"}]
    assert server.refused("PATCH", RESIZE, test, JSON_PATCH)["code"] == 422
    whole = server.get(f"{PODS}/web-0")
    whole["metadata"]["uid"] = "other"
    assert server.refused("PUT", RESIZE, whole)["code"] == 409


def test_an_old_resource_version_is_a_conflict_before_it_is_invalid() -> None:
    server = served(GUARANTEED)
    patch = {"metadata": {"resourceVersion": "3"}, **sized(requests={"cpu": "100m"})}
    failure = server.refused("PATCH", RESIZE, patch, STRATEGIC)
    assert (failure["code"], failure["reason"]) == (409, "Conflict")
    assert failure["message"].endswith(
        "the object has been modified; please apply your changes to the latest version and try again"
    )


def test_a_put_resizes_and_needs_no_resource_version() -> None:
    server = served(burstable())
    whole = server.get(f"{PODS}/web-0")
    del whole["metadata"]["resourceVersion"]
    whole["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "150m"
    code, after = server.call("PUT", RESIZE, whole)
    assert code == 200
    assert after["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "150m"


def test_a_dry_run_answers_and_changes_nothing() -> None:
    server = served(burstable())
    before = server.get(f"{PODS}/web-0")
    after = server.patch(RESIZE, sized(requests={"cpu": "150m"}), dryRun="All")
    assert after["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "150m"
    assert server.get(f"{PODS}/web-0") == before


def test_invalid_comes_before_forbidden_by_quota() -> None:
    server = served(GUARANTEED)
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "250m"}}}
    server.post("/api/v1/namespaces/default/resourcequotas", quota)
    both = sized(limits={"cpu": "400m"}, requests={"cpu": "300m"})
    assert server.refused("PATCH", RESIZE, both, STRATEGIC)["code"] == 422
    fair = sized(limits={"cpu": "400m"}, requests={"cpu": "400m"})
    assert server.refused("PATCH", RESIZE, fair, STRATEGIC)["code"] == 403


def test_a_missing_pod_is_not_found_and_another_media_type_is_refused() -> None:
    server = served(burstable())
    assert server.refused("PATCH", f"{PODS}/gone/resize", {}, STRATEGIC)["code"] == 404
    failure = server.refused("PATCH", RESIZE, {}, "application/apply-patch+yaml")
    assert (failure["code"], failure["reason"]) == (415, "UnsupportedMediaType")
    assert "server-side apply is not served" in failure["message"]
    assert server.refused("PATCH", RESIZE, [], MERGE)["code"] == 400


def test_a_plain_patch_of_resources_is_refused() -> None:
    failure = served(burstable()).refused("PATCH", f"{PODS}/web-0", sized(requests={"cpu": "150m"}), STRATEGIC)
    assert (failure["code"], failure["details"]["causes"][0]["field"]) == (422, "spec")
    assert "pod updates may not change fields other than" in failure["message"]


def test_a_limit_range_newer_than_the_pod_fills_in_limits_on_resize() -> None:
    server = served(pod_json(cpu="100m", memory="128Mi", node="n1"))
    item = {"type": "Container", "default": {"cpu": "1"}}
    server.post("/api/v1/namespaces/default/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": [item]}})
    after = server.patch(RESIZE, sized(requests={"cpu": "150m"}))
    assert after["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1"}


def test_more_than_the_node_could_ever_give_is_forbidden() -> None:
    server = served(burstable())
    failure = server.refused("PATCH", RESIZE, sized(requests={"cpu": "2100m"}, limits={"cpu": "3"}), STRATEGIC)
    assert (failure["code"], failure["reason"]) == (403, "Forbidden")
    assert failure["message"] == (
        'pods "web-0" is forbidden: node didn\'t have enough allocatable resources: cpu,'
        " requested: 2100, allocatable: 2000"
    )


def test_a_pod_whose_node_is_gone_cannot_be_resized() -> None:
    server = served(burstable())
    server.call("DELETE", f"{NODES}/n1")
    failure = server.refused("PATCH", RESIZE, sized(requests={"cpu": "150m"}), STRATEGIC)
    assert (failure["code"], failure["message"]) == (403, 'pods "web-0" is forbidden: node "n1" not found')
