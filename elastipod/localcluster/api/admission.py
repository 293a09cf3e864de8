"""What is changed or refused on its way in though it is valid: priorities, LimitRange, quota, the node's size.

Owns the order of these and all but quota (quota.py). Everything refused here is a 403. What webhooks are elsewhere, a
function that is passed in is here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from elastipod.kube.connection import PatchType
from elastipod.kube.resources import ResourceType
from elastipod.localcluster.api.failures import forbidden
from elastipod.localcluster.api.kinds import LIMIT_RANGE, NODE, POD, PRIORITY_CLASS, Kind, kind_of
from elastipod.localcluster.api.patches import apply_patch
from elastipod.localcluster.api.podspec import (
    added,
    amounts_of,
    containers_of,
    is_sidecar,
    largest,
    nano,
    pod_amounts,
    show_amount,
)
from elastipod.localcluster.api.quota import Quotas
from elastipod.localcluster.api.store import Entry, Store

Json = dict[str, Any]

SizeNew = Callable[[Json, Callable[[ResourceType, str], Iterable[bytes]]], list[Json]]
"""A JSON Patch for a new pod, given what gives the objects of a kind in a namespace."""

_MILLI: Final = 1_000_000
_ONE: Final = 1_000_000_000


class Admission:
    """Admits writes to a store."""

    def __init__(self, store: Store, *, checks_node_capacity: bool = True, size_new: SizeNew | None = None) -> None:
        self._store = store
        self._quotas = Quotas(store)
        self._checks_node_capacity = checks_node_capacity
        self._size_new = size_new

    def mutate_new(self, kind: Kind, json: Json) -> Json:
        """A new object with what namespace and cluster prescribe for it."""
        if kind is not POD:
            return json
        self._set_priority(json)
        _set_tolerations(json["spec"])
        filled = self._set_limit_range_defaults(json)
        if filled:
            annotations = json["metadata"].get("annotations") or {}
            text = f"LimitRanger plugin set: {'; '.join(filled)}"
            json["metadata"]["annotations"] = {**annotations, "kubernetes.io/limit-ranger": text}
        patch = self._size_new(json, self._stored) if self._size_new is not None else []
        return apply_patch(PatchType.JSON, json, msgspec.json.encode(patch)) if patch else json

    def check_new(self, kind: Kind, json: Json) -> None:
        """Refuse a new object. Raises ApiFailure."""
        if kind is POD:
            self._check_limit_ranges(json)
            self._quotas.check(json, None)

    def mutate_change(self, kind: Kind, json: Json, subresource: str) -> None:
        """Tolerations that every pod has come back with every change of a pod itself."""
        if kind is POD and not subresource:
            _set_tolerations(json["spec"])

    def mutate_resize(self, old: Json, json: Json) -> None:
        """LimitRange defaults are filled in at every resize too, wanted or not."""
        if not old["metadata"].get("deletionTimestamp"):
            self._set_limit_range_defaults(json)

    def check_change(self, old: Entry, json: Json, subresource: str) -> None:
        """Refuse a change of a spec. Raises ApiFailure."""
        if old.kind is not POD or subresource != "resize":
            return
        if not old.json["metadata"].get("deletionTimestamp"):
            self._check_limit_ranges(json)
        self._check_features(old.json, json)
        self._check_node(old.json, json)
        self._quotas.check(json, old)

    def _stored(self, resource: ResourceType, namespace: str) -> Iterator[bytes]:
        return (entry.raw for entry in self._store.of_kind(kind_of(resource), namespace))

    def _set_priority(self, json: Json) -> None:
        spec, name = json["spec"], json["metadata"]["name"]
        wanted = spec.get("priorityClassName")
        if wanted:
            found = self._store.get(PRIORITY_CLASS, "", wanted)
            if found is None:
                raise forbidden("pods", name, f"no PriorityClass with name {wanted} was found")
        else:
            found = next((one for one in self._store.of_kind(PRIORITY_CLASS) if one.json.get("globalDefault")), None)
        value = found.json["value"] if found else 0
        if spec.get("priority") not in (None, value):
            why = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec;"
                f" priority admission controller computed {value} from the given PriorityClass name"
            )
            raise forbidden("pods", name, why)
        spec["priority"] = value
        if found is not None:
            spec["priorityClassName"] = found.name
        policy = (found.json.get("preemptionPolicy") if found else None) or "PreemptLowerPriority"
        if spec.setdefault("preemptionPolicy", policy) != policy:
            why = (
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec;"
                f" priority admission controller computed {policy} from the given PriorityClass name"
            )
            raise forbidden("pods", name, why)

    def _items(self, json: Json, kind: str) -> list[Json]:
        """What the namespace's LimitRanges say of containers or of pods."""
        namespace = json["metadata"]["namespace"]
        ranges = sorted(self._store.of_kind(LIMIT_RANGE, namespace), key=lambda one: one.name)
        return [item for one in ranges for item in one.json["spec"].get("limits") or () if item.get("type") == kind]

    def _set_limit_range_defaults(self, json: Json) -> list[str]:
        filled: list[str] = []
        for item in self._items(json, "Container"):
            limits, requests = item.get("default") or {}, item.get("defaultRequest") or {}
            for container in containers_of(json["spec"]):
                wanted = container.setdefault("resources", {})
                for part, amounts in (("requests", requests), ("limits", limits)):
                    missing = {key: text for key, text in amounts.items() if key not in (wanted.get(part) or {})}
                    if missing:
                        wanted[part] = {**(wanted.get(part) or {}), **missing}
                        shown = ", ".join(sorted(missing))
                        filled.append(f"{shown} {part[:-1]} for container {container.get('name', '')}")
        return filled

    def _check_limit_ranges(self, json: Json) -> None:
        wrong: list[str] = []
        for item in self._items(json, "Container"):
            for container in containers_of(json["spec"]):
                wanted = container.get("resources")
                wrong += _range_errors(item, amounts_of(wanted, "requests"), amounts_of(wanted, "limits"))
        for item in self._items(json, "Pod"):
            wrong += _range_errors(item, _pod_sum(json["spec"], "requests"), _pod_sum(json["spec"], "limits"))
        if wrong:
            shown = wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
            raise forbidden("pods", json["metadata"]["name"], shown)

    def _check_features(self, old: Json, json: Json) -> None:
        """A node must have declared that it can resize more than containers (1.36 and later)."""
        node = self._store.get(NODE, "", json["spec"].get("nodeName") or "")
        if node is None:
            return
        declared = (node.json.get("status") or {}).get("declaredFeatures") or ()
        if missing := [one for one in _features_of_resize(old["spec"], json["spec"]) if one not in declared]:
            shown = ", ".join(missing)
            why = f'pod update requires features {shown} which are not available on node "{node.name}"'
            raise forbidden("pods", json["metadata"]["name"], why)

    def _check_node(self, old: Json, json: Json) -> None:
        """A resize beyond what the node could ever give is refused at once (1.36 and later)."""
        node_name = json["spec"].get("nodeName")
        if not node_name or not self._checks_node_capacity or old["spec"] == json["spec"]:
            return
        node = self._store.get(NODE, "", node_name)
        name = json["metadata"]["name"]
        if node is None:
            raise forbidden("pods", name, f'node "{node_name}" not found')
        allocatable = (node.json.get("status") or {}).get("allocatable") or {}
        before, wanted = pod_amounts(old["spec"], "requests"), pod_amounts(json["spec"], "requests")
        for key, unit in (("cpu", _MILLI), ("memory", _ONE)):
            if key not in allocatable or wanted.get(key, 0) <= before.get(key, 0):
                continue
            if wanted[key] > nano(allocatable[key]):
                why = (
                    f"node didn't have enough allocatable resources: {key},"
                    f" requested: {-(-wanted[key] // unit)}, allocatable: {nano(allocatable[key]) // unit}"
                )
                raise forbidden("pods", name, why, [{"reason": "NodeCapacity", "message": why}])


def _features_of_resize(old: Json, new: Json) -> Iterator[str]:
    if (old.get("resources") or {}) != (new.get("resources") or {}):
        yield "InPlacePodLevelResourcesVerticalScaling"
    pairs = zip(old.get("initContainers") or (), new.get("initContainers") or (), strict=False)
    if any(one.get("resources") != other.get("resources") for one, other in pairs if not is_sidecar(other)):
        yield "InPlacePodVerticalScalingInitContainers"


def _set_tolerations(spec: Json) -> None:
    """A node that falls silent is put up with for five minutes, unless the pod says otherwise."""
    stated = spec.get("tolerations") or []
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(
            one.get("key") in (key, None, "") and one.get("effect") in ("NoExecute", None, "") for one in stated
        ):
            more = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            spec["tolerations"] = [*(spec.get("tolerations") or ()), more]


def _pod_sum(spec: Json, part: str) -> dict[str, int]:
    """A pod's amounts as LimitRanger adds them: no overhead."""
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        total = added(total, amounts_of(container.get("resources"), part))
    sidecars: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        own = amounts_of(container.get("resources"), part)
        if is_sidecar(container):
            sidecars = added(sidecars, own)
            total = added(total, own)
        else:
            total = largest(total, added(sidecars, own))
    return total


def _range_errors(item: Json, requests: Mapping[str, int], limits: Mapping[str, int]) -> Iterator[str]:
    """What LimitRanger says, in its words and order: min, max, ratio."""
    what = item["type"]
    for key, text in (item.get("min") or {}).items():
        says = f"minimum {key} usage per {what} is {text}"
        if key not in requests:
            yield f"{says}.  No request is specified"
        elif requests[key] < nano(text):
            yield f"{says}, but request is {show_amount(key, requests[key])}"
        elif key in limits and limits[key] < nano(text):
            yield f"{says}, but limit is {show_amount(key, limits[key])}"
    for key, text in (item.get("max") or {}).items():
        says = f"maximum {key} usage per {what} is {text}"
        if key not in limits:
            yield f"{says}.  No limit is specified"
        elif limits[key] > nano(text):
            yield f"{says}, but limit is {show_amount(key, limits[key])}"
        elif requests.get(key, 0) > nano(text):
            yield f"{says}, but request is {show_amount(key, requests[key])}"
    yield from _ratio_errors(item, requests, limits)


def _ratio_errors(item: Json, requests: Mapping[str, int], limits: Mapping[str, int]) -> Iterator[str]:
    what = item["type"]
    for key, text in (item.get("maxLimitRequestRatio") or {}).items():
        says = f"{key} max limit to request ratio per {what} is {text}"
        if not requests.get(key):
            yield f"{says}, but no request is specified or request is 0"
        elif key not in limits:
            yield f"{says}, but no limit is specified"
        elif limits[key] * _ONE > nano(text) * requests[key]:
            yield f"{says}, but provided ratio is {limits[key] / requests[key]:.6f}"
