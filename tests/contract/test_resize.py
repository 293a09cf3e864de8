"""`pods/resize`: what it may change, and every refusal by its field."""

import asyncio
from typing import Any

import pytest

from elastipod.kube import resources as kube
from tests.build import container_json, node_json
from tests.contract.servers import FORBIDDEN, INVALID, JSON_PATCH, MERGE, STRATEGIC, Refusal, Server, invalid

Json = dict[str, Any]


async def running(server: Server, *, node: bool = True, **pod: Any) -> str:
    """A running pod, on a node where it shall have one; the path of its resize."""
    name = server.unique("n1")
    if node:
        await server.post(kube.NODES.path(), node_json(name, cpu="2", memory="4Gi"))
        pod["node"] = name
    await server.make_running_pod(**pod)
    return server.path(kube.PODS, "web-0", "resize")


def change(name: str = "app", *, requests: Json | None = None, limits: Json | None = None) -> Json:
    """A strategic merge of one container's resources."""
    parts = {key: value for key, value in (("requests", requests), ("limits", limits)) if value is not None}
    return {"spec": {"containers": [{"name": name, "resources": parts}]}}


def resources(pod: Json, place: int = 0) -> Json:
    found: Json = pod["spec"]["containers"][place]["resources"]
    return found


async def test_a_resize_changes_what_is_asked_for_and_raises_the_generation(server: Server) -> None:
    path = await running(server)
    resized = await server.patch(path, change(requests={"cpu": "0.25", "memory": "256Mi"}, limits={"cpu": "1"}))
    assert resources(resized) == {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"cpu": "1"}}
    assert resized["metadata"]["generation"] == 2
    assert resized["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"] == "100m"


async def test_a_resize_to_what_is_makes_no_version(server: Server) -> None:
    path = await running(server)
    before = await server.get(f"{server.pods}/web-0")
    assert await server.patch(path, change(requests={"cpu": "100m"})) == before


async def test_a_resize_is_read_as_the_pod(server: Server) -> None:
    path = await running(server)
    assert await server.get(path) == await server.get(f"{server.pods}/web-0")


async def test_a_resize_of_no_pod_is_not_found(server: Server) -> None:
    path = server.path(kube.PODS, "none", "resize")
    refused = await server.refused("PATCH", path, change(requests={"cpu": "1"}), content_type=STRATEGIC)
    assert refused == Refusal(404, "NotFound", "pods", "none")


async def test_a_put_resizes_too(server: Server) -> None:
    path = await running(server)
    pod = await server.get(f"{server.pods}/web-0")
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "200m"
    assert resources(await server.put(path, pod))["requests"]["cpu"] == "200m"
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "300m"
    assert await server.refused("PUT", path, pod) == Refusal(409, "Conflict", "pods", "web-0")


async def test_a_json_patch_resizes_too(server: Server) -> None:
    path = await running(server)
    place = "/spec/containers/0/resources/requests/cpu"
    assert resources(await server.patch(path, [{"op": "replace", "path": place, "value": "150m"}], JSON_PATCH))[
        "requests"
    ] == {"cpu": "150m", "memory": "128Mi"}


async def test_all_but_resources_is_dropped_without_a_word(server: Server) -> None:
    path = await running(server)
    wanted = change(requests={"cpu": "200m"})
    wanted["metadata"] = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    wanted["spec"]["containers"][0]["image"] = "other:2"
    wanted["spec"]["activeDeadlineSeconds"] = 5
    wanted["status"] = {"phase": "Failed"}
    resized = await server.patch(path, wanted)
    assert resources(resized)["requests"]["cpu"] == "200m"
    assert {"labels", "annotations"}.isdisjoint(resized["metadata"])
    assert resized["spec"]["containers"][0]["image"] == "registry.local/app:1"
    assert (resized["status"]["phase"], "activeDeadlineSeconds" in resized["spec"]) == ("Running", False)


async def test_a_dry_run_changes_nothing(server: Server) -> None:
    path = await running(server)
    shown = await server.patch(path, change(requests={"cpu": "200m"}), dryRun="All")
    assert resources(shown)["requests"]["cpu"] == "200m"
    assert resources(await server.get(path))["requests"]["cpu"] == "100m"


async def test_a_resize_of_another_uid_or_version_is_refused(server: Server) -> None:
    path = await running(server)
    wanted = {**change(requests={"cpu": "200m"}), "metadata": {"uid": "11111111-1111-4111-8111-111111111111"}}
    refused = await server.refused("PATCH", path, wanted, content_type=STRATEGIC)
    assert refused == invalid("Pod", "web-0", ("metadata.uid", INVALID))
    wanted["metadata"] = {"resourceVersion": "1"}
    refused = await server.refused("PATCH", path, wanted, content_type=STRATEGIC)
    assert refused == Refusal(409, "Conflict", "pods", "web-0")


async def test_a_plain_patch_does_not_resize(server: Server) -> None:
    await running(server)
    wanted = change(requests={"cpu": "200m"})
    refused = await server.refused("PATCH", f"{server.pods}/web-0", wanted, content_type=STRATEGIC)
    assert refused == invalid("Pod", "web-0", ("spec", FORBIDDEN))
    assert "pod updates may not change fields other than" in refused


async def test_a_pod_on_no_node_may_be_resized(server: Server) -> None:
    await server.make_pod()
    resized = await server.patch(server.path(kube.PODS, "web-0", "resize"), change(requests={"cpu": "9"}))
    assert resources(resized)["requests"]["cpu"] == "9"


async def test_a_pod_that_is_going_may_be_resized(server: Server) -> None:
    path = await running(server)
    await server.delete(f"{server.pods}/web-0")
    assert resources(await server.patch(path, change(requests={"cpu": "200m"})))["requests"]["cpu"] == "200m"


async def test_a_limit_may_be_added(server: Server) -> None:
    path = await running(server)
    assert resources(await server.patch(path, change(limits={"memory": "1Gi"})))["limits"] == {"memory": "1Gi"}


async def test_a_memory_limit_may_go_down(server: Server) -> None:
    path = await running(server, memory_limit="1Gi")
    assert resources(await server.patch(path, change(limits={"memory": "512Mi"})))["limits"] == {"memory": "512Mi"}


GUARANTEED: Json = {"cpu": "100m", "memory": "128Mi", "cpu_limit": "100m", "memory_limit": "128Mi"}
NOTHING = {"cpu": None, "memory": None}
BOTH: Json = {"cpu": "100m", "memory": "128Mi", "cpu_limit": "200m", "memory_limit": "256Mi"}


@pytest.mark.parametrize(
    ("pod", "wanted"),
    [
        (GUARANTEED, change(limits={"cpu": "200m"})),
        (NOTHING, change(requests={"cpu": "100m"})),
        (NOTHING, change(limits={"cpu": "100m"})),
        (BOTH, change(requests={"cpu": "200m", "memory": "256Mi"})),
    ],
    ids=["guaranteed", "best-effort", "best-effort-limit", "burstable"],
)
async def test_the_qos_class_stays(server: Server, pod: Json, wanted: Json) -> None:
    path = await running(server, **pod)
    refused = await server.refused("PATCH", path, wanted, content_type=STRATEGIC)
    assert refused == invalid("Pod", "web-0", ("spec", INVALID))
    assert "Pod QOS Class may not change as a result of resizing" in refused


async def test_a_guaranteed_pod_grows_on_both_sides(server: Server) -> None:
    path = await running(server, **GUARANTEED)
    size = {"cpu": "200m", "memory": "256Mi"}
    assert resources(await server.patch(path, change(requests=size, limits=size))) == {"requests": size, "limits": size}


@pytest.mark.parametrize("key", ["cpu", "memory"])
async def test_a_limit_can_not_be_taken_away(server: Server, key: str) -> None:
    path = await running(server, **BOTH)
    operation = {"op": "remove", "path": f"/spec/containers/0/resources/limits/{key}"}
    refused = await server.refused("PATCH", path, [operation], content_type=JSON_PATCH)
    assert refused == invalid("Pod", "web-0", ("spec.containers[0].resources.limits", FORBIDDEN))
    assert "resource limits cannot be removed" in refused


async def test_a_request_that_is_taken_away_is_what_its_limit_is(server: Server) -> None:
    path = await running(server, **BOTH)
    operation = {"op": "remove", "path": "/spec/containers/0/resources/requests/cpu"}
    resized = await server.patch(path, [operation], JSON_PATCH)
    assert resources(resized)["requests"] == {"cpu": "200m", "memory": "128Mi"}


async def test_a_request_that_no_limit_stands_in_for_can_not_be_taken_away(server: Server) -> None:
    path = await running(server)
    operation = {"op": "remove", "path": "/spec/containers/0/resources/requests/cpu"}
    refused = await server.refused("PATCH", path, [operation], content_type=JSON_PATCH)
    assert refused == invalid("Pod", "web-0", ("spec.containers[0].resources.requests", FORBIDDEN))
    assert "resource requests cannot be removed" in refused


@pytest.mark.parametrize("key", ["ephemeral-storage", "example.com/gpu"])
async def test_only_cpu_and_memory_may_change(server: Server, key: str) -> None:
    amounts = {"requests": {"cpu": "100m", key: "1"}, "limits": {key: "1"}}
    path = await running(server, containers=[{**container_json(), "resources": amounts}])
    refused = await server.refused(
        "PATCH", path, change(requests={key: "2"}, limits={key: "2"}), content_type=STRATEGIC
    )
    assert ("spec", FORBIDDEN) in refused.causes
    assert "only cpu and memory resources are mutable" in refused


async def test_another_resource_can_not_be_added(server: Server) -> None:
    path = await running(server)
    refused = await server.refused("PATCH", path, change(requests={"ephemeral-storage": "1Gi"}), content_type=STRATEGIC)
    assert refused == invalid("Pod", "web-0", ("spec", FORBIDDEN))


async def test_a_request_stays_within_its_limit(server: Server) -> None:
    path = await running(server, **BOTH)
    refused = await server.refused("PATCH", path, change(requests={"cpu": "300m"}), content_type=STRATEGIC)
    assert refused == invalid("Pod", "web-0", ("spec.containers[0].resources.requests", INVALID))
    assert "must be less than or equal to cpu limit of 200m" in refused


async def test_a_negative_amount_is_refused(server: Server) -> None:
    path = await running(server)
    refused = await server.refused("PATCH", path, change(requests={"cpu": "-1"}), content_type=STRATEGIC)
    assert ("spec.containers[0].resources.requests[cpu]", INVALID) in refused.causes


async def test_what_is_no_amount_is_refused(server: Server) -> None:
    path = await running(server)
    refused = await server.refused("PATCH", path, change(requests={"cpu": "much"}), content_type=STRATEGIC)
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert "quantities must match the regular expression" in refused


async def test_containers_are_not_added(server: Server) -> None:
    path = await running(server)
    wanted = {"spec": {"containers": [container_json("new")]}}
    refused = await server.refused("PATCH", path, wanted, content_type=STRATEGIC)
    assert refused == invalid("Pod", "web-0", ("spec.containers", FORBIDDEN))
    assert "containers may not be added or removed on resize" in refused


async def test_containers_are_not_removed(server: Server) -> None:
    path = await running(server, containers=[container_json("a"), container_json("b")])
    operation = {"op": "remove", "path": "/spec/containers/1"}
    refused = await server.refused("PATCH", path, [operation], content_type=JSON_PATCH)
    assert refused == invalid("Pod", "web-0", ("spec.containers", FORBIDDEN))


async def test_containers_are_not_renamed(server: Server) -> None:
    path = await running(server)
    operation = {"op": "replace", "path": "/spec/containers/0/name", "value": "other"}
    refused = await server.refused("PATCH", path, [operation], content_type=JSON_PATCH)
    assert refused == invalid("Pod", "web-0", ("spec.containers[0].name", FORBIDDEN))
    assert "containers may not be renamed or reordered on resize" in refused


async def test_containers_are_not_reordered(server: Server) -> None:
    path = await running(server, containers=[container_json("a"), container_json("b")])
    wanted = [container_json("b"), container_json("a")]
    refused = await server.refused("PATCH", path, {"spec": {"containers": wanted}}, content_type=MERGE)
    assert refused.causes == {("spec.containers[0].name", FORBIDDEN), ("spec.containers[1].name", FORBIDDEN)}


async def test_a_resize_policy_stays(server: Server) -> None:
    path = await running(server)
    policy = {"resourceName": "cpu", "restartPolicy": "RestartContainer"}
    wanted = {"spec": {"containers": [{"name": "app", "resizePolicy": [policy]}]}}
    refused = await server.refused("PATCH", path, wanted, content_type=STRATEGIC)
    assert refused == invalid("Pod", "web-0", ("spec", FORBIDDEN))


async def test_a_mirror_pod_is_not_resized(server: Server) -> None:
    path = await running(server, annotations={"kubernetes.io/config.mirror": "x"}, node=True)
    refused = await server.refused("PATCH", path, change(requests={"cpu": "200m"}), content_type=STRATEGIC)
    assert (refused.code, refused.causes) == (422, {("[]", FORBIDDEN)})
    assert "static pods cannot be resized" in refused


async def test_a_windows_pod_is_not_resized(server: Server) -> None:
    path = await running(server, os={"name": "windows"})
    refused = await server.refused("PATCH", path, change(requests={"cpu": "200m"}), content_type=STRATEGIC)
    assert (refused.code, refused.causes) == (422, {("[]", FORBIDDEN)})
    assert "windows pods cannot be resized" in refused


async def test_a_node_that_reports_no_resources_can_not_resize(server: Server) -> None:
    path = await running(server)
    running_at = {"running": {"startedAt": "2026-11-29T12:00:00Z"}}
    status = {"name": "app", "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": running_at}
    await server.set_status(f"{server.pods}/web-0", {"containerStatuses": [status]})
    refused = await server.refused("PATCH", path, change(requests={"cpu": "200m"}), content_type=STRATEGIC)
    assert refused == invalid("Pod", "web-0", ("spec", FORBIDDEN))
    assert "Pod running on node without support for resize" in refused


SIDECAR = container_json("side", restartPolicy="Always")


async def test_a_sidecar_is_resized(server: Server) -> None:
    path = await running(server, initContainers=[SIDECAR])
    wanted = {"spec": {"initContainers": [{"name": "side", "resources": {"requests": {"cpu": "200m"}}}]}}
    resized = await server.patch(path, wanted)
    assert resized["spec"]["initContainers"][0]["resources"]["requests"]["cpu"] == "200m"


async def test_only_cpu_and_memory_of_a_sidecar_may_change(server: Server) -> None:
    path = await running(server, initContainers=[SIDECAR])
    amounts = {"requests": {"ephemeral-storage": "1Gi"}}
    wanted = {"spec": {"initContainers": [{"name": "side", "resources": amounts}]}}
    refused = await server.refused("PATCH", path, wanted, content_type=STRATEGIC)
    assert ("spec.initContainers[0]", FORBIDDEN) in refused.causes


async def test_what_an_init_container_states_can_not_be_taken_away(server: Server) -> None:
    path = await running(server, initContainers=[SIDECAR])
    operation = {"op": "remove", "path": "/spec/initContainers/0/resources/requests/cpu"}
    refused = await server.refused("PATCH", path, [operation], content_type=JSON_PATCH)
    assert refused == invalid("Pod", "web-0", ("spec.initContainers[0].resources.requests", FORBIDDEN))


INIT = {"spec": {"initContainers": [{"name": "init", "resources": {"requests": {"cpu": "200m"}}}]}}
POD_LEVEL = {"spec": {"resources": {"requests": {"cpu": "1500m"}, "limits": {"cpu": "1500m"}}}}
WITH_INIT: Json = {"initContainers": [container_json("init")]}
WITH_POD_LEVEL: Json = {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}


@pytest.mark.parametrize(
    ("pod", "wanted", "feature"),
    [
        (WITH_INIT, INIT, "InPlacePodVerticalScalingInitContainers"),
        (WITH_POD_LEVEL, POD_LEVEL, "InPlacePodLevelResourcesVerticalScaling"),
    ],
    ids=["init", "pod-level"],
)
async def test_a_node_declares_what_more_it_can_resize(server: Server, pod: Json, wanted: Json, feature: str) -> None:
    path = await running(server, **pod)
    refused = await server.refused("PATCH", path, wanted, content_type=STRATEGIC)
    assert refused == Refusal(403, "Forbidden", "pods", "web-0")
    assert f"pod update requires features {feature} which are not available on node" in refused
    await server.set_status(server.path(kube.NODES, server.unique("n1")), {"declaredFeatures": [feature]})
    for _ in range(50):
        # The API server hears of a node by a watch of its own.
        if (await server.call("PATCH", path, wanted, content_type=STRATEGIC, dryRun="All")).code == 200:
            break
        await asyncio.sleep(0.1)
    assert (await server.patch(path, wanted))["metadata"]["generation"] == 2


async def test_a_plain_init_container_is_not_resized_by_a_restart(server: Server) -> None:
    path = await running(server, **WITH_INIT)
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    operation = {"op": "add", "path": "/spec/initContainers/0/resizePolicy", "value": policy}
    refused = await server.refused("PATCH", path, [operation], content_type=JSON_PATCH)
    assert ("spec.initContainers[0]", FORBIDDEN) in refused.causes


async def test_init_containers_are_not_added(server: Server) -> None:
    path = await running(server)
    wanted = {"spec": {"initContainers": [container_json("new")]}}
    refused = await server.refused("PATCH", path, wanted, content_type=STRATEGIC)
    assert refused == invalid("Pod", "web-0", ("spec.initContainers", FORBIDDEN))


@pytest.mark.parametrize(("key", "amount"), [("cpu", "2100m"), ("memory", "5Gi")])
async def test_more_than_the_node_could_ever_give_is_forbidden(server: Server, key: str, amount: str) -> None:
    path = await running(server)
    refused = await server.refused("PATCH", path, change(requests={key: amount}), content_type=STRATEGIC)
    assert refused == Refusal(403, "Forbidden", "pods", "web-0", frozenset({("", "NodeCapacity")}))
    assert f"node didn't have enough allocatable resources: {key}, requested:" in refused


async def test_a_resize_on_a_node_that_is_not_there_is_forbidden(server: Server) -> None:
    await server.make_running_pod(node=server.unique("gone"))
    path = server.path(kube.PODS, "web-0", "resize")
    refused = await server.refused("PATCH", path, change(requests={"cpu": "200m"}), content_type=STRATEGIC)
    assert refused == Refusal(403, "Forbidden", "pods", "web-0")
    assert f'node "{server.unique("gone")}" not found' in refused


async def test_what_is_invalid_is_told_before_what_is_forbidden(server: Server) -> None:
    path = await running(server, **GUARANTEED)
    refused = await server.refused("PATCH", path, change(limits={"cpu": "100"}), content_type=STRATEGIC)
    assert refused == invalid("Pod", "web-0", ("spec", INVALID))


@pytest.mark.parametrize(
    ("limits", "wanted", "words"),
    [
        ({"max": {"cpu": "1"}}, {"cpu": "1100m"}, "maximum cpu usage per Container is 1"),
        (
            {"min": {"memory": "64Mi"}},
            {"memory": "32Mi"},
            "minimum memory usage per Container is 64Mi, but request is 32Mi",
        ),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "50m"}, "cpu max limit to request ratio per Container is 2"),
    ],
    ids=["max", "min", "ratio"],
)
async def test_a_limit_range_holds_for_a_resize(server: Server, limits: Json, wanted: Json, words: str) -> None:
    path = await running(server, cpu="100m", cpu_limit="1200m", memory_limit="1Gi", memory="128Mi")
    await server.limit(**limits)
    refused = await server.refused("PATCH", path, change(requests=wanted), content_type=STRATEGIC)
    assert refused == Refusal(403, "Forbidden", "pods", "web-0")
    assert words in refused


async def test_a_limit_range_fills_in_at_a_resize(server: Server) -> None:
    path = await running(server)
    await server.limit(default={"memory": "1Gi"})
    resized = await server.patch(path, change(requests={"cpu": "200m"}))
    assert resources(resized)["limits"] == {"memory": "1Gi"}


async def test_pod_level_resources_are_not_taken_away(server: Server) -> None:
    path = await running(server, resources={"requests": {"cpu": "1"}, "limits": {"cpu": "1"}})
    refused = await server.refused(
        "PATCH", path, [{"op": "remove", "path": "/spec/resources/limits/cpu"}], content_type=JSON_PATCH
    )
    assert refused.code == 422
    assert ("spec.resources.limits", FORBIDDEN) in refused.causes


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_a_resize_is_neither_posted_nor_deleted(server: Server, method: str) -> None:
    path = await running(server)
    refused = await server.refused(method, path, {})
    assert (refused.code, refused.reason) == (405, "MethodNotAllowed")
