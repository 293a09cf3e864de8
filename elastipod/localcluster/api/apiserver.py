"""The API server of the local cluster, apart from how it is reached.

Owns the way of a request: which verb on which object, who answers, and what is refused by name because it is not
served. Reached in process through direct.py, over HTTP through http.py.
"""

import operator
import random
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from elastipod.clock import Clock, to_rfc3339
from elastipod.kube.connection import PatchType
from elastipod.localcluster.api import discovery, eviction, listing, protobuf
from elastipod.localcluster.api.admission import Admission
from elastipod.localcluster.api.deletion import Deletion
from elastipod.localcluster.api.failures import (
    ApiFailure,
    bad_request,
    method_not_allowed,
    no_such_path,
    not_found,
    success,
    unsupported_media_type,
)
from elastipod.localcluster.api.kinds import NAMESPACE, POD, POD_METRICS, PRIORITY_CLASS, Kind
from elastipod.localcluster.api.logs import LogSource, log_wish
from elastipod.localcluster.api.patches import apply_patch
from elastipod.localcluster.api.requests import (
    JSON,
    NOTHING,
    Request,
    Response,
    Target,
    answer,
    failure_response,
    target_of,
)
from elastipod.localcluster.api.store import Entry, Json, Store, TooLarge
from elastipod.localcluster.api.writing import Alter, Writing, binding, parsed, replacing, scale_of, scaling

_FIRST_NAMESPACES: Final = ("default", "kube-node-lease", "kube-system")
_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_APPLY: Final = "application/apply-patch"


class UsageSource(Protocol):
    """Where metrics.k8s.io gets its numbers: PodMetrics and NodeMetrics objects, made when asked for."""

    def pod_metrics(self) -> Iterable[Json]: ...

    def node_metrics(self) -> Iterable[Json]: ...


class ApiServer:
    """Answers requests from a store. Synchronous; only watches and logs are streams."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        *,
        logs: LogSource | None = None,
        usage: UsageSource | None = None,
        spread: random.Random,
        checks_node_capacity: bool = True,
    ) -> None:
        """`spread` draws uids and name suffixes: seeded for a simulation, SystemRandom where objects are kept."""
        self.store = store
        self.logs = logs
        self.usage = usage
        self._measured: dict[str, list[dict[str, Any]]] = {}
        """The measurements that were last put into the store."""
        """Both are set by the node; without a usage source, metrics.k8s.io shows what was written to it."""
        self._clock = clock
        self._deletion = Deletion(store, clock)
        admission = Admission(store, checks_node_capacity=checks_node_capacity)
        self._writing = Writing(store, clock, spread, admission, self._deletion)
        self._make_first_objects()

    def handle(self, request: Request) -> Response:
        """The answer to a request; failures are answers too."""
        try:
            return self._answer(request)
        except ApiFailure as failure:
            return failure_response(failure)
        except TooLarge:
            return failure_response(ApiFailure(413, "etcdserver: request is too large"))
        except RecursionError:
            return failure_response(bad_request("the body is nested too deeply"))

    def _answer(self, request: Request) -> Response:
        target = target_of(request.path)
        if target is None:
            found = discovery.answer_for(request)
            if found is None:
                raise no_such_path()
            return found
        match request.method:
            case "GET":
                return self._read(request, target)
            case "POST":
                return self._post(request, target)
            case "PUT" | "PATCH" if target.name:
                return self._change(request, target)
            case "DELETE":
                return self._delete(request, target)
        raise method_not_allowed()

    def _read(self, request: Request, target: Target) -> Response:
        if target.kind.is_volatile and self.usage is not None:
            self._measure(target.kind, self.usage)
        if not target.name:
            if request.flag("watch"):
                return listing.watch_response(self.store, request, target, self._clock.now)
            return listing.list_response(self.store, request, target, self._clock.now())
        if request.flag("watch"):
            raise bad_request("a watch of one object is written as a list with fieldSelector=metadata.name=NAME")
        entry = self._found(target)
        match target.subresource:
            case "" | "status" | "resize":
                return listing.object_response(request, entry, self._clock.now())
            case "scale":
                return answer(scale_of(entry))
            case "log":
                return self._log(request, entry)
        raise method_not_allowed()

    def _post(self, request: Request, target: Target) -> Response:
        body = self._body(request)
        dry_run = _is_dry_run(request)
        match target.subresource, bool(target.name):
            case "", False:
                if target.kind.resource.namespaced and target.namespace is None:
                    raise method_not_allowed("an object is created in a namespace: POST to its collection there")
                strict = request.query.get("fieldValidation") == "Strict"
                entry = self._writing.create(target.kind, target.place, body, strict=strict, dry_run=dry_run)
                return listing.object_response(request, entry, self._clock.now(), code=201)
            case "eviction", True:
                return self._evict(request, target, body)
            case "binding", True:
                entry = self._found(target)
                bound = binding(entry, body, to_rfc3339(self._clock.now()))
                if not dry_run:
                    self.store.put(POD, bound)
                return answer(success({"name": entry.name, "kind": "pods"}), 201)
        raise method_not_allowed()

    def _change(self, request: Request, target: Target) -> Response:
        if target.subresource in ("log", "eviction", "binding"):
            raise method_not_allowed()
        is_patch = request.method == "PATCH"
        alter = self._alteration(request, target.kind, is_scale=target.subresource == "scale")
        subresource = target.subresource
        if subresource == "scale":
            alter, subresource = scaling(self._found(target), alter), ""
        entry = self._writing.update(
            target.kind,
            target.place,
            target.name,
            alter,
            subresource=subresource,
            is_patch=is_patch,
            strict=request.query.get("fieldValidation") == "Strict",
            dry_run=_is_dry_run(request),
        )
        if target.subresource == "scale":
            return answer(scale_of(entry))
        return listing.object_response(request, entry, self._clock.now())

    def _alteration(self, request: Request, kind: Kind, *, is_scale: bool) -> Alter:
        if request.method == "PUT":
            self._check_json(request)
            return replacing(request.body)
        accepted = [PatchType.JSON, PatchType.MERGE]
        if not kind.is_custom or is_scale:
            accepted.append(PatchType.STRATEGIC)
        content_type = request.content_type
        if content_type.startswith(_APPLY):
            raise unsupported_media_type(accepted, "server-side apply is not served by the local cluster")
        if content_type not in accepted:
            raise unsupported_media_type(accepted)
        return lambda json: apply_patch(content_type, json, request.body)

    def _delete(self, request: Request, target: Target) -> Response:
        options = self._body(request) if request.body else {}
        for name in ("gracePeriodSeconds", "propagationPolicy", "orphanDependents"):
            if name in request.query:
                options.setdefault(name, _plain(request.query[name]))
        _check_delete_options(options)
        dry_run = _is_dry_run(request, options)
        if target.subresource:
            raise method_not_allowed()
        if not target.name:
            entries = listing.selected(self.store, request, target)
            gone = [self._delete_one(entry, options, dry_run=dry_run) for entry in entries]
            return listing.plain_list(target.kind, gone, self.store.version)
        entry = self._found(target)
        self._deletion.check(entry, options)
        last = self._delete_one(entry, options, dry_run=dry_run)
        if self.store.get(entry.kind, entry.namespace, entry.name) is None and entry.kind is not POD:
            details = {"name": entry.name, "kind": entry.kind.resource.plural, "uid": entry.json["metadata"]["uid"]}
            if entry.kind.resource.group:
                details["group"] = entry.kind.resource.group
            return answer(success(details))
        return Response(200, last.raw)

    def _delete_one(self, entry: Entry, options: Json, *, dry_run: bool) -> Entry:
        if dry_run:
            return entry
        return self._deletion.delete(entry, options)

    def _evict(self, request: Request, target: Target, body: Json) -> Response:
        entry = self._found(target)
        options = body.get("deleteOptions") or {}
        if not isinstance(options, dict):
            raise bad_request("deleteOptions is a JSON object")
        _check_delete_options(options)
        self._deletion.check(entry, options)
        dry_run = _is_dry_run(request, options)
        eviction.spend_budget(self.store, entry, self._clock.now(), dry_run=dry_run)
        self._delete_one(self._found(target), options, dry_run=dry_run)
        return answer({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}, 201)

    def _log(self, request: Request, entry: Entry) -> Response:
        if self.logs is None:
            raise ApiFailure(500, "no node of this cluster serves logs")
        names = [one["name"] for one in entry.json["spec"]["containers"]]
        names += [one["name"] for one in entry.json["spec"].get("initContainers") or ()]
        container = request.query.get("container") or (names[0] if len(names) == 1 else "")
        if not container:
            shown = " ".join(names)
            raise bad_request(f"a container name must be specified for pod {entry.name}, choose one of: [{shown}]")
        if container not in names:
            raise bad_request(f"container {container} is not valid for pod {entry.name}")
        lines = self.logs(entry.namespace, entry.name, container, log_wish(request, entry.name, self._clock.now()))
        return Response(200, content_type="text/plain", stream=lines)

    def _measure(self, kind: Kind, usage: UsageSource) -> None:
        """Put fresh measurements in the place of the last ones."""
        fresh = list(usage.pod_metrics() if kind is POD_METRICS else usage.node_metrics())
        last = self._measured.get(kind.id, [])
        if len(last) == len(fresh) and all(map(operator.is_, last, fresh)):
            return
        self._measured[kind.id] = fresh
        names = {(one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in fresh}
        for entry in self.store.of_kind(kind):
            if (entry.namespace, entry.name) not in names:
                self.store.remove(entry)
        for one in fresh:
            self.store.put(kind, one)

    def _found(self, target: Target) -> Entry:
        entry = self.store.get(target.kind, target.place, target.name)
        if entry is None:
            raise not_found(target.kind.id, target.name)
        return entry

    def _body(self, request: Request) -> Json:
        if request.content_type == protobuf.CONTENT_TYPE:
            return protobuf.json_of(request.body)
        self._check_json(request)
        return parsed(request.body)

    def _check_json(self, request: Request) -> None:
        if request.content_type not in ("", JSON):
            raise unsupported_media_type(
                [JSON], f"{request.content_type[:80]} bodies are not served by the local cluster"
            )

    def _make_first_objects(self) -> None:
        for name in _FIRST_NAMESPACES:
            if self.store.get(NAMESPACE, "", name) is None:
                self._writing.create(NAMESPACE, "", {"metadata": {"name": name}})
        for name, value in _SYSTEM_PRIORITIES.items():
            if self.store.get(PRIORITY_CLASS, "", name) is None:
                self._writing.create(PRIORITY_CLASS, "", {"metadata": {"name": name}, "value": value})


def _is_dry_run(request: Request, delete_options: Mapping[str, Any] = NOTHING) -> bool:
    """Whether nothing may be written. kubectl says so of a deletion in the options, which need not name their kind."""
    stated = request.query.get("dryRun") or delete_options.get("dryRun")
    if stated in (None, "", []):
        return False
    if stated in ("All", ["All"]):
        return True
    raise bad_request(f"Invalid value: dryRun: {str(stated)[:40]}: supported values: All")


def _check_delete_options(options: Mapping[str, Any]) -> None:
    seconds = options.get("gracePeriodSeconds")
    if seconds is not None and (not isinstance(seconds, int) or isinstance(seconds, bool)):
        raise bad_request("gracePeriodSeconds must be a whole number")
    if options.get("propagationPolicy") not in (None, "Background", "Foreground", "Orphan"):
        raise bad_request("propagationPolicy must be Background, Foreground or Orphan")
    if not isinstance(options.get("preconditions") or {}, dict):
        raise bad_request("preconditions must be a JSON object")


def _plain(text: str) -> Any:
    return int(text) if text.lstrip("-").isdecimal() else {"true": True, "false": False}.get(text, text)
