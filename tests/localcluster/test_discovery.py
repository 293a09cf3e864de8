"""What the server says of itself, and what `kubectl get` shows."""

from typing import Any

import msgspec
import pytest

from elastipod.localcluster.api.cells import human_span
from tests.build import deployment_json, node_json, pod_json, running_status
from tests.localcluster.served import DEPLOYMENTS, NODES, PODS, TABLE, Served

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


def rows(server: Served, path: str) -> list[list[Any]]:
    shown = msgspec.json.decode(server.response("GET", path, accept=TABLE).body)
    assert shown["kind"] == "Table"
    assert all(len(row["cells"]) == len(shown["columnDefinitions"]) for row in shown["rows"])
    return [row["cells"] for row in shown["rows"]]


def test_discovery_lists_the_resize_subresource_in_both_forms() -> None:
    server = Served()
    classic = {one["name"]: one for one in server.get("/api/v1")["resources"]}
    assert classic["pods/resize"]["kind"] == "Pod"
    assert classic["pods/resize"]["verbs"] == ["get", "patch", "update"]
    response = server.response("GET", "/api", accept=AGGREGATED)
    assert response.content_type == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    resources = msgspec.json.decode(response.body)["items"][0]["versions"][0]["resources"]
    pods = next(one for one in resources if one["resource"] == "pods")
    assert "resize" in [one["subresource"] for one in pods["subresources"]]


def test_every_group_is_found_and_described() -> None:
    server = Served()
    groups = server.get("/apis")["groups"]
    assert "autoscaling.k8s.io" in [one["name"] for one in groups]
    for group in groups:
        assert server.get(f"/apis/{group['name']}")["name"] == group["name"]
        for version in group["versions"]:
            assert server.get(f"/apis/{version['groupVersion']}")["resources"]
    for place in server.get("/openapi/v3")["paths"].values():
        paths = server.get(place["serverRelativeURL"])["paths"]
        assert all("fieldValidation" in str(one["patch"]["parameters"]) for one in paths.values())


def test_version_and_health_are_answered_and_openapi_v2_is_refused_by_name() -> None:
    server = Served()
    assert server.get("/version")["minor"] == "37"
    assert server.response("GET", "/readyz").body == b"ok"
    assert "OpenAPI v2 is not served" in server.refused("GET", "/openapi/v2")["message"]


def test_tables_show_what_kubectl_shows() -> None:
    server = Served()
    server.post(NODES, node_json("n1"))
    pod = pod_json(node="n1")
    server.put_pod(pod, running_status(pod))
    server.post(DEPLOYMENTS, deployment_json(replicas=3))
    server.clock.advance(65)
    assert rows(server, PODS)[0][:5] == ["web-0", "1/1", "Running", "0", "65s"]
    assert rows(server, f"{PODS}/web-0")[0][6] == "n1"
    assert rows(server, NODES)[0][:4] == ["n1", "Ready", "<none>", "65s"]
    assert rows(server, DEPLOYMENTS)[0][:5] == ["web", "0/3", 0, 0, "65s"]
    for path in server.get("/api/v1")["resources"]:
        if "/" not in path["name"]:
            rows(server, f"/api/v1/{path['name']}")


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ({"waiting": {"reason": "CrashLoopBackOff"}}, "CrashLoopBackOff"),
        ({"terminated": {"reason": "OOMKilled", "exitCode": 137}}, "OOMKilled"),
        ({"terminated": {"exitCode": 3}}, "ExitCode:3"),
    ],
)
def test_a_pod_shows_what_its_container_says(state: Any, shown: str) -> None:
    server = Served()
    server.put_pod(pod_json(), {"phase": "Running", "containerStatuses": [{"name": "app", "state": state}]})
    assert rows(server, PODS)[0][2] == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (130, "2m10s"),
        (3600, "60m"),
        (4 * 3600 + 60, "4h1m"),
        (30 * 3600, "30h"),
        (3 * 86400, "3d"),
        (3 * 86400 + 3600, "3d1h"),
        (400 * 86400, "400d"),
        (800 * 86400, "2y70d"),
        (-5, "<invalid>"),
    ],
)
def test_spans_are_short(seconds: float, shown: str) -> None:
    assert human_span(seconds) == shown
