"""A pod's own amounts: what is filled in at creation and at a resize, and what can be taken away."""

from typing import Any

import pytest

from tests.build import container_json, pod_json
from tests.contract.servers import FORBIDDEN, INVALID, JSON_PATCH, MERGE, STRATEGIC, Server, invalid
from tests.contract.sizes import BOTH, GUARANTEED, NOTHING, Json, running

BIG: Json = {"requests": {"cpu": "250m"}, "limits": {"cpu": "1"}}
HELPER = container_json("helper", cpu="10m", memory=None)
WHOLE = {"requests": {"cpu": "250m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}}


def own(**parts: Any) -> Json:
    return {"spec": {"resources": parts}}


@pytest.mark.parametrize(
    ("pod", "asked", "filled"),
    [
        (
            BOTH,
            {"requests": {"cpu": "150m"}},
            {"requests": {"cpu": "150m", "memory": "128Mi"}, "limits": {"cpu": "200m", "memory": "256Mi"}},
        ),
        (
            BOTH,
            {"requests": {"cpu": "1"}},
            {"requests": {"cpu": "1", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
        ),
        ({}, {"requests": {"cpu": "150m"}}, {"requests": {"cpu": "150m", "memory": "128Mi"}}),
        (
            {"containers": [container_json(**BOTH), HELPER]},
            {"requests": {"cpu": "1"}},
            {"requests": {"cpu": "1", "memory": "128Mi"}},
        ),
        (
            GUARANTEED,
            {"requests": {"cpu": "1"}},
            {"requests": {"cpu": "1", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "128Mi"}},
        ),
    ],
    ids=["all", "never less than the request", "no limits", "not all have limits", "guaranteed"],
)
async def test_a_pod_s_own_amounts_are_filled_in_from_its_containers(
    server: Server, pod: Json, asked: Json, filled: Json
) -> None:
    made = await server.post(server.pods, pod_json("new", server.namespace, resources=asked, **pod))
    assert made["spec"]["resources"] == filled
    path = await running(server, node=False, **pod)
    assert (await server.patch(path, own(**asked)))["spec"]["resources"] == filled


@pytest.mark.parametrize("content_type", [STRATEGIC, MERGE])
async def test_a_null_leaves_a_pod_s_own_amounts(server: Server, content_type: str) -> None:
    path = await running(server, node=False, resources=BIG, **BOTH)
    resized = await server.patch(path, {"spec": {"resources": None}}, content_type)
    assert (resized["metadata"]["generation"], resized["spec"]["resources"]) == (1, WHOLE)


async def test_what_is_removed_is_filled_in_anew(server: Server) -> None:
    path = await running(server, node=False, resources=BIG, **BOTH)
    remove = [{"op": "remove", "path": "/spec/resources/requests/cpu"}]
    resized = await server.patch(path, remove, JSON_PATCH)
    assert resized["spec"]["resources"]["requests"] == {"cpu": "100m", "memory": "128Mi"}


@pytest.mark.parametrize("parts", [{}, {"requests": {}}], ids=["empty", "no request"])
async def test_own_amounts_that_say_nothing_are_refused(server: Server, parts: Json) -> None:
    path = await running(server, node=False, **NOTHING)
    refused = await server.refused("PATCH", path, own(**parts), content_type=STRATEGIC)
    assert refused == invalid("Pod", "web-0", ("spec", FORBIDDEN))


@pytest.mark.parametrize("resources", [{"requests": {}}, {"requests": {}, "limits": {}}, None])
async def test_a_container_s_empty_amounts_are_none(server: Server, resources: Json | None) -> None:
    path = await running(server, node=False, **NOTHING)
    patch = {"spec": {"containers": [{"name": "app", "resources": resources}]}}
    assert (await server.patch(path, patch))["metadata"]["generation"] == 1


async def test_amounts_may_lose_their_helper_but_not_their_class(server: Server) -> None:
    path = await running(server, node=False, containers=[container_json(**GUARANTEED), HELPER])
    patch = {"spec": {"containers": [{"name": "helper", "$patch": "delete"}]}}
    refused = await server.refused("PATCH", path, patch, content_type=STRATEGIC)
    assert refused == invalid("Pod", "web-0", ("spec", INVALID), ("spec.containers", FORBIDDEN))
