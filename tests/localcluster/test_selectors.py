"""Label and field selectors."""

import pytest

from elastipod.localcluster.api.selectors import SelectorError, parse_label_selector, selector_of
from tests.build import pod_json
from tests.localcluster.served import PODS, Served

LABELS = {"app": "web", "tier": "front"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier=front", True),
        ("app=api", False),
        ("app!=api", True),
        ("gone!=x", True),
        ("app in (api, web)", True),
        ("app notin (api,web)", False),
        ("gone notin (x)", True),
        ("app", True),
        ("!app", False),
        ("!gone , app", True),
        ("app=", False),
    ],
)
def test_a_label_selector_means_what_kubernetes_means(text: str, matches: bool) -> None:
    assert parse_label_selector(text).matches(LABELS) is matches


@pytest.mark.parametrize("text", ["=", "app=web,", "app in web", "app in (", ",", "(a)", "a=b c=d"])
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_label_selector(text)
    assert Served().refused("GET", PODS, labelSelector=text)["code"] == 400


def test_selector_objects_join_labels_and_expressions() -> None:
    expressions = [
        {"key": "tier", "operator": "NotIn", "values": ["back"]},
        {"key": "gone", "operator": "DoesNotExist"},
    ]
    selector = selector_of({"matchLabels": {"app": "web"}, "matchExpressions": expressions})
    assert selector is not None
    assert selector.matches(LABELS)
    assert not selector.matches({"app": "web", "tier": "back"})
    assert selector_of(None) is None


def test_field_selectors_narrow_lists_and_unknown_ones_are_refused() -> None:
    server = Served()
    server.post(PODS, pod_json("a", node="n1"))
    server.post(PODS, pod_json("b", node="n2"))
    server.post(PODS, pod_json("c"))

    def names(selector: str) -> list[str]:
        return [one["metadata"]["name"] for one in server.get(PODS, fieldSelector=selector)["items"]]

    assert names("spec.nodeName=n1") == ["a"]
    assert names("spec.nodeName=") == ["c"]
    assert names("spec.nodeName!=n1,status.phase=Pending") == ["b", "c"]
    assert names("metadata.name=b") == ["b"]
    failure = server.refused("GET", PODS, fieldSelector="spec.image=x")
    assert (failure["code"], failure["message"]) == (400, "field label not supported: spec.image")
