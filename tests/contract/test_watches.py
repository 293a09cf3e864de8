"""Watches: where they begin, what they tell, when they end."""

from elastipod.kube import resources as kube
from tests.build import pod_json
from tests.contract.samples import autoscaler, config_map
from tests.contract.servers import MERGE, REMEMBERED, TABLE, Server


async def version_of(server: Server, path: str) -> str:
    return (await server.get(path))["metadata"]["resourceVersion"]


async def test_a_watch_from_a_version_tells_what_came_after_it(server: Server) -> None:
    await server.make_pod("a")
    version = await version_of(server, server.pods)
    await server.make_pod("b")
    async with server.watch(server.pods, resourceVersion=version) as watch:
        assert await watch.names(1) == [("ADDED", "b")]
        await server.patch(f"{server.pods}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
        await server.delete(f"{server.pods}/b")
        assert await watch.names(3) == [("MODIFIED", "a"), ("MODIFIED", "b"), ("DELETED", "b")]


async def test_a_watch_without_a_version_begins_with_what_is_there(server: Server) -> None:
    await server.make_pod("a")
    await server.make_pod("b")
    async with server.watch(server.pods) as watch:
        assert sorted(await watch.names(2)) == [("ADDED", "a"), ("ADDED", "b")]
        await server.make_pod("c")
        assert await watch.names(1) == [("ADDED", "c")]


async def test_a_watch_from_zero_begins_with_what_is_there(server: Server) -> None:
    await server.make_pod("a")
    async with server.watch(server.pods, resourceVersion="0") as watch:
        assert await watch.names(1) == [("ADDED", "a")]


async def test_an_object_s_events_carry_it_whole(server: Server) -> None:
    version = await version_of(server, server.pods)
    made = await server.make_pod("a")
    async with server.watch(server.pods, resourceVersion=version) as watch:
        assert await watch.next() == ("ADDED", made)
        changed = await server.patch(f"{server.pods}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
        assert await watch.next() == ("MODIFIED", changed)


async def test_a_deletion_carries_a_version_of_its_own(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    made = await server.post(path, config_map("it", server.namespace))
    async with server.watch(path, resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        await server.delete(f"{path}/it")
        kind, gone = await watch.next()
    assert (kind, gone["data"]) == ("DELETED", made["data"])
    assert int(gone["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


async def test_a_version_that_is_forgotten_is_too_old(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    await server.post(path, config_map("it", server.namespace))
    for number in range(REMEMBERED):
        await server.patch(f"{path}/it", {"data": {"n": str(number)}}, MERGE)
    # A real server remembers of a custom kind what came since it was defined.
    path = server.path(kube.AUTOSCALERS)
    async with server.watch(path, resourceVersion="1", timeoutSeconds="5") as watch:
        kind, status = await watch.next()
    assert (kind, status["kind"], status["code"], status["reason"]) == ("ERROR", "Status", 410, "Expired")
    assert "too old resource version" in status["message"]


async def test_a_version_that_is_no_number_is_refused(server: Server) -> None:
    refused = await server.refused("GET", server.pods, watch="true", resourceVersion="x")
    assert (refused.code, refused.reason) == (500, "")
    assert "Invalid value" in refused


async def test_a_watch_ends_when_its_time_is_over(server: Server) -> None:
    async with server.watch(server.pods, timeoutSeconds="1") as watch:
        assert await watch.rest() == []


async def test_bookmarks_come_before_a_watch_ends(server: Server) -> None:
    await server.make_pod("a")
    version = await version_of(server, server.pods)
    async with server.watch(
        server.pods, resourceVersion=version, allowWatchBookmarks="true", timeoutSeconds="3"
    ) as watch:
        events = await watch.rest()
    assert {kind for kind, _ in events} <= {"BOOKMARK"}
    for _, mark in events:
        assert (mark["kind"], mark["apiVersion"]) == ("Pod", "v1")
        assert int(mark["metadata"]["resourceVersion"]) >= int(version)


async def test_initial_events_end_with_a_bookmark_that_says_so(server: Server) -> None:
    await server.make_pod("a")
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with server.watch(server.pods, **query) as watch:
        assert await watch.names(1) == [("ADDED", "a")]
        kind, mark = await watch.next()
        assert (kind, mark["kind"]) == ("BOOKMARK", "Pod")
        assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        await server.make_pod("b")
        assert await watch.names(1) == [("ADDED", "b")]


async def test_initial_events_need_a_match_to_be_stated(server: Server) -> None:
    refused = await server.refused("GET", server.pods, watch="true", sendInitialEvents="true")
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.fields == {"resourceVersionMatch"}


async def test_an_object_enters_and_leaves_a_selection_by_label(server: Server) -> None:
    await server.make_pod("a", labels={"app": "db"})
    version = await version_of(server, server.pods)
    async with server.watch(server.pods, resourceVersion=version, labelSelector="app=web") as watch:
        for app in ("web", "web2", "web"):
            await server.patch(f"{server.pods}/a", {"metadata": {"labels": {"app": app}}}, MERGE)
        await server.patch(f"{server.pods}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
        assert await watch.names(4) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a"), ("MODIFIED", "a")]


async def test_an_object_that_leaves_a_selection_is_told_as_it_is_not_any_more(server: Server) -> None:
    await server.make_pod("a", labels={"app": "web"})
    version = await version_of(server, server.pods)
    async with server.watch(server.pods, resourceVersion=version, labelSelector="app=web") as watch:
        changed = await server.patch(f"{server.pods}/a", {"metadata": {"labels": {"app": "db"}}}, MERGE)
        kind, gone = await watch.next()
    assert (kind, gone["metadata"]["labels"]) == ("DELETED", {"app": "web"})
    assert gone["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]


async def test_an_object_enters_and_leaves_a_selection_by_field(server: Server) -> None:
    version = await version_of(server, server.pods)
    async with server.watch(server.pods, resourceVersion=version, fieldSelector="status.phase=Running") as watch:
        await server.make_pod("a")
        await server.set_status(f"{server.pods}/a", {"phase": "Running"})
        await server.set_status(f"{server.pods}/a", {"phase": "Succeeded"})
        assert await watch.names(2) == [("ADDED", "a"), ("DELETED", "a")]


async def test_one_object_is_watched_by_its_name(server: Server) -> None:
    version = await version_of(server, server.pods)
    async with server.watch(server.pods, resourceVersion=version, fieldSelector="metadata.name=b") as watch:
        await server.make_pod("a")
        await server.make_pod("b")
        assert await watch.names(1) == [("ADDED", "b")]


async def test_a_watch_of_all_namespaces_can_be_narrowed(server: Server) -> None:
    version = await version_of(server, kube.PODS.path())
    query = {"resourceVersion": version, "fieldSelector": f"metadata.namespace={server.namespace}"}
    async with server.watch(kube.PODS.path(), **query) as watch:
        await server.make_pod("a")
        assert await watch.names(1) == [("ADDED", "a")]


async def test_custom_objects_are_watched_alike(server: Server) -> None:
    path = server.path(kube.AUTOSCALERS)
    version = await version_of(server, path)
    async with server.watch(path, resourceVersion=version) as watch:
        await server.post(path, autoscaler("it", server.namespace))
        await server.delete(f"{path}/it")
        assert await watch.names(2) == [("ADDED", "it"), ("DELETED", "it")]


async def test_a_pod_that_is_deleted_with_grace_is_first_changed(server: Server) -> None:
    await server.make_running_pod("a", node="n1")
    version = await version_of(server, server.pods)
    async with server.watch(server.pods, resourceVersion=version) as watch:
        await server.delete(f"{server.pods}/a")
        kind, going = await watch.next()
        assert (kind, going["metadata"]["deletionGracePeriodSeconds"]) == ("MODIFIED", 30)
        await server.delete(f"{server.pods}/a", {"gracePeriodSeconds": 0})
        kind, going = await watch.next()
        assert (kind, going["metadata"]["deletionGracePeriodSeconds"]) == ("MODIFIED", 0)
        assert await watch.names(1) == [("DELETED", "a")]


async def test_what_changes_nothing_is_not_told(server: Server) -> None:
    await server.make_pod("a", labels={"x": "y"})
    version = await version_of(server, server.pods)
    async with server.watch(server.pods, resourceVersion=version) as watch:
        await server.patch(f"{server.pods}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
        await server.make_pod("b")
        assert await watch.names(1) == [("ADDED", "b")]


async def test_a_dry_run_is_not_told(server: Server) -> None:
    version = await version_of(server, server.pods)
    async with server.watch(server.pods, resourceVersion=version) as watch:
        await server.post(server.pods, pod_json("a", server.namespace), dryRun="All")
        await server.make_pod("b")
        assert await watch.names(1) == [("ADDED", "b")]


async def test_a_watch_can_be_of_tables(server: Server) -> None:
    await server.make_pod("a")
    async with server.watch(server.pods, accept=TABLE) as watch:
        kind, table = await watch.next()
        assert (kind, table["kind"], table["rows"][0]["cells"][0]) == ("ADDED", "Table", "a")
        assert table["columnDefinitions"][0]["name"] == "Name"
        await server.make_pod("b")
        _, table = await watch.next()
        assert table["rows"][0]["cells"][0] == "b"
        assert not table["columnDefinitions"]


async def test_one_object_s_path_is_that_object_watched_or_not(server: Server) -> None:
    made = await server.make_pod("a")
    assert await server.get(f"{server.pods}/a", watch="true") == made
