"""What a component would refuse at its start, helm refuses before."""

import json
import re
from typing import Any

import pytest

from tests.charts.pages import SCHEMA, SET_BY_THE_CHART, SETTINGS, camel
from tests.charts.rendering import Refused, needs_helm, render

Json = dict[str, Any]

NUMBERS = (-1, 0, 1e-6, 0.25, 0.5, 1, 1.5, 2, 4, 4.5, 29, 30, 31, 59, 60, 61, 1000, 1001, 3600, 3601)
AMOUNTS = ("", "0", "8Gi", "1.5Gi", "512M", "0.5Mi", "64Ki", "1e9", "1E+12", "12345", "abc", "16m", "-1", "1Ki",
           "1e", "1", "8 Gi", "8gi", "0.001Mi", "1e-3", "12Gi\n")  # fmt: skip
URLS = ("", "http://prometheus", "https://p.monitoring.svc:9090/prometheus/", "http://[::1]:9090", "prometheus:9090",
        "ftp://x", "http://", "http://x:0", "http://x:65536", "http://x:port", "http://x/?q", "http://x#a")  # fmt: skip
TEXTS: dict[str, tuple[Any, ...]] = {
    "memory_spike_max": AMOUNTS,
    "step_least": AMOUNTS,
    "node_reserve": AMOUNTS,
    "usage_source": ("metrics", "actuators,metrics", "metrics, actuators", "foo", "", "metrics,", "Metrics"),
    "prometheus_url": (*URLS, "http://me:secret@x:9090"),
    "prometheus_proxy": URLS[:-2],
    "prometheus_headers": ([], ["X-A: b"], ["X-Scope-OrgID: a:b"], ["X-A"], [": b"], ["X-A: "], ["X-A: b\nX-B: c"]),
}
"""Besides numbers: what may be said, and what may not."""


def settings() -> list[tuple[str, str, Json]]:
    """Component, name and schema of each setting that the chart takes."""
    definitions = json.loads(SCHEMA.read_text("utf-8"))["definitions"]
    return [
        (component, name, definitions[f"{component}Settings"]["properties"][camel(name)])
        for component, cls in SETTINGS.items()
        for name in cls.__dataclass_fields__
        if name not in SET_BY_THE_CHART
    ]


def allows(one: Json, value: Any) -> bool:
    """Whether a schema allows a value of its type."""
    if "anyOf" in one:
        return any(allows(each, value) for each in one["anyOf"])
    if isinstance(value, list):
        return all(allows(one["items"], each) for each in value)
    if isinstance(value, str):
        return value in one.get("enum", (value,)) and bool(re.search(one.get("pattern", "").replace("$", r"\Z"), value))
    return (
        value in one.get("enum", (value,))
        and one.get("minimum", value) <= value <= one.get("maximum", value)
        and one.get("exclusiveMinimum", value - 1) < value < one.get("exclusiveMaximum", value + 1)
    )


def takes(component: str, **given: Any) -> bool:
    """Whether the component starts with that."""
    found = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    try:
        SETTINGS[component](**found)
    except ValueError:
        return False
    return True


# What has to go with a value lest it contradicts another.
_WITH: dict[str, Json] = {
    "lower_percentile": {"target_percentile": 1.0, "upper_percentile": 1.0},
    "target_percentile": {"lower_percentile": 1e-9, "upper_percentile": 1.0},
    "upper_percentile": {"lower_percentile": 1e-9, "target_percentile": 1e-9},
    "owner_wait_seconds": {"request_seconds": 1e9},
    "request_seconds": {"owner_wait_seconds": 0.0},
    "prometheus_proxy": {"prometheus_url": "http://x"},
    "prometheus_headers": {"prometheus_url": "http://x"},
}


@pytest.mark.parametrize(("component", "name", "one"), settings())
def test_the_schema_refuses_what_the_component_would(component: str, name: str, one: Json) -> None:
    values: tuple[Any, ...] = TEXTS.get(name, ())
    if SETTINGS[component].__dataclass_fields__[name].type in (int, float, "int", "float"):
        values = tuple(value for value in NUMBERS if one["type"] == "number" or value == int(value))
    differs = [
        value for value in values if allows(one, value) != takes(component, **_WITH.get(name, {}) | {name: value})
    ]
    assert differs == []


def test_no_number_is_left_without_a_bound() -> None:
    for component, name, one in settings():
        if one["type"] in ("number", "integer"):
            assert not allows(one, -1), f"{component}: {name}"


@needs_helm
@pytest.mark.parametrize(
    ("component", "names", "values"),
    [
        (
            "recommender",
            ("lower_percentile", "target_percentile", "upper_percentile"),
            [(None, 0.9, 0.95), (0.95, None, None), (0.9, 0.9, 0.9), (None, 0.4, None), (0.99, 1, 0.1)],
        ),
        ("recommender", ("usage_source", "prometheus_url"), [("prometheus", None), ("prometheus", "http://x"),
                                                             ("metrics,prometheus", ""), ("metrics,metrics", None)]),
        ("recommender", ("prometheus_url", "prometheus_username", "prometheus_token_file"),
         [("http://x", "me", __file__), ("http://x", "me", None)]),
        ("recommender", ("prometheus_url", "prometheus_key_file", "prometheus_cert_file"),
         [("http://x", __file__, None), ("http://x", __file__, __file__)]),
        ("admission", ("owner_wait_seconds", "request_seconds"),
         [(5, 0.2), (None, 0.25), (1, None), (0.9, None), (0, 0.1)]),
    ],
)  # fmt: skip
def test_settings_that_contradict_each_other_are_refused_where_the_component_would(
    component: str, names: tuple[str, ...], values: list[tuple[Any, ...]]
) -> None:
    for chosen in values:
        given = {name: value for name, value in zip(names, chosen, strict=True) if value is not None}
        try:
            render({component: {"settings": {camel(name): value for name, value in given.items()}}})
        except Refused as refused:
            assert f"elastipod: {component}.settings." in str(refused)
            assert not takes(component, **given), given
        else:
            assert takes(component, **given), given


@needs_helm
@pytest.mark.parametrize(
    "more",
    [
        {
            "extraEnv": [
                {"name": "ELASTIPOD_PROMETHEUS_URL", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "y"}}}
            ]
        },
        {"extraArgs": ["--prometheus-url=http://x:9090"]},
    ],
)
def test_where_prometheus_is_may_be_said_elsewhere(more: Json) -> None:
    assert render({"recommender": {"settings": {"usageSource": "prometheus"}, **more}})


@needs_helm
def test_helm_reads_the_bounds_as_they_are_meant() -> None:
    given = (
        ("actuator", "memorySpikeMaxFactor", 0.5),
        ("actuator", "memorySpikeMax", "abc"),
        ("updater", "intervalSeconds", -1),
        ("recommender", "usageSource", "foo"),
        ("actuator", "sampleSeconds", 0.5),
        ("updater", "shrinkFraction", 1),
    )
    for component, name, value in given:
        with pytest.raises(Refused, match="values don't meet the specifications of the schema") as refused:
            render({component: {"settings": {name: value}}})
        assert f"/{component}/settings/{name}" in str(refused.value)
