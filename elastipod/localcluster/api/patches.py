"""The three kinds of patch.

Owns JSON patch, merge patch and strategic merge with its directives and merge keys. Changes nothing it is given:
what a patch does not touch is shared between old and new.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import jsonpatch
import msgspec

from elastipod.kube.connection import PatchType
from elastipod.localcluster.api.failures import ApiFailure, bad_request, unnamed

Json = dict[str, Any]

MERGE_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "addresses": ("type",),
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "podIPs": ("ip",),
    "ports": ("containerPort", "port"),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "taints": ("key",),
    "topologySpreadConstraints": ("topologyKey",),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
"""Lists that a strategic merge joins by key, from the patchMergeKey tags of k8s.io/api; all others are replaced.

`conditions` of pod, node and workload statuses all merge by type; `ports` of containers and of Services differ.
"""

PRIMITIVE_LISTS: Final = frozenset({"finalizers"})
"""Lists of plain values that a strategic merge joins as sets."""


def apply_patch(patch_type: str, current: Json, body: bytes) -> Json:
    """The object after the patch. Raises ApiFailure: 400 for what is no patch, 422 for what can not be applied."""
    patch = _decoded(body)
    if patch_type == PatchType.JSON:
        patched = _json_patch(current, patch)
    elif not isinstance(patch, dict):
        raise bad_request(f"a patch of type {patch_type} is a JSON object, not {_what(patch)}")
    elif patch_type == PatchType.MERGE:
        patched = merge_patch(current, patch)
    else:
        patched = strategic_merge(current, patch)
    return without_nulls(patched) if b"null" in body else patched


def without_nulls(value: Any) -> Any:
    """A value whose objects have no null fields: null is as good as absent."""
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def merge_patch(current: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(current) if isinstance(current, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def strategic_merge(current: Json, patch: Json) -> Json:
    """Kubernetes' merge by keys, with $patch, $setElementOrder, $retainKeys and $deleteFromPrimitiveList."""
    directive = patch.get("$patch", "merge")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    if directive != "merge":
        raise unnamed(f"unknown patch type: {str(directive)[:60]}: it is replace, delete or merge")
    merged = dict(current)
    if (kept := patch.get("$retainKeys")) is not None:
        merged = {key: value for key, value in merged.items() if key in _list(kept, "$retainKeys")}
    for field, gone in _directives(patch, "$deleteFromPrimitiveList/"):
        merged[field] = [one for one in _list(merged.get(field) or [], field) if one not in gone]
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif not key.startswith("$"):
            merged[key] = _merged_value(key, merged.get(key), value)
    for field, order in _directives(patch, "$setElementOrder/"):
        if field in merged:
            merged[field] = _ordered(field, merged[field], order, current.get(field))
    return merged


def _directives(patch: Json, prefix: str) -> Iterator[tuple[str, list[Any]]]:
    """The fields that a directive speaks of, with its list."""
    for key, value in patch.items():
        if key.startswith(prefix):
            yield key[len(prefix) :], _list(value, key)


def _merged_value(key: str, old: Any, new: Any) -> Any:
    if isinstance(new, dict):
        return strategic_merge(old if isinstance(old, dict) else {}, new)
    if isinstance(new, list):
        if key in PRIMITIVE_LISTS:
            kept = old if isinstance(old, list) else []
            return kept + [one for one in new if one not in kept]
        if key in MERGE_KEYS and all(isinstance(one, dict) for one in new):
            return _merged_list(key, old if isinstance(old, list) else [], new)
        return [_plain(one) for one in new]
    return new


def _merged_list(field: str, old: list[Json], new: list[Json]) -> list[Json]:
    if any(one.get("$patch") == "replace" for one in new):
        return [_plain(one) for one in new if "$patch" not in one]
    merged = list(old)
    for patch in new:
        key = _merge_key(field, patch)
        at = next(
            (place for place, one in enumerate(merged) if isinstance(one, dict) and one.get(key) == patch[key]), None
        )
        if patch.get("$patch") == "delete":
            merged = [one for one in merged if not isinstance(one, dict) or one.get(key) != patch[key]]
        elif at is None:
            merged.append(strategic_merge({}, patch))
        else:
            merged[at] = strategic_merge(merged[at], patch)
    if any("$patch" in one for one in new):
        new = [one for one in new if "$patch" not in one]
    ordered: list[Json] = _ordered(field, merged, new, old)
    return ordered


def _merge_key(field: str, patch: Json) -> str:
    for key in MERGE_KEYS[field]:
        if key in patch:
            return key
    keys = " or ".join(MERGE_KEYS[field])
    raise unnamed(f"map: {msgspec.json.encode(patch)[:200].decode()} does not contain declared merge key: {keys}")


def _ordered(field: str, merged: Any, order: list[Any], old: Any) -> Any:
    """The wanted order; elements that it does not name keep their place before those they stood before."""
    if not isinstance(merged, list):
        return merged
    wanted = {_identity(field, one): place for place, one in enumerate(order)}
    before = {_identity(field, one): place for place, one in enumerate(old if isinstance(old, list) else [])}
    named = sorted(
        (one for one in merged if _identity(field, one) in wanted), key=lambda one: wanted[_identity(field, one)]
    )
    result: list[Any] = []
    for one in (one for one in merged if _identity(field, one) not in wanted):
        place = before.get(_identity(field, one), len(before))
        while named and before.get(_identity(field, named[0]), -1) < place:
            result.append(named.pop(0))
        result.append(one)
    return result + named


def _identity(field: str, one: Any) -> bytes:
    """What tells an element from others: its merge key, or the plain value."""
    if isinstance(one, dict):
        one = next((one[key] for key in MERGE_KEYS.get(field, ()) if key in one), None)
    return msgspec.json.encode(one)


def _plain(value: Any) -> Any:
    """A new value without directives."""
    return strategic_merge({}, value) if isinstance(value, dict) else value


def _json_patch(current: Json, patch: Any) -> Json:
    if not isinstance(patch, list):
        raise bad_request(f"a JSON patch is a list of operations, not {_what(patch)}")
    try:
        patched = _Operations(patch).apply(current)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, ValueError, KeyError) as error:
        message = f"the server rejected our request due to an error in our request: {str(error)[:500]}"
        raise ApiFailure(422, message) from None
    if not isinstance(patched, dict):
        raise bad_request("the patch leaves no object")
    return patched


class _Replace(jsonpatch.ReplaceOperation):
    """As the API server has it, a member that is not there yet is added."""

    def apply(self, obj: Any) -> Any:
        holder, key = self.pointer.to_last(obj)
        if key is None or not isinstance(holder, dict):
            return super().apply(obj)
        holder[key] = self.operation["value"]
        return obj


class _Operations(jsonpatch.JsonPatch):
    operations = MappingProxyType({**jsonpatch.JsonPatch.operations, "replace": _Replace})


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"error decoding patch: {error}") from None


def _list(value: Any, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise bad_request(f"{field} must be a list")
    return value


def _what(value: Any) -> str:
    return {list: "a list", str: "a string", type(None): "null", bool: "a boolean"}.get(type(value), "a number")
