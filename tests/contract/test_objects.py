"""Every kind is made, read, replaced, patched and deleted in the same way."""

import pytest

from elastipod.kube import resources as kube
from tests.build import pod_json
from tests.contract.samples import SAMPLES, Sample, config_map
from tests.contract.servers import MERGE, Refusal, Server

EVERY_KIND = pytest.mark.parametrize("sample", SAMPLES, ids=str)


def place(server: Server, sample: Sample) -> tuple[str, str, dict]:
    """A name, the collection's path, and a new object."""
    name = "it" if sample.resource.namespaced else server.unique("it")
    return name, server.path(sample.resource), sample.make(name, server.namespace)


@EVERY_KIND
async def test_a_new_object_gets_what_the_server_alone_can_say(server: Server, sample: Sample) -> None:
    name, path, wanted = place(server, sample)
    made = await server.post(path, wanted)
    meta = made["metadata"]
    assert (made["apiVersion"], made["kind"]) == (sample.resource.api_version, sample.resource.kind)
    assert (meta["name"], meta.get("namespace")) == (name, server.namespace if sample.resource.namespaced else None)
    assert len(meta["uid"]) == 36
    assert meta["resourceVersion"].isdecimal()
    assert meta["creationTimestamp"].endswith("Z")
    assert meta.get("generation") == (1 if sample.has_generation else None)
    assert await server.get(f"{path}/{name}") == made
    again = await server.refused("POST", path, wanted)
    assert again == Refusal(409, "AlreadyExists", sample.resource.plural, name)
    assert again.json["details"].get("group", "") == sample.resource.group


@EVERY_KIND
async def test_a_list_holds_objects_and_the_version_it_is_of(server: Server, sample: Sample) -> None:
    name, path, wanted = place(server, sample)
    made = await server.post(path, wanted)
    found = await server.get(path, fieldSelector=f"metadata.name={name}")
    assert (found["kind"], found["apiVersion"]) == (f"{sample.resource.kind}List", sample.resource.api_version)
    assert int(found["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
    assert [one["metadata"]["uid"] for one in found["items"]] == [made["metadata"]["uid"]]
    if sample.resource.namespaced:
        everywhere = await server.get(sample.resource.path(), fieldSelector=f"metadata.namespace={server.namespace}")
        assert [one["metadata"]["uid"] for one in everywhere["items"]] == [made["metadata"]["uid"]]


@EVERY_KIND
async def test_an_object_is_replaced_and_patched(server: Server, sample: Sample) -> None:
    name, path, wanted = place(server, sample)
    made = await server.post(path, wanted)
    replaced = await server.put(f"{path}/{name}", {**made, "metadata": {**made["metadata"], "labels": {"a": "1"}}})
    assert int(replaced["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    patched = await server.patch(f"{path}/{name}", {"metadata": {"annotations": {"b": "2"}}}, MERGE)
    assert (patched["metadata"]["labels"]["a"], patched["metadata"]["annotations"]["b"]) == ("1", "2")
    # A Deployment's annotations count as what is wanted of it.
    is_wanted = sample.resource is kube.DEPLOYMENTS
    assert patched["metadata"].get("generation") == (2 if is_wanted else made["metadata"].get("generation"))
    same = await server.patch(f"{path}/{name}", {"metadata": {"annotations": {"b": "2"}}}, MERGE)
    assert same["metadata"]["resourceVersion"] == patched["metadata"]["resourceVersion"]
    assert same["metadata"]["uid"] == made["metadata"]["uid"]


@EVERY_KIND
async def test_a_deleted_object_is_gone_and_said_to_be(server: Server, sample: Sample) -> None:
    name, path, wanted = place(server, sample)
    made = await server.post(path, wanted)
    said = await server.delete(f"{path}/{name}", {"propagationPolicy": "Background"})
    if sample.resource in (kube.PODS, kube.NAMESPACES, kube.SERVICES, kube.RESOURCE_QUOTAS):
        assert (said["kind"], said["metadata"]["uid"]) == (sample.resource.kind, made["metadata"]["uid"])
    else:
        assert (said["kind"], said["status"]) == ("Status", "Success")
        about = {"name": name, "kind": sample.resource.plural, "uid": made["metadata"]["uid"]}
        assert said["details"] == about | ({"group": sample.resource.group} if sample.resource.group else {})
    if sample.resource is not kube.NAMESPACES:
        gone = Refusal(404, "NotFound", sample.resource.plural, name)
        assert await server.refused("GET", f"{path}/{name}") == gone
        assert await server.refused("DELETE", f"{path}/{name}") == gone
        assert await server.refused("PATCH", f"{path}/{name}", {}, content_type=MERGE) == gone


async def test_a_put_of_what_is_not_there_is_not_found(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    refused = await server.refused("PUT", f"{path}/it", config_map("it", server.namespace))
    assert refused == Refusal(404, "NotFound", "configmaps", "it")


async def test_an_object_needs_its_namespace(server: Server) -> None:
    absent = server.unique("absent")
    refused = await server.refused("POST", kube.CONFIG_MAPS.path(absent), config_map("it", absent))
    assert refused == Refusal(404, "NotFound", "namespaces", absent)


async def test_a_list_in_a_namespace_that_is_not_there_is_empty(server: Server) -> None:
    assert await server.names(kube.PODS.path(server.unique("absent"))) == []


async def test_a_body_of_another_kind_is_refused(server: Server) -> None:
    wanted = {**pod_json("it", server.namespace), "kind": "Service"}
    assert (await server.refused("POST", server.pods, wanted)).code == 400


async def test_a_body_of_another_group_is_refused(server: Server) -> None:
    wanted = {**config_map("it", server.namespace), "apiVersion": "apps/v1"}
    assert (await server.refused("POST", server.path(kube.CONFIG_MAPS), wanted)).code == 400


async def test_a_body_without_kind_and_version_is_taken_for_what_the_path_says(server: Server) -> None:
    wanted = {
        key: value for key, value in config_map("it", server.namespace).items() if key not in ("apiVersion", "kind")
    }
    made = await server.post(server.path(kube.CONFIG_MAPS), wanted)
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")


async def test_a_name_that_is_not_the_path_s_is_refused(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    await server.post(path, config_map("it", server.namespace))
    assert (await server.refused("PUT", f"{path}/it", config_map("other", server.namespace))).code == 400


async def test_a_namespace_that_is_not_the_path_s_is_refused(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    refused = await server.refused("POST", path, config_map("it", "default"))
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert "the namespace of the provided object does not match the namespace sent on the request" in refused
    await server.post(path, config_map("it", server.namespace))
    refused = await server.refused("PUT", f"{path}/it", config_map("it", "default"))
    assert (refused.code, refused.reason) == (400, "BadRequest")


async def test_what_only_the_server_says_is_not_taken_from_a_caller(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    stated = {"uid": "x", "creationTimestamp": "2020-01-01T00:00:00Z", "generation": 9, "selfLink": "/x"}
    made = await server.post(path, config_map("it", server.namespace, **stated))
    assert made["metadata"]["uid"] != "x"
    assert not made["metadata"]["creationTimestamp"].startswith("2020")
    assert "selfLink" not in made["metadata"]


async def test_a_new_object_states_no_version(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    refused = await server.refused("POST", path, config_map("it", server.namespace, resourceVersion="7"))
    assert (refused.code, refused.reason) == (500, "")
    assert "resourceVersion should not be set on objects to be created" in refused


async def test_null_fields_are_as_good_as_absent(server: Server) -> None:
    wanted = pod_json("it", server.namespace, priorityClassName=None)
    wanted["metadata"]["labels"] = None
    made = await server.post(server.pods, wanted)
    assert "labels" not in made["metadata"]


async def test_a_config_map_that_is_immutable_stays(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    await server.post(path, {**config_map("it", server.namespace), "immutable": True})
    refused = await server.refused("PATCH", f"{path}/it", {"data": {"a": "2"}}, content_type=MERGE)
    assert refused.code == 422
    assert ("data", "FieldValueForbidden") in refused.causes
    refused = await server.refused("PATCH", f"{path}/it", {"immutable": None}, content_type=MERGE)
    assert ("immutable", "FieldValueForbidden") in refused.causes


@pytest.mark.parametrize("key", ["a/b", "..", "a b"])
async def test_a_config_map_s_keys_are_file_names(server: Server, key: str) -> None:
    wanted = {**config_map("it", server.namespace), "data": {key: "1"}}
    refused = await server.refused("POST", server.path(kube.CONFIG_MAPS), wanted)
    assert (refused.code, refused.fields) == (422, {f"data[{key}]"})


async def test_a_namespace_carries_its_name_as_a_label(server: Server) -> None:
    found = await server.get(f"{kube.NAMESPACES.path()}/{server.namespace}")
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": server.namespace}
    assert (found["spec"], found["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})
    del found["metadata"]["labels"]
    replaced = await server.put(f"{kube.NAMESPACES.path()}/{server.namespace}", found)
    assert replaced["metadata"]["labels"] == {"kubernetes.io/metadata.name": server.namespace}


async def test_a_node_comes_with_its_status(server: Server) -> None:
    name = server.unique("n1")
    made = await server.post(
        kube.NODES.path(), next(one for one in SAMPLES if one.resource is kube.NODES).make(name, "")
    )
    assert made["status"]["allocatable"]["cpu"] == "4"
