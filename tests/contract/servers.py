"""An API server as its callers see it, over HTTP: the embedded one or a real one, by the same words.

Owns the calls and what is compared of an answer. Starts no server; conftest.py does.
"""

import asyncio
import io
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from elastipod.kube.resources import LIMIT_RANGES, NAMESPACES, PODS, ResourceType
from tests.build import pod_json, running_status
from tests.contract.samples import limit_range

Json = dict[str, Any]

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
REMEMBERED: Final = 60
"""How many changes the embedded server remembers here; a real one remembers those since its start."""
_PATIENCE_SECONDS: Final = 20.0

INVALID: Final = "FieldValueInvalid"
REQUIRED: Final = "FieldValueRequired"
FORBIDDEN: Final = "FieldValueForbidden"
DUPLICATE: Final = "FieldValueDuplicate"
UNSUPPORTED: Final = "FieldValueNotSupported"
WRONG_TYPE: Final = "FieldValueTypeInvalid"
TOO_LONG: Final = "FieldValueTooLong"


@dataclass(frozen=True)
class Answer:
    """What came back: the code, the body where it is JSON, and what the headers say."""

    code: int
    json: Json
    text: str
    content_type: str
    warnings: tuple[str, ...] = ()
    retry_after: str = ""


@dataclass(frozen=True)
class Refusal:
    """A Status that says no, as far as callers rely on it."""

    code: int
    reason: str
    kind: str = ""
    name: str = ""
    causes: frozenset[tuple[str, str]] = frozenset()
    """Field and reason of each."""
    message: str = field(default="", compare=False)
    json: Json = field(default_factory=dict, compare=False, repr=False)

    def __contains__(self, words: str) -> bool:
        """Whether the message says so."""
        return words in self.message

    @property
    def fields(self) -> set[str]:
        return {place for place, _ in self.causes}


def refusal_of(status: Json) -> Refusal:
    """The Refusal that a Status is."""
    details = status.get("details") or {}
    causes = frozenset((one.get("field", ""), one.get("reason", "")) for one in details.get("causes") or ())
    return Refusal(
        status["code"],
        status.get("reason", ""),
        details.get("kind", ""),
        details.get("name", ""),
        causes,
        status.get("message", ""),
        status,
    )


def invalid(kind: str, name: str, *causes: tuple[str, str]) -> Refusal:
    """422, with a cause for each field."""
    return Refusal(422, "Invalid", kind, name, frozenset(causes))


class Watching:
    """The events of a watch as they come."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> tuple[str, Json]:
        """The type and the object of the next event."""
        line = await asyncio.wait_for(self._response.content.readuntil(b"\n"), _PATIENCE_SECONDS)
        found = json.loads(line)
        return found["type"], found["object"]

    async def names(self, count: int) -> list[tuple[str, str]]:
        """The types and names of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(kind, one["metadata"]["name"]) for kind, one in events]

    async def rest(self) -> list[tuple[str, Json]]:
        """All events until the server ends the watch."""
        text = await asyncio.wait_for(self._response.content.read(), _PATIENCE_SECONDS)
        events = [json.loads(line) for line in text.splitlines()]
        return [(one["type"], one["object"]) for one in events]


class Server:
    """One API server, and a namespace of one's own in it."""

    def __init__(self, session: aiohttp.ClientSession, *, is_real: bool, namespace: str) -> None:
        self.is_real = is_real
        self.namespace = namespace
        self._session = session

    def path(self, resource: ResourceType, name: str | None = None, subresource: str = "") -> str:
        """Where a kind lies in this test's namespace, or an object of it, or its subresource."""
        return resource.path(self.namespace, name, subresource)

    @property
    def pods(self) -> str:
        return self.path(PODS)

    def unique(self, name: str) -> str:
        """A name that no other test uses, for what lies in no namespace."""
        return f"{self.namespace}-{name}"

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        **query: str,
    ) -> Answer:
        """Ask, and take whatever comes. A body of bytes is sent as it is."""
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Accept": accept}
        if body is not None and content_type:
            headers["Content-Type"] = content_type
        skip = () if content_type else ("Content-Type",)
        data = io.BytesIO(raw) if raw and len(raw) > 1_000_000 else raw
        async with self._session.request(
            method, path, data=data, params=query, headers=headers, ssl=False, skip_auto_headers=skip
        ) as answer:
            text = await answer.text()
            is_json = answer.content_type == JSON
            return Answer(
                answer.status,
                json.loads(text) if is_json else {},
                text,
                answer.headers.get("Content-Type", ""),
                tuple(answer.headers.getall("Warning", ())),
                answer.headers.get("Retry-After", ""),
            )

    async def done(self, code: int, method: str, path: str, body: Any = None, **more: Any) -> Json:
        """The object of an answer that must have this code."""
        answer = await self.call(method, path, body, **more)
        assert answer.code == code, answer.text
        return answer.json

    async def get(self, path: str, **more: Any) -> Json:
        return await self.done(200, "GET", path, **more)

    async def post(self, path: str, body: Any, **more: Any) -> Json:
        return await self.done(201, "POST", path, body, **more)

    async def put(self, path: str, body: Any, **more: Any) -> Json:
        return await self.done(200, "PUT", path, body, **more)

    async def patch(self, path: str, body: Any, content_type: str = STRATEGIC, **more: Any) -> Json:
        return await self.done(200, "PATCH", path, body, content_type=content_type, **more)

    async def delete(self, path: str, body: Any = None, **more: Any) -> Json:
        return await self.done(200, "DELETE", path, body, **more)

    async def refused(self, method: str, path: str, body: Any = None, **more: Any) -> Refusal:
        """The Status of an answer that must be a refusal."""
        answer = await self.call(method, path, body, **more)
        assert answer.code >= 400, answer.text
        status = answer.json
        assert (status.get("kind"), status.get("apiVersion"), status.get("status")) == ("Status", "v1", "Failure"), (
            answer
        )
        assert status["code"] == answer.code
        return refusal_of(status)

    async def names(self, path: str, **more: Any) -> list[str]:
        """The names that a list holds, in its order."""
        return [one["metadata"]["name"] for one in (await self.get(path, **more))["items"]]

    @asynccontextmanager
    async def watch(self, path: str, *, accept: str = JSON, **query: str) -> AsyncGenerator[Watching, None]:
        """A watch that has begun."""
        params = {"watch": "true", **query}
        async with self._session.get(path, params=params, headers={"Accept": accept}, ssl=False) as response:
            assert response.status == 200, await response.text()
            try:
                yield Watching(response)
            finally:
                # A stream that is left is cut, or its end would outlive the test.
                if response.connection is not None and response.connection.transport is not None:
                    response.connection.transport.abort()

    async def make_namespace(self, name: str) -> None:
        """A namespace in which pods can be made at once."""
        await self.post(NAMESPACES.path(), {"metadata": {"name": name}})
        if self.is_real:
            # No controller makes it here.
            await self.post(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})

    async def make_pod(self, name: str = "web-0", **pod: Any) -> Json:
        """A pod in this test's namespace."""
        return await self.post(self.pods, pod_json(name, self.namespace, **pod))

    async def make_running_pod(self, name: str = "web-0", **pod: Any) -> Json:
        """A pod whose node says that all its containers run with what the spec asks for."""
        made = await self.make_pod(name, **pod)
        return await self.set_status(self.path(PODS, name), running_status(made))

    async def limit(self, *, kind: str = "Container", **amounts: Any) -> None:
        """A LimitRange that holds from here on."""
        made = limit_range(self.namespace, kind=kind, **amounts)
        if not self.is_real:
            await self.post(self.path(LIMIT_RANGES), made)
            return
        # A real server's admission sees a new one a moment later. Whether it has is asked with a claim that is too big.
        made["spec"]["limits"].append({"type": "PersistentVolumeClaim", "max": {"storage": "1"}})
        await self.post(self.path(LIMIT_RANGES), made)
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2"}}}
        claims = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                answer = await self.call("POST", claims, {"metadata": {"name": "big"}, "spec": claim}, dryRun="All")
                if answer.code == 403:
                    return
                assert answer.code == 201, answer.text

    async def set_status(self, path: str, status: Json) -> Json:
        """What a node or controller would report."""
        return await self.patch(f"{path}/status", {"status": status}, MERGE)
