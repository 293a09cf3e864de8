"""Huge, deep and odd bodies cost their own request only."""

import pytest

from tests.build import container_json, pod_json
from tests.localcluster.served import JSON_PATCH, MERGE, PODS, STRATEGIC, Served

DEEP = b'{"spec":' * 400 + b"1" + b"}" * 400
BODIES = [b"", b"{", b"null", b"[]", b"5", b'"x"', b"\xff\xfe", b"NaN", b"[" * 100_000, DEEP, b'{"metadata":null}']


@pytest.mark.parametrize("body", BODIES)
def test_rubbish_is_refused_and_the_server_goes_on(body: bytes) -> None:
    server = Served()
    server.post(PODS, pod_json())
    assert 400 <= server.response("POST", PODS, body).code < 500
    assert 400 <= server.response("PUT", f"{PODS}/web-0", body).code < 500
    for kind in (MERGE, STRATEGIC, JSON_PATCH):
        assert server.response("PATCH", f"{PODS}/web-0", body, kind).code < 500
    server.get(f"{PODS}/web-0")


@pytest.mark.parametrize("depth", [100, 300, 500, 900])
def test_nulls_far_down_are_no_way_in(depth: int) -> None:
    body = b'{"metadata":{"name":"a"},"data":' + b'{"a":' * depth + b"null" + b"}" * depth + b"}"
    assert Served().response("POST", "/api/v1/namespaces/default/configmaps", body).code < 500
    assert Served().response("PATCH", "/api/v1/namespaces/default", body, MERGE).code < 500


@pytest.mark.parametrize(
    "path", ["/", "//", "/api", "/api/v1", "/apis/x", "/api/v1/namespaces/../pods", "/" + "a" * 9999]
)
def test_odd_paths_are_answered(path: str) -> None:
    assert Served().response("GET", path).code in (200, 404)


def test_an_object_larger_than_etcd_takes_is_refused() -> None:
    body = pod_json(containers=[container_json(args=["y" * 1_600_000])])
    failure = Served().refused("POST", PODS, body)
    assert (failure["code"], failure["message"]) == (413, "etcdserver: request is too large")


@pytest.mark.parametrize("name", ["a/b", "..", "a%00b", "-x", "A", "a\nb", "é"])
def test_names_that_are_none_are_refused(name: str) -> None:
    failure = Served().refused("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}})
    assert failure["details"]["causes"][0]["field"] == "metadata.name"


@pytest.mark.parametrize(
    "query", [{"dryRun": "Some"}, {"gracePeriodSeconds": "soon"}, {"propagationPolicy": "Sideways"}]
)
def test_options_that_are_none_are_refused(query: dict[str, str]) -> None:
    server = Served()
    server.post(PODS, pod_json())
    assert server.refused("DELETE", f"{PODS}/web-0", **query)["code"] in (400, 422)
    server.get(f"{PODS}/web-0")


def test_a_name_of_a_million_characters_is_not_echoed() -> None:
    failure = Served().refused("POST", PODS, pod_json("x" * 1_000_000))
    assert failure["details"]["causes"][0]["field"] == "metadata.name"
    assert len(failure["message"]) < 2000
