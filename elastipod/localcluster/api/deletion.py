"""How objects go: grace, finalizers, dependents, whole namespaces.

Owns deletion from the request to the last dependent. What a garbage collector and a namespace controller do apart from
the API server happens here within the same call.
"""

from collections import deque
from typing import Any, Final

from elastipod.clock import Clock, to_rfc3339
from elastipod.localcluster.api.failures import conflict
from elastipod.localcluster.api.kinds import NAMESPACE, POD, POD_METRICS
from elastipod.localcluster.api.store import Entry, Store

Json = dict[str, Any]

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_MOST_GONE: Final = 10_000


class Deletion:
    """Deletes objects of a store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._gone: deque[str] = deque(maxlen=_MOST_GONE)
        self._gone_set: set[str] = set()

    def check(self, entry: Entry, options: Json) -> None:
        """The caller's preconditions. Raises ApiFailure."""
        wanted = options.get("preconditions") or {}
        meta, resource = entry.json["metadata"], entry.kind.resource
        for field, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            if wanted.get(field) and wanted[field] != meta[field]:
                stated = f"the {label} in the precondition ({wanted[field]})"
                why = f"{stated} does not match the {label} in record ({meta[field]})"
                raise conflict(
                    f"{resource.kind}.{resource.group}" if resource.group else resource.kind, entry.name, why
                )

    def delete(self, entry: Entry, options: Json) -> Entry:
        """The object as it is now: gone, or marked and waiting for its node, its finalizers or its dependents."""
        policy = options.get("propagationPolicy") or ("Orphan" if options.get("orphanDependents") else "")
        policy = policy or ("Orphan" if entry.kind.id == "jobs.batch" else "Background")
        if policy == "Orphan":
            self._orphan(entry)
        finalizers = list(entry.json["metadata"].get("finalizers") or ())
        if (
            policy == "Foreground"
            and FOREGROUND not in finalizers
            and self._store.owned_by(entry.json["metadata"]["uid"])
        ):
            finalizers.append(FOREGROUND)
        seconds = self._grace(entry, options)
        if entry.kind is NAMESPACE:
            return self._delete_namespace(entry)
        if not finalizers and seconds == 0 and entry.kind is not POD:
            return self.remove(entry)
        marked = self._mark(entry, finalizers, seconds)
        if not finalizers and seconds == 0:
            return self.remove(marked)
        if FOREGROUND in finalizers:
            for dependent in self._store.owned_by(entry.json["metadata"]["uid"]):
                self.delete(dependent, {"propagationPolicy": "Foreground"})
        return self._store.get(entry.kind, entry.namespace, entry.name) or marked

    def remove(self, entry: Entry) -> Entry:
        """Take it out at once, then what nobody owns any more."""
        current = self._store.get(entry.kind, entry.namespace, entry.name)
        if current is None:
            return entry
        last = self._store.remove(current)
        if entry.kind.is_volatile:
            return last
        uid = entry.json["metadata"]["uid"]
        self._remember_gone(uid)
        if entry.kind is POD and (measured := self._store.get(POD_METRICS, entry.namespace, entry.name)):
            self._store.remove(measured)
        for dependent in self._store.owned_by(uid):
            self.collect(dependent)
        self._release_owners(entry)
        if entry.namespace:
            self._end_namespace(entry.namespace)
        return last

    def collect(self, entry: Entry) -> None:
        """Delete an object all of whose owners are gone."""
        owners = [one["uid"] for one in entry.json["metadata"].get("ownerReferences") or ()]
        if (
            owners
            and all(uid in self._gone_set for uid in owners)
            and not entry.json["metadata"].get("deletionTimestamp")
        ):
            self.delete(entry, {})

    def settle(self, entry: Entry) -> Entry:
        """After a change of an object: gone, if it was only waiting for the finalizers that were taken away."""
        meta = entry.json["metadata"]
        waits_for_node = entry.kind is POD and meta.get("deletionGracePeriodSeconds")
        if (
            meta.get("deletionTimestamp")
            and not meta.get("finalizers")
            and not waits_for_node
            and entry.kind is not NAMESPACE
        ):
            return self.remove(entry)
        return entry

    def _grace(self, entry: Entry, options: Json) -> int:
        """Seconds a pod is given; only what a node may still be running has any."""
        if entry.kind is not POD:
            return 0
        spec, status = entry.json["spec"], entry.json.get("status") or {}
        if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
            return 0
        asked = options.get("gracePeriodSeconds")
        seconds = int(spec.get("terminationGracePeriodSeconds", 30) if asked is None else asked)
        return seconds if seconds >= 0 else 1

    def _mark(self, entry: Entry, finalizers: list[str], seconds: int) -> Entry:
        meta = entry.json["metadata"]
        marked = {**meta}
        if finalizers:
            marked["finalizers"] = finalizers
        if "deletionTimestamp" not in meta or seconds < meta.get("deletionGracePeriodSeconds", 0):
            marked["deletionTimestamp"] = to_rfc3339(self._clock.now() + seconds)
            marked["deletionGracePeriodSeconds"] = seconds
            if "generation" in meta and "deletionTimestamp" not in meta:
                marked["generation"] = meta["generation"] + 1
        return entry if marked == meta else self._store.put(entry.kind, {**entry.json, "metadata": marked})

    def _orphan(self, entry: Entry) -> None:
        uid = entry.json["metadata"]["uid"]
        for dependent in self._store.owned_by(uid):
            meta = dict(dependent.json["metadata"])
            meta["ownerReferences"] = [one for one in meta["ownerReferences"] if one["uid"] != uid]
            self._store.put(dependent.kind, {**dependent.json, "metadata": meta})

    def _release_owners(self, entry: Entry) -> None:
        """An owner that waited in the foreground for its last dependent goes too."""
        for reference in entry.json["metadata"].get("ownerReferences") or ():
            if self._store.owned_by(reference["uid"]):
                continue
            owner = self._owner(entry.namespace, reference)
            if owner is not None and FOREGROUND in (owner.json["metadata"].get("finalizers") or ()):
                meta = dict(owner.json["metadata"])
                meta["finalizers"] = [one for one in meta["finalizers"] if one != FOREGROUND]
                self.settle(self._store.put(owner.kind, {**owner.json, "metadata": meta}))

    def _owner(self, namespace: str, reference: Json) -> Entry | None:
        for kind in self._store.kinds():
            if kind.resource.kind == reference.get("kind") and kind.resource.api_version == reference.get("apiVersion"):
                found = self._store.get(kind, namespace if kind.resource.namespaced else "", str(reference.get("name")))
                return found if found and found.json["metadata"]["uid"] == reference["uid"] else None
        return None

    def _delete_namespace(self, entry: Entry) -> Entry:
        if not entry.json["metadata"].get("deletionTimestamp"):
            meta = {**entry.json["metadata"], "deletionTimestamp": to_rfc3339(self._clock.now())}
            entry = self._store.put(
                NAMESPACE,
                {**entry.json, "metadata": meta, "status": {**entry.json.get("status", {}), "phase": "Terminating"}},
            )
        for held in self._store.in_namespace(entry.name):
            current = self._store.get(held.kind, held.namespace, held.name)
            if current is not None:
                self.delete(current, {})
        self._end_namespace(entry.name)
        return entry

    def _end_namespace(self, name: str) -> None:
        entry = self._store.get(NAMESPACE, "", name)
        if entry is not None and entry.json["metadata"].get("deletionTimestamp") and not self._store.in_namespace(name):
            self._store.remove(entry)
            self._remember_gone(entry.json["metadata"]["uid"])

    def _remember_gone(self, uid: str) -> None:
        if len(self._gone) == self._gone.maxlen:
            self._gone_set.discard(self._gone[0])
        self._gone.append(uid)
        self._gone_set.add(uid)
