"""What a controller wants done, and the facts about objects that all of them ask.

Owns the words. Who decides is each kind's module; who acts is manager.py.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from elastipod.clock import from_rfc3339
from elastipod.kube.resources import ResourceType

Json = dict[str, Any]

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True, slots=True)
class Create:
    """A new object. Its name is the controller's choice, so that an answer that was lost makes no second one."""

    resource: ResourceType
    body: Json


@dataclass(frozen=True, slots=True)
class Delete:
    """An object to be ended, the one of this UID."""

    resource: ResourceType
    json: Json


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge patch of an object, or of its status."""

    resource: ResourceType
    json: Json
    body: Json
    subresource: str = ""


Action = Create | Delete | Patch


@dataclass(slots=True)
class Decision:
    """What to do about one object now, and when time alone makes a difference."""

    actions: list[Action] = field(default_factory=list)
    look_again_at: float | None = None

    def set_status(self, resource: ResourceType, json: Json, status: Json) -> None:
        """Write a status where it says something new; a None takes a field away."""
        old = json.get("status") or {}
        if any(old.get(key) != value for key, value in status.items()):
            self.actions.append(Patch(resource, json, {"status": status}, "status"))


def owned_by(owner: Json, objects: Iterable[Json]) -> list[Json]:
    """The objects whose controller this is, by name."""
    uid = owner["metadata"]["uid"]
    found = [one for one in objects if controller_uid(one) == uid]
    return sorted(found, key=name_of)


def controller_uid(json: Json) -> str | None:
    """The UID of the controlling owner."""
    return next((one["uid"] for one in json["metadata"].get("ownerReferences") or () if one.get("controller")), None)


def name_of(json: Json) -> str:
    """An object's name."""
    name: str = json["metadata"]["name"]
    return name


def owner_reference(resource: ResourceType, owner: Json) -> Json:
    """What makes an object its controller's."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_of(resource: ResourceType, owner: Json, name: str, labels: Mapping[str, str] | None = None) -> Json:
    """A pod from its owner's template."""
    template = owner["spec"]["template"]
    meta = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": {**(meta.get("labels") or {}), **(labels or {})},
            "annotations": dict(meta.get("annotations") or {}),
            "ownerReferences": [owner_reference(resource, owner)],
        },
        "spec": dict(template["spec"]),
    }


def free_name(owner: Json, taken: set[str], first: int = 0) -> str:
    """`<owner>-x7k2p`: the first name of a fixed row that is not taken."""
    number = first
    while True:
        name = f"{name_of(owner)[:240]}-{suffix(owner['metadata']['uid'], number)}"
        if name not in taken:
            return name
        number += 1


def suffix(*words: object, length: int = 5) -> str:
    """Letters that follow from the words alone."""
    digest = hashlib.sha256("/".join(map(str, words)).encode()).digest()
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:length])


def template_hash(template: Json) -> str:
    """The same for the same template."""
    return suffix(msgspec.json.encode(template, order="deterministic").decode(), length=10)


def is_ending(json: Json) -> bool:
    """Whether it was asked to go."""
    return json["metadata"].get("deletionTimestamp") is not None


def phase_of(pod: Json) -> str:
    """Pending where none is told."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_active(pod: Json) -> bool:
    """Counts as a replica: neither over nor going."""
    return phase_of(pod) not in ("Succeeded", "Failed") and not is_ending(pod)


def is_ready(pod: Json) -> bool:
    """As its Ready condition has it."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def instant(text: Any) -> float:
    """Unix seconds; zero for what is no time."""
    try:
        return from_rfc3339(str(text))
    except ValueError:
        return 0.0


def share(value: Any, whole: int, *, round_up: bool) -> int:
    """A number, or a percentage of a whole."""
    if isinstance(value, int):
        return value
    text = str(value)
    if not text.endswith("%") or not text[:-1].isdigit():
        return 0
    percent = int(text[:-1]) * whole
    return -(-percent // 100) if round_up else percent // 100


def condition(old: Json, kind: str, is_true: bool, reason: str, message: str, now: str) -> Json:
    """A condition; its time is that of its last turn."""
    told = "True" if is_true else "False"
    before = next((one for one in (old.get("conditions") or ()) if one.get("type") == kind), None)
    if before is not None and before.get("status") == told and before.get("reason") == reason:
        return dict(before)
    return {
        "type": kind,
        "status": told,
        "reason": reason,
        "message": message,
        "lastUpdateTime": now,
        "lastTransitionTime": now,
    }
