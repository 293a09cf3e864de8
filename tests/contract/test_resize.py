"""`pods/resize`: what it may change, and what follows."""

import pytest

from elastipod.kube import resources as kube
from tests.contract.servers import FORBIDDEN, INVALID, JSON_PATCH, STRATEGIC, Refusal, Server, invalid
from tests.contract.sizes import BOTH, GUARANTEED, SIDECAR, Json, change, resources, running


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


async def test_a_guaranteed_pod_grows_on_both_sides(server: Server) -> None:
    path = await running(server, **GUARANTEED)
    size = {"cpu": "200m", "memory": "256Mi"}
    assert resources(await server.patch(path, change(requests=size, limits=size))) == {"requests": size, "limits": size}


async def test_a_request_that_is_taken_away_is_what_its_limit_is(server: Server) -> None:
    path = await running(server, **BOTH)
    operation = {"op": "remove", "path": "/spec/containers/0/resources/requests/cpu"}
    resized = await server.patch(path, [operation], JSON_PATCH)
    assert resources(resized)["requests"] == {"cpu": "200m", "memory": "128Mi"}


async def test_a_sidecar_is_resized(server: Server) -> None:
    path = await running(server, initContainers=[SIDECAR])
    wanted = {"spec": {"initContainers": [{"name": "side", "resources": {"requests": {"cpu": "200m"}}}]}}
    resized = await server.patch(path, wanted)
    assert resized["spec"]["initContainers"][0]["resources"]["requests"]["cpu"] == "200m"


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


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_a_resize_is_neither_posted_nor_deleted(server: Server, method: str) -> None:
    path = await running(server)
    refused = await server.refused(method, path, {})
    assert (refused.code, refused.reason) == (405, "MethodNotAllowed")
