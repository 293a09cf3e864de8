"""The three kinds of patch."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.localcluster.api.failures import ApiFailure
from elastipod.localcluster.api.patches import apply_patch, merge_patch, strategic_merge
from tests.localcluster.served import JSON_PATCH, MERGE, STRATEGIC

Json = dict[str, Any]
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)
NAMES = st.sampled_from(
    ["name", "env", "containers", "conditions", "finalizers", "$patch", "x", "$setElementOrder/env"]
)
OBJECTS = st.dictionaries(NAMES, JSONS, max_size=4)


def apply(kind: str, current: Json, patch: Any) -> Json:
    return apply_patch(kind, current, msgspec.json.encode(patch))


def containers(*names: str) -> Json:
    return {"containers": [{"name": name, "image": f"{name}:1"} for name in names]}


def test_a_strategic_merge_joins_containers_by_name() -> None:
    patched = strategic_merge(containers("a", "b"), {"containers": [{"name": "b", "image": "b:2"}]})
    assert patched == {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]}


def test_a_merge_patch_replaces_whole_lists() -> None:
    patch = {"containers": [{"name": "b"}]}
    assert apply(MERGE, containers("a", "b"), patch) == {"containers": [{"name": "b"}]}


@pytest.mark.parametrize(
    ("current", "patch", "wanted"),
    [
        pytest.param(
            containers("a", "b"),
            {"containers": [{"$patch": "delete", "name": "a"}]},
            containers("b"),
            id="delete an element",
        ),
        pytest.param(
            containers("a", "b"),
            {"containers": [{"$patch": "replace"}, {"name": "c", "image": "c:1"}]},
            containers("c"),
            id="replace a list",
        ),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"$patch": "replace", "d": 3}}, {"a": {"d": 3}}, id="replace"),
        pytest.param({"a": {"b": 1}}, {"a": {"$patch": "delete"}}, {"a": {}}, id="delete"),
        pytest.param(
            {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
            {"strategy": {"type": "Recreate"}},
            id="retain keys",
        ),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]},
            {"finalizers": ["b", "c"]},
            id="primitive list",
        ),
        pytest.param(
            containers("a", "b", "c"),
            {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}], "containers": []},
            containers("b", "c", "a"),
            id="order, with one that is not named",
        ),
        pytest.param(
            containers("a"),
            {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                "containers": [{"name": "b", "image": "b:1"}],
            },
            containers("b", "a"),
            id="order of a new one",
        ),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null removes"),
        pytest.param({"args": ["x", "y"]}, {"args": ["z"]}, {"args": ["z"]}, id="plain lists are replaced"),
        pytest.param(
            {"ports": [{"containerPort": 80}]},
            {"ports": [{"containerPort": 81}]},
            {"ports": [{"containerPort": 81}, {"containerPort": 80}]},
            id="ports of containers",
        ),
    ],
)
def test_a_strategic_merge_obeys_its_directives(current: Json, patch: Json, wanted: Json) -> None:
    assert apply(STRATEGIC, current, patch) == wanted


@pytest.mark.parametrize(
    ("kind", "patch", "code"),
    [
        (STRATEGIC, {"containers": [{"image": "x"}]}, 500),
        (STRATEGIC, {"$patch": "explode"}, 500),
        (STRATEGIC, [], 400),
        (MERGE, 5, 400),
        (JSON_PATCH, {}, 400),
        (JSON_PATCH, [{"op": "fly", "path": "/a"}], 422),
        (JSON_PATCH, [{"path": "/a"}], 422),
        (JSON_PATCH, [{"op": "remove", "path": "/gone"}], 422),
        (JSON_PATCH, [{"op": "test", "path": "/a", "value": 2}], 422),
        (JSON_PATCH, [{"op": "replace", "path": "", "value": 2}], 400),
    ],
)
def test_what_is_no_patch_and_what_does_not_apply_are_told_apart(kind: str, patch: Any, code: int) -> None:
    with pytest.raises(ApiFailure) as raised:
        apply(kind, {"a": 1}, patch)
    assert raised.value.code == code


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_rubbish_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(ApiFailure) as raised:
        apply_patch(STRATEGIC, {}, body)
    assert raised.value.code == 400


@given(OBJECTS, OBJECTS)
def test_no_patch_changes_what_it_is_given(current: Json, patch: Json) -> None:
    before = copy.deepcopy((current, patch))
    for kind in (MERGE, STRATEGIC):
        try:
            apply(kind, current, patch)
        except ApiFailure as failure:
            assert failure.code in (400, 500)
    assert (current, patch) == before


@given(JSONS, JSONS)
def test_a_merge_patch_applied_twice_is_as_if_applied_once(current: Any, patch: Any) -> None:
    once = merge_patch(current, patch)
    assert merge_patch(once, patch) == once
