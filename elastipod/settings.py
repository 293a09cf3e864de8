"""Flags, environment and file into one frozen settings object.

Owns the order (flag, then environment, then file, then default), the parsing and the help. A settings class is a frozen
dataclass of plain fields with a default each; the text under a field is its help.
"""

import argparse
import ast
import dataclasses
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

S = TypeVar("S")


class SettingsError(ValueError):
    """A setting that can not be used; the message names it and where it stands."""


def load_settings(cls: type[S], argv: Sequence[str], environ: Mapping[str, str]) -> S:
    """The settings of one class; see load_all."""
    return typing.cast("S", load_all((cls,), argv, environ)[0])


def load_all(classes: Sequence[type[Any]], argv: Sequence[str], environ: Mapping[str, str]) -> list[Any]:
    """An object of each settings class, from the same flags, environment and file.

    `--half-life-seconds 60`, `ELASTIPOD_HALF_LIFE_SECONDS=60`, or `half_life_seconds: 60` in the YAML file named by
    `--config`. Raises SettingsError naming the setting; `--help` prints and exits as argparse does.
    """
    fields = {field.name: field for cls in classes for field in dataclasses.fields(cls)}
    given = _given(classes, fields, argv, environ)
    results: list[Any] = []
    for cls in classes:
        hints = typing.get_type_hints(cls)
        own = [field.name for field in dataclasses.fields(cls) if field.name in given]
        values = {name: _convert(given[name][0], hints[name], given[name][1]) for name in own}
        try:
            results.append(cls(**values))
        except ValueError as error:
            raise SettingsError(str(error)) from None
    return results


def _given(
    classes: Sequence[type[Any]],
    fields: Mapping[str, "dataclasses.Field[Any]"],
    argv: Sequence[str],
    environ: Mapping[str, str],
) -> dict[str, tuple[Any, str]]:
    """What was given, and where: flags before environment before file."""
    flags = vars(_parser(classes, fields).parse_args(argv))
    path = flags.pop("config", None) or environ.get("ELASTIPOD_CONFIG")
    found: dict[str, tuple[Any, str]] = {}
    if path:
        found |= {name: (value, f"{path}: {name}") for name, value in _read_file(Path(path), fields).items()}
    for name in fields:
        variable = f"ELASTIPOD_{name.upper()}"
        if variable in environ:
            found[name] = (environ[variable], variable)
        if flags[name] is not None:
            found[name] = (flags[name], f"--{name.replace('_', '-')}")
    return found


def _parser(classes: Sequence[type[Any]], fields: Mapping[str, "dataclasses.Field[Any]"]) -> argparse.ArgumentParser:
    about = " ".join((inspect.getdoc(cls) or "").split("\n")[0] for cls in reversed(classes))
    parser = argparse.ArgumentParser(description=about, allow_abbrev=False)
    parser.add_argument("--config", metavar="FILE", help="YAML file with settings, named with underscores")
    texts = {name: text for cls in classes for name, text in help_texts(cls).items()}
    for name, field in fields.items():
        shown = f"{texts.get(name, '')} (default: {field.default!r})".replace("%", "%%")
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, metavar=_metavar(field.type), help=shown)
    return parser


def help_texts(cls: type[Any]) -> dict[str, str]:
    """The text under each field of a settings class."""
    body = ast.parse(inspect.cleandoc(inspect.getsource(cls))).body[0]
    texts: dict[str, str] = {}
    name = ""
    for node in typing.cast("ast.ClassDef", body).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif name and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            texts[name] = " ".join(str(node.value.value).split())
            name = ""
    return texts


def _read_file(path: Path, known: Mapping[str, Any]) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(path.read_text("utf-8")) or {}
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} can not be read: {error}") from None
    if not isinstance(content, dict):
        raise SettingsError(f"{path} must hold `name: value` lines, not a {type(content).__name__}")
    for name in content:
        if name not in known:
            raise SettingsError(f"{path}: {name} is not a setting; known are {', '.join(sorted(known))}")
    return content


def _convert(value: Any, hint: Any, where: str) -> Any:
    if isinstance(value, str) and typing.get_origin(hint) is tuple:
        value = [part.strip() for part in value.split(",") if part.strip()]
    try:
        return msgspec.convert(value, hint, strict=False)
    except msgspec.ValidationError as error:
        why = f"it can be {' or '.join(choices)}" if (choices := choices_of(hint)) else str(error)
        raise SettingsError(f"{where}: {value!r} can not be used: {why}") from None


def choices_of(hint: Any) -> tuple[str, ...]:
    """The texts that a setting can be, where it can not be any."""
    return typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()


def _metavar(hint: Any) -> str:
    if choices := choices_of(hint):
        return "|".join(choices)
    name = hint if isinstance(hint, str) else getattr(hint, "__name__", str(hint))
    if isinstance(hint, types.UnionType):
        name = str(hint)
    return name.split("[")[0].split(" |")[0].upper()
