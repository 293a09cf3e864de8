"""`pods/resize`: every refusal by its field."""

import asyncio

import pytest

from elastipod.kube import resources as kube
from tests.build import container_json
from tests.contract.servers import FORBIDDEN, INVALID, JSON_PATCH, MERGE, STRATEGIC, Refusal, Server, invalid
from tests.contract.sizes import BOTH, GUARANTEED, NOTHING, SIDECAR, Json, change, running


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


@pytest.mark.parametrize("key", ["cpu", "memory"])
async def test_a_limit_can_not_be_taken_away(server: Server, key: str) -> None:
    path = await running(server, **BOTH)
    operation = {"op": "remove", "path": f"/spec/containers/0/resources/limits/{key}"}
    refused = await server.refused("PATCH", path, [operation], content_type=JSON_PATCH)
    assert refused == invalid("Pod", "web-0", ("spec.containers[0].resources.limits", FORBIDDEN))
    assert "resource limits cannot be removed" in refused


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


async def test_pod_level_resources_are_not_taken_away(server: Server) -> None:
    path = await running(server, resources={"requests": {"cpu": "1"}, "limits": {"cpu": "1"}})
    refused = await server.refused(
        "PATCH", path, [{"op": "remove", "path": "/spec/resources/limits/cpu"}], content_type=JSON_PATCH
    )
    assert refused.code == 422
    assert ("spec.resources.limits", FORBIDDEN) in refused.causes
