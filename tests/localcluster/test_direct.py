"""The API server called in process."""

import random
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from elastipod.clock import ManualClock
from elastipod.kube import resources as kube
from elastipod.kube.connection import Connection, PatchType
from elastipod.kube.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    StatusError,
    TooManyRequests,
)
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.store import Store
from tests.build import pod_json, running_status


def connected(remembered: int = 1000) -> Connection:
    clock = ManualClock()
    api = ApiServer(clock, Store(remembered_changes=remembered), spread=random.Random(3))
    return DirectConnection(api, clock)


def raw(body: Any) -> bytes:
    return msgspec.json.encode(body)


async def test_an_object_is_made_read_patched_listed_and_deleted() -> None:
    server = connected()
    made = await server.create(kube.PODS, "default", raw(pod_json(labels={"a": "b"})))
    assert await server.get(kube.PODS, "default", "web-0") == made
    patch = raw({"status": running_status(pod_json())})
    await server.patch(kube.PODS, "default", "web-0", patch, patch_type=PatchType.MERGE, subresource="status")
    listed = msgspec.json.decode(
        await server.list(kube.PODS, label_selector="a=b", field_selector="status.phase=Running")
    )
    assert [one["metadata"]["name"] for one in listed["items"]] == ["web-0"]
    await server.delete(kube.PODS, "default", "web-0")
    assert msgspec.json.decode(await server.list(kube.PODS, namespace="default"))["items"] == []
    await server.close()


async def test_pages_follow_their_tokens() -> None:
    server = connected()
    for name in "abc":
        await server.create(kube.PODS, "default", raw(pod_json(name)))
    page = msgspec.json.decode(await server.list(kube.PODS, limit=2))
    rest = msgspec.json.decode(await server.list(kube.PODS, limit=2, continue_token=page["metadata"]["continue"]))
    assert [one["metadata"]["name"] for one in rest["items"]] == ["c"]


async def test_failures_are_the_errors_that_http_brings() -> None:
    server = connected()
    with pytest.raises(NotFound):
        await server.get(kube.PODS, "default", "gone")
    await server.create(kube.PODS, "default", raw(pod_json()))
    with pytest.raises(Conflict) as exists:
        await server.create(kube.PODS, "default", raw(pod_json()))
    assert exists.value.reason == "AlreadyExists"
    with pytest.raises(BadRequest):
        await server.create(kube.PODS, "default", b"{")
    with pytest.raises(Forbidden):
        await server.create(kube.PODS, "default", raw(pod_json("b", priorityClassName="gone")))
    with pytest.raises(Invalid) as invalid:
        await server.create(kube.PODS, "default", raw(pod_json("c", cpu="-1")))
    assert invalid.value.causes[0].field == "spec.containers[0].resources.requests[cpu]"
    with pytest.raises(StatusError) as unsupported:
        await server.patch(kube.AUTOSCALERS, "default", "web", b"{}")
    assert unsupported.value.code == 415


async def test_an_eviction_is_a_post_to_its_pod() -> None:
    server = connected()
    pod = pod_json(labels={"app": "web"}, node="n1")
    await server.create(kube.PODS, "default", raw(pod))
    status = raw({"status": running_status(pod)})
    await server.patch(kube.PODS, "default", "web-0", status, patch_type=PatchType.MERGE, subresource="status")
    budget = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}}
    await server.create(kube.POD_DISRUPTION_BUDGETS, "default", raw(budget))
    with pytest.raises(TooManyRequests) as wait:
        await server.create(kube.PODS, "default", b"{}", name="web-0", subresource="eviction")
    assert wait.value.retry_after_seconds == 10
    assert wait.value.causes[0].reason == "DisruptionBudget"


async def test_a_watch_gives_lines_and_an_old_version_an_error_event() -> None:
    server = connected(remembered=2)
    for name in "abcd":
        await server.create(kube.PODS, "default", raw(pod_json(name)))
    version = msgspec.json.decode(await server.list(kube.PODS))["metadata"]["resourceVersion"]
    await server.create(kube.PODS, "default", raw(pod_json("e")))
    async with aclosing(server.watch(kube.PODS, resource_version=version)) as events:
        assert msgspec.json.decode(await anext(events))["object"]["metadata"]["name"] == "e"
    async with aclosing(server.watch(kube.PODS, resource_version="1")) as events:
        assert msgspec.json.decode(await anext(events))["object"]["code"] == 410
    with pytest.raises(Gone):
        await server.list(kube.PODS, continue_token=_old_token())


def _old_token() -> str:
    import base64

    return base64.urlsafe_b64encode(msgspec.json.encode([1, "default", "a", 0.0])).decode()


async def test_the_same_calls_with_the_same_seed_give_the_same_bytes() -> None:
    async def run() -> list[bytes]:
        server = connected()
        for _ in range(5):
            body = pod_json()
            body["metadata"] = {"generateName": "web-"}
            await server.create(kube.PODS, "default", raw(body))
        return [await server.list(kube.PODS)]

    assert await run() == await run()
