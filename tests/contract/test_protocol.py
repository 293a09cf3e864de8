"""What is asked wrongly, whatever the object: paths, methods, bodies, types; and what the server says of itself."""

import json
from typing import Any

import pytest

from elastipod.kube import resources as kube
from tests.build import pod_json
from tests.contract.samples import SAMPLES, Sample, config_map
from tests.contract.servers import JSON, TOO_LONG, Server

Json = dict[str, Any]
PROTOBUF = "application/vnd.kubernetes.protobuf"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v2",
        "/api/v1/things",
        "/apis/nothing.io",
        "/apis/nothing.io/v1/things",
        "/apis/apps/v9/deployments",
        "/apis/apps/v1/pods",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/pods/web-0",
        "/nothing",
        "/api/v1/namespaces/default/pods/web-0/nothing",
        "/api/v1/namespaces/default/pods/web-0/status/more",
        "/apis/autoscaling.k8s.io/v9/verticalpodautoscalers",
    ],
)
async def test_a_path_that_leads_nowhere_is_not_found(server: Server, path: str) -> None:
    answer = await server.call("GET", path)
    assert answer.code == 404
    if answer.json:
        assert (answer.json["kind"], answer.json["reason"]) == ("Status", "NotFound")
        assert answer.json["message"] == "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("method", "of_object"),
    [("PUT", False), ("PATCH", False), ("POST", True)],
)
async def test_a_method_that_is_not_for_this_is_not_allowed(server: Server, method: str, of_object: bool) -> None:
    await server.make_pod()
    path = f"{server.pods}/web-0" if of_object else server.pods
    kind = "application/merge-patch+json" if method == "PATCH" else JSON
    refused = await server.refused(method, path, {}, content_type=kind)
    assert (refused.code, refused.reason) == (405, "MethodNotAllowed")
    assert "the server does not allow this method on the requested resource" in refused


async def test_a_namespaced_object_is_not_made_at_the_root(server: Server) -> None:
    refused = await server.refused("POST", kube.PODS.path(), pod_json("it", server.namespace))
    assert (refused.code, refused.reason) == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    ("subresource", "method"),
    [("status", "POST"), ("status", "DELETE"), ("binding", "GET"), ("log", "POST"), ("log", "DELETE")],
)
async def test_a_subresource_has_methods_of_its_own(server: Server, subresource: str, method: str) -> None:
    await server.make_pod()
    refused = await server.refused(
        method, server.path(kube.PODS, "web-0", subresource), None if method == "GET" else {}
    )
    assert (refused.code, refused.reason) == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"7", b'"x"', b"null", b"", b"\xff\xfe", b"{} {}", b"[" * 20000, b'{"metadata": {"name": NaN}}'],
)
async def test_a_body_that_is_no_object_is_refused(server: Server, body: bytes) -> None:
    refused = await server.refused("POST", server.path(kube.CONFIG_MAPS), body)
    assert (refused.code, refused.reason) in ((400, "BadRequest"), (422, "Invalid"))


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
async def test_a_body_that_is_no_json_is_refused_of_every_kind(server: Server, sample: Sample) -> None:
    refused = await server.refused("POST", server.path(sample.resource), b"{not json")
    assert (refused.code, refused.reason) == (400, "BadRequest")


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
async def test_metadata_of_a_wrong_type_is_refused_of_every_kind(server: Server, sample: Sample) -> None:
    wanted = {**sample.make("it", server.namespace), "metadata": []}
    refused = await server.refused("POST", server.path(sample.resource), wanted)
    assert (refused.code, refused.reason) == (400, "BadRequest")


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "application/x-www-form-urlencoded", "image/png"])
async def test_a_body_of_another_type_is_refused(server: Server, kind: str) -> None:
    refused = await server.refused("POST", server.path(kube.CONFIG_MAPS), b"x", content_type=kind)
    assert (refused.code, refused.reason) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", ""])
async def test_json_is_json_however_it_is_called(server: Server, kind: str) -> None:
    await server.post(server.path(kube.CONFIG_MAPS), config_map("it", server.namespace), content_type=kind)


@pytest.mark.parametrize("kind", ["application/yaml"])
async def test_a_body_may_be_yaml(server: Server, kind: str) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: it\ndata:\n  a: 'off'\n"
    made = await server.post(server.path(kube.CONFIG_MAPS), body, content_type=kind)
    assert made["data"] == {"a": "off"}
    refused = await server.refused("POST", server.path(kube.CONFIG_MAPS), b"a: [", content_type=kind)
    assert (refused.code, refused.reason) == (400, "BadRequest")


@pytest.mark.parametrize("body", [b"", b"rubbish", b"k8s\x00", b"k8s\x00\xff\xff", b"{}"])
async def test_protobuf_that_is_none_is_refused(server: Server, body: bytes) -> None:
    refused = await server.refused("POST", server.path(kube.CONFIG_MAPS), body, content_type=PROTOBUF)
    assert (refused.code, refused.reason) == (400, "BadRequest")


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "image/*", "application/*"])
async def test_an_answer_of_another_type_is_not_to_be_had(server: Server, accept: str) -> None:
    answer = await server.call("GET", server.pods, accept=accept)
    assert answer.code == 406


@pytest.mark.parametrize("accept", ["*/*", "application/json;q=0.9, */*;q=0.1", "text/html, application/json"])
async def test_json_is_to_be_had_whoever_asks_for_it(server: Server, accept: str) -> None:
    answer = await server.call("GET", server.pods, accept=accept)
    assert (answer.code, answer.content_type) == (200, JSON)


async def test_too_much_is_refused(server: Server) -> None:
    big = config_map("it", server.namespace)
    big["data"] = {"a": "x" * 4_000_000}
    refused = await server.refused("POST", server.path(kube.CONFIG_MAPS), big)
    assert (refused.code, refused.reason) == (413, "RequestEntityTooLarge")


async def test_a_config_map_has_a_size(server: Server) -> None:
    big = config_map("it", server.namespace)
    big["data"] = {"a": "x" * (1024 * 1024 + 1)}
    refused = await server.refused("POST", server.path(kube.CONFIG_MAPS), big)
    assert (refused.code, refused.causes) == (422, {("[]", TOO_LONG)})


async def test_a_path_may_end_in_a_slash_or_not(server: Server) -> None:
    await server.make_pod()
    assert (await server.call("GET", f"{server.pods}/web-0/")).code in (200, 404)


async def test_names_in_a_path_are_escaped(server: Server) -> None:
    refused = await server.refused("GET", f"{server.pods}/a b")
    assert (refused.code, refused.name) == (404, "a b")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_told(server: Server, path: str) -> None:
    answer = await server.call("GET", path, accept="*/*")
    assert (answer.code, answer.text) == (200, "ok")


async def test_the_version_is_told(server: Server) -> None:
    found = await server.get("/version")
    assert (found["major"], found["minor"]) == ("1", "37")
    assert found["gitVersion"].startswith("v1.37.")
    assert set(found) >= {"gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"}


async def test_the_core_group_is_told(server: Server) -> None:
    found = await server.get("/api")
    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])


async def test_the_groups_are_told(server: Server) -> None:
    found = await server.get("/apis")
    assert (found["kind"], found["apiVersion"]) == ("APIGroupList", "v1")
    groups = {one["name"]: one for one in found["groups"]}
    for name in {one.resource.group for one in SAMPLES} - {""}:
        assert name in groups
        alone = await server.get(f"/apis/{name}")
        assert (alone["kind"], alone["name"]) == ("APIGroup", name)
        assert alone["preferredVersion"] == groups[name]["preferredVersion"]


def plain(found: Json, name: str) -> Json:
    """One resource of an APIResourceList, as far as clients rely on it."""
    one: Json = next(one for one in found["resources"] if one["name"] == name)
    keys = ("name", "singularName", "namespaced", "kind", "shortNames", "categories", "group", "version")
    return {key: one[key] for key in keys if key in one} | {"verbs": sorted(one["verbs"])}


SHORTENED = """
namespaces=ns nodes=no pods=po events=ev configmaps=cm limitranges=limits resourcequotas=quota services=svc
deployments=deploy replicasets=rs statefulsets=sts daemonsets=ds cronjobs=cj horizontalpodautoscalers=hpa
poddisruptionbudgets=pdb priorityclasses=pc verticalpodautoscalers=vpa verticalpodautoscalercheckpoints=vpacheckpoint
elasticpolicies=epol elasticnodes=enode
"""
SHORT = {plural: [short] for plural, short in (one.split("=") for one in SHORTENED.split())}
IN_ALL = {
    *("pods", "services", "deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "cronjobs"),
    "horizontalpodautoscalers",
}
VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
async def test_a_kind_is_told_of(server: Server, sample: Sample) -> None:
    resource = sample.resource
    place = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    found = await server.get(place)
    assert (found["kind"], found["groupVersion"]) == ("APIResourceList", resource.api_version)
    wanted: Json = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": [one for one in VERBS if one != "deletecollection"] if resource is kube.NAMESPACES else VERBS,
    }
    if resource.plural in SHORT:
        wanted["shortNames"] = SHORT[resource.plural]
    if resource.plural in IN_ALL:
        wanted["categories"] = ["all"]
    assert plain(found, resource.plural) == wanted


@pytest.mark.parametrize(
    ("subresource", "wanted"),
    [
        ("resize", {"kind": "Pod", "verbs": ["get", "patch", "update"]}),
        ("status", {"kind": "Pod", "verbs": ["get", "patch", "update"]}),
        ("log", {"kind": "Pod", "verbs": ["get"]}),
        ("binding", {"kind": "Binding", "verbs": ["create"]}),
        ("eviction", {"kind": "Eviction", "group": "policy", "version": "v1", "verbs": ["create"]}),
    ],
)
async def test_a_pod_s_subresources_are_told_of(server: Server, subresource: str, wanted: Json) -> None:
    found = plain(await server.get("/api/v1"), f"pods/{subresource}")
    assert found == {"name": f"pods/{subresource}", "singularName": "", "namespaced": True, **wanted}


async def test_a_scale_is_told_of(server: Server) -> None:
    found = plain(await server.get("/apis/apps/v1"), "deployments/scale")
    assert found["kind"] == "Scale"
    assert (found["group"], found["version"], found["verbs"]) == ("autoscaling", "v1", ["get", "patch", "update"])


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_all_is_told_at_once_to_who_asks(server: Server, path: str) -> None:
    answer = await server.call("GET", path, accept=f"{AGGREGATED},application/json")
    assert answer.content_type.replace(" ", "") == AGGREGATED
    found = answer.json
    assert (found["kind"], found["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    told = {
        (group["metadata"].get("name", ""), version["version"], one["resource"]): one
        for group in found["items"]
        for version in group["versions"]
        for one in version["resources"]
    }
    for sample in SAMPLES:
        resource = sample.resource
        if bool(resource.group) is (path == "/apis"):
            one = told[(resource.group, resource.version, resource.plural)]
            assert one["scope"] == ("Namespaced" if resource.namespaced else "Cluster")
            assert one["responseKind"]["kind"] == resource.kind
            assert one["singularResource"] == resource.kind.lower()
            assert one.get("shortNames", []) == SHORT.get(resource.plural, [])


async def test_schemas_are_told_of_by_group(server: Server) -> None:
    found = json.loads((await server.call("GET", "/openapi/v3", accept="*/*")).text)
    for place in ("api/v1", "apis/apps/v1", "apis/autoscaling.k8s.io/v1", "apis/elastipod.io/v1alpha1"):
        assert found["paths"][place]["serverRelativeURL"].startswith(f"/openapi/v3/{place}")
