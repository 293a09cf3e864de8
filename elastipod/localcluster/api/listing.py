"""How objects are read: one, a page of many, a watch.

Owns selectors on collections, pages with their continue tokens, and the choice between objects and tables.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Any, Final

import msgspec

from elastipod.localcluster.api import tables
from elastipod.localcluster.api.failures import bad_request, expired, method_not_allowed
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


def object_response(request: Request, entry: Entry, now: float, code: int = 200) -> Response:
    """One object, or its row."""
    if tables.is_wanted(request.accept):
        return Response(code, encode(tables.table(entry.kind, [entry], now, request.query.get("includeObject", ""))))
    return Response(code, entry.raw)


def selected(store: Store, request: Request, target: Target) -> list[Entry]:
    """The objects of a collection that its selectors mean, by namespace and name."""
    matches = _matcher(request, target)
    return sorted(
        (one for one in store.of_kind(target.kind, target.namespace) if matches(one)),
        key=lambda one: (one.namespace, one.name),
    )


def list_response(store: Store, request: Request, target: Target, now: float) -> Response:
    """A page of a collection."""
    limit = _number(request, "limit")
    version = store.version
    entries = selected(store, request, target)
    if token := request.query.get("continue"):
        version, after = _read_token(token, store, now)
        entries = [one for one in entries if (one.namespace, one.name) > after]
    else:
        _check_version(request, store)
    page = entries[:limit] if limit else entries
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if len(page) < len(entries):
        meta["continue"] = _token(version, page[-1], now)
        meta["remainingItemCount"] = len(entries) - len(page)
    if tables.is_wanted(request.accept):
        shown = tables.table(target.kind, page, now, request.query.get("includeObject", ""))
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
        raise bad_request(f'resourceVersion: Invalid value: "{text[:60]}": must be a number')
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
    include = request.query.get("includeObject", "")
    return lambda entry: encode(tables.table(entry.kind, [entry], now(), include))


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


def _check_version(request: Request, store: Store) -> None:
    text = request.query.get("resourceVersion", "")
    if text and not text.isdecimal():
        raise bad_request(f'resourceVersion: Invalid value: "{text[:60]}": must be a number')
    if request.query.get("resourceVersionMatch") == "Exact" and int(text or 0) != store.version:
        raise expired(f"The provided resource version {text} is no longer held: only the latest is")


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
    if text and not text.isdecimal():
        raise bad_request(f"{name} must be a whole number, not {text[:40]!r}")
    return int(text or 0)
