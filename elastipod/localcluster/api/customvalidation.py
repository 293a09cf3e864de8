"""The rules between fields of VPA's and our own kinds: what VPA's webhook and our definitions refuse.

A rule that reads a number takes no float, not even 2.0.

Owns nothing of shape; customschemas.py has the fields, their types and choices.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from elastipod.localcluster.api.failures import Problem, invalid_value
from elastipod.localcluster.api.kinds import Kind
from elastipod.localcluster.api.podspec import is_quantity, nano

Json = dict[str, Any]

_HAS_RULES: Final = frozenset({"VerticalPodAutoscaler", "ElasticPolicy"})
"""Kinds whose definitions have rules between fields."""
_MOST_TEXT: Final = 64
_UNCHECKED: Final = Problem(
    "<nil>",
    "FieldValueInvalid",
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete"
    " validation",
)
_SMALLEST: Final = {"cpu": (1_000_000, "a whole number of milli CPUs"), "memory": (1_000_000_000, "whole bytes")}
_ONE: Final = 1_000_000_000


def problems_of(kind: Kind, json: Json, shape_problems: list[Problem]) -> Iterator[Problem]:
    """Everything wrong with an object beside its shape; where that is too wrong, rules are not checked."""
    if any(one.kind != "FieldValueInvalid" for one in shape_problems):
        if kind.resource.kind in _HAS_RULES:
            yield _UNCHECKED
        return
    spec = json.get("spec") or {}
    match kind.resource.kind:
        case "VerticalPodAutoscaler":
            yield from _autoscaler_problems(spec)
        case "ElasticPolicy":
            most = (spec.get("memorySpike") or {}).get("maxAllowed")
            if most is not None and (isinstance(most, float) or nano(most) <= 0):
                yield invalid_value("spec.memorySpike.maxAllowed", most, "must be greater than 0")
        case "ElasticNode":
            for place, wanted in enumerate(spec.get("wanted") or ()):
                for part in ("requests", "limits"):
                    yield from _negative_problems(wanted.get(part), f"spec.wanted[{place}].{part}")


def _autoscaler_problems(spec: Json) -> Iterator[Problem]:
    for place, one in enumerate((spec.get("resourcePolicy") or {}).get("containerPolicies") or ()):
        yield from _container_policy_problems(one, f"spec.resourcePolicy.containerPolicies[{place}]")
    yield from _boost_problems(spec.get("startupBoost"), "spec.startupBoost")


def _container_policy_problems(policy: Json, path: str) -> Iterator[Problem]:
    if policy.get("containerName") == "":
        yield invalid_value(f"{path}.containerName", "", "should be at least 1 chars long")
    least, most = policy.get("minAllowed") or {}, policy.get("maxAllowed") or {}
    for field, amounts in (("minAllowed", least), ("maxAllowed", most)):
        yield from _negative_problems(amounts, f"{path}.{field}")
        for key, text in amounts.items():
            unit, what = _SMALLEST.get(key, (1, ""))
            if (
                (what and isinstance(text, float))
                or nano(text) % unit
                or (what and not is_quantity(text))
                or (key == "cpu" and nano(text) < 0)
            ):
                yield invalid_value(f"{path}.{field}", amounts, f"{key} must be {what}")
    if any(nano(least[key]) > nano(most[key]) for key in least.keys() & most.keys()):
        yield invalid_value(path, policy, "maxAllowed must not be lower than minAllowed")
    if policy.get("mode") == "Off" and policy.get("controlledValues") == "RequestsAndLimits":
        yield invalid_value(path, policy, "controlledValues may not be RequestsAndLimits when mode is Off")
    ratio, bump = policy.get("oomBumpUpRatio"), policy.get("oomMinBumpUp")
    if ratio is not None and (isinstance(ratio, float) or nano(ratio) < _ONE):
        yield invalid_value(f"{path}.oomBumpUpRatio", ratio, "must be greater than or equal to 1")
    if bump is not None and nano(bump) < 0:
        yield invalid_value(f"{path}.oomMinBumpUp", bump, "must be greater than or equal to 0")
    yield from _boost_problems(policy.get("startupBoost"), f"{path}.startupBoost")


def _boost_problems(boost: Mapping[str, Any] | None, path: str) -> Iterator[Problem]:
    cpu = (boost or {}).get("cpu")
    if cpu is None:
        return
    for field, kind in (("factor", "Factor"), ("quantity", "Quantity")):
        value = cpu.get(field)
        if (cpu.get("type") == kind) is not (value is not None) or isinstance(value, float):
            yield invalid_value(f"{path}.cpu", cpu, f"{field} is set if and only if type is {kind}")


def _negative_problems(amounts: Mapping[str, Any] | None, path: str) -> Iterator[Problem]:
    for key, text in (amounts or {}).items():
        if nano(text) < 0 or len(str(text)) > _MOST_TEXT:
            yield invalid_value(f"{path}.{key}", text, "must be greater than or equal to 0, and short")
