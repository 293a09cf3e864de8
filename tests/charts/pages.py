"""What of the chart is written from the code: settings in its schema, the table in its README, dashboards and rules.

Owns the first two texts. `make docs` writes them, `make check` compares.
"""

import dataclasses
import json
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from actuator.settings import ActuatorSettings
from elastipod.dashboards.boards import files
from elastipod.settings import choices_of, help_texts
from recommender.settings import RecommenderSettings
from tests.charts.bounds import bounds
from updater.admission.settings import AdmissionSettings
from updater.settings import UpdaterSettings

Json = dict[str, Any]

CHART: Final = Path(__file__).parents[2] / "charts" / "elastipod"
SCHEMA: Final = CHART / "values.schema.json"
README: Final = CHART / "README.md"
SETTINGS: Final[dict[str, type[Any]]] = {
    "recommender": RecommenderSettings,
    "updater": UpdaterSettings,
    "admission": AdmissionSettings,
    "actuator": ActuatorSettings,
}
SET_BY_THE_CHART: Final = frozenset(
    {
        "actuators_namespace",
        "canary_namespace",
        "certificate_folder",
        "cgroup_parent",
        "cgroup_root",
        "namespace",
        "namespaces_off",
        "node_name",
        "prices_file",
        "prometheus_password",
        "prometheus_token",
        "recommender_names",
        "state_folder",
        "webhook_host",
        "webhook_port",
    }
)
"""Settings that follow from other values, and secrets, which extraEnv takes from a Secret."""
_TABLE: Final = "<!-- values: written by `make docs` -->\n"
_END: Final = "<!-- end -->\n"
_TYPES: Final[dict[Any, Json]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    tuple[str, ...]: {"type": "array", "items": {"type": "string"}},
}


def pages() -> dict[Path, str]:
    """The files as they should be."""
    schema = with_settings(json.loads(SCHEMA.read_text("utf-8")))
    table = "".join(f"| `{name}` | {default} | {text} |\n" for name, default, text in rows(schema, default_values()))
    before, _, rest = README.read_text("utf-8").partition(_TABLE)
    after = rest.partition(_END)[2]
    return {
        SCHEMA: json.dumps(schema, indent=2) + "\n",
        README: f"{before}{_TABLE}| value | default | meaning |\n| --- | --- | --- |\n{table}{_END}{after}",
        **{CHART / "files" / name: text for name, text in files().items()},
    }


def default_values() -> Json:
    """The chart's values.yaml."""
    values: Json = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    return values


def with_settings(schema: Json) -> Json:
    """The schema with what each component can be set to."""
    for component, cls in SETTINGS.items():
        schema["definitions"][f"{component}Settings"] = _settings(component, cls)
    return schema


def camel(name: str) -> str:
    """A setting's name among values."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def _settings(component: str, cls: type[Any]) -> Json:
    hints, texts = typing.get_type_hints(cls), help_texts(cls)
    properties = {
        camel(field.name): {
            "description": f"{texts[field.name]} Default: {json.dumps(field.default)}.",
            **(kind := _type(hints[field.name])),
            **bounds(component, field.name, kind["type"]),
        }
        for field in dataclasses.fields(cls)
        if field.name not in SET_BY_THE_CHART
    }
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _type(hint: Any) -> Json:
    choices = choices_of(hint)
    return {"type": "string", "enum": list(choices)} if choices else _TYPES[hint]


def rows(schema: Json, values: Json, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Name, default and meaning of each value; what all components have, for the first of them."""
    common = schema["properties"].get("recommender", {}).get("properties", {})
    for name, one in schema["properties"].items():
        if name not in values:
            continue
        path, value = f"{prefix}{name}", values[name]
        if one.get("properties") and isinstance(value, dict) and value:
            told_before = common if name in SETTINGS and name != "recommender" else {}
            fresh = {key: own for key, own in one["properties"].items() if key not in told_before}
            yield from rows({"properties": fresh}, value, f"{path}.")
        else:
            shown = "" if value in ("", None) else f"`{json.dumps(value)}`"
            yield path, shown, one["description"]
