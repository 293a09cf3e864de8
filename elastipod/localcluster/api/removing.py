"""Deletions and evictions as they are asked for: their options, preconditions and answers.

Owns what a caller may say of a deletion and what it is told. How an object then goes is deletion.py's matter, what a
budget allows eviction.py's.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from elastipod.clock import Clock, to_rfc3339
from elastipod.localcluster.api import eviction, listing
from elastipod.localcluster.api.decoding import check_delete_options
from elastipod.localcluster.api.deletion import Deletion
from elastipod.localcluster.api.failures import (
    CREATED,
    forbidden,
    invalid_value,
    not_supported,
    success,
    wrong_options,
)
from elastipod.localcluster.api.kinds import NAMESPACE, POD, RESOURCE_QUOTA
from elastipod.localcluster.api.requests import NOTHING, Request, Response, Target, answer
from elastipod.localcluster.api.store import Entry, Json, Store

_LASTING_NAMESPACES: Final = ("default", "kube-system", "kube-public")
_TOLD_WHOLE: Final = ("pods", "namespaces", "services", RESOURCE_QUOTA.id)
"""Kinds of which a deletion answers with the object as it was, not with a Status."""
_JOB_WARNING: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set"
    " propagationPolicy=Orphan to suppress this warning"
)
_POLICIES: Final = ("Foreground", "Background", "Orphan")


class Removing:
    """Takes objects out of a store as callers ask for it."""

    def __init__(self, store: Store, clock: Clock, deletion: Deletion, found: Callable[[Target], Entry]) -> None:
        self._store = store
        self._clock = clock
        self._deletion = deletion
        self._found = found

    def delete(self, request: Request, target: Target, options: Json) -> Response:
        """One object, or those of a collection that the selectors mean. Raises ApiFailure."""
        for name in ("gracePeriodSeconds", "propagationPolicy", "orphanDependents"):
            if name in request.query:
                options.setdefault(name, _plain(request.query[name]))
        _check_options(options)
        dry_run = is_dry_run(request, options)
        if not target.name:
            entries = listing.selected(self._store, request, target)
            for entry in entries:
                self._delete_one(entry, options, dry_run=dry_run)
            return listing.plain_list(target.kind, entries, self._store.version)
        entry = self._found(target)
        if entry.kind is NAMESPACE and entry.name in _LASTING_NAMESPACES:
            raise forbidden("namespaces", entry.name, "this namespace may not be deleted")
        self._deletion.check(entry, options)
        last = self._delete_one(entry, options, dry_run=dry_run)
        is_gone = self._store.get(entry.kind, entry.namespace, entry.name) is None
        body = _gone(entry) if is_gone and entry.kind.id not in _TOLD_WHOLE else last.raw
        is_odd = entry.kind.id == "jobs.batch" and not {"propagationPolicy", "orphanDependents"} & options.keys()
        return Response(200, body, warnings=(_JOB_WARNING,) if is_odd else ())

    def evict(self, request: Request, target: Target, body: Json) -> Response:
        """A pod, as far as its budget allows it. Raises ApiFailure."""
        entry = self._found(target)
        eviction.check_body(body, entry)
        options = body.get("deleteOptions") or {}
        _check_options(options)
        self._deletion.check(entry, options)
        dry_run = is_dry_run(request, options)
        now = self._clock.now()
        eviction.spend_budget(self._store, entry, now, dry_run=dry_run)
        if not dry_run:
            marked = self._store.put(POD, eviction.marked_as_evicted(entry.json, to_rfc3339(now)))
            self._deletion.delete(marked, options)
        return answer(CREATED, 201)

    def _delete_one(self, entry: Entry, options: Json, *, dry_run: bool) -> Entry:
        return entry if dry_run else self._deletion.delete(entry, options)


def is_dry_run(request: Request, delete_options: Mapping[str, Any] = NOTHING) -> bool:
    """Whether nothing may be written. kubectl says so of a deletion in the options, which need not name their kind."""
    stated = request.query.get("dryRun") or delete_options.get("dryRun")
    if stated in (None, "", []):
        return False
    if stated in ("All", ["All"]):
        return True
    options = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}.get(request.method)
    shown = stated if isinstance(stated, list) else [stated]
    raise wrong_options(options or "DeleteOptions", not_supported("dryRun", shown, ["All"]))


def _gone(entry: Entry) -> bytes:
    """The Status of an object that is no more."""
    details = {"name": entry.name, "kind": entry.kind.resource.plural, "uid": entry.json["metadata"]["uid"]}
    if entry.kind.resource.group:
        details["group"] = entry.kind.resource.group
    return answer(success(details)).body


def _check_options(options: Json) -> None:
    check_delete_options(options)
    policy = options.get("propagationPolicy")
    if policy not in (None, *_POLICIES):
        raise wrong_options("DeleteOptions", not_supported("propagationPolicy", policy, (*_POLICIES, "nil")))
    if policy is not None and options.get("orphanDependents") is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        raise wrong_options("DeleteOptions", invalid_value("propagationPolicy", policy, detail))


def _plain(text: str) -> Any:
    return int(text) if text.lstrip("-").isdecimal() else {"true": True, "false": False}.get(text, text)
