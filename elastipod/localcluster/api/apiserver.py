"""The API server of the local cluster, apart from how it is reached.

Owns the way of a request: which verb on which object, who answers, and what is refused by name because it is not
served. Reached in process through direct.py, over HTTP through http.py.
"""

import operator
import random
from collections.abc import Iterable
from typing import Any, Final, Protocol

from elastipod.clock import Clock, to_rfc3339
from elastipod.kube.connection import PatchType
from elastipod.localcluster.api import discovery, listing, protobuf
from elastipod.localcluster.api.admission import Admission, SizeNew
from elastipod.localcluster.api.decoding import YAML, Decoding, decoding_of
from elastipod.localcluster.api.deletion import Deletion
from elastipod.localcluster.api.failures import (
    CREATED,
    ApiFailure,
    bad_request,
    method_not_allowed,
    no_such_path,
    not_acceptable,
    not_found,
    unsupported_media_type,
)
from elastipod.localcluster.api.kinds import NAMESPACE, POD, POD_METRICS, PRIORITY_CLASS, Kind
from elastipod.localcluster.api.logs import LogSource, log_wish
from elastipod.localcluster.api.patches import apply_patch
from elastipod.localcluster.api.removing import Removing, is_dry_run
from elastipod.localcluster.api.requests import (
    JSON,
    Request,
    Response,
    Target,
    accepts_json,
    answer,
    failure_response,
    target_of,
)
from elastipod.localcluster.api.store import Entry, Json, Store, TooLarge
from elastipod.localcluster.api.writing import Alter, Writing, binding, replacing, scale_of, scaling

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
        size_new: SizeNew | None = None,
    ) -> None:
        """`spread` draws uids and name suffixes: seeded for a simulation, SystemRandom where objects are kept.

        `size_new` stands for a webhook that gives new pods their size.
        """
        self.store = store
        self.logs = logs
        self.usage = usage
        """Both are set by the node; without a usage source, metrics.k8s.io shows what was written to it."""
        self._measured: dict[str, list[dict[str, Any]]] = {}
        """The measurements that were last put into the store."""
        self._clock = clock
        deletion = Deletion(store, clock)
        admission = Admission(store, checks_node_capacity=checks_node_capacity, size_new=size_new)
        self._writing = Writing(store, clock, spread, admission, deletion)
        self._removing = Removing(store, clock, deletion, self._found)
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
        if target.subresource != "log" and not accepts_json(request.accept):
            raise not_acceptable(request.accept)
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
        listing.check_not_to_come(request, self.store)
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
        if target.kind.resource.namespaced and target.namespace is None:
            raise method_not_allowed()
        decoding = decoding_of(request.query, "POST")
        dry_run = is_dry_run(request)
        match target.subresource, bool(target.name):
            case "", False:
                body = self._body(request, target.kind, decoding)
                entry = self._writing.create(target.kind, target.place, body, decoding, dry_run=dry_run)
                return listing.object_response(request, entry, self._clock.now(), code=201, warnings=decoding.warnings)
            case "eviction", True:
                return self._removing.evict(request, target, self._body(request, POD, decoding))
            case "binding", True:
                body = self._body(request, POD, decoding)
                entry = self._found(target)
                bound = binding(entry, body, to_rfc3339(self._clock.now()))
                if not dry_run:
                    self.store.put(POD, bound)
                return answer(CREATED, 201)
        raise method_not_allowed()

    def _change(self, request: Request, target: Target) -> Response:
        if target.subresource in ("log", "eviction", "binding"):
            raise method_not_allowed()
        decoding = decoding_of(request.query, request.method)
        alter = self._alteration(request, target, decoding)
        subresource = target.subresource
        if subresource == "scale":
            alter, subresource = scaling(self._found(target), alter), ""
        entry = self._writing.update(
            target.kind,
            target.place,
            target.name,
            alter,
            decoding,
            subresource=subresource,
            dry_run=is_dry_run(request),
        )
        if target.subresource == "scale":
            return answer(scale_of(entry))
        return listing.object_response(request, entry, self._clock.now(), warnings=decoding.warnings)

    def _alteration(self, request: Request, target: Target, decoding: Decoding) -> Alter:
        kind, is_scale = target.kind, target.subresource == "scale"
        if request.method == "PUT":
            return replacing(self._body(request, kind, decoding), target.name)
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
        if target.subresource or (target.kind is NAMESPACE and not target.name):
            raise method_not_allowed()
        options = self._body(request, target.kind, Decoding()) if request.body else {}
        return self._removing.delete(request, target, options)

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

    def _body(self, request: Request, kind: Kind, decoding: Decoding) -> Json:
        if request.content_type == protobuf.CONTENT_TYPE and not kind.is_custom:
            return protobuf.json_of(request.body)
        if request.content_type not in ("", JSON, YAML):
            raise unsupported_media_type([JSON, YAML])
        return decoding.parsed(request.body, request.content_type, kind)

    def _make_first_objects(self) -> None:
        for name in _FIRST_NAMESPACES:
            if self.store.get(NAMESPACE, "", name) is None:
                self._writing.create(NAMESPACE, "", {"metadata": {"name": name}})
        for name, value in _SYSTEM_PRIORITIES.items():
            if self.store.get(PRIORITY_CLASS, "", name) is None:
                self._writing.create(PRIORITY_CLASS, "", {"metadata": {"name": name}, "value": value})
