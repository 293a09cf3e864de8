"""A body on its way to an object: JSON or YAML, its types, its unknown and doubled fields.

Owns what a caller wants of fields that no one knows (`fieldValidation`) and what it is then told. What a field may hold
within its type is validation's matter.
"""

import json as plain_json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import yaml

from elastipod.localcluster.api.customschemas import CUSTOM
from elastipod.localcluster.api.failures import (
    ApiFailure,
    Problem,
    bad_request,
    invalid,
    invalid_value,
    not_supported,
    required,
    wrong_options,
)
from elastipod.localcluster.api.kinds import Kind
from elastipod.localcluster.api.patches import without_nulls
from elastipod.localcluster.api.schema import INTEGER, STRING, Findings, Shape, check
from elastipod.localcluster.api.schemas import BUILT_IN
from elastipod.localcluster.api.shapes import METADATA, STATUS

Json = dict[str, Any]

YAML: Final = "application/yaml"
_MODES: Final = ("", "Ignore", "Strict", "Warn")
_MOST_TOLD: Final = 20
_ENVELOPE: Final = {"apiVersion": STRING, "kind": STRING, "metadata": METADATA}
_SHAPES: Final = {
    kind_id: Shape("object", {"status": STATUS, **_ENVELOPE, **shape.fields}, required=shape.required)
    for kind_id, shape in {**BUILT_IN, **CUSTOM}.items()
}
_METADATA_ONLY: Final = Shape("object-open", _ENVELOPE)
_DELETE_OPTIONS: Final = Shape(
    "object-open",
    {
        "gracePeriodSeconds": INTEGER,
        "propagationPolicy": STRING,
        "orphanDependents": Shape("boolean"),
        "dryRun": Shape("array", item=STRING),
        "preconditions": Shape("object-open", {"uid": STRING, "resourceVersion": STRING}),
    },
)


@dataclass(slots=True)
class Decoding:
    """One request's way with bodies. `Ignore` drops what no one knows, `Warn` tells of it, `Strict` refuses it."""

    mode: str = "Ignore"
    is_patch: bool = False
    warnings: list[str] = field(default_factory=list)

    def parsed(self, body: bytes, content_type: str, kind: Kind) -> Json:
        """The object in a body of JSON or YAML. Raises ApiFailure."""
        found = _from_yaml(body, kind) if content_type == YAML else _from_json(body, kind)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise _unrecognized(kind, "it is no JSON object")
        if self.mode != "Ignore" and content_type != YAML:
            self._tell([f'duplicate field "{path}"' for path in _doubled(body)], kind)
        return without_nulls(found) if b"null" in body or content_type == YAML else found

    def check(self, kind: Kind, json: Json, unless_equal: Mapping[str, Any]) -> list[Problem]:
        """What is wrong with an object, apart from its types; parts equal to those given are known to be right.

        Fields that no one knows are dropped. Raises ApiFailure for wrong types.
        """
        shape = _SHAPES.get(kind.id, _METADATA_ONLY)
        found = Findings(is_custom=kind.is_custom)
        changed = {key: value for key, value in json.items() if key not in unless_equal or value != unless_equal[key]}
        check(Shape(shape.type, shape.fields), changed, "", found)
        found.problems += [required(key) for key in shape.required if json.get(key) is None]
        fatal = [one for one in found.types if not kind.is_custom or one.field.startswith("metadata")]
        if fatal:
            raise self._unusable(kind, f"{fatal[0].field}: {fatal[0].message}")
        self._tell([f'unknown field "{path}"' for path, _, _ in sorted(found.unknown, key=lambda one: one[0])], kind)
        for path, holder, name in found.unknown:
            (json if path == name else holder).pop(name, None)
        return found.types + found.problems

    def _unusable(self, kind: Kind, why: str) -> ApiFailure:
        if self.is_patch:
            return invalid("", "", "", [invalid_value("patch", "", why)])
        resource = kind.resource
        head = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        return bad_request(f"{head}: {why}")

    def _tell(self, findings: list[str], kind: Kind) -> None:
        if not findings or self.mode == "Ignore":
            return
        if self.mode == "Strict":
            raise self._unusable(kind, f"strict decoding error: {', '.join(findings[:_MOST_TOLD])}")
        self.warnings += findings[:_MOST_TOLD]


def decoding_of(query: Mapping[str, str], method: str) -> Decoding:
    """What a request wants. Raises ApiFailure."""
    mode = query.get("fieldValidation", "Warn")
    if mode not in _MODES:
        options = {"POST": "CreateOptions", "PUT": "UpdateOptions"}.get(method, "PatchOptions")
        raise wrong_options(options, not_supported("fieldValidation", mode, _MODES))
    return Decoding(mode or "Warn", method == "PATCH")


def check_delete_options(options: Json) -> None:
    """The types of DeleteOptions. Raises ApiFailure."""
    if options.get("kind") not in (None, "", "DeleteOptions"):
        raise bad_request(f'no kind "{str(options["kind"])[:80]}" is registered for version "meta.k8s.io/v1"')
    found = Findings()
    check(_DELETE_OPTIONS, options, "", found)
    if found.types:
        raise bad_request(f"DeleteOptions.{found.types[0].field}: {found.types[0].message}")


def _from_json(body: bytes, kind: Kind) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unrecognized(kind, f"json parse error: {error}") from None


def _from_yaml(body: bytes, kind: Kind) -> Any:
    try:
        return yaml.load(body, _YamlLoader)  # noqa: S506
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise _unrecognized(kind, f"yaml parse error: {str(error)[:500]}") from None


def _unrecognized(kind: Kind, why: str) -> ApiFailure:
    return bad_request(f"the object provided is unrecognized (must be of type {kind.resource.kind}): {why}")


class _YamlLoader(yaml.SafeLoader):
    """YAML as JSON has it: instants stay text; and no aliases, which could make much of little."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not served by the local cluster")
        return super().compose_node(parent, index)


def _doubled(body: bytes) -> list[str]:
    """The paths of fields that an object states twice."""
    found: list[tuple[Json, str]] = []

    def once(pairs: list[tuple[str, Any]]) -> Json:
        made = dict(pairs)
        if len(made) != len(pairs):
            names = [name for name, _ in pairs]
            found.extend((made, name) for name in made if names.count(name) > 1)
        return made

    whole = plain_json.loads(body, object_pairs_hook=once)
    return [f"{path}.{name}".lstrip(".") for holder, name in found for path in _places(whole, holder, "")][:_MOST_TOLD]


def _places(value: Any, sought: Json, path: str) -> list[str]:
    if value is sought:
        return [path]
    if isinstance(value, dict):
        return [one for key, each in value.items() for one in _places(each, sought, f"{path}.{key}".lstrip("."))]
    if isinstance(value, list):
        return [one for place, each in enumerate(value) for one in _places(each, sought, f"{path}[{place}]")]
    return []
