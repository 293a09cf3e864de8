"""How an object comes to be stored: made, replaced, patched, its status reported, its scale set.

Owns the order of a write as the API server has it: shape, mutating admission, resource version, what may change,
validation, validating admission, the write. What each step asks is the matter of defaults.py, validation.py, resize.py
and admission.py.
"""

import random
from collections.abc import Callable
from typing import Any, Final

import msgspec

from elastipod.clock import Clock, to_rfc3339
from elastipod.localcluster.api import defaults, resize, validation
from elastipod.localcluster.api.admission import Admission
from elastipod.localcluster.api.decoding import Decoding
from elastipod.localcluster.api.deletion import Deletion
from elastipod.localcluster.api.failures import (
    Problem,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_value,
    not_found,
    unnamed,
)
from elastipod.localcluster.api.kinds import EVENT, NAMESPACE, Kind
from elastipod.localcluster.api.requests import encode
from elastipod.localcluster.api.store import Entry, Store

Json = dict[str, Any]
Alter = Callable[[Json], Json]
"""From the object as stored (a private copy) to the object as wanted."""

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_MOST_PREFIX: Final = 58
_MOST_TRIES: Final = 8
_SERVER_FIELDS: Final = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
_REPORTED: Final = ("apiVersion", "kind", "metadata", "status")
_EVENT_SECONDS: Final = 3600.0


class Writing:
    """Writes objects into a store."""

    def __init__(
        self, store: Store, clock: Clock, spread: random.Random, admission: Admission, deletion: Deletion
    ) -> None:
        self._store = store
        self._clock = clock
        self._spread = spread
        self._admission = admission
        self._deletion = deletion

    def create(
        self, kind: Kind, namespace: str, json: Json, decoding: Decoding | None = None, *, dry_run: bool = False
    ) -> Entry:
        """A new object. Raises ApiFailure."""
        shape_problems = (decoding or Decoding()).check(kind, json, {})
        self._check_envelope(kind, namespace, json)
        meta = self._new_metadata(kind, namespace, json.get("metadata") or {})
        json = {**_envelope(kind), **json, **_envelope(kind), "metadata": meta}
        self._check_namespace(kind, namespace, meta["name"])
        defaults.prepare_new(kind, json)
        json = self._admission.mutate_new(kind, json)
        defaults.complete_new(kind, json)
        self._check(kind, meta["name"], validation.problems_of_new(kind, json, shape_problems))
        self._admission.check_new(kind, json)
        if self._store.get(kind, namespace, meta["name"]) is not None:
            raise already_exists(kind.id, meta["name"])
        if dry_run:
            return _unsaved(kind, json)
        entry = self._store.put(kind, json)
        self._deletion.collect(entry)
        if kind is EVENT:
            self._forget_old_events()
        # What is kept of it by others, such as a quota's use, is there already.
        return self._store.get(kind, entry.namespace, entry.name) or entry

    def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        alter: Alter,
        decoding: Decoding,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Entry:
        """An object replaced or patched, or the part of it that a subresource speaks of. Raises ApiFailure."""
        old = self._store.get(kind, namespace, name)
        if old is None:
            raise not_found(kind.id, name)
        json = alter(_copy(old))
        if subresource == "status":
            json = {**old.json, **{part: json.get(part) for part in _REPORTED}}
        shape_problems = decoding.check(kind, json, old.json)
        self._check_envelope(kind, namespace, json, name)
        if subresource == "resize":
            json = resize.kept_changes(old.json, json)
            self._admission.mutate_resize(old.json, json)
        self._check_versions(old, json.get("metadata") or {}, is_patch=decoding.is_patch)
        json = self._merged_halves(old, json, subresource)
        self._admission.mutate_change(kind, json, subresource)
        if json == old.json:
            return old
        self._check(kind, name, self._problems(kind, old.json, json, subresource, shape_problems))
        if subresource != "status":
            if kind.has_generation and _wanted(kind, json) != _wanted(kind, old.json):
                json["metadata"]["generation"] = old.json["metadata"].get("generation", 0) + 1
            self._admission.check_change(old, json, subresource)
        if dry_run:
            return _unsaved(kind, json)
        entry = self._deletion.settle(self._store.put(kind, json))
        return self._store.get(kind, entry.namespace, entry.name) or entry

    def _problems(
        self, kind: Kind, old: Json, json: Json, subresource: str, shape_problems: list[Problem]
    ) -> list[Problem]:
        if subresource == "resize":
            return resize.problems_of_resize(old, json)
        return validation.problems_of_change(kind, old, json, subresource, shape_problems)

    def _merged_halves(self, old: Entry, json: Json, subresource: str) -> Json:
        """The new object with everything that this request can not speak of as it was."""
        if subresource == "status":
            told = _with_status(old.json, defaults.kept_status(old.kind, old.json.get("status"), json.get("status")))
            return told if old.kind.is_custom else {**told, "metadata": _told_metadata(old, json)}
        meta = dict(json.get("metadata") or {})
        before = old.json["metadata"]
        for field in _SERVER_FIELDS:
            meta.pop(field, None)
            if field in before:
                meta[field] = before[field]
        meta["name"] = old.name
        if old.namespace:
            meta["namespace"] = old.namespace
        meta.pop("managedFields", None)
        meta["resourceVersion"] = before["resourceVersion"]
        json = {**json, **_envelope(old.kind), "metadata": _without_empty(meta)}
        defaults.complete_change(old.kind, json)
        return _with_status(json, old.json.get("status")) if old.kind.has_status else json

    def _check_versions(self, old: Entry, meta: Json, *, is_patch: bool) -> None:
        before = old.json["metadata"]
        uid = meta.get("uid")
        if uid and uid != before["uid"]:
            if is_patch:
                problem = invalid_value("metadata.uid", uid, "field is immutable")
                raise invalid(old.kind.resource.kind, old.kind.resource.group, old.name, [problem])
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before['uid']}"
            raise conflict(old.kind.id, old.name, why)
        if is_patch and meta.get("deletionTimestamp") != before.get("deletionTimestamp"):
            problem = invalid_value("metadata.deletionTimestamp", meta.get("deletionTimestamp"), "field is immutable")
            raise invalid(old.kind.resource.kind, old.kind.resource.group, old.name, [problem])
        version = meta.get("resourceVersion")
        if not version and not is_patch and old.kind.needs_version:
            problem = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(old.kind.resource.plural, old.kind.resource.group, old.name, [problem])
        if version and version != before["resourceVersion"]:
            raise conflict(old.kind.id, old.name)

    def _check_envelope(self, kind: Kind, namespace: str, json: Json, name: str = "") -> None:
        """That body and path speak of the same thing."""
        resource = kind.resource
        for field, wanted in (("apiVersion", resource.api_version), ("kind", resource.kind)):
            stated = json.get(field)
            if not stated and kind.is_custom and not kind.is_volatile:
                raise bad_request(
                    f"the object provided is unrecognized (must be of type {resource.kind}): its {field} is missing"
                )
            if stated and stated != wanted and field == "kind" and kind.is_custom:
                problem = invalid_value("kind", stated, f"must be {wanted}")
                raise invalid(str(stated), resource.group, (json.get("metadata") or {}).get("name", ""), [problem])
            if stated and stated != wanted:
                raise bad_request(f"the {field} in the body ({stated}) does not match the one of the path ({wanted})")
        meta = json.get("metadata") or {}
        if resource.namespaced and meta.get("namespace") and meta["namespace"] != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request:"
                f" {meta['namespace']} is not {namespace}"
            )
        if name and meta.get("name") and meta["name"] != name:
            raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")

    def _check_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        if not kind.resource.namespaced:
            return
        found = self._store.get(NAMESPACE, "", namespace)
        if found is None:
            raise not_found("namespaces", namespace)
        if found.json["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise forbidden(kind.id, name, why, [cause])

    def _new_metadata(self, kind: Kind, namespace: str, stated: Json) -> Json:
        if stated.get("resourceVersion"):
            raise unnamed("resourceVersion should not be set on objects to be created")
        meta = {
            key: value for key, value in stated.items() if key not in (*_SERVER_FIELDS, "managedFields", "selfLink")
        }
        prefix = meta.get("generateName")
        if not meta.get("name") and prefix:
            meta["name"] = self._free_name(kind, namespace, prefix[:_MOST_PREFIX])
        meta.setdefault("name", "")
        if kind.resource.namespaced:
            meta["namespace"] = namespace
        else:
            meta.pop("namespace", None)
        meta["uid"] = self._new_uid()
        meta["creationTimestamp"] = to_rfc3339(self._clock.now())
        if kind.has_generation:
            meta["generation"] = 1
        return _without_empty(meta)

    def _free_name(self, kind: Kind, namespace: str, prefix: str) -> str:
        for _ in range(_MOST_TRIES):
            name = prefix + "".join(self._spread.choices(_SUFFIX_LETTERS, k=5))
            if self._store.get(kind, namespace, name) is None:
                break
        return name

    def _new_uid(self) -> str:
        text = f"{self._spread.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[int(text[16], 16) % 4]}{text[17:20]}-{text[20:]}"

    def _check(self, kind: Kind, name: str, problems: list[Problem]) -> None:
        if problems:
            raise invalid(kind.resource.kind, kind.resource.group, name, problems)

    def _forget_old_events(self) -> None:
        """Events live for an hour, as in a real cluster; the oldest come first."""
        before = to_rfc3339(self._clock.now() - _EVENT_SECONDS)
        for entry in self._store.oldest(EVENT):
            if entry.json["metadata"]["creationTimestamp"] >= before:
                return
            self._store.remove(entry)


def replacing(wanted: Json, name: str) -> Alter:
    """For a PUT: the body as it is. Raises ApiFailure where it does not say its name."""
    if not (wanted.get("metadata") or {}).get("name"):
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    return lambda _: wanted


def scale_of(entry: Entry) -> Json:
    """The Scale of a workload."""
    meta = entry.json["metadata"]
    status = entry.json.get("status") or {}
    labels = ((entry.json["spec"].get("selector") or {}).get("matchLabels")) or {}
    replicas = entry.json["spec"].get("replicas", 1)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            key: meta[key]
            for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
            if key in meta
        },
        "spec": {"replicas": replicas} if replicas else {},
        "status": {
            "replicas": status.get("replicas", 0),
            "selector": ",".join(f"{key}={value}" for key, value in sorted(labels.items())),
        },
    }


def scaling(entry: Entry, alter: Alter) -> Alter:
    """A change of the workload from a change of its Scale."""
    wanted = alter(scale_of(entry))
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        problem = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("Scale", "autoscaling", entry.name, [problem])
    stated = wanted.get("metadata") or {}

    def change(json: Json) -> Json:
        meta = {**json["metadata"], **{key: stated[key] for key in ("uid", "resourceVersion") if stated.get(key)}}
        return {**json, "metadata": meta, "spec": {**json["spec"], "replicas": replicas}}

    return change


def binding(entry: Entry, body: Json, at: str) -> Json:
    """The pod bound to the node that a Binding names. Raises ApiFailure."""
    node = (body.get("target") or {}).get("name")
    if not isinstance(node, str) or not node:
        raise unnamed("target.name: Required value")
    bound = entry.json["spec"].get("nodeName")
    if bound:
        raise conflict("pods/binding", entry.name, f'pod {entry.name} is already assigned to node "{bound}"')
    if entry.json["metadata"].get("deletionTimestamp"):
        raise conflict("pods/binding", entry.name, f"pod {entry.name} is being deleted, cannot be assigned to a host")
    status = dict(entry.json.get("status") or {})
    conditions = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
    status["conditions"] = [*conditions, {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]
    return {**entry.json, "spec": {**entry.json["spec"], "nodeName": node}, "status": status}


def _envelope(kind: Kind) -> Json:
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}


def _copy(entry: Entry) -> Json:
    copied: Json = msgspec.json.decode(entry.raw)
    return copied


def _unsaved(kind: Kind, json: Json) -> Entry:
    meta = json["metadata"]
    return Entry(kind, meta.get("namespace", ""), meta["name"], json, encode(json), 0)


def _with_status(json: Json, status: Json | None) -> Json:
    rest = {key: value for key, value in json.items() if key != "status"}
    return {**rest, "status": status} if status is not None else rest


def _told_metadata(old: Entry, json: Json) -> Json:
    """What comes with a status report: of a built-in kind labels, annotations and finalizers too."""
    before, after = old.json["metadata"], json.get("metadata") or {}
    told = (
        ("annotations", "finalizers") if old.kind.id == "deployments.apps" else ("labels", "annotations", "finalizers")
    )
    kept = {key: value for key, value in before.items() if key not in told}
    return kept | {key: after[key] for key in told if after.get(key)}


def _wanted(kind: Kind, json: Json) -> Json:
    """What of an object its generation counts: all but metadata, and status where that is told apart."""
    found = {
        key: value for key, value in json.items() if key != "metadata" and (key != "status" or not kind.has_status)
    }
    if kind.id == "deployments.apps":
        found["annotations"] = json["metadata"].get("annotations")
    return found


def _without_empty(meta: Json) -> Json:
    return {key: value for key, value in meta.items() if value is not None and value not in ({}, [])}
