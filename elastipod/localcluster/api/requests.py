"""What is asked of the API server and what it answers, apart from how it travels.

Owns the request, the response, and which object a path means.
"""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from elastipod.localcluster.api.failures import ApiFailure
from elastipod.localcluster.api.kinds import Kind, kind_at

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
JSON: Final = "application/json"
encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Request:
    """One call. Header names are lower case."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    headers: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    body: bytes = b""
    user: str = ""

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def accept(self) -> str:
        return self.headers.get("accept", "")

    def flag(self, name: str) -> bool:
        """Whether a query parameter is set to true."""
        return self.query.get(name, "") in ("true", "1", "True")


@dataclass(frozen=True, slots=True)
class Response:
    """One answer: a body, or a stream of pieces."""

    code: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    warnings: Sequence[str] = ()
    stream: AsyncGenerator[bytes, None] | None = None


def accepts_json(accept: str) -> bool:
    """Whether JSON, as objects or as tables, is among what a caller takes."""
    return not accept or any(one.partition(";")[0].strip() in (JSON, "*/*") for one in accept.split(","))


def answer(json: Mapping[str, Any], code: int = 200) -> Response:
    """A JSON answer."""
    return Response(code, encode(json))


def failure_response(failure: ApiFailure) -> Response:
    """The answer that a failure is."""
    details = failure.details or {}
    wait = details.get("retryAfterSeconds")
    return Response(failure.code, encode(failure.status()), headers={"Retry-After": str(wait)} if wait else NOTHING)


@dataclass(frozen=True, slots=True)
class Target:
    """What a path means: a collection (no name), an object, or a subresource."""

    kind: Kind
    namespace: str | None
    name: str
    subresource: str

    @property
    def place(self) -> str:
        """The namespace as the store has it: empty for cluster-scoped kinds."""
        return self.namespace or ""


_PATH: Final = re.compile(
    r"/(?:api/(?P<core>[^/]+)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<subresource>[^/]+))?)?/?"
)
_NAMESPACE_PATH: Final = re.compile(r"/api/v1/namespaces(?:/(?P<name>[^/]+)(?:/(?P<subresource>status))?)?/?")


@lru_cache(maxsize=16_384)
def target_of(path: str) -> Target | None:
    """The target of a path, or none where nothing is served there."""
    if match := _NAMESPACE_PATH.fullmatch(path):
        kind, namespace = kind_at("", "v1", "namespaces"), None
    elif match := _PATH.fullmatch(path):
        kind = kind_at(match["group"] or "", match["version"] or match["core"], match["plural"])
        namespace = unquote(match["namespace"]) if match["namespace"] else None
    else:
        return None
    if kind is None:
        return None
    name, subresource = unquote(match["name"] or ""), match["subresource"] or ""
    if kind.resource.namespaced == (namespace is None) and (name or not kind.resource.namespaced):
        return None
    if subresource and subresource not in kind.subresources:
        return None
    return Target(kind, namespace, name, subresource)
