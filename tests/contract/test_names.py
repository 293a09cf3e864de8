"""Names, labels and annotations: what may be said, and by which field it is refused."""

import re

import pytest

from elastipod.kube import resources as kube
from tests.build import pod_json
from tests.contract.samples import autoscaler, config_map
from tests.contract.servers import INVALID, REQUIRED, TOO_LONG, Server, invalid


async def test_a_generated_name_begins_as_asked(server: Server) -> None:
    wanted = pod_json("x", server.namespace)
    wanted["metadata"] = {"generateName": "web-"}
    names = {(await server.post(server.pods, wanted))["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(re.fullmatch(r"web-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


async def test_a_stated_name_wins_over_a_generated_one(server: Server) -> None:
    made = await server.post(server.path(kube.CONFIG_MAPS), config_map("it", server.namespace, generateName="web-"))
    assert (made["metadata"]["name"], made["metadata"]["generateName"]) == ("it", "web-")


async def test_a_generated_name_is_cut_to_what_a_name_may_be(server: Server) -> None:
    wanted = config_map("x", server.namespace)
    wanted["metadata"] = {"generateName": "a" * 70}
    name = (await server.post(server.path(kube.CONFIG_MAPS), wanted))["metadata"]["name"]
    assert len(name) == 63


async def test_a_bad_prefix_is_refused_by_the_name_it_makes(server: Server) -> None:
    wanted = config_map("x", server.namespace)
    wanted["metadata"] = {"generateName": "Web_"}
    refused = await server.refused("POST", server.path(kube.CONFIG_MAPS), wanted)
    assert (refused.code, refused.fields) == (422, {"metadata.generateName", "metadata.name"})


async def test_an_object_needs_a_name(server: Server) -> None:
    wanted = config_map("x", server.namespace)
    wanted["metadata"] = {}
    refused = await server.refused("POST", server.path(kube.CONFIG_MAPS), wanted)
    assert refused == invalid("ConfigMap", "", ("metadata.name", REQUIRED))
    assert "name or generateName is required" in refused


@pytest.mark.parametrize("name", ["Web", "web_0", "-web", "web-", "a..b", "a" * 254, "ä", "a b"])
@pytest.mark.parametrize("kind", ["Pod", "ConfigMap"])
async def test_a_name_is_a_subdomain(server: Server, name: str, kind: str) -> None:
    make, path = (pod_json, server.pods) if kind == "Pod" else (config_map, server.path(kube.CONFIG_MAPS))
    refused = await server.refused("POST", path, make(name, server.namespace))
    assert refused == invalid(kind, name, ("metadata.name", INVALID))


async def test_a_custom_object_s_name_is_a_subdomain(server: Server) -> None:
    refused = await server.refused("POST", server.path(kube.AUTOSCALERS), autoscaler("Web", server.namespace))
    assert refused == invalid("VerticalPodAutoscaler", "Web", ("metadata.name", INVALID))


@pytest.mark.parametrize("name", ["a.b", "A", "a" * 64])
async def test_a_namespace_is_a_label(server: Server, name: str) -> None:
    refused = await server.refused("POST", kube.NAMESPACES.path(), {"metadata": {"name": name}})
    too_long = {("metadata.labels", INVALID)} if len(name) > 63 else set()
    assert refused == invalid("Namespace", name, ("metadata.name", INVALID), *too_long)


@pytest.mark.parametrize("name", ["a.b", "A", "a" * 64])
async def test_a_service_is_a_label(server: Server, name: str) -> None:
    wanted = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}
    refused = await server.refused("POST", server.path(kube.SERVICES), wanted)
    assert refused == invalid("Service", name, ("metadata.name", INVALID))


@pytest.mark.parametrize(
    "labels", [{"a b": "x"}, {"/x": "y"}, {"A.b/": "x"}, {"x" * 64: "y"}, {"a": "x y"}, {"a": "x" * 64}, {"a": "-x"}]
)
async def test_a_label_is_short_and_plain(server: Server, labels: dict[str, str]) -> None:
    refused = await server.refused("POST", server.pods, pod_json("it", server.namespace, labels=labels))
    assert refused == invalid("Pod", "it", ("metadata.labels", INVALID))


@pytest.mark.parametrize("labels", [{"a": ""}, {"a.b/C_d": "X.y"}, {"x" * 63: "y" * 63}])
async def test_a_good_label_is_taken(server: Server, labels: dict[str, str]) -> None:
    made = await server.make_pod(labels=labels)
    assert made["metadata"]["labels"] == labels


async def test_an_annotation_s_key_is_plain_and_its_text_free(server: Server) -> None:
    refused = await server.refused("POST", server.pods, pod_json("it", server.namespace, annotations={"a b": ""}))
    assert refused == invalid("Pod", "it", ("metadata.annotations", INVALID))
    made = await server.make_pod(annotations={"Example.com/x": "ä\n{}"})
    assert made["metadata"]["annotations"] == {"Example.com/x": "ä\n{}"}


async def test_annotations_have_a_size(server: Server) -> None:
    wanted = pod_json("it", server.namespace, annotations={"a": "x" * (256 * 1024)})
    assert await server.refused("POST", server.pods, wanted) == invalid("Pod", "it", ("metadata.annotations", TOO_LONG))


async def test_an_owner_is_named_in_full(server: Server) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "", "uid": ""}
    refused = await server.refused("POST", server.pods, pod_json("it", server.namespace, owner=owner))
    assert refused.fields == {"metadata.ownerReferences[0].name", "metadata.ownerReferences[0].uid"}


async def test_only_one_owner_controls(server: Server) -> None:
    wanted = pod_json("it", server.namespace)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
    wanted["metadata"]["ownerReferences"] = [{**owner, "name": "a", "uid": "1"}, {**owner, "name": "b", "uid": "2"}]
    assert await server.refused("POST", server.pods, wanted) == invalid(
        "Pod", "it", ("metadata.ownerReferences", INVALID)
    )


async def test_a_finalizer_has_a_qualified_name(server: Server) -> None:
    for name in ("x", "a b/c"):
        wanted = pod_json("it", server.namespace)
        wanted["metadata"]["finalizers"] = [name]
        refused = await server.refused("POST", server.pods, wanted)
        assert (refused.code, refused.reason) == (422, "Invalid")
        assert refused.fields == {"metadata.finalizers"} or refused.fields == {"metadata.finalizers[0]"}


async def test_a_pod_s_own_names_are_checked(server: Server) -> None:
    wanted = pod_json("it", server.namespace, hostname="Web_0", subdomain="a.b", nodeName="N 1")
    refused = await server.refused("POST", server.pods, wanted)
    assert refused == invalid(
        "Pod", "it", ("spec.hostname", INVALID), ("spec.subdomain", INVALID), ("spec.nodeName", INVALID)
    )
