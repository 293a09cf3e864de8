"""The rules between fields of VPA's and our own kinds: what VPA's webhook and our definitions refuse.

Owns nothing of shape; schemas.py has the fields, their types and choices.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from elastipod.localcluster.api.failures import Problem, forbidden_field, invalid_value, required
from elastipod.localcluster.api.kinds import Kind
from elastipod.localcluster.api.podspec import nano

Json = dict[str, Any]

_SMALLEST: Final = {"cpu": (1_000_000, "a whole number of milli CPUs"), "memory": (1_000_000_000, "whole bytes")}
_ONE: Final = 1_000_000_000


def problems_of(kind: Kind, json: Json) -> Iterator[Problem]:
    """Everything wrong with an object of the right shape."""
    spec = json.get("spec") or {}
    match kind.resource.kind:
        case "VerticalPodAutoscaler":
            yield from _autoscaler_problems(spec)
        case "ElasticPolicy":
            most = (spec.get("memorySpike") or {}).get("maxAllowed")
            if most is not None and nano(most) <= 0:
                yield invalid_value("spec.memorySpike.maxAllowed", most, "must be greater than 0")
        case "ElasticNode":
            for place, wanted in enumerate(spec.get("wanted") or ()):
                for part in ("requests", "limits"):
                    yield from _negative_problems(wanted.get(part), f"spec.wanted[{place}].{part}")


def _autoscaler_problems(spec: Json) -> Iterator[Problem]:
    policy = spec.get("updatePolicy")
    if policy is not None:
        if policy.get("updateMode") is None:
            yield required("spec.updatePolicy.updateMode", "updateMode is required if updatePolicy is used")
        least = policy.get("minReplicas")
        if least is not None and least <= 0:
            yield invalid_value("spec.updatePolicy.minReplicas", least, "must be greater than 0")
    if len(spec.get("recommenders") or ()) > 1:
        yield invalid_value("spec.recommenders", len(spec["recommenders"]), "at most one recommender may be named")
    for place, one in enumerate((spec.get("resourcePolicy") or {}).get("containerPolicies") or ()):
        yield from _container_policy_problems(one, f"spec.resourcePolicy.containerPolicies[{place}]")
    yield from _boost_problems(spec.get("startupBoost"), "spec.startupBoost")


def _container_policy_problems(policy: Json, path: str) -> Iterator[Problem]:
    if not policy.get("containerName"):
        yield required(f"{path}.containerName", "containerName is required")
    least, most = policy.get("minAllowed") or {}, policy.get("maxAllowed") or {}
    for field, amounts in (("minAllowed", least), ("maxAllowed", most)):
        yield from _negative_problems(amounts, f"{path}.{field}")
        for key, text in amounts.items():
            unit, what = _SMALLEST.get(key, (1, ""))
            if nano(text) % unit:
                yield invalid_value(f"{path}.{field}[{key}]", text, f"must be {what}")
    for key in least.keys() & most.keys():
        if nano(least[key]) > nano(most[key]):
            detail = f"max resource for {key} is lower than min: {most[key]} is less than {least[key]}"
            yield invalid_value(f"{path}.maxAllowed[{key}]", most[key], detail)
    if policy.get("mode") == "Off" and policy.get("controlledValues") == "RequestsAndLimits":
        yield forbidden_field(f"{path}.controlledValues", "may not be RequestsAndLimits when mode is Off")
    ratio, bump = policy.get("oomBumpUpRatio"), policy.get("oomMinBumpUp")
    if ratio is not None and nano(ratio) < _ONE:
        yield invalid_value(f"{path}.oomBumpUpRatio", ratio, "must be greater than or equal to 1")
    if bump is not None and nano(bump) < 0:
        yield invalid_value(f"{path}.oomMinBumpUp", bump, "must be greater than or equal to 0")
    yield from _boost_problems(policy.get("startupBoost"), f"{path}.startupBoost")


def _boost_problems(boost: Mapping[str, Any] | None, path: str) -> Iterator[Problem]:
    cpu = (boost or {}).get("cpu")
    if cpu is None:
        return
    for field, kind in (("factor", "Factor"), ("quantity", "Quantity")):
        if (cpu.get("type") == kind) is not (cpu.get(field) is not None):
            yield invalid_value(f"{path}.cpu.{field}", cpu.get(field), f"is set if and only if type is {kind}")


def _negative_problems(amounts: Mapping[str, Any] | None, path: str) -> Iterator[Problem]:
    for key, text in (amounts or {}).items():
        if nano(text) < 0:
            yield invalid_value(f"{path}[{key}]", text, "must be greater than or equal to 0")
