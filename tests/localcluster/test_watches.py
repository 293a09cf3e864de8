"""Lists in pages, and watches."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from tests.build import pod_json
from tests.localcluster.served import MERGE, PODS, TABLE, Served

Json = dict[str, Any]


def stream(server: Served, accept: str = "", **query: str) -> AsyncGenerator[bytes, None]:
    response = server.response("GET", PODS, b"", "", accept, watch="true", **query)
    assert response.stream is not None
    return response.stream


async def next_events(events: AsyncGenerator[bytes, None], count: int) -> list[tuple[str, str]]:
    found = []
    for _ in range(count):
        one = msgspec.json.decode(await asyncio.wait_for(anext(events), 5))
        found.append((one["type"], one["object"]["metadata"].get("name", "")))
    return found


async def test_a_watch_replays_from_its_version_and_goes_on() -> None:
    server = Served()
    server.post(PODS, pod_json("a"))
    version = server.get(PODS)["metadata"]["resourceVersion"]
    server.post(PODS, pod_json("b"))
    async with aclosing(stream(server, resourceVersion=version)) as events:
        assert await next_events(events, 1) == [("ADDED", "b")]
        server.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
        server.call("DELETE", f"{PODS}/b")
        assert await next_events(events, 3) == [("MODIFIED", "a"), ("MODIFIED", "b"), ("DELETED", "b")]


async def test_a_watch_without_a_version_begins_with_what_is_there() -> None:
    server = Served()
    server.post(PODS, pod_json("a"))
    async with aclosing(stream(server)) as events:
        assert await next_events(events, 1) == [("ADDED", "a")]


async def test_initial_events_end_with_a_bookmark_that_says_so() -> None:
    server = Served()
    server.post(PODS, pod_json("a"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    async with aclosing(stream(server, **query)) as events:
        assert await next_events(events, 1) == [("ADDED", "a")]
        mark = msgspec.json.decode(await anext(events))
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_an_object_that_comes_to_match_is_added_and_one_that_ceases_to_is_deleted() -> None:
    server = Served()
    server.post(PODS, pod_json("a"))
    version = server.get(PODS)["metadata"]["resourceVersion"]
    async with aclosing(stream(server, resourceVersion=version, labelSelector="x=y")) as events:
        for value in ("y", "y", "z"):
            server.patch(f"{PODS}/a", {"metadata": {"labels": {"x": value, "n": value}}}, MERGE)
        server.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "z", "n": "1"}}}, MERGE)
        assert await next_events(events, 2) == [("ADDED", "a"), ("DELETED", "a")]


async def test_a_version_that_is_too_old_ends_the_watch_with_410() -> None:
    server = Served(remembered=2)
    for name in "abcd":
        server.post(PODS, pod_json(name))
    async with aclosing(stream(server, resourceVersion="2")) as events:
        lines = [msgspec.json.decode(one) async for one in events]
    assert [(one["type"], one["object"]["code"], one["object"]["reason"]) for one in lines] == [
        ("ERROR", 410, "Expired")
    ]


async def test_a_watch_ends_after_its_time() -> None:
    server = Served()
    version = str(server.store.version)
    async with aclosing(stream(server, resourceVersion=version, timeoutSeconds="1")) as events:
        assert [one async for one in events] == []


async def test_a_version_of_another_cluster_ends_the_watch_with_410() -> None:
    async with aclosing(stream(Served(), resourceVersion="1000")) as events:
        assert [msgspec.json.decode(one)["object"]["code"] async for one in events] == [410]


async def test_a_watcher_of_one_node_sees_pods_come_to_it_and_leave() -> None:
    server = Served()
    server.post(PODS, pod_json("a"))
    server.post(PODS, pod_json("other", node="n2"))
    version = server.get(PODS)["metadata"]["resourceVersion"]
    async with aclosing(stream(server, resourceVersion=version, fieldSelector="spec.nodeName=n1")) as events:
        server.post(f"{PODS}/a/binding", {"target": {"name": "n1"}})
        server.post(PODS, pod_json("more", node="n2"))
        server.call("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
        assert await next_events(events, 3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


async def test_watchers_that_leave_are_forgotten() -> None:
    server = Served()
    listeners = server.store.listener_count
    async with aclosing(stream(server)) as events:
        server.post(PODS, pod_json("a"))
        await next_events(events, 1)
        assert server.store.listener_count == listeners + 1
    assert server.store.listener_count == listeners


async def test_a_table_watch_shows_rows() -> None:
    server = Served()
    async with aclosing(stream(server, accept=TABLE)) as events:
        server.post(PODS, pod_json("a"))
        event = msgspec.json.decode(await anext(events))
    assert event["object"]["rows"][0]["cells"][:3] == ["a", "0/1", "Pending"]


def test_pages_come_to_the_whole_and_a_token_expires() -> None:
    server = Served()
    for name in "edcba":
        server.post(PODS, pod_json(name))
    first = server.get(PODS, limit="2")
    assert first["metadata"]["remainingItemCount"] == 3
    server.post(PODS, pod_json("z"))
    names = [one["metadata"]["name"] for one in first["items"]]
    token = first["metadata"]["continue"]
    while token:
        page = server.get(PODS, limit="2", **{"continue": token})
        names += [one["metadata"]["name"] for one in page["items"]]
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        token = page["metadata"].get("continue", "")
    assert names == ["a", "b", "c", "d", "e"]
    server.clock.advance(301)
    failure = server.refused("GET", PODS, limit="2", **{"continue": first["metadata"]["continue"]})
    assert (failure["code"], failure["reason"]) == (410, "Expired")
    assert server.refused("GET", PODS, **{"continue": "rubbish!"})["code"] == 400


def test_numbers_that_are_none_are_refused_by_name() -> None:
    assert "limit must be a whole number" in Served().refused("GET", PODS, limit="1.5")["message"]
    assert "resourceVersion" in Served().refused("GET", PODS, resourceVersion="None")["message"]
    assert "resourceVersion" in Served().refused("GET", PODS, watch="true", resourceVersion="None")["message"]
