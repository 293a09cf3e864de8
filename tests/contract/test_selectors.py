"""Which objects a list means: by labels and by fields, in pages, as of a version."""

import pytest

from elastipod.kube import resources as kube
from tests.build import node_json
from tests.contract.samples import SAMPLES, autoscaler, config_map
from tests.contract.servers import Refusal, Server

LABELS = {"a": {"app": "web", "tier": "front"}, "b": {"app": "web"}, "c": {"app": "db", "old": ""}, "d": {}}


async def has_labelled(server: Server) -> str:
    path = server.path(kube.CONFIG_MAPS)
    for name, labels in LABELS.items():
        await server.post(path, config_map(name, server.namespace, labels=labels))
    return path


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=web", "ab"),
        ("app==web", "ab"),
        ("app!=web", "cd"),
        ("app", "abc"),
        ("!app", "d"),
        ("app in (web, db)", "abc"),
        ("app in (web),tier notin (back)", "ab"),
        ("app notin (web,db)", "d"),
        ("app=web,!tier", "b"),
        ("old=", "c"),
        ("app=none", ""),
        (" app = web , tier ", "a"),
        ("app in ()", ""),
        ("app=web,", None),
        ("a/b/c=x", None),
        ("=x", None),
        ("app in web", None),
        ("app in (web", None),
        ("app>web", None),
        ("app=web=db", None),
        ("app=we b", None),
        ("-app", None),
        ("app=-x", None),
    ],
)
async def test_a_label_selector_selects_or_is_refused(server: Server, selector: str, names: str | None) -> None:
    path = await has_labelled(server)
    if names is None:
        refused = await server.refused("GET", path, labelSelector=selector)
        assert (refused.code, refused.reason) == (400, "BadRequest")
    else:
        found = await server.names(path, labelSelector=selector)
        assert [one for one in found if one in LABELS] == list(names)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("spec.nodeName=n1", ["a"]),
        ("spec.nodeName=", ["b"]),
        ("spec.nodeName!=n1", ["b"]),
        ("status.phase=Pending", ["a", "b"]),
        ("status.phase=Running", []),
        ("metadata.name=a", ["a"]),
        ("metadata.name==b", ["b"]),
        ("spec.restartPolicy=Never,metadata.name!=x", ["b"]),
        ("spec.schedulerName=default-scheduler", ["a", "b"]),
        ("spec.image=x", None),
        ("metadata.uid=x", None),
        ("nonsense", None),
    ],
)
async def test_a_field_selector_selects_or_is_refused(server: Server, selector: str, names: list[str] | None) -> None:
    await server.make_pod("a", node="n1")
    await server.make_pod("b", restartPolicy="Never")
    if names is None:
        refused = await server.refused("GET", server.pods, fieldSelector=selector)
        assert (refused.code, refused.reason) == (400, "BadRequest")
    else:
        assert await server.names(server.pods, fieldSelector=selector) == names


async def test_nodes_are_selected_by_being_unschedulable(server: Server) -> None:
    names = [server.unique("a"), server.unique("b")]
    for name, spec in zip(names, ({}, {"unschedulable": True}), strict=True):
        node = node_json(name)
        node["metadata"]["labels"] = {"case": server.namespace}
        await server.post(kube.NODES.path(), {**node, "spec": spec})
    mine = {"labelSelector": f"case={server.namespace}"}
    assert await server.names(kube.NODES.path(), fieldSelector="spec.unschedulable=true", **mine) == names[1:]
    assert await server.names(kube.NODES.path(), fieldSelector="spec.unschedulable=false", **mine) == names[:1]


async def test_events_are_selected_by_what_they_are_about(server: Server) -> None:
    sample = next(one for one in SAMPLES if one.resource is kube.EVENTS)
    await server.post(server.path(kube.EVENTS), sample.make("e", server.namespace))
    for selector in (
        "involvedObject.name=web-0,involvedObject.kind=Pod",
        "reason=Resized",
        "type=Normal",
        "source=elastipod",
    ):
        assert await server.names(server.path(kube.EVENTS), fieldSelector=selector) == ["e"]
    assert await server.names(server.path(kube.EVENTS), fieldSelector="involvedObject.name=other") == []


async def test_custom_objects_are_selected_by_name_alone(server: Server) -> None:
    path = server.path(kube.AUTOSCALERS)
    await server.post(path, autoscaler("it", server.namespace))
    assert await server.names(path, fieldSelector="metadata.name=it") == ["it"]
    assert (await server.refused("GET", path, fieldSelector="spec.x=y")).code == 400


async def test_a_list_is_in_order_of_names(server: Server) -> None:
    path = server.path(kube.CONFIG_MAPS)
    for name in ("b", "c", "a"):
        await server.post(path, config_map(name, server.namespace))
    assert await server.names(path) == ["a", "b", "c"]


async def has_many(server: Server) -> str:
    path = server.path(kube.CONFIG_MAPS)
    for number in range(5):
        await server.post(path, config_map(f"c{number}", server.namespace))
    return path


async def test_a_list_comes_in_pages_of_one_version(server: Server) -> None:
    path = await has_many(server)
    first = await server.get(path, limit="2")
    assert ([one["metadata"]["name"] for one in first["items"]], first["metadata"]["remainingItemCount"]) == (
        ["c0", "c1"],
        3,
    )
    second = await server.get(path, limit="2", **{"continue": first["metadata"]["continue"]})
    assert [one["metadata"]["name"] for one in second["items"]] == ["c2", "c3"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    last = await server.get(path, limit="2", **{"continue": second["metadata"]["continue"]})
    assert [one["metadata"]["name"] for one in last["items"]] == ["c4"]
    assert not last["metadata"].get("continue")


async def test_a_page_that_holds_all_has_no_next(server: Server) -> None:
    path = await has_many(server)
    found = await server.get(path, limit="5")
    assert (len(found["items"]), found["metadata"].get("continue")) == (5, None)


async def test_later_pages_do_not_see_what_was_made_since(server: Server) -> None:
    path = await has_many(server)
    first = await server.get(path, limit="2")
    await server.post(path, config_map("c9", server.namespace))
    await server.delete(f"{path}/c3")
    rest = await server.get(path, limit="9", **{"continue": first["metadata"]["continue"]})
    assert [one["metadata"]["name"] for one in rest["items"]] == ["c2", "c3", "c4"]


async def test_a_page_with_a_selector_does_not_count_what_is_left(server: Server) -> None:
    path = await has_labelled(server)
    found = await server.get(path, limit="1", labelSelector="app")
    assert found["metadata"]["continue"]
    assert "remainingItemCount" not in found["metadata"]
    rest = await server.get(path, limit="9", labelSelector="app", **{"continue": found["metadata"]["continue"]})
    assert [one["metadata"]["name"] for one in rest["items"]] == ["b", "c"]


@pytest.mark.parametrize("token", ["garbage", "%%%", "e30="])
async def test_a_token_that_no_page_gave_is_refused(server: Server, token: str) -> None:
    path = await has_many(server)
    refused = await server.refused("GET", path, limit="2", **{"continue": token})
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert "continue key is not valid" in refused


async def test_a_token_and_a_version_are_one_too_many(server: Server) -> None:
    path = await has_many(server)
    token = (await server.get(path, limit="2"))["metadata"]["continue"]
    refused = await server.refused("GET", path, limit="2", resourceVersion="7", **{"continue": token})
    assert (refused.code, refused.reason) == (400, "BadRequest")


@pytest.mark.parametrize("query", [{"limit": "x"}, {"timeoutSeconds": "x"}])
async def test_a_number_that_is_none_is_refused(server: Server, query: dict[str, str]) -> None:
    refused = await server.refused("GET", server.pods, **query)
    assert (refused.code, refused.reason) == (400, "BadRequest")


async def test_a_list_as_of_at_least_a_version(server: Server) -> None:
    made = await server.make_pod("a")
    version = made["metadata"]["resourceVersion"]
    assert await server.names(server.pods, resourceVersion=version, resourceVersionMatch="NotOlderThan") == ["a"]
    assert await server.names(server.pods, resourceVersion=version) == ["a"]
    assert await server.names(server.pods, resourceVersion="0") == ["a"]


async def test_a_list_as_of_exactly_a_version(server: Server) -> None:
    made = await server.make_pod("a")
    version = made["metadata"]["resourceVersion"]
    exact = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    assert await server.names(server.pods, **exact) == ["a"]
    await server.make_pod("b")
    await server.delete(f"{server.pods}/a", {"gracePeriodSeconds": 0})
    found = await server.get(server.pods, **exact)
    assert [one["metadata"]["name"] for one in found["items"]] == ["a"]
    assert found["metadata"]["resourceVersion"] == version


@pytest.mark.parametrize(
    "query",
    [
        {"resourceVersionMatch": "Exact"},
        {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
        {"resourceVersion": "5", "resourceVersionMatch": "Nearly"},
    ],
)
async def test_a_match_that_means_nothing_is_refused(server: Server, query: dict[str, str]) -> None:
    refused = await server.refused("GET", server.pods, **query)
    assert (refused.code, refused.reason, refused.fields) == (422, "Invalid", {"resourceVersionMatch"})


async def test_a_version_that_is_no_number_is_refused(server: Server) -> None:
    refused = await server.refused("GET", server.pods, resourceVersion="x")
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert "Invalid value" in refused


async def test_a_version_that_is_still_to_come_is_waited_for_and_then_refused(server: Server) -> None:
    refused = await server.refused("GET", server.pods, resourceVersion="99999999999", timeoutSeconds="1")
    assert (refused.code, refused.reason) == (504, "Timeout")
    assert "Too large resource version" in refused


async def test_one_object_can_be_read_as_of_at_least_a_version(server: Server) -> None:
    made = await server.make_pod("a")
    found = await server.get(f"{server.pods}/a", resourceVersion=made["metadata"]["resourceVersion"])
    assert found == made


async def test_nothing_is_selected_is_a_list_too(server: Server) -> None:
    found = await server.get(server.pods)
    assert (found["kind"], found["items"]) == ("PodList", [])
    assert Refusal(404, "NotFound", "pods", "x") == await server.refused("GET", f"{server.pods}/x")
