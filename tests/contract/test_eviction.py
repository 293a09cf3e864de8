"""Evictions: what a PodDisruptionBudget lets go."""

from typing import Any

import pytest

from elastipod.kube import resources as kube
from tests.contract.samples import budget
from tests.contract.servers import MERGE, Refusal, Server

Json = dict[str, Any]
WEB = {"app": "web"}


def eviction(**more: Any) -> Json:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-0"}, **more}


async def evict_path(server: Server, *, ready: bool = True) -> str:
    await server.make_running_pod(node="n1", labels=WEB)
    if not ready:
        await server.set_status(f"{server.pods}/web-0", {"conditions": [{"type": "Ready", "status": "False"}]})
    return server.path(kube.PODS, "web-0", "eviction")


async def has_budget(server: Server, name: str = "web", *, allowed: int, **spec: Any) -> str:
    path = server.path(kube.POD_DISRUPTION_BUDGETS)
    await server.post(path, budget(name, server.namespace, **spec))
    await server.set_status(
        f"{path}/{name}",
        {
            "observedGeneration": 1,
            "disruptionsAllowed": allowed,
            "currentHealthy": 1,
            "desiredHealthy": 1 - allowed,
            "expectedPods": 1,
        },
    )
    return f"{path}/{name}"


async def test_a_pod_without_a_budget_is_evicted(server: Server) -> None:
    path = await evict_path(server)
    said = await server.post(path, eviction())
    assert said == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    assert (await server.get(f"{server.pods}/web-0"))["metadata"]["deletionGracePeriodSeconds"] == 30


async def test_an_eviction_tells_the_pod_why(server: Server) -> None:
    path = await evict_path(server)
    await server.post(path, eviction())
    found = await server.get(f"{server.pods}/web-0")
    told = [one for one in found["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert [(one["status"], one["reason"]) for one in told] == [("True", "EvictionByEvictionAPI")]


async def test_an_eviction_may_state_the_grace(server: Server) -> None:
    path = await evict_path(server)
    await server.post(path, eviction(deleteOptions={"gracePeriodSeconds": 3}))
    assert (await server.get(f"{server.pods}/web-0"))["metadata"]["deletionGracePeriodSeconds"] == 3


async def test_a_budget_without_room_refuses(server: Server) -> None:
    path = await evict_path(server)
    await has_budget(server, allowed=0)
    refused = await server.refused("POST", path, eviction())
    assert (refused.code, refused.reason, refused.causes) == (429, "TooManyRequests", {("", "DisruptionBudget")})
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused
    cause = refused.json["details"]["causes"][0]["message"]
    assert cause == "The disruption budget web needs 1 healthy pods and has 1 currently"
    assert "deletionTimestamp" not in (await server.get(f"{server.pods}/web-0"))["metadata"]


async def test_a_budget_with_room_lets_one_go_and_remembers_it(server: Server) -> None:
    path = await evict_path(server)
    place = await has_budget(server, allowed=1)
    await server.post(path, eviction())
    status = (await server.get(place))["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["web-0"]


async def test_a_budget_that_was_not_looked_at_yet_refuses_for_a_while(server: Server) -> None:
    path = await evict_path(server)
    await server.post(server.path(kube.POD_DISRUPTION_BUDGETS), budget("web", server.namespace))
    answer = await server.call("POST", path, eviction())
    assert (answer.code, answer.retry_after) == (429, "10")
    assert answer.json["details"]["retryAfterSeconds"] == 10
    assert "still being processed by the server" in answer.json["details"]["causes"][0]["message"]


async def test_two_budgets_of_one_pod_are_one_too_many(server: Server) -> None:
    path = await evict_path(server)
    await has_budget(server, "a", allowed=1)
    await has_budget(server, "b", allowed=1)
    refused = await server.refused("POST", path, eviction())
    assert (refused.code, refused.reason) == (500, "")
    assert "more than one PodDisruptionBudget" in refused


@pytest.mark.parametrize("query", [True, False], ids=["query", "options"])
async def test_a_dry_run_spends_nothing(server: Server, query: bool) -> None:
    path = await evict_path(server)
    place = await has_budget(server, allowed=1)
    body = eviction() if query else eviction(deleteOptions={"dryRun": ["All"]})
    await server.post(path, body, **({"dryRun": "All"} if query else {}))
    assert (await server.get(place))["status"]["disruptionsAllowed"] == 1
    assert "deletionTimestamp" not in (await server.get(f"{server.pods}/web-0"))["metadata"]


async def test_a_dry_run_is_refused_as_the_real_one_would_be(server: Server) -> None:
    path = await evict_path(server)
    await has_budget(server, allowed=0)
    assert (await server.refused("POST", path, eviction(), dryRun="All")).code == 429


async def test_a_pod_that_is_not_ready_goes_while_the_budget_is_healthy(server: Server) -> None:
    path = await evict_path(server, ready=False)
    await has_budget(server, allowed=0)
    await server.post(path, eviction())


async def test_a_pod_that_is_not_ready_is_free_where_the_budget_says_so(server: Server) -> None:
    path = await evict_path(server, ready=False)
    place = await has_budget(server, allowed=0, minAvailable=1, unhealthyPodEvictionPolicy="AlwaysAllow")
    await server.set_status(place, {"currentHealthy": 0})
    await server.post(path, eviction())


async def test_a_pod_that_is_not_ready_stays_while_the_budget_is_broken(server: Server) -> None:
    path = await evict_path(server, ready=False)
    place = await has_budget(server, allowed=0)
    await server.set_status(place, {"currentHealthy": 0})
    assert (await server.refused("POST", path, eviction())).code == 429


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Pending"])
async def test_a_pod_that_does_not_run_needs_no_budget(server: Server, phase: str) -> None:
    path = await evict_path(server)
    await server.set_status(f"{server.pods}/web-0", {"phase": phase})
    await has_budget(server, allowed=0)
    await server.post(path, eviction())


async def test_a_pod_that_goes_already_needs_no_budget(server: Server) -> None:
    path = await evict_path(server)
    await has_budget(server, allowed=0)
    await server.delete(f"{server.pods}/web-0")
    await server.post(path, eviction())


async def test_an_eviction_of_no_pod_is_not_found(server: Server) -> None:
    refused = await server.refused(
        "POST", server.path(kube.PODS, "none", "eviction"), eviction(metadata={"name": "none"})
    )
    assert refused == Refusal(404, "NotFound", "pods", "none")


async def test_an_eviction_of_another_uid_is_a_conflict(server: Server) -> None:
    path = await evict_path(server)
    await has_budget(server, allowed=1)
    options = {"preconditions": {"uid": "11111111-1111-4111-8111-111111111111"}}
    refused = await server.refused("POST", path, eviction(deleteOptions=options))
    assert refused == Refusal(409, "Conflict", "Pod", "web-0")


async def test_an_eviction_of_an_old_version_is_a_conflict(server: Server) -> None:
    path = await evict_path(server)
    refused = await server.refused("POST", path, eviction(deleteOptions={"preconditions": {"resourceVersion": "1"}}))
    assert refused == Refusal(409, "Conflict", "Pod", "web-0")


async def test_an_eviction_names_the_pod_of_its_path(server: Server) -> None:
    path = await evict_path(server)
    refused = await server.refused("POST", path, eviction(metadata={"name": "other"}))
    assert (refused.code, refused.reason) == (400, "BadRequest")


async def test_an_eviction_is_of_the_namespace_of_its_path(server: Server) -> None:
    path = await evict_path(server)
    refused = await server.refused("POST", path, eviction(metadata={"name": "web-0", "namespace": "default"}))
    assert (refused.code, refused.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": []},
        {"metadata": "x"},
        {"deleteOptions": []},
        {"deleteOptions": {"gracePeriodSeconds": "x"}},
        {"kind": "Pod", "apiVersion": "v1"},
        {"apiVersion": "policy/v9"},
    ],
    ids=["metadata-list", "metadata-text", "options", "grace", "kind", "version"],
)
async def test_what_is_no_eviction_is_refused(server: Server, body: Json) -> None:
    path = await evict_path(server)
    refused = await server.refused("POST", path, {**eviction(), **body})
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert "deletionTimestamp" not in (await server.get(f"{server.pods}/web-0"))["metadata"]


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
async def test_an_eviction_is_only_posted(server: Server, method: str) -> None:
    path = await evict_path(server)
    body: Json | None = None if method == "GET" else {}
    refused = await server.refused(method, path, body, content_type=MERGE if method == "PATCH" else "application/json")
    assert (refused.code, refused.reason) == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"minAvailable": 1, "maxUnavailable": 1}, {("spec", "FieldValueInvalid")}),
        ({"minAvailable": -1}, {("spec.minAvailable", "FieldValueInvalid")}),
        ({"minAvailable": "half"}, {("spec.minAvailable", "FieldValueInvalid")}),
        ({"maxUnavailable": "120%"}, {("spec.maxUnavailable", "FieldValueInvalid")}),
        (
            {"minAvailable": 1, "unhealthyPodEvictionPolicy": "Perhaps"},
            {("spec.unhealthyPodEvictionPolicy", "FieldValueNotSupported")},
        ),
    ],
)
async def test_a_budget_is_checked(server: Server, spec: Json, causes: set) -> None:
    path = server.path(kube.POD_DISRUPTION_BUDGETS)
    refused = await server.refused("POST", path, budget("web", server.namespace, **spec))
    assert (refused.code, refused.causes) == (422, causes)


async def test_a_pod_is_bound_once(server: Server) -> None:
    await server.make_pod()
    path = server.path(kube.PODS, "web-0", "binding")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web-0"},
        "target": {"kind": "Node", "name": "n1"},
    }
    said = await server.post(path, binding)
    assert said == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    found = await server.get(f"{server.pods}/web-0")
    assert found["spec"]["nodeName"] == "n1"
    assert [(one["type"], one["status"]) for one in found["status"]["conditions"]] == [("PodScheduled", "True")]
    refused = await server.refused("POST", path, binding)
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert "is already assigned to node" in refused


async def test_a_binding_names_a_node(server: Server) -> None:
    await server.make_pod()
    path = server.path(kube.PODS, "web-0", "binding")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web-0"},
        "target": {"kind": "Node", "name": ""},
    }
    refused = await server.refused("POST", path, binding)
    assert (refused.code, refused.reason) == (500, "")
    assert "target.name: Required value" in refused
