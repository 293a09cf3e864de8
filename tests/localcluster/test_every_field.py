"""Every field of VPA's and our own kinds, with every odd value: taken, or refused with the field's path."""

from collections.abc import Iterator
from typing import Any

import pytest

from elastipod.localcluster.api.customschemas import CUSTOM
from elastipod.localcluster.api.kinds import kind_named
from elastipod.localcluster.api.schema import Shape
from tests.localcluster.served import AUTOSCALERS, Served

Json = dict[str, Any]
Path = tuple[str | int, ...]
OURS = "/apis/elastipod.io/v1alpha1"
PLACES = {
    "verticalpodautoscalers.autoscaling.k8s.io": AUTOSCALERS,
    "verticalpodautoscalercheckpoints.autoscaling.k8s.io": AUTOSCALERS.removesuffix("s") + "checkpoints",
    "elasticpolicies.elastipod.io": f"{OURS}/namespaces/default/elasticpolicies",
    "elasticnodes.elastipod.io": f"{OURS}/elasticnodes",
}
ODD = [None, "", 0, -1, 2**63, 1.5, True, [], {}, [None], {"": None}, "x" * 1_000_000, "\u202eé\x00", "NaN", "1e999"]


def paths(shape: Shape, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    for name, inner in shape.fields.items():
        yield from paths(inner, (*path, name))
    if shape.item is not None:
        yield from paths(shape.item, (*path, 0 if shape.type == "array" else "cpu"))


def holding(path: Path, value: Any) -> Any:
    """The smallest object that has the value at the path."""
    for part in reversed(path):
        value = [value] if isinstance(part, int) else {part: value}
    return value


def merged(base: Any, more: Any) -> Any:
    if isinstance(base, dict) and isinstance(more, dict):
        return {key: merged(base.get(key), more[key]) if key in more else base[key] for key in {**base, **more}}
    return more


@pytest.mark.parametrize("kind", PLACES)
def test_a_field_with_an_odd_value_is_taken_or_named(kind: str) -> None:
    server = Served()
    resource = kind_named(kind).resource
    base: Json = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "a"}, "spec": {}}
    if kind.startswith("verticalpodautoscalers."):
        base["spec"] = {"targetRef": {"kind": "Deployment", "name": "web"}}
    for path in paths(CUSTOM[kind]):
        for value in ODD:
            code, answer = server.call("POST", PLACES[kind], merged(base, holding(path, value)), dryRun="All")
            assert code in (201, 400, 422), (path, answer)
            if code != 201:
                assert str(path[0]) in answer["message"], (path, answer["message"])
                assert len(answer["message"]) < 10_000
