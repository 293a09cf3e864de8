"""How objects go: grace, finalizers, owners, many at once."""

import asyncio

import pytest

from elastipod.kube import resources as kube
from tests.build import deployment_json, job_json, owner_json, pod_json
from tests.contract.samples import config_map
from tests.contract.servers import JSON_PATCH, MERGE, Refusal, Server

GONE = Refusal(404, "NotFound", "pods", "web-0")


async def test_a_pod_on_no_node_goes_at_once(server: Server) -> None:
    await server.make_pod()
    await server.delete(f"{server.pods}/web-0")
    assert await server.refused("GET", f"{server.pods}/web-0") == GONE


async def test_a_running_pod_gets_its_grace(server: Server) -> None:
    await server.make_running_pod(node="n1", terminationGracePeriodSeconds=7)
    said = await server.delete(f"{server.pods}/web-0")
    found = await server.get(f"{server.pods}/web-0")
    assert said["metadata"]["uid"] == found["metadata"]["uid"]
    assert found["metadata"]["deletionGracePeriodSeconds"] == 7
    assert found["metadata"]["deletionTimestamp"] > found["metadata"]["creationTimestamp"]
    assert found["metadata"]["generation"] == 2


async def test_a_deletion_may_state_the_grace(server: Server) -> None:
    await server.make_running_pod(node="n1")
    said = await server.delete(f"{server.pods}/web-0", {"gracePeriodSeconds": 3})
    assert said["metadata"]["deletionGracePeriodSeconds"] == 3


async def test_a_grace_may_be_stated_in_the_query(server: Server) -> None:
    await server.make_running_pod(node="n1")
    said = await server.delete(f"{server.pods}/web-0", gracePeriodSeconds="4")
    assert said["metadata"]["deletionGracePeriodSeconds"] == 4


async def test_a_grace_is_cut_short_but_not_made_longer(server: Server) -> None:
    await server.make_running_pod(node="n1")
    seconds = []
    for asked in (20, 25, 10):
        said = await server.delete(f"{server.pods}/web-0", {"gracePeriodSeconds": asked})
        seconds.append(said["metadata"]["deletionGracePeriodSeconds"])
    assert seconds == [20, 20, 10]


async def test_a_grace_of_zero_ends_a_pod_at_once(server: Server) -> None:
    await server.make_running_pod(node="n1")
    await server.delete(f"{server.pods}/web-0", {"gracePeriodSeconds": 0})
    assert await server.refused("GET", f"{server.pods}/web-0") == GONE


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_pod_that_is_over_goes_at_once(server: Server, phase: str) -> None:
    await server.make_pod(node="n1")
    await server.set_status(f"{server.pods}/web-0", {"phase": phase})
    await server.delete(f"{server.pods}/web-0")
    assert await server.refused("GET", f"{server.pods}/web-0") == GONE


async def test_a_grace_below_zero_means_a_second(server: Server) -> None:
    await server.make_running_pod(node="n1")
    said = await server.delete(f"{server.pods}/web-0", {"gracePeriodSeconds": -5})
    assert said["metadata"]["deletionGracePeriodSeconds"] == 1


async def test_an_object_with_a_finalizer_waits_for_it(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    await server.post(path, config_map("it", server.namespace, finalizers=["elastipod.io/hold"]))
    said = await server.delete(f"{path}/it")
    assert said["metadata"]["deletionTimestamp"]
    assert (await server.get(f"{path}/it"))["metadata"]["finalizers"] == ["elastipod.io/hold"]
    again = await server.delete(f"{path}/it")
    assert again["metadata"]["deletionTimestamp"] == said["metadata"]["deletionTimestamp"]
    await server.patch(f"{path}/it", [{"op": "remove", "path": "/metadata/finalizers"}], JSON_PATCH)
    assert await server.refused("GET", f"{path}/it") == Refusal(404, "NotFound", "configmaps", "it")


async def test_no_finalizer_is_added_to_what_is_going(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    await server.post(path, config_map("it", server.namespace, finalizers=["elastipod.io/hold"]))
    await server.delete(f"{path}/it")
    change = {"metadata": {"finalizers": ["elastipod.io/hold", "elastipod.io/more"]}}
    refused = await server.refused("PATCH", f"{path}/it", change, content_type=MERGE)
    assert (refused.code, refused.fields) == (422, {"metadata.finalizers"})


async def test_a_pod_with_a_finalizer_waits_for_it_after_its_grace(server: Server) -> None:
    wanted = pod_json("web-0", server.namespace)
    wanted["metadata"]["finalizers"] = ["elastipod.io/hold"]
    await server.post(server.pods, wanted)
    said = await server.delete(f"{server.pods}/web-0")
    assert said["metadata"]["deletionGracePeriodSeconds"] == 0
    await server.patch(f"{server.pods}/web-0", {"metadata": {"finalizers": None}}, MERGE)
    assert await server.refused("GET", f"{server.pods}/web-0") == GONE


@pytest.mark.parametrize(
    "options",
    [
        {"propagationPolicy": "Sometimes"},
        {"propagationPolicy": "Background", "orphanDependents": True},
        {"gracePeriodSeconds": "soon"},
        {"dryRun": ["Some"]},
        {"preconditions": "x"},
    ],
)
async def test_a_deletion_that_means_nothing_is_refused(server: Server, options: dict) -> None:
    await server.make_pod()
    refused = await server.refused("DELETE", f"{server.pods}/web-0", options)
    assert refused.code in (400, 422)
    await server.get(f"{server.pods}/web-0")


async def test_an_orphaning_deletion_is_marked_so(server: Server) -> None:
    path = server.path(kube.REPLICA_SETS)
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    wanted = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
    made = await server.post(path, wanted)
    owner = owner_json("ReplicaSet", "web", made["metadata"]["uid"])
    await server.make_pod(owner=owner)
    await server.delete(f"{path}/web", {"propagationPolicy": "Orphan"})
    assert (await server.get(f"{server.pods}/web-0"))["metadata"]["name"] == "web-0"


async def test_a_job_s_pods_stay_unless_it_is_said_otherwise(server: Server) -> None:
    made = await server.post(server.path(kube.JOBS), job_json("it", server.namespace))
    await server.make_pod(owner=owner_json("Job", "it", made["metadata"]["uid"], "batch/v1"))
    answer = await server.call("DELETE", server.path(kube.JOBS, "it"))
    assert (answer.code, len(answer.warnings)) == (200, 1)
    assert "child pods are preserved by default when jobs are deleted" in answer.warnings[0]
    await server.get(f"{server.pods}/web-0")


async def test_a_foreground_deletion_waits_for_dependents(server: Server) -> None:
    path = server.path(kube.DEPLOYMENTS)
    made = await server.post(path, deployment_json("web", server.namespace, replicas=0))
    wanted = config_map("it", server.namespace, finalizers=["elastipod.io/hold"])
    wanted["metadata"]["ownerReferences"] = [owner_json("Deployment", "web", made["metadata"]["uid"])]
    await server.post(server.path(kube.CONFIG_MAPS), wanted)
    said = await server.delete(f"{path}/web", {"propagationPolicy": "Foreground"})
    assert said["metadata"]["deletionTimestamp"]
    assert said["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_a_dry_run_of_a_deletion_takes_nothing_away(server: Server) -> None:
    await server.make_pod()
    assert (await server.delete(f"{server.pods}/web-0", dryRun="All"))["kind"] == "Pod"
    assert (await server.delete(f"{server.pods}/web-0", {"dryRun": ["All"]}))["kind"] == "Pod"
    await server.get(f"{server.pods}/web-0")


async def test_many_go_at_once(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    for name, app in (("a", "web"), ("b", "web"), ("c", "db")):
        await server.post(path, config_map(name, server.namespace, labels={"app": app}))
    said = await server.delete(path, labelSelector="app=web")
    assert (said["kind"], [one["metadata"]["name"] for one in said["items"]]) == ("ConfigMapList", ["a", "b"])
    assert not any("deletionTimestamp" in one["metadata"] for one in said["items"])
    assert [one for one in await server.names(path) if one in "abc"] == ["c"]
    await server.delete(path, fieldSelector="metadata.name=c")
    assert [one for one in await server.names(path) if one in "abc"] == []


async def test_many_go_with_grace(server: Server) -> None:
    for name in ("a", "b"):
        await server.make_running_pod(name, node="n1")
    await server.make_pod("c")
    await server.delete(server.pods, {"gracePeriodSeconds": 5})
    found = await server.get(server.pods)
    seconds = {one["metadata"]["name"]: one["metadata"]["deletionGracePeriodSeconds"] for one in found["items"]}
    assert seconds == {"a": 5, "b": 5}


async def test_a_dry_run_of_many_deletions_takes_nothing_away(server: Server) -> None:
    await server.make_pod("a")
    await server.delete(server.pods, dryRun="All")
    assert await server.names(server.pods) == ["a"]


async def test_a_bad_selector_deletes_nothing(server: Server) -> None:
    await server.make_pod("a")
    assert (await server.refused("DELETE", server.pods, labelSelector="app in web")).code == 400
    assert await server.names(server.pods) == ["a"]


async def test_a_namespace_that_goes_takes_no_more_in(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    await server.post(path, config_map("it", server.namespace, finalizers=["elastipod.io/hold"]))
    said = await server.delete(f"{kube.NAMESPACES.path()}/{server.namespace}")
    assert (said["kind"], said["status"]["phase"]) == ("Namespace", "Terminating")
    for _ in range(50):
        answer = await server.call("POST", path, config_map("new", server.namespace), dryRun="All")
        if answer.code != 201:
            break
        await asyncio.sleep(0.1)
    refused = await server.refused("POST", path, config_map("new", server.namespace))
    assert (refused.code, refused.reason, refused.kind, refused.name) == (403, "Forbidden", "configmaps", "new")
    assert refused.causes == {("metadata.namespace", "NamespaceTerminating")}
    assert "because it is being terminated" in refused
    await server.patch(f"{path}/it", {"data": {"c": "3"}}, MERGE)


async def test_a_system_namespace_stays(server: Server) -> None:
    refused = await server.refused("DELETE", f"{kube.NAMESPACES.path()}/kube-system")
    assert refused == Refusal(403, "Forbidden", "namespaces", "kube-system")
    assert "this namespace may not be deleted" in refused
