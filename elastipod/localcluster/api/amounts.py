"""What amounts and claims a container may ask for, and a pod of its own.

Owns their rules. What is filled in and summed is podspec.py's matter.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from elastipod.localcluster.api.failures import Problem, forbidden_field, invalid_value, not_supported, required
from elastipod.localcluster.api.naming import why_no_qualified_name
from elastipod.localcluster.api.podspec import nano

Json = dict[str, Any]

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_ONE: Final = 1_000_000_000


def claim_problems(claim: Json, spec: Json, path: str) -> Iterator[Problem]:
    """A claim is one of the pod's."""
    if claim.get("name") not in [one.get("name") for one in spec.get("resourceClaims") or ()]:
        detail = "must be one of the names in pod.spec.resourceClaims"
        yield Problem(path, "FieldValueNotFound", detail, claim.get("name"))


def resource_problems(wanted: Json, path: str) -> Iterator[Problem]:
    """Everything wrong with a container's amounts."""
    limits, requests = wanted.get("limits") or {}, wanted.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for key, text in amounts.items():
            yield from _amount_problems(key, text, f"{path}.{part}[{key}]")
    for key, text in requests.items():
        if key in limits:
            if _can_not_be_overcommitted(key) and nano(text) != nano(limits[key]):
                yield invalid_value(f"{path}.requests", text, f"must be equal to {key} limit of {limits[key]}")
            elif nano(text) > nano(limits[key]):
                yield invalid_value(
                    f"{path}.requests", text, f"must be less than or equal to {key} limit of {limits[key]}"
                )
        elif _can_not_be_overcommitted(key):
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    if any(key.startswith("hugepages-") for key in (*limits, *requests)) and not {*limits, *requests} & {
        "cpu",
        "memory",
    }:
        yield forbidden_field(path, "HugePages require cpu or memory")


def _amount_problems(key: str, text: Any, path: str) -> Iterator[Problem]:
    if nano(text) < 0:
        yield invalid_value(path, text, "must be greater than or equal to 0")
    if why := why_no_qualified_name(key):
        yield invalid_value(path, key, why)
    elif "/" not in key and key not in _STANDARD and not key.startswith("hugepages-"):
        yield invalid_value(path, key, "must be a standard resource for containers")
    elif key.startswith("requests."):
        yield invalid_value(path, key, "doesn't follow extended resource name standard")
    elif key.startswith("hugepages-"):
        page = key.removeprefix("hugepages-")
        if nano(text) and (nano(page) <= 0 or nano(text) % nano(page)):
            yield invalid_value(path, text, f"{text} is not positive integer multiple of {key}")
    if "/" in key and nano(text) % _ONE:
        yield invalid_value(path, text, "must be an integer")


def _can_not_be_overcommitted(key: str) -> bool:
    return "/" in key or key.startswith("hugepages-")


def pod_level_problems(spec: Json, path: str, containers: Mapping[str, Mapping[str, int]]) -> Iterator[Problem]:
    """Everything wrong with a pod's own amounts; `containers` are the sums of its containers', by part."""
    wanted = spec.get("resources") or {}
    if not wanted:
        return
    limits, requests = wanted.get("limits") or {}, wanted.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for key, text in amounts.items():
            if key not in ("cpu", "memory") and not key.startswith("hugepages-"):
                yield not_supported(f"{path}.resources.{part}[{key}]", key, ("cpu", "hugepages-", "memory"))
            elif nano(text) < 0:
                yield invalid_value(f"{path}.resources.{part}[{key}]", text, "must be greater than or equal to 0")
    for key, text in requests.items():
        if key in limits and nano(text) > nano(limits[key]):
            yield invalid_value(
                f"{path}.resources.requests", text, f"must be less than or equal to {key} limit of {limits[key]}"
            )
        if containers["requests"].get(key, 0) > nano(text):
            detail = f"must be greater than or equal to aggregate container requests of {key}"
            yield invalid_value(f"{path}.resources.requests[{key}]", text, detail)
    for place, container in enumerate(spec.get("containers") or ()):
        for key, text in ((container.get("resources") or {}).get("limits") or {}).items():
            if key in limits and nano(text) > nano(limits[key]):
                detail = f"must be less than or equal to pod limits of {limits[key]}"
                yield invalid_value(f"{path}.resources.containers[{place}][{key}].limits", text, detail)
