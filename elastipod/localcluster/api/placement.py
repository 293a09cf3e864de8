"""What a pod may say of where it runs: affinities, spread over topologies, tolerations.

Owns their rules at creation. Where a pod does run is the scheduler's matter.
"""

from collections.abc import Iterator
from typing import Any, Final

from elastipod.localcluster.api.failures import (
    Problem,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from elastipod.localcluster.api.naming import selector_problems, why_no_label_value, why_no_qualified_name

Json = dict[str, Any]

_EFFECTS: Final = ("NoExecute", "NoSchedule", "PreferNoSchedule")
_NOW: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_RATHER: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_MOST_WEIGHT: Final = 100


def placement_problems(spec: Json, path: str) -> Iterator[Problem]:
    """Everything wrong with where a pod wants to run."""
    yield from _toleration_problems(spec, path)
    yield from _affinity_problems(spec.get("affinity") or {}, f"{path}.affinity")
    yield from _spread_problems(spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints")


def _toleration_problems(spec: Json, path: str) -> Iterator[Problem]:
    for place, one in enumerate(spec.get("tolerations") or ()):
        where, operator, effect = f"{path}.tolerations[{place}]", one.get("operator") or "Equal", one.get("effect")
        if operator not in ("Equal", "Exists"):
            yield not_supported(f"{where}.operator", operator, ("Equal", "Exists"))
        elif operator == "Equal" and not one.get("key"):
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield invalid_value(f"{where}.operator", one.get("operator", ""), detail)
        elif operator == "Exists" and one.get("value"):
            yield invalid_value(f"{where}.operator", one["value"], "value must be empty when `operator` is 'Exists'")
        if effect and effect not in _EFFECTS:
            yield not_supported(f"{where}.effect", effect, _EFFECTS)
        elif one.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid_value(f"{where}.effect", effect or "", detail)


def _affinity_problems(affinity: Json, path: str) -> Iterator[Problem]:
    node = affinity.get("nodeAffinity") or {}
    if node.get(_NOW) is not None:
        where = f"{path}.nodeAffinity.{_NOW}.nodeSelectorTerms"
        if not node[_NOW].get("nodeSelectorTerms"):
            yield required(where, "must have at least one node selector term")
        for place, term in enumerate(node[_NOW].get("nodeSelectorTerms") or ()):
            yield from _term_problems(term, f"{where}[{place}]")
    for place, one in enumerate(node.get(_RATHER) or ()):
        where = f"{path}.nodeAffinity.{_RATHER}[{place}]"
        yield from _weight_problems(one, where)
        yield from _term_problems(one.get("preference") or {}, f"{where}.preference")
    for field in ("podAffinity", "podAntiAffinity"):
        for place, one in enumerate((affinity.get(field) or {}).get(_NOW) or ()):
            yield from _neighbour_problems(one, f"{path}.{field}.{_NOW}[{place}]")
        for place, one in enumerate((affinity.get(field) or {}).get(_RATHER) or ()):
            where = f"{path}.{field}.{_RATHER}[{place}]"
            yield from _weight_problems(one, where)
            yield from _neighbour_problems(one.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")


def _weight_problems(one: Json, path: str) -> Iterator[Problem]:
    if not 0 < (one.get("weight") or 0) <= _MOST_WEIGHT:
        yield invalid_value(f"{path}.weight", one.get("weight") or 0, "must be in the range 1-100")


def _term_problems(term: Json, path: str) -> Iterator[Problem]:
    for place, one in enumerate(term.get("matchExpressions") or ()):
        where, operator, values = f"{path}.matchExpressions[{place}]", one.get("operator") or "", one.get("values")
        if operator in ("In", "NotIn") and not values:
            yield required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist") and values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden_field(f"{where}.values", detail)
        elif operator in ("Gt", "Lt") and len(values or ()) != 1:
            yield required(f"{where}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        elif operator not in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"):
            yield invalid_value(f"{where}.operator", operator, "not a valid selector operator")
        if why := why_no_qualified_name(one.get("key") or ""):
            yield invalid_value(f"{where}.key", one.get("key") or "", why)
        for which, value in enumerate(values or ()):
            if why := why_no_label_value(value):
                yield invalid_value(f"{where}.values[{which}]", value, why)


def _neighbour_problems(term: Json, path: str) -> Iterator[Problem]:
    yield from selector_problems(term.get("labelSelector"), f"{path}.labelSelector")
    yield from selector_problems(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    key = term.get("topologyKey") or ""
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    if why := why_no_qualified_name(key):
        yield invalid_value(f"{path}.topologyKey", key, why)


def _spread_problems(constraints: list[Json], path: str) -> Iterator[Problem]:
    seen: list[tuple[str, str]] = []
    for place, one in enumerate(constraints):
        where, key, unmet = f"{path}[{place}]", one.get("topologyKey") or "", one.get("whenUnsatisfiable") or ""
        if (one.get("maxSkew") or 0) <= 0:
            yield invalid_value(f"{where}.maxSkew", one.get("maxSkew") or 0, "must be greater than zero")
        if not key:
            yield required(f"{where}.topologyKey", "can not be empty")
        elif why := why_no_qualified_name(key):
            yield invalid_value(f"{where}.topologyKey", key, why)
        if unmet not in _UNSATISFIABLE:
            yield not_supported(f"{where}.whenUnsatisfiable", unmet, _UNSATISFIABLE)
        if (key, unmet) in seen:
            yield duplicate(
                f"{path}[{seen.index((key, unmet))}].{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {unmet}}}"
            )
        seen.append((key, unmet))
        if one.get("minDomains") is not None and one["minDomains"] <= 0:
            yield invalid_value(f"{where}.minDomains", one["minDomains"], "must be greater than zero")
        elif one.get("minDomains") is not None and unmet == "ScheduleAnyway":
            detail = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
            yield invalid_value(f"{where}.minDomains", one["minDomains"], detail)
        yield from selector_problems(one.get("labelSelector"), f"{where}.labelSelector")
