"""A small language for the shape of JSON objects, and the check of a value against it.

Owns types, required and unknown fields, enumerations and quantities, each told by its path. The shapes themselves
are in shapes.py, podschemas.py, schemas.py and customschemas.py, how instants look in instants.py; rules between
fields are validation.py's.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from elastipod.localcluster.api.failures import Problem, invalid_value, not_supported, required
from elastipod.localcluster.api.instants import WHY_NO
from elastipod.quantities import QuantityError, parse_nano

Json = dict[str, Any]

_QUANTITY: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$': 250m, 0.5, 128Mi"
)
_PYTHON_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "object-open": (dict,),
    "map": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "int32": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "quantity": (str, int, float),
    "int-or-string": (int, str),
    "integer,string": (str, int, float),
    **dict.fromkeys((*WHY_NO, "bytes"), (str,)),
}


_MOST: Final[Mapping[str, float]] = {"int32": 2**31, "integer": 2**63, "int-or-string": 2**31} | dict.fromkeys(
    ("number", "quantity", "boolean", "integer,string"), float("inf")
)
"""Whole numbers are smaller than this."""
_WHOLE: Final = ("int32", "integer")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a value may be."""

    type: str
    fields: Mapping[str, "Shape"] = field(default_factory=dict)
    item: "Shape | None" = None
    required: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    """Of a list's items."""
    is_amount: bool = False
    """Whether a text has to be a quantity."""


ANY: Final = Shape("any")
STRING: Final = Shape("string")
INTEGER: Final = Shape("integer")
INT32: Final = Shape("int32")
NUMBER: Final = Shape("number")
BOOLEAN: Final = Shape("boolean")
QUANTITY: Final = Shape("quantity")
INT_OR_STRING: Final = Shape("int-or-string")
TIME: Final = Shape("time")
MICRO_TIME: Final = Shape("micro-time")
DATE_TIME: Final = Shape("date-time")
BYTES: Final = Shape("bytes")
"""As base64."""
CUSTOM_QUANTITY: Final = Shape("integer,string", is_amount=True)
"""A quantity of a kind that has a definition: no number with a fraction, while built-in kinds take one."""


def obj(*required_fields: str, **fields: Shape) -> Shape:
    """An object with these fields and no others."""
    return Shape("object", fields, required=required_fields)


def partly(**fields: Shape) -> Shape:
    """An object of which only these fields are checked."""
    return Shape("object-open", fields)


def array(item: Shape, *, most: int | None = None) -> Shape:
    """A list."""
    return Shape("array", item=item, most=most)


def mapping(item: Shape) -> Shape:
    """An object with any keys."""
    return Shape("map", item=item)


def one_of(*choices: str) -> Shape:
    """A text out of these."""
    return Shape("string", choices=choices)


def at_least(least: int, kind: str = "int32") -> Shape:
    """A whole number."""
    return Shape(kind, least=least)


@dataclass(slots=True)
class Findings:
    """What a check found: values of a wrong type, wrong values, and fields that no one knows."""

    is_custom: bool = False
    """Whether a definition is checked against: 2.0 is a whole number then."""
    types: list[Problem] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unknown: list[tuple[str, Json, str]] = field(default_factory=list)
    """The path of each, what holds it, and its name there."""


def check(shape: Shape, value: Any, path: str, found: Findings) -> None:
    """Compare a value with its shape; null is as good as absent."""
    if value is None or shape.type == "any":
        return
    if found.is_custom and shape.type in _WHOLE and type(value) in (int, float) and value == int(value):
        if shape.type == "int32" and not _is_of_type("int32", int(value)):
            detail = f"Checked value must be of type integer with format int32 in {path}"
            found.problems.append(invalid_value("<nil>", "", detail))
            return
        value = int(value)
    if not _is_of_type(shape.type, value):
        _tell_type(shape, value, path, found)
        return
    match shape.type:
        case "object" | "object-open":
            _check_object(shape, value, path, found)
        case "map":
            for key, one in value.items():
                _check_item(shape.item, one, f"{path}.{key[:80]}", found)
        case "array":
            if shape.most is not None and len(value) > shape.most:
                detail = f"{len(value)}: must have at most {shape.most} items"
                found.problems.append(Problem(path, "FieldValueTooMany", detail))
            for place, one in enumerate(value):
                _check_item(shape.item, one, f"{path}[{place}]", found)
        case _:
            _check_scalar(shape, value, path, found)


def _tell_type(shape: Shape, value: Any, path: str, found: Findings) -> None:
    detail = f"{path} in body must be of type {shape.type}: {_type_name(value)}"
    found.types.append(Problem(path, "FieldValueTypeInvalid", detail, _short(value)))
    if shape.type == "integer,string":
        whole = "status" if path.startswith("status.") else "<nil>"
        found.types.append(invalid_value(whole, "", f'"{path}" must validate at least one schema (anyOf)'))
    if shape.choices:
        found.problems.append(not_supported(path, _short(value), shape.choices))


def _is_of_type(name: str, value: Any) -> bool:
    expected = _PYTHON_TYPES[name]
    if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
        return False
    if name == "integer,string" and isinstance(value, float):
        return value.is_integer()
    return not isinstance(value, int) or -_MOST[name] <= value < _MOST[name]


def _is_quantity(value: Any) -> bool:
    try:
        parse_nano(str(value))
    except QuantityError:
        return False
    return True


def _check_item(shape: Shape | None, value: Any, path: str, found: Findings) -> None:
    """Within a list or map null is not absent."""
    if shape is None or shape.type == "any":
        return
    if value is None:
        detail = f"{path} in body must be of type {shape.type}: null"
        found.types.append(Problem(path, "FieldValueTypeInvalid", detail))
    else:
        check(shape, value, path, found)


def _check_object(shape: Shape, value: Json, path: str, found: Findings) -> None:
    prefix = f"{path}." if path else ""
    for key, one in value.items():
        known = shape.fields.get(key)
        if known is None and shape.type == "object-open":
            continue
        if known is None:
            found.unknown.append((f"{prefix}{key[:80]}", value, key))
        else:
            check(known, one, f"{prefix}{key}", found)
    found.problems += [required(f"{prefix}{key}") for key in shape.required if value.get(key) is None]


def _check_scalar(shape: Shape, value: Any, path: str, found: Findings) -> None:
    if (shape.type == "quantity" or shape.is_amount) and not _is_quantity(value):
        found.types.append(invalid_value(path, _short(value), _QUANTITY))
    elif shape.type == "bytes":
        try:
            base64.b64decode("".join(value.split("\n")), validate=True)
        except (binascii.Error, ValueError):
            found.types.append(invalid_value(path, _short(value), "illegal base64 data"))
    elif shape.type in WHY_NO:
        if why := WHY_NO[shape.type](value):
            kind = "FieldValueTypeInvalid" if shape.type == "date-time" else "FieldValueInvalid"
            found.types.append(Problem(path, kind, why, _short(value)))
    elif shape.choices and value not in shape.choices:
        found.problems.append(not_supported(path, _short(value), shape.choices))
    elif shape.least is not None and value < shape.least:
        detail = f"{path} in body should be greater than or equal to {shape.least}"
        found.problems.append(invalid_value(path, value, detail))


def _short(value: Any) -> Any:
    return (
        value[:100] if isinstance(value, str) else value if isinstance(value, bool | int | float) else _type_name(value)
    )


def _type_name(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return names.get(type(value), "null")
