"""JSON read as far as it makes sense.

Owns one rule: what can not be read costs itself only, is named by its place, and counts as not set. What is not known,
as of a newer version, is passed over.
"""

from inspect import isclass
from types import UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Raw, Struct, structs

from elastipod.kube.decoding import UNREADABLE

S = TypeVar("S", bound=Struct)

_MOST_WORDS: Final = 200


def read_leniently(text: Raw | bytes | str, shape: type[S], where: str) -> tuple[S | None, list[str]]:
    """What can be read of an object, and by place what can not; None where there is no object."""
    problems: list[str] = []
    found = _read(text, shape, where, problems)
    return (found if isinstance(found, shape) else None), problems


def _read(text: Raw | bytes | str, kind: Any, where: str, problems: list[str]) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except UNREADABLE as error:
        words = str(error)[:_MOST_WORDS]
    for part in get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,):
        of, its = get_origin(part), get_args(part)
        if isclass(part) and issubclass(part, Struct) and (fields := _parts(text, dict[str, Raw])) is not None:
            return _object(fields, part, where, problems)
        if of is list and (items := _parts(text, list[Raw])) is not None:
            read = (_read(item, its[0], f"{where}[{place}]", problems) for place, item in enumerate(items))
            return [one for one in read if one is not UNSET]
        if of is dict and its[0] is str and (fields := _parts(text, dict[str, Raw])) is not None:
            named = {name: _read(one, its[1], f"{where}.{name}", problems) for name, one in fields.items()}
            return {name: one for name, one in named.items() if one is not UNSET}
    problems.append(f"{where}: {words}")
    return UNSET


def _object(fields: dict[str, Raw], shape: type[Struct], where: str, problems: list[str]) -> Any:
    values = {}
    for one in structs.fields(shape):
        if one.encode_name in fields:
            value = _read(fields[one.encode_name], one.type, f"{where}.{one.encode_name}", problems)
            if value is not UNSET:
                values[one.name] = value
        elif one.required:
            problems.append(f"{where}.{one.encode_name}: is missing")
    if any(one.required and one.name not in values for one in structs.fields(shape)):
        return UNSET
    return shape(**values)


def _parts(text: Raw | bytes | str, kind: Any) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except UNREADABLE:
        return None
