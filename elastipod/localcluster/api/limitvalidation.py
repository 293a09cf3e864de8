"""What LimitRange, ResourceQuota, PodDisruptionBudget, ConfigMap, PriorityClass, Event and Node may say.

Owns their specs. What they do to pods is admission.py's, quota.py's and eviction.py's matter.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from elastipod.localcluster.api.failures import (
    Problem,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from elastipod.localcluster.api.naming import selector_problems, why_no_qualified_name
from elastipod.localcluster.api.podspec import nano
from elastipod.localcluster.api.quota import COUNTED
from elastipod.localcluster.api.workloadvalidation import share_problems

Json = dict[str, Any]

_ONE: Final = 1_000_000_000
_MOST_MAP_BYTES: Final = 1024 * 1024
_MAP_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}", re.ASCII)
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_RANGE_TYPES: Final = ("Container", "PersistentVolumeClaim", "Pod")
_RANGE_PARTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_RANGE_ORDER: Final = (
    ("min", "max", "min"),
    ("min", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest"),
    ("min", "default", "default"),
    ("default", "max", "default"),
)
"""What must not be greater than what, and which of the two is named."""
_CONTAINER_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
_STANDARD_QUOTA: Final = re.compile(
    r"cpu|memory|ephemeral-storage|pods|services(\.(loadbalancers|nodeports))?|replicationcontrollers|resourcequotas|secrets"
    r"|configmaps|persistentvolumeclaims|(requests|limits)\.(cpu|memory|ephemeral-storage)|requests\.storage|hugepages-.*"
    r"|requests\.hugepages-.*|.*/.*"
)


def _range_problems(json: Json) -> Iterator[Problem]:
    seen: set[str] = set()
    for place, item in enumerate((json.get("spec") or {}).get("limits") or ()):
        path, kind = f"spec.limits[{place}]", item.get("type") or ""
        if kind not in _RANGE_TYPES and "/" not in kind:
            yield invalid_value(f"{path}.type", kind, "must be a standard limit type or fully qualified")
        if kind in seen:
            yield duplicate(f"{path}.type", kind)
        seen.add(kind)
        yield from _range_item_problems(item, kind, path)


def _range_item_problems(item: Json, kind: str, path: str) -> Iterator[Problem]:
    parts = {part: item.get(part) or {} for part in _RANGE_PARTS}
    if kind == "Pod":
        for part in ("default", "defaultRequest"):
            if parts[part]:
                yield forbidden_field(f"{path}.{part}", "may not be specified when `type` is 'Pod'")
                parts[part] = {}
    for part, amounts in parts.items():
        for key in amounts:
            if kind in ("Container", "Pod") and "/" not in key and key not in _CONTAINER_RESOURCES:
                yield invalid_value(f"{path}.{part}[{key}]", key, "must be a standard resource for containers")
    if kind == "PersistentVolumeClaim" and not any("storage" in parts[part] for part in ("min", "max")):
        yield required(
            f"{path}.limits", "either minimum or maximum storage value is required, but neither was provided"
        )
    for lower, upper, named in _RANGE_ORDER:
        for key in parts[lower].keys() & parts[upper].keys():
            low, high = parts[lower][key], parts[upper][key]
            if nano(low) > nano(high):
                detail = f"{lower} value {low} is greater than {upper} value {high}"
                yield invalid_value(f"{path}.{named}[{key}]", parts[named][key], detail)
    yield from _ratio_problems(parts, f"{path}.maxLimitRequestRatio")


def _ratio_problems(parts: Mapping[str, Json], path: str) -> Iterator[Problem]:
    for key, ratio in parts["maxLimitRequestRatio"].items():
        if nano(ratio) < _ONE:
            yield invalid_value(f"{path}[{key}]", ratio, f"ratio {ratio} is less than 1")
        least, most = nano(parts["min"].get(key, 0)), nano(parts["max"].get(key, 0))
        if least and most and nano(ratio) * least > most * _ONE:
            detail = f"ratio {ratio} is greater than max/min = {most / least:f}"
            yield invalid_value(f"{path}[{key}]", ratio, detail)


def _quota_problems(json: Json) -> Iterator[Problem]:
    spec = json.get("spec") or {}
    for key, text in (spec.get("hard") or {}).items():
        path = f"spec.hard[{key}]"
        if not _STANDARD_QUOTA.fullmatch(key):
            yield invalid_value(path, key, "must be a standard resource for quota")
        elif key not in COUNTED:
            yield forbidden_field(path, f"is not counted by the local cluster: {', '.join(COUNTED)} are")
        elif nano(text) < 0:
            yield invalid_value(path, text, "must be greater than or equal to 0")
        elif key in ("pods", "count/pods") and nano(text) % _ONE:
            yield invalid_value(path, text, "must be an integer")
    if spec.get("scopes") or spec.get("scopeSelector"):
        yield forbidden_field("spec.scopes", "scopes are not served by the local cluster")


def _budget_problems(json: Json) -> Iterator[Problem]:
    spec = json.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield invalid_value("spec", "", "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        yield from share_problems(spec.get(field), f"spec.{field}", most_percent=100)
    yield from selector_problems(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy not in (None, "AlwaysAllow", "IfHealthyBudget"):
        yield not_supported("spec.unhealthyPodEvictionPolicy", policy, ["AlwaysAllow", "IfHealthyBudget"])


def _config_map_problems(json: Json) -> Iterator[Problem]:
    total = 0
    for part in ("data", "binaryData"):
        for key, text in (json.get(part) or {}).items():
            total += len(key) + len(text.encode("utf-8", "surrogatepass"))
            if not _MAP_KEY.fullmatch(key) or key in (".", "..") or key.startswith(".."):
                yield invalid_value(
                    f"{part}[{key}]", key, "a valid config key consists of letters, digits, '-', '_' or '.'"
                )
    for key in (json.get("data") or {}).keys() & (json.get("binaryData") or {}).keys():
        yield invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")
    if total > _MOST_MAP_BYTES:
        yield too_long("[]", _MOST_MAP_BYTES)


def _priority_class_problems(json: Json) -> Iterator[Problem]:
    name, value = json["metadata"]["name"], json.get("value") or 0
    if name.startswith("system-") and name not in ("system-node-critical", "system-cluster-critical"):
        detail = "priority class names with 'system-' prefix are reserved for system use only"
        yield forbidden_field("metadata.name", detail)
    elif value > 1_000_000_000 and not name.startswith("system-"):
        yield forbidden_field("value", "maximum allowed value of a user defined priority is 1000000000")
    policy = json.get("preemptionPolicy")
    if policy not in (None, "Never", "PreemptLowerPriority"):
        yield not_supported("preemptionPolicy", policy, ["Never", "PreemptLowerPriority"])


def _event_problems(json: Json) -> Iterator[Problem]:
    stated = (json.get("involvedObject") or {}).get("namespace", "")
    if stated != json["metadata"]["namespace"] and (stated or json["metadata"]["namespace"] != "default"):
        yield invalid_value("involvedObject.namespace", stated, "does not match event.namespace")


def _node_problems(json: Json) -> Iterator[Problem]:
    for place, taint in enumerate((json.get("spec") or {}).get("taints") or ()):
        path = f"metadata.taints[{place}]"
        if why := why_no_qualified_name(taint.get("key", "")):
            yield invalid_value(f"{path}.key", taint.get("key", ""), why)
        if not taint.get("effect"):
            yield required(f"{path}.effect")
        elif taint["effect"] not in _EFFECTS:
            yield not_supported(f"{path}.effect", taint["effect"], _EFFECTS)


def problems_of_change(kind_id: str, old: Json, json: Json) -> Iterator[Problem]:
    """What of these kinds stays as it is."""
    if kind_id == "configmaps" and old.get("immutable"):
        if not json.get("immutable"):
            yield forbidden_field("immutable", "field is immutable when `immutable` is set")
        for part in ("data", "binaryData"):
            if old.get(part) != json.get(part):
                yield forbidden_field(part, "field is immutable when `immutable` is set")
    if kind_id == "priorityclasses.scheduling.k8s.io":
        for field in ("value", "preemptionPolicy"):
            if old.get(field) != json.get(field):
                yield invalid_value(field, json.get(field), "field is immutable")


RULES: Final[Mapping[str, Callable[[Json], Iterator[Problem]]]] = {
    "limitranges": _range_problems,
    "resourcequotas": _quota_problems,
    "poddisruptionbudgets.policy": _budget_problems,
    "configmaps": _config_map_problems,
    "priorityclasses.scheduling.k8s.io": _priority_class_problems,
    "events": _event_problems,
    "nodes": _node_problems,
}
