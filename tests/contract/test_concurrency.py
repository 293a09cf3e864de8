"""Two callers and one object: versions and UIDs keep them apart."""

import asyncio

import pytest

from elastipod.kube import resources as kube
from tests.contract.samples import SAMPLES, Sample, autoscaler, config_map
from tests.contract.servers import INVALID, JSON_PATCH, MERGE, Refusal, Server, invalid

REPLACED = [one for one in SAMPLES if one.resource not in (kube.NAMESPACES, kube.EVENTS)]


@pytest.mark.parametrize("sample", REPLACED, ids=str)
async def test_a_put_of_an_old_version_is_a_conflict(server: Server, sample: Sample) -> None:
    name = "it" if sample.resource.namespaced else server.unique("it")
    path = server.path(sample.resource)
    made = await server.post(path, sample.make(name, server.namespace))
    await server.patch(f"{path}/{name}", {"metadata": {"labels": {"a": "1"}}}, MERGE)
    refused = await server.refused("PUT", f"{path}/{name}", made)
    assert refused == Refusal(409, "Conflict", sample.resource.plural, name)
    assert "the object has been modified; please apply your changes to the latest version and try again" in refused


@pytest.mark.parametrize("sample", REPLACED, ids=str)
async def test_a_put_without_a_version_wins_where_the_kind_allows_it(server: Server, sample: Sample) -> None:
    name = "it" if sample.resource.namespaced else server.unique("it")
    path = server.path(sample.resource)
    made = await server.post(path, sample.make(name, server.namespace))
    del made["metadata"]["resourceVersion"]
    if sample.is_custom or sample.resource in (kube.LEASES, kube.POD_DISRUPTION_BUDGETS):
        refused = await server.refused("PUT", f"{path}/{name}", made)
        assert refused == invalid(sample.resource.plural, name, ("metadata.resourceVersion", INVALID))
    else:
        assert (await server.put(f"{path}/{name}", made))["metadata"]["uid"] == made["metadata"]["uid"]


async def test_a_put_of_another_uid_is_a_conflict(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    made = await server.post(path, config_map("it", server.namespace))
    meta = {**made["metadata"], "uid": "11111111-1111-4111-8111-111111111111"}
    refused = await server.refused("PUT", f"{path}/it", {**made, "metadata": meta})
    assert refused == Refusal(409, "Conflict", "configmaps", "it")
    assert "UID in precondition" in refused


async def test_a_put_of_another_uid_of_a_custom_kind_is_a_conflict(server: Server) -> None:
    path = server.path(kube.AUTOSCALERS)
    made = await server.post(path, autoscaler("it", server.namespace))
    meta = {**made["metadata"], "uid": "11111111-1111-4111-8111-111111111111"}
    refused = await server.refused("PUT", f"{path}/it", {**made, "metadata": meta})
    assert refused == Refusal(409, "Conflict", "verticalpodautoscalers", "it")


async def test_a_json_patch_can_test_the_uid(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    made = await server.post(path, config_map("it", server.namespace))
    test = {"op": "test", "path": "/metadata/uid", "value": made["metadata"]["uid"]}
    change = {"op": "replace", "path": "/data/a", "value": "9"}
    assert (await server.patch(f"{path}/it", [test, change], JSON_PATCH))["data"]["a"] == "9"
    refused = await server.refused("PATCH", f"{path}/it", [{**test, "value": "x"}, change], content_type=JSON_PATCH)
    assert (refused.code, refused.reason) == (422, "Invalid")


@pytest.mark.parametrize("precondition", ["uid", "resourceVersion"])
async def test_a_deletion_holds_to_its_preconditions(server: Server, precondition: str) -> None:
    path = server.path(kube.CONFIG_MAPS)
    made = await server.post(path, config_map("it", server.namespace))
    wrong = {"preconditions": {precondition: "1" if precondition != "uid" else "11111111-1111-4111-8111-111111111111"}}
    refused = await server.refused("DELETE", f"{path}/it", wrong)
    assert refused == Refusal(409, "Conflict", "ConfigMap", "it")
    right = {"preconditions": {precondition: made["metadata"][precondition]}}
    assert (await server.delete(f"{path}/it", right))["status"] == "Success"


async def test_of_many_writers_all_are_heard_or_told(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    made = await server.post(path, config_map("it", server.namespace))
    answers = await asyncio.gather(
        *(server.call("PUT", f"{path}/it", {**made, "data": {"n": str(number)}}) for number in range(5))
    )
    assert sorted(one.code for one in answers) == [200, 409, 409, 409, 409]


async def test_of_many_creators_one_wins(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    answers = await asyncio.gather(*(server.call("POST", path, config_map("it", server.namespace)) for _ in range(5)))
    assert sorted(one.code for one in answers) == [201, 409, 409, 409, 409]


async def test_versions_rise_over_all_kinds(server: Server) -> None:
    versions = []
    for number in range(2):
        made = await server.post(server.path(kube.CONFIG_MAPS), config_map(f"c{number}", server.namespace))
        versions.append(int(made["metadata"]["resourceVersion"]))
        versions.append(int((await server.make_pod(f"p{number}"))["metadata"]["resourceVersion"]))
    assert versions == sorted(set(versions))
