"""Status and scale: each speaks of its own part."""

from typing import Any

import pytest

from elastipod.kube import resources as kube
from tests.build import deployment_json, pod_json
from tests.contract.samples import SAMPLES, Sample, autoscaler, config_map
from tests.contract.servers import (
    FORBIDDEN,
    INVALID,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    UNSUPPORTED,
    Refusal,
    Server,
    invalid,
)

STATUSES: dict[str, dict[str, Any]] = {
    "namespaces": {"phase": "Active"},
    "nodes": {"phase": "Running"},
    "pods": {"phase": "Running"},
    "resourcequotas": {"hard": {"pods": "5"}, "used": {"pods": "0"}},
    "services": {
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "A",
                "message": "",
                "lastTransitionTime": "2026-11-29T12:00:00Z",
            }
        ]
    },
    "deployments": {"replicas": 3},
    "replicasets": {"replicas": 3},
    "statefulsets": {"replicas": 3},
    "daemonsets": {"currentNumberScheduled": 3, "numberMisscheduled": 0, "desiredNumberScheduled": 3, "numberReady": 0},
    "jobs": {"startTime": "2026-11-29T12:00:00Z"},
    "cronjobs": {"lastScheduleTime": "2026-11-29T12:00:00Z"},
    "horizontalpodautoscalers": {"currentReplicas": 3, "desiredReplicas": 3},
    "poddisruptionbudgets": {"disruptionsAllowed": 3, "currentHealthy": 3, "desiredHealthy": 0, "expectedPods": 3},
    "verticalpodautoscalers": {"conditions": [{"type": "RecommendationProvided", "status": "True"}]},
    "elasticnodes": {"cgroupVersion": "v2"},
}
WITH_STATUS = [one for one in SAMPLES if one.resource.plural in STATUSES]
WITHOUT_STATUS = [one for one in SAMPLES if one.resource.plural not in STATUSES]


@pytest.mark.parametrize("sample", WITH_STATUS, ids=str)
async def test_a_status_is_written_alone(server: Server, sample: Sample) -> None:
    name = "it" if sample.resource.namespaced else server.unique("it")
    path = server.path(sample.resource, name)
    made = await server.post(server.path(sample.resource), sample.make(name, server.namespace))
    status = STATUSES[sample.resource.plural]
    change = {"metadata": {"labels": {"case": "x"}}, "spec": made.get("spec"), "status": status}
    told = await server.patch(f"{path}/status", change, MERGE)
    assert {key: told["status"][key] for key in status} == status
    assert told.get("spec") == made.get("spec")
    # Built-in kinds take labels along, except that a Deployment does not.
    takes_labels = not sample.is_custom and sample.resource is not kube.DEPLOYMENTS
    assert ("case" in told["metadata"].get("labels", {})) is takes_labels
    assert told["metadata"].get("generation") == made["metadata"].get("generation")
    assert await server.get(f"{path}/status") == await server.get(path) == told


@pytest.mark.parametrize("sample", WITHOUT_STATUS, ids=str)
async def test_what_has_no_status_is_not_found_there(server: Server, sample: Sample) -> None:
    name = "it" if sample.resource.namespaced else server.unique("it")
    await server.post(server.path(sample.resource), sample.make(name, server.namespace))
    refused = await server.refused("GET", server.path(sample.resource, name, "status"))
    assert (refused.code, refused.reason) == (404, "NotFound")


async def test_a_spec_is_ignored_on_status(server: Server) -> None:
    path = server.path(kube.DEPLOYMENTS)
    made = await server.post(path, deployment_json("it", server.namespace))
    told = await server.patch(f"{path}/it/status", {"spec": {"replicas": 9}, "status": {"replicas": 2}}, MERGE)
    assert (told["spec"], told["status"]["replicas"]) == (made["spec"], 2)


async def test_a_status_is_ignored_on_the_object(server: Server) -> None:
    path = server.path(kube.DEPLOYMENTS)
    await server.post(path, deployment_json("it", server.namespace))
    changed = await server.patch(f"{path}/it", {"spec": {"replicas": 9}, "status": {"replicas": 2}}, MERGE)
    assert changed["spec"]["replicas"] == 9
    assert not changed.get("status", {}).get("replicas")


async def test_a_custom_status_is_ignored_on_the_object(server: Server) -> None:
    path = server.path(kube.AUTOSCALERS)
    status = {"conditions": [{"type": "LowConfidence", "status": "True"}]}
    made = await server.post(path, {**autoscaler("it", server.namespace), "status": status})
    assert not made.get("status")
    changed = await server.patch(f"{path}/it", {"status": status}, MERGE)
    assert not changed.get("status")
    told = await server.patch(f"{path}/it/status", {"status": status, "spec": {"targetRef": {"name": "x"}}}, MERGE)
    assert (told["status"], told["spec"]["targetRef"]["name"]) == (status, "web")


async def test_a_status_is_put_too(server: Server) -> None:
    made = await server.make_pod()
    told = await server.put(f"{server.pods}/web-0/status", {**made, "status": {"phase": "Running"}})
    assert told["status"]["phase"] == "Running"
    refused = await server.refused("PUT", f"{server.pods}/web-0/status", {**made, "status": {"phase": "Failed"}})
    assert refused == Refusal(409, "Conflict", "pods", "web-0")


async def test_conditions_merge_by_type(server: Server) -> None:
    await server.make_pod()
    path = f"{server.pods}/web-0/status"
    await server.patch(path, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    told = await server.patch(path, {"status": {"conditions": [{"type": "Initialized", "status": "True"}]}})
    assert {one["type"]: one["status"] for one in told["status"]["conditions"]} == {
        "Ready": "False",
        "Initialized": "True",
    }


async def test_a_pod_s_qos_class_stays_whatever_its_status_says(server: Server) -> None:
    made = await server.make_pod()
    path = f"{server.pods}/web-0/status"
    refused = await server.refused("PATCH", path, {"status": {"qosClass": "Guaranteed"}}, content_type=MERGE)
    assert refused == invalid("Pod", "web-0", ("status.qosClass", INVALID))
    told = await server.patch(path, {"status": {"qosClass": None}}, MERGE)
    assert told["status"]["qosClass"] == made["status"]["qosClass"]


async def test_a_terminated_container_does_not_run_again(server: Server) -> None:
    await server.make_pod(restartPolicy="Never", node="n1")
    ended = {"terminated": {"exitCode": 0, "finishedAt": "2026-11-29T12:00:00Z", "startedAt": "2026-11-29T12:00:00Z"}}
    status = {"name": "app", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": ended}
    await server.set_status(f"{server.pods}/web-0", {"phase": "Running", "containerStatuses": [status]})
    again = [{**status, "state": {"running": {"startedAt": "2026-11-29T12:00:00Z"}}}]
    refused = await server.refused(
        "PATCH", f"{server.pods}/web-0/status", {"status": {"containerStatuses": again}}, content_type=MERGE
    )
    assert (refused.code, refused.causes) == (422, {("status.containerStatuses[0].state", FORBIDDEN)})


@pytest.mark.parametrize("subresource", ["", "status"])
async def test_a_node_s_status_can_be_told(server: Server, subresource: str) -> None:
    name = server.unique("n1")
    await server.post(kube.NODES.path(), {"metadata": {"name": name}})
    path = "/".join(filter(None, (kube.NODES.path(), name, subresource)))
    told = await server.patch(path, {"status": {"allocatable": {"cpu": "2"}}}, MERGE)
    assert (told.get("status", {}).get("allocatable") == {"cpu": "2"}) is bool(subresource)


async def test_a_node_becomes_unschedulable(server: Server) -> None:
    name = server.unique("n1")
    await server.post(kube.NODES.path(), {"metadata": {"name": name}})
    changed = await server.patch(f"{kube.NODES.path()}/{name}", {"spec": {"unschedulable": True}})
    assert changed["spec"]["unschedulable"] is True
    taints = [{"key": "a", "effect": "NoSchedule"}]
    changed = await server.patch(f"{kube.NODES.path()}/{name}", {"spec": {"taints": taints}})
    assert taints[0] in changed["spec"]["taints"]
    refused = await server.refused(
        "PATCH",
        f"{kube.NODES.path()}/{name}",
        {"spec": {"taints": [{"key": "a", "effect": "Never"}]}},
        content_type=MERGE,
    )
    assert (refused.code, refused.causes) == (422, {("metadata.taints[0].effect", UNSUPPORTED)})


SCALED = ["deployments", "replicasets", "statefulsets"]


@pytest.mark.parametrize("plural", SCALED)
async def test_a_scale_is_read(server: Server, plural: str) -> None:
    sample = next(one for one in SAMPLES if one.resource.plural == plural)
    made = await server.post(server.path(sample.resource), sample.make("it", server.namespace))
    scale = await server.get(server.path(sample.resource, "it", "scale"))
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 1}
    assert scale["status"] == {"replicas": 0, "selector": "app=it"}
    for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp"):
        assert scale["metadata"][key] == made["metadata"][key]


@pytest.mark.parametrize("plural", SCALED)
async def test_a_scale_is_put_and_patched(server: Server, plural: str) -> None:
    sample = next(one for one in SAMPLES if one.resource.plural == plural)
    await server.post(server.path(sample.resource), sample.make("it", server.namespace))
    path = server.path(sample.resource, "it", "scale")
    scale = await server.get(path)
    assert (await server.put(path, {**scale, "spec": {"replicas": 4}}))["spec"] == {"replicas": 4}
    assert await server.refused("PUT", path, {**scale, "spec": {"replicas": 5}}) == Refusal(
        409, "Conflict", plural, "it"
    )
    assert (await server.patch(path, {"spec": {"replicas": 6}}, MERGE))["spec"] == {"replicas": 6}
    assert (await server.patch(path, {"spec": {"replicas": 0}}, STRATEGIC))["spec"] == {}
    operation = {"op": "add", "path": "/spec/replicas", "value": 2}
    assert (await server.patch(path, [operation], JSON_PATCH))["spec"] == {"replicas": 2}
    found = await server.get(server.path(sample.resource, "it"))
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (2, 5)


async def test_a_scale_below_zero_is_refused(server: Server) -> None:
    await server.post(server.path(kube.DEPLOYMENTS), deployment_json("it", server.namespace))
    path = server.path(kube.DEPLOYMENTS, "it", "scale")
    refused = await server.refused("PATCH", path, {"spec": {"replicas": -1}}, content_type=MERGE)
    assert (refused.code, refused.kind, refused.name) == (422, "Scale", "it")
    assert refused.causes == {("spec.replicas", INVALID)}


async def test_a_scale_of_nothing_is_not_found(server: Server) -> None:
    refused = await server.refused("GET", server.path(kube.DEPLOYMENTS, "none", "scale"))
    assert refused == Refusal(404, "NotFound", "deployments", "none")


async def test_a_dry_run_of_a_scale_changes_nothing(server: Server) -> None:
    await server.post(server.path(kube.DEPLOYMENTS), deployment_json("it", server.namespace))
    path = server.path(kube.DEPLOYMENTS, "it", "scale")
    assert (await server.patch(path, {"spec": {"replicas": 6}}, MERGE, dryRun="All"))["spec"] == {"replicas": 6}
    assert (await server.get(path))["spec"] == {"replicas": 1}


@pytest.mark.parametrize("resource", [kube.PODS, kube.DAEMON_SETS, kube.AUTOSCALERS], ids=lambda one: one.plural)
async def test_what_has_no_scale_is_not_found_there(server: Server, resource: kube.ResourceType) -> None:
    sample = next(one for one in SAMPLES if one.resource is resource)
    await server.post(server.path(resource), sample.make("it", server.namespace))
    refused = await server.refused("GET", server.path(resource, "it", "scale"))
    assert (refused.code, refused.reason) == (404, "NotFound")


MADE = [one for one in SAMPLES if one.resource not in (kube.RESOURCE_QUOTAS,)]


@pytest.mark.parametrize("sample", MADE, ids=str)
async def test_a_dry_run_shows_and_makes_nothing(server: Server, sample: Sample) -> None:
    name = "it" if sample.resource.namespaced else server.unique("it")
    path = server.path(sample.resource)
    shown = await server.post(path, sample.make(name, server.namespace), dryRun="All")
    assert (shown["metadata"]["name"], "resourceVersion" in shown["metadata"]) == (name, False)
    assert shown["metadata"]["uid"]
    assert (await server.refused("GET", f"{path}/{name}")).code == 404


async def test_a_dry_run_of_a_change_changes_nothing(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    made = await server.post(path, config_map("it", server.namespace))
    shown = await server.patch(f"{path}/it", {"data": {"a": "9"}}, MERGE, dryRun="All")
    assert (shown["data"]["a"], shown["metadata"]["resourceVersion"]) == ("9", made["metadata"]["resourceVersion"])
    shown = await server.put(f"{path}/it", {**made, "data": {"a": "8"}}, dryRun="All")
    assert shown["data"] == {"a": "8"}
    assert await server.get(f"{path}/it") == made


async def test_a_dry_run_is_refused_as_the_real_one_would_be(server: Server) -> None:
    await server.make_pod()
    refused = await server.refused("POST", server.pods, pod_json("web-0", server.namespace), dryRun="All")
    assert refused == Refusal(409, "AlreadyExists", "pods", "web-0")
    refused = await server.refused("POST", server.pods, pod_json("Web", server.namespace), dryRun="All")
    assert refused.code == 422


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_dry_run_of_some_is_refused(server: Server, method: str) -> None:
    made = await server.make_pod()
    path = server.pods if method == "POST" else f"{server.pods}/web-0"
    body = None if method == "DELETE" else {"metadata": {}} if method == "PATCH" else made
    kind = MERGE if method == "PATCH" else "application/json"
    refused = await server.refused(method, path, body, content_type=kind, dryRun="Some")
    assert (refused.code, refused.reason, refused.fields) == (422, "Invalid", {"dryRun"})
