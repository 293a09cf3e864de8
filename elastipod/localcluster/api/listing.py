"""How objects are read: one, a page of many, a watch.

Owns selectors on collections, pages with their continue tokens, and the choice between objects and tables.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from elastipod.localcluster.api import tables
from elastipod.localcluster.api.failures import (
    ApiFailure,
    bad_request,
    expired,
    forbidden_field,
    method_not_allowed,
    not_supported,
    unnamed,
    wrong_options,
)
from elastipod.localcluster.api.kinds import Kind
from elastipod.localcluster.api.requests import Request, Response, Target, encode
from elastipod.localcluster.api.selectors import (
    SelectorError,
    field_matcher,
    parse_field_selector,
    parse_label_selector,
)
from elastipod.localcluster.api.store import Entry, Store
from elastipod.localcluster.api.watching import Watch

_TOKEN_SECONDS: Final = 300.0
_WATCH_SECONDS: Final = 1800.0


def object_response(
    request: Request, entry: Entry, now: float, code: int = 200, warnings: Sequence[str] = ()
) -> Response:
    """One object, or its row."""
    if tables.is_wanted(request.accept):
        shown = encode(tables.table(entry.kind, [entry], now, _included(request)))
        return Response(code, shown, warnings=warnings)
    return Response(code, entry.raw, warnings=warnings)


def check_not_to_come(request: Request, store: Store) -> int:
    """The version that is asked for at least. Raises ApiFailure where it is none, or still to come."""
    text = request.query.get("resourceVersion", "")
    if text and not text.isdecimal():
        raise bad_request(f'invalid resource version: resourceVersion: Invalid value: "{text[:60]}": must be a number')
    if int(text or 0) > store.version:
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        message = f"Timeout: Too large resource version: {text}, current: {store.version}"
        raise ApiFailure(504, message, details={"causes": [cause], "retryAfterSeconds": 1})
    return int(text or 0)


def selected(store: Store, request: Request, target: Target, version: int | None = None) -> list[Entry]:
    """The objects of a collection that its selectors mean, by namespace and name; as of a version where given."""
    matches = _matcher(request, target)
    if version is None or version == store.version:
        entries = store.of_kind(target.kind, target.namespace)
    else:
        entries = store.of_kind_at(target.kind, version)
    return sorted((one for one in entries if matches(one)), key=lambda one: (one.namespace, one.name))


def list_response(store: Store, request: Request, target: Target, now: float) -> Response:
    """A page of a collection."""
    limit = _number(request, "limit")
    _number(request, "timeoutSeconds")
    _check_match(request)
    version, after = store.version, None
    if token := request.query.get("continue"):
        if request.query.get("resourceVersion", "0") not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        version, after = _read_token(token, store, now)
    else:
        asked = check_not_to_come(request, store)
        if request.query.get("resourceVersionMatch") == "Exact":
            version = asked
    if not store.can_replay(version):
        raise expired(f"The resourceVersion for the provided list is too old: {version} ({store.version})")
    entries = selected(store, request, target, version)
    if after is not None:
        entries = [one for one in entries if (one.namespace, one.name) > after]
    page = entries[:limit] if limit else entries
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if len(page) < len(entries):
        meta["continue"] = _token(version, page[-1], now)
        if not request.query.get("labelSelector") and not request.query.get("fieldSelector"):
            meta["remainingItemCount"] = len(entries) - len(page)
    if tables.is_wanted(request.accept):
        shown = tables.table(target.kind, page, now, _included(request))
        shown["metadata"] = meta
        return Response(200, encode(shown))
    return _list(target.kind, page, meta)


def plain_list(kind: Kind, entries: list[Entry], version: int) -> Response:
    """A collection that is complete."""
    return _list(kind, entries, {"resourceVersion": str(version)})


def watch_response(store: Store, request: Request, target: Target, now: Callable[[], float]) -> Response:
    """The changes of a collection as they come."""
    if target.kind.is_volatile:
        raise method_not_allowed("metrics.k8s.io can not be watched")
    initial = request.flag("sendInitialEvents")
    text = request.query.get("resourceVersion", "")
    if text and not text.isdecimal():
        raise unnamed(f'resourceVersion: Invalid value: "{text[:60]}": must be a number')
    _check_match(request, is_watch=True)
    since = None if initial or text in ("", "0") else int(text)
    watch = Watch(
        store,
        target.kind,
        _matcher(request, target),
        since=since,
        initial=initial,
        bookmarks=request.flag("allowWatchBookmarks") or initial,
        timeout_seconds=min(float(_number(request, "timeoutSeconds") or _WATCH_SECONDS), _WATCH_SECONDS),
        only=_only(request, target.kind),
        render=_renderer(request, now),
    )
    return Response(200, stream=watch.events())


def _only(request: Request, kind: Kind) -> str | None:
    """The value of the kind's `watched_by` field that the selector asks for."""
    field = ".".join(kind.watched_by)
    terms = parse_field_selector(request.query.get("fieldSelector", ""))
    return next((value for path, equal, value in terms if equal and path == field), None)


def _renderer(request: Request, now: Callable[[], float]) -> Callable[[Entry], bytes]:
    if not tables.is_wanted(request.accept):
        return lambda entry: entry.raw
    include = _included(request)
    begun: list[bool] = []

    def render(entry: Entry) -> bytes:
        """Only the first row comes with its columns."""
        shown = tables.table(entry.kind, [entry], now(), include)
        if begun:
            shown["columnDefinitions"] = []
        begun.append(True)
        return encode(shown)

    return render


def _included(request: Request) -> str:
    include = request.query.get("includeObject", "")
    if include not in ("", "Metadata", "Object", "None"):
        why = "must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include[:60]}": {why}'
        )
    return include


def _matcher(request: Request, target: Target) -> Callable[[Entry], bool]:
    try:
        labels = parse_label_selector(request.query.get("labelSelector", ""))
        terms = parse_field_selector(request.query.get("fieldSelector", ""))
        fields = field_matcher(terms, target.kind.fields)
    except SelectorError as error:
        raise bad_request(str(error)) from None
    namespace = target.namespace

    def matches(entry: Entry) -> bool:
        if namespace is not None and entry.namespace != namespace:
            return False
        if labels.requirements and not labels.matches(entry.json["metadata"].get("labels") or {}):
            return False
        return fields is None or fields(entry.json)

    return matches


def _check_match(request: Request, *, is_watch: bool = False) -> None:
    """What `resourceVersionMatch` and `sendInitialEvents` ask for must go together. Raises ApiFailure."""
    match, version = request.query.get("resourceVersionMatch"), request.query.get("resourceVersion", "")
    problem = None
    if is_watch or "sendInitialEvents" in request.query:
        if "sendInitialEvents" in request.query and not is_watch:
            problem = forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list")
        elif "sendInitialEvents" in request.query and match != "NotOlderThan":
            problem = forbidden_field(
                "resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            )
        elif match and "sendInitialEvents" not in request.query:
            problem = forbidden_field(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )
    elif match and request.query.get("continue"):
        problem = forbidden_field("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
    elif match and match not in ("Exact", "NotOlderThan"):
        problem = not_supported("resourceVersionMatch", match, ["Exact", "NotOlderThan", ""])
    elif match and not version:
        problem = forbidden_field(
            "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    elif match == "Exact" and version == "0":
        problem = forbidden_field(
            "resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        )
    if problem is not None:
        raise wrong_options("ListOptions", problem)


def _list(kind: Kind, entries: list[Entry], meta: dict[str, Any]) -> Response:
    head = encode({"kind": f"{kind.resource.kind}List", "apiVersion": kind.resource.api_version, "metadata": meta})
    return Response(200, head[:-1] + b',"items":[' + b",".join(one.raw for one in entries) + b"]}")


def _token(version: int, last: Entry, now: float) -> str:
    return base64.urlsafe_b64encode(encode([version, last.namespace, last.name, now + _TOKEN_SECONDS])).decode()


def _read_token(token: str, store: Store, now: float) -> tuple[int, tuple[str, str]]:
    try:
        version, namespace, name, until = msgspec.json.decode(
            base64.urlsafe_b64decode(token.encode()), type=tuple[int, str, str, float]
        )
    except (msgspec.DecodeError, binascii.Error, ValueError):
        raise bad_request("continue key is not valid: it comes from the last page's metadata, unchanged") from None
    if now > until or not store.can_replay(version):
        raise expired(
            "The provided continue parameter is too old to display a consistent list result."
            " You can start a new list without the continue parameter."
        )
    return version, (namespace, name)


def _number(request: Request, name: str) -> int:
    text = request.query.get(name, "")
    if text and not text.removeprefix("-").isdecimal():
        raise bad_request(f"{name} must be a whole number, not {text[:40]!r}")
    return max(int(text or 0), 0)
