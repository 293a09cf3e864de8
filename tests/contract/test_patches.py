"""The three kinds of patch, and what none of them may do."""

import pytest

from elastipod.kube import resources as kube
from tests.build import container_json, deployment_json
from tests.contract.samples import autoscaler, config_map
from tests.contract.servers import FORBIDDEN, INVALID, JSON_PATCH, MERGE, STRATEGIC, Refusal, Server, invalid

ANY_KIND = pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])


async def has_config_map(server: Server) -> str:
    path = server.path(kube.CONFIG_MAPS)
    await server.post(path, config_map("it", server.namespace, labels={"app": "web"}))
    return f"{path}/it"


async def has_deployment(server: Server) -> str:
    containers = [container_json("app"), container_json("log")]
    path = server.path(kube.DEPLOYMENTS)
    await server.post(path, deployment_json("web", server.namespace, containers=containers))
    return f"{path}/web"


@ANY_KIND
async def test_a_merge_sets_adds_and_removes(server: Server, content_type: str) -> None:
    path = await has_config_map(server)
    patched = await server.patch(path, {"data": {"a": "9", "b": None, "c": "3"}}, content_type)
    assert patched["data"] == {"a": "9", "c": "3"}


@ANY_KIND
async def test_a_patch_that_changes_nothing_makes_no_version(server: Server, content_type: str) -> None:
    path = await has_config_map(server)
    before = await server.get(path)
    assert await server.patch(path, {"data": {"a": "1"}}, content_type) == before


async def test_a_merge_patch_replaces_lists(server: Server) -> None:
    path = await has_deployment(server)
    only = [container_json("new")]
    patched = await server.patch(path, {"spec": {"template": {"spec": {"containers": only}}}}, MERGE)
    assert [one["name"] for one in patched["spec"]["template"]["spec"]["containers"]] == ["new"]


async def test_a_strategic_merge_joins_containers_by_name(server: Server) -> None:
    path = await has_deployment(server)
    change = [{"name": "log", "image": "log:2"}, container_json("new")]
    patched = await server.patch(path, {"spec": {"template": {"spec": {"containers": change}}}})
    shown = {one["name"]: one["image"] for one in patched["spec"]["template"]["spec"]["containers"]}
    assert shown == {"app": "registry.local/app:1", "log": "log:2", "new": "registry.local/app:1"}


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ([{"name": "log", "$patch": "delete"}], ["app"]),
        ([{"$patch": "replace"}, container_json("only")], ["only"]),
        ([{"name": "app", "$patch": "delete"}, container_json("new")], ["new", "log"]),
    ],
)
async def test_a_strategic_merge_follows_directives(server: Server, change: list, names: list[str]) -> None:
    path = await has_deployment(server)
    patched = await server.patch(path, {"spec": {"template": {"spec": {"containers": change}}}})
    assert [one["name"] for one in patched["spec"]["template"]["spec"]["containers"]] == names


async def test_a_strategic_merge_orders_as_told(server: Server) -> None:
    path = await has_deployment(server)
    change = {"$setElementOrder/containers": [{"name": "log"}, {"name": "app"}], "containers": []}
    patched = await server.patch(path, {"spec": {"template": {"spec": change}}})
    assert [one["name"] for one in patched["spec"]["template"]["spec"]["containers"]] == ["log", "app"]


async def test_a_strategic_merge_retains_only_named_keys(server: Server) -> None:
    path = await has_deployment(server)
    change = {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    assert (await server.patch(path, {"spec": change}))["spec"]["strategy"] == {"type": "Recreate"}


async def test_a_strategic_merge_adds_finalizers_and_takes_some_away(server: Server) -> None:
    path = await has_config_map(server)
    await server.patch(path, {"metadata": {"finalizers": ["a.b/one"]}})
    added = await server.patch(path, {"metadata": {"finalizers": ["a.b/two"]}})
    assert sorted(added["metadata"]["finalizers"]) == ["a.b/one", "a.b/two"]
    less = await server.patch(path, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/one"]}})
    assert less["metadata"]["finalizers"] == ["a.b/two"]


async def test_a_strategic_merge_replaces_a_map_as_told(server: Server) -> None:
    path = await has_config_map(server)
    assert (await server.patch(path, {"data": {"$patch": "replace", "z": "1"}}))["data"] == {"z": "1"}


async def test_an_element_without_its_merge_key_is_refused(server: Server) -> None:
    path = await has_deployment(server)
    change = {"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}}
    refused = await server.refused("PATCH", path, change, content_type=STRATEGIC)
    assert (refused.code, refused.reason) == (500, "")
    assert "does not contain declared merge key: name" in refused


async def test_an_unknown_directive_is_refused(server: Server) -> None:
    path = await has_config_map(server)
    refused = await server.refused("PATCH", path, {"data": {"$patch": "burn"}}, content_type=STRATEGIC)
    assert (refused.code, refused.reason) == (500, "")


@pytest.mark.parametrize(
    ("operations", "data"),
    [
        ([{"op": "replace", "path": "/data/a", "value": "9"}], {"a": "9", "b": "2"}),
        ([{"op": "add", "path": "/data/c", "value": "3"}], {"a": "1", "b": "2", "c": "3"}),
        ([{"op": "remove", "path": "/data/a"}], {"b": "2"}),
        ([{"op": "move", "from": "/data/a", "path": "/data/z"}], {"b": "2", "z": "1"}),
        ([{"op": "copy", "from": "/data/a", "path": "/data/z"}], {"a": "1", "b": "2", "z": "1"}),
        (
            [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "replace", "path": "/data/a", "value": "9"}],
            {"a": "9", "b": "2"},
        ),
        ([{"op": "replace", "path": "/data", "value": {"z": "1"}}], {"z": "1"}),
        ([{"op": "replace", "path": "/data/none", "value": "1"}], {"a": "1", "b": "2", "none": "1"}),
        (
            [{"op": "add", "path": "/data/x~1y", "value": "1"}, {"op": "remove", "path": "/data/x~1y"}],
            {"a": "1", "b": "2"},
        ),
    ],
    ids=["replace", "add", "remove", "move", "copy", "test", "whole", "missing", "escaped"],
)
async def test_a_json_patch_does_its_operations_in_order(server: Server, operations: list, data: dict) -> None:
    path = await has_config_map(server)
    assert (await server.patch(path, operations, JSON_PATCH))["data"] == data


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "test", "path": "/data/a", "value": "wrong"}],
        [{"op": "test", "path": "/data/none", "value": "1"}],
        [{"op": "remove", "path": "/data/none"}],
        [{"op": "add", "path": "/none/there", "value": "1"}],
        [{"op": "move", "from": "/data/none", "path": "/data/z"}],
    ],
    ids=["test", "test-missing", "remove", "add", "move"],
)
async def test_a_json_patch_that_can_not_be_done_does_nothing(server: Server, operations: list) -> None:
    path = await has_config_map(server)
    before = await server.get(path)
    refused = await server.refused("PATCH", path, operations, content_type=JSON_PATCH)
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert await server.get(path) == before


async def test_a_json_patch_appends_to_a_list(server: Server) -> None:
    path = await has_deployment(server)
    place = "/spec/template/spec/containers/-"
    patched = await server.patch(path, [{"op": "add", "path": place, "value": container_json("new")}], JSON_PATCH)
    assert [one["name"] for one in patched["spec"]["template"]["spec"]["containers"]] == ["app", "log", "new"]


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (JSON_PATCH, b'{"op": "remove"}'),
        (JSON_PATCH, b"[{]"),
        (JSON_PATCH, b'"x"'),
        (MERGE, b"{"),
        (STRATEGIC, b"{"),
        (STRATEGIC, b"[]"),
    ],
)
async def test_a_body_that_is_no_patch_is_refused(server: Server, content_type: str, body: bytes) -> None:
    path = await has_config_map(server)
    refused = await server.refused("PATCH", path, body, content_type=content_type)
    assert (refused.code, refused.reason) == (400, "BadRequest")


@pytest.mark.parametrize("body", [[{"op": "fly", "path": "/data"}], [{"path": "/data"}]])
async def test_a_json_patch_of_unknown_operations_is_refused(server: Server, body: list) -> None:
    path = await has_config_map(server)
    assert (await server.refused("PATCH", path, body, content_type=JSON_PATCH)).code == 422


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "", "application/xml"])
async def test_a_patch_of_no_known_type_is_refused(server: Server, content_type: str) -> None:
    path = await has_config_map(server)
    refused = await server.refused("PATCH", path, {"data": {"a": "2"}}, content_type=content_type)
    assert (refused.code, refused.reason) == (415, "UnsupportedMediaType")


async def test_a_custom_kind_knows_no_strategic_merge(server: Server) -> None:
    path = server.path(kube.AUTOSCALERS)
    await server.post(path, autoscaler("it", server.namespace))
    change = {"metadata": {"labels": {"a": "b"}}}
    refused = await server.refused("PATCH", f"{path}/it", change, content_type=STRATEGIC)
    assert (refused.code, refused.reason) == (415, "UnsupportedMediaType")
    assert (await server.patch(f"{path}/it", change, MERGE))["metadata"]["labels"] == {"a": "b"}
    added = [{"op": "add", "path": "/metadata/labels/c", "value": "d"}]
    assert (await server.patch(f"{path}/it", added, JSON_PATCH))["metadata"]["labels"] == {"a": "b", "c": "d"}


@pytest.mark.parametrize("field", ["name", "namespace"])
@ANY_KIND
async def test_a_patch_does_not_rename(server: Server, content_type: str, field: str) -> None:
    path = await has_config_map(server)
    refused = await server.refused("PATCH", path, {"metadata": {field: "other"}}, content_type=content_type)
    assert (refused.code, refused.reason) == (400, "BadRequest")


@ANY_KIND
async def test_a_patch_of_another_uid_or_version_is_refused(server: Server, content_type: str) -> None:
    path = await has_config_map(server)
    refused = await server.refused("PATCH", path, {"metadata": {"uid": "x"}}, content_type=content_type)
    assert refused == invalid("ConfigMap", "it", ("metadata.uid", INVALID))
    refused = await server.refused("PATCH", path, {"metadata": {"resourceVersion": "1"}}, content_type=content_type)
    assert refused == Refusal(409, "Conflict", "configmaps", "it")
    version = (await server.get(path))["metadata"]["resourceVersion"]
    patched = await server.patch(path, {"metadata": {"resourceVersion": version}, "data": {"a": "2"}}, content_type)
    assert patched["data"]["a"] == "2"


@ANY_KIND
async def test_a_patch_can_not_change_what_the_server_says(server: Server, content_type: str) -> None:
    path = await has_config_map(server)
    before = await server.get(path)
    await server.patch(path, {"metadata": {"generation": 7}}, content_type)
    change = {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}
    refused = await server.refused("PATCH", path, change, content_type=content_type)
    assert refused == invalid("ConfigMap", "it", ("metadata.deletionTimestamp", INVALID))
    after = await server.get(path)
    assert after["metadata"].get("generation") == before["metadata"].get("generation")
    assert "deletionTimestamp" not in after["metadata"]


async def test_a_creation_time_stays(server: Server) -> None:
    path = await has_config_map(server)
    before = await server.get(path)
    await server.call("PATCH", path, {"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}, content_type=MERGE)
    assert (await server.get(path))["metadata"]["creationTimestamp"] == before["metadata"]["creationTimestamp"]


async def test_a_selector_stays_as_it_is(server: Server) -> None:
    path = await has_deployment(server)
    change = {
        "spec": {
            "selector": {"matchLabels": {"app": "web", "x": "y"}},
            "template": {"metadata": {"labels": {"x": "y"}}},
        }
    }
    refused = await server.refused("PATCH", path, change, content_type=MERGE)
    assert refused.causes == {("spec.selector", INVALID)}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ([{"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": "1"}], "spec"),
        ([{"op": "add", "path": "/spec/containers/0/env", "value": [{"name": "A", "value": "b"}]}], "spec"),
        ([{"op": "add", "path": "/spec/nodeSelector", "value": {"a": "b"}}], "spec"),
        ([{"op": "replace", "path": "/spec/restartPolicy", "value": "Never"}], "spec"),
        ([{"op": "add", "path": "/spec/hostNetwork", "value": True}], "spec"),
        ([{"op": "add", "path": "/spec/containers/-", "value": {"name": "b", "image": "b"}}], "spec.containers"),
    ],
    ids=["resources", "env", "nodeSelector", "restartPolicy", "hostNetwork", "container"],
)
async def test_a_pod_s_spec_stays_as_it_is(server: Server, change: list, field: str) -> None:
    await server.make_pod(node="n1")
    refused = await server.refused("PATCH", f"{server.pods}/web-0", change, content_type=JSON_PATCH)
    assert (refused.code, refused.fields) == (422, {field})
    assert all(reason == FORBIDDEN for _, reason in refused.causes)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/spec/containers/0/image", "other:2"),
        ("/spec/activeDeadlineSeconds", 60),
        ("/spec/tolerations/-", {"key": "a", "operator": "Exists"}),
        ("/metadata/labels", {"a": "b"}),
    ],
)
async def test_some_of_a_pod_may_change(server: Server, path: str, value: object) -> None:
    tolerations = [{"key": "z", "operator": "Exists"}]
    made = await server.make_pod(node="n1", tolerations=tolerations)
    patched = await server.patch(f"{server.pods}/web-0", [{"op": "add", "path": path, "value": value}], JSON_PATCH)
    assert patched["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    assert patched["metadata"]["generation"] == (2 if path.startswith("/spec") else 1)


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
async def test_a_field_that_no_one_knows_is_dropped_or_refused_as_asked(server: Server, content_type: str) -> None:
    path = await has_deployment(server)
    change = {"spec": {"replica": 3}}
    assert "replica" not in (await server.patch(path, change, content_type, fieldValidation="Ignore"))["spec"]
    warned = await server.call("PATCH", path, change, content_type=content_type)
    assert (warned.code, len(warned.warnings)) == (200, 1)
    assert 'unknown field \\"spec.replica\\"' in warned.warnings[0]
    refused = await server.refused("PATCH", path, change, content_type=content_type, fieldValidation="Strict")
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert 'unknown field "spec.replica"' in refused


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
async def test_a_patch_to_a_wrong_type_is_refused(server: Server, content_type: str) -> None:
    path = await has_deployment(server)
    refused = await server.refused("PATCH", path, {"spec": {"replicas": "three"}}, content_type=content_type)
    assert (refused.code, refused.reason, refused.fields) == (422, "Invalid", {"patch"})
