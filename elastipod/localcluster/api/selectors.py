"""Label and field selectors: their grammar and whether an object matches.

Owns nothing else; which fields a kind can be selected by is kinds.py's matter.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from elastipod.localcluster.api.naming import why_no_label_value, why_no_qualified_name

Labels = Mapping[str, str]

_SET_TERM: Final = re.compile(r"([^\s,=!()]+)\s+(in|notin)\s+\(([^()]*)\)")
_TERM: Final = re.compile(r"([^\s,=!()<>]+)\s*(==|=|!=|<|>)\s*([^\s,=!()<>]*)")
_FIELD_TERM: Final = re.compile(r"([^=!]+)(==|=|!=)(.*)", re.DOTALL)
_PRESENCE: Final = re.compile(r"(!?)\s*([^\s,=!()<>]+)")


class SelectorError(ValueError):
    """A text that is no selector; the message says what was read."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term: a key, an operator (In, NotIn, Exists, DoesNotExist, Gt, Lt) and its values."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Labels) -> bool:
        match self.operator:
            case "In":
                return self.key in labels and labels[self.key] in self.values
            case "NotIn":
                return self.key not in labels or labels[self.key] not in self.values
            case "Exists":
                return self.key in labels
            case "Gt" | "Lt":
                stated, bound = labels.get(self.key, ""), int(next(iter(self.values)))
                return stated.isdecimal() and (int(stated) > bound if self.operator == "Gt" else int(stated) < bound)
            case _:
                return self.key not in labels


@dataclass(frozen=True, slots=True)
class Selector:
    """Terms that must all hold; none matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        return all(one.matches(labels) for one in self.requirements)


@lru_cache(maxsize=1024)
def parse_label_selector(text: str) -> Selector:
    """`a=b,c!=d,e in (f,g),h,!i`. Raises SelectorError."""
    found: list[Requirement] = []
    rest = text.strip()
    while rest:
        requirement, rest = _next_term(rest, text)
        _check_term(requirement)
        found.append(requirement)
        rest = rest.lstrip()
        if rest:
            if not rest.startswith(",") or not rest[1:].strip():
                raise SelectorError(
                    f"unable to parse requirement: found '{rest[:60]}', expected: ',' or 'end of string'"
                )
            rest = rest[1:].lstrip()
    return Selector(tuple(found))


def _next_term(rest: str, text: str) -> tuple[Requirement, str]:
    if match := _SET_TERM.match(rest):
        values = frozenset(one.strip() for one in match[3].split(","))
        return Requirement(match[1], "In" if match[2] == "in" else "NotIn", values), rest[match.end() :]
    if match := _TERM.match(rest):
        operator = {"!=": "NotIn", ">": "Gt", "<": "Lt"}.get(match[2], "In")
        return Requirement(match[1], operator, frozenset((match[3],))), rest[match.end() :]
    if match := _PRESENCE.match(rest):
        return Requirement(match[2], "DoesNotExist" if match[1] else "Exists"), rest[match.end() :]
    raise SelectorError(f"unable to parse selector {text[:100]!r}: write it like app=web,tier in (a,b),!old")


def _check_term(term: Requirement) -> None:
    if why := why_no_qualified_name(term.key):
        raise SelectorError(f'key: Invalid value: "{term.key[:100]}": {why}')
    for value in term.values:
        if why := why_no_label_value(value):
            raise SelectorError(f'values[0][{term.key[:100]}]: Invalid value: "{value[:100]}": {why}')
        if term.operator in ("Gt", "Lt") and not value.isdecimal():
            raise SelectorError("values[0]: for 'Gt', 'Lt' operators, the value must be an integer")


def selector_of(json: Mapping[str, Any] | None) -> Selector | None:
    """A LabelSelector object; none selects nothing, an empty one everything."""
    if json is None:
        return None
    found = [Requirement(key, "In", frozenset((str(value),))) for key, value in (json.get("matchLabels") or {}).items()]
    found += [
        Requirement(str(one.get("key")), str(one.get("operator")), frozenset(map(str, one.get("values") or ())))
        for one in json.get("matchExpressions") or ()
    ]
    return Selector(tuple(found))


FieldTerms = tuple[tuple[str, bool, str], ...]


@lru_cache(maxsize=1024)
def parse_field_selector(text: str) -> FieldTerms:
    """`status.phase!=Running,spec.nodeName=n1` as (path, equal, value). Raises SelectorError."""
    found = []
    for term in filter(None, (one.strip() for one in text.split(","))):
        match = _FIELD_TERM.fullmatch(term)
        if match is None:
            raise SelectorError(f"invalid selector: '{term[:100]}'; can't understand '{term[:100]}'")
        found.append((match[1].strip(), match[2] != "!=", match[3].strip()))
    return tuple(found)


def field_matcher(terms: FieldTerms, allowed: Sequence[str]) -> Callable[[Mapping[str, Any]], bool] | None:
    """Whether an object matches; none where everything does. Raises SelectorError for an unknown field."""
    for path, _, _ in terms:
        if path not in allowed and path not in ("metadata.name", "metadata.namespace"):
            raise SelectorError(f"field label not supported: {path[:100]}")
    if not terms:
        return None
    split = [(tuple(path.split(".")), equal, value) for path, equal, value in terms]

    def matches(json: Mapping[str, Any]) -> bool:
        return all((_field(json, path) == value) is equal for path, equal, value in split)

    return matches


def _field(json: Mapping[str, Any], path: tuple[str, ...]) -> str:
    if path == ("source",):
        path = ("source", "component")
    found: Any = json
    for one in path:
        found = found.get(one) if isinstance(found, Mapping) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    if found is None:
        return "false" if path in (("spec", "unschedulable"), ("spec", "hostNetwork")) else ""
    return str(found)
