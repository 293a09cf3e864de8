"""What of a pod changes through its main resource, and what may be reported of it."""

from typing import Any

import pytest

from elastipod.kube import resources as kube
from tests.build import container_json
from tests.contract.servers import DUPLICATE, FORBIDDEN, INVALID, MERGE, REQUIRED, STRATEGIC, UNSUPPORTED, Server
from tests.contract.sizes import NOTHING, running

Json = dict[str, Any]
Causes = set[tuple[str, str]]
C0 = "spec.containers[0]"


def tolerates(key: str, **more: Any) -> Json:
    return {"key": key, "operator": "Exists", **more}


REFUSED: dict[str, tuple[Json, Json, Causes]] = {
    "grace": ({}, {"terminationGracePeriodSeconds": 1}, {("spec", FORBIDDEN)}),
    "later deadline": (
        {"activeDeadlineSeconds": 100},
        {"activeDeadlineSeconds": 200},
        {("spec.activeDeadlineSeconds", INVALID)},
    ),
    "no deadline": (
        {"activeDeadlineSeconds": 100},
        {"activeDeadlineSeconds": None},
        {("spec.activeDeadlineSeconds", INVALID)},
    ),
    "no image": ({}, {"containers": [{"name": "app", "image": ""}]}, {(f"{C0}.image", REQUIRED)}),
    "image with spaces": ({}, {"containers": [{"name": "app", "image": " a"}]}, {(f"{C0}.image", INVALID)}),
    "less tolerated": (
        {"tolerations": [tolerates("x")]},
        {"tolerations": [tolerates("y")]},
        {("spec.tolerations", FORBIDDEN)},
    ),
    "tolerated in no known way": (
        {},
        {"tolerations": [tolerates("x", effect="Q")]},
        {("spec.tolerations[0].effect", UNSUPPORTED)},
    ),
    "one more gate": ({}, {"schedulingGates": [{"name": "a"}]}, {("spec.schedulingGates[0].name", FORBIDDEN)}),
    "another node behind a gate": (
        {"schedulingGates": [{"name": "a"}], "nodeSelector": {"a": "b"}},
        {"nodeSelector": {"a": "c"}},
        {("spec.nodeSelector", INVALID)},
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_change_is_refused_by_its_field(server: Server, case: str) -> None:
    pod, patch, causes = REFUSED[case]
    await server.make_pod(**pod)
    refused = await server.refused("PATCH", f"{server.pods}/web-0", {"spec": patch}, content_type=STRATEGIC)
    assert (refused.code, refused.causes) == (422, causes)


async def test_a_toleration_may_be_added_alone(server: Server) -> None:
    made = await server.make_pod()
    changed = await server.patch(f"{server.pods}/web-0", {"spec": {"tolerations": [tolerates("x")]}})
    assert changed["spec"]["tolerations"] == [tolerates("x"), *made["spec"]["tolerations"]]


async def test_for_how_long_is_tolerated_may_change(server: Server) -> None:
    await server.make_pod(tolerations=[tolerates("x", effect="NoExecute", tolerationSeconds=9)])
    patch = {"spec": {"tolerations": [tolerates("x", effect="NoExecute", tolerationSeconds=5)]}}
    assert (await server.patch(f"{server.pods}/web-0", patch))["metadata"]["generation"] == 2


async def test_a_deadline_may_come_sooner(server: Server) -> None:
    await server.make_pod(activeDeadlineSeconds=100)
    changed = await server.patch(f"{server.pods}/web-0", {"spec": {"activeDeadlineSeconds": 50}})
    assert changed["spec"]["activeDeadlineSeconds"] == 50


async def test_more_may_be_asked_of_a_node_behind_a_gate(server: Server) -> None:
    made = await server.make_pod(schedulingGates=[{"name": "a"}])
    assert made["status"]["conditions"][0]["lastTransitionTime"]
    changed = await server.patch(f"{server.pods}/web-0", {"spec": {"nodeSelector": {"a": "b"}}})
    assert changed["spec"]["nodeSelector"] == {"a": "b"}


@pytest.mark.parametrize("subresource", ["", "/resize", "/status"])
async def test_a_replacement_says_its_name(server: Server, subresource: str) -> None:
    await server.make_pod()
    refused = await server.refused("PUT", f"{server.pods}/web-0{subresource}", {})
    assert (refused.code, refused.reason, "name must be provided" in refused) == (400, "BadRequest", True)


@pytest.mark.parametrize("resource", [kube.CONFIG_MAPS, kube.LEASES], ids=str)
async def test_a_replacement_of_nothing_does_too(server: Server, resource: kube.ResourceType) -> None:
    assert (await server.refused("PUT", server.path(resource, "none"), {})).code == 400


MOVED: dict[str, tuple[list[Json], Causes]] = {
    "one alone": ([{"name": "app"}], {("spec.containers", FORBIDDEN), (f"{C0}.image", REQUIRED)}),
    "none": ([], {("spec.containers", FORBIDDEN), ("spec.containers", REQUIRED)}),
    "no name": (
        [container_json(**NOTHING), {"image": "a"}],
        {("spec.containers[1].name", FORBIDDEN), ("spec.containers[1].name", REQUIRED)},
    ),
    "twice": (
        [container_json(**NOTHING), container_json(**NOTHING)],
        {("spec.containers[1].name", FORBIDDEN), ("spec.containers[1].name", DUPLICATE)},
    ),
}


@pytest.mark.parametrize("case", MOVED)
async def test_a_resized_list_is_held_to_what_every_pod_is(server: Server, case: str) -> None:
    containers, causes = MOVED[case]
    path = await running(server, node=False, containers=[container_json(**NOTHING), container_json("b", **NOTHING)])
    refused = await server.refused("PATCH", path, {"spec": {"containers": containers}}, content_type=MERGE)
    assert (refused.code, refused.causes) == (422, causes)


async def test_a_resize_policy_that_says_nothing_is_refused(server: Server) -> None:
    path = await running(server, node=False)
    patch = {"spec": {"containers": [{"name": "app", "resizePolicy": [{}]}]}}
    refused = await server.refused("PATCH", path, patch, content_type=STRATEGIC)
    assert refused.causes == {("spec", FORBIDDEN), (f"{C0}.resizePolicy", REQUIRED)}


REPORTED: dict[str, tuple[Json, Causes]] = {
    "no type": ({"conditions": [{"type": "", "status": "True"}]}, {("status.conditions[0].Type", INVALID)}),
    "bad type": ({"conditions": [{"type": "a b", "status": "True"}]}, {("status.conditions[0].Type", INVALID)}),
    "generation of a condition": (
        {"conditions": [{"type": "a", "status": "True", "observedGeneration": -1}]},
        {("status.conditions[0].observedGeneration", INVALID)},
    ),
    "generation": ({"observedGeneration": -5}, {("status.observedGeneration", INVALID)}),
    "address": ({"podIP": "300.1.1.1"}, {("status.podIPs[0]", INVALID)}),
    "mapped address": ({"podIP": "::ffff:1.2.3.4"}, {("status.podIPs[0]", INVALID)}),
    "addresses": ({"podIPs": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.2"}]}, {("status.podIPs", INVALID)}),
    "address of the host": (
        {"hostIP": "1.1.1.1", "hostIPs": [{"ip": "1.1.1.2"}]},
        {("status.hostIPs[0].ip", INVALID)},
    ),
    "nominated node": ({"nominatedNodeName": "A_"}, {("status.nominatedNodeName", INVALID)}),
}


@pytest.mark.parametrize("case", REPORTED)
async def test_a_report_is_refused_by_its_field(server: Server, case: str) -> None:
    status, causes = REPORTED[case]
    await server.make_pod()
    refused = await server.refused("PATCH", f"{server.pods}/web-0/status", {"status": status}, content_type=MERGE)
    assert (refused.code, refused.causes) == (422, causes)


async def test_an_address_is_told_in_both_forms(server: Server) -> None:
    await server.make_pod()
    path = f"{server.pods}/web-0"
    assert (await server.set_status(path, {"podIP": "1.1.1.1"}))["status"]["podIPs"] == [{"ip": "1.1.1.1"}]
    told = await server.set_status(path, {"podIP": None, "podIPs": [{"ip": "::1"}]})
    assert told["status"]["podIP"] == "::1"
