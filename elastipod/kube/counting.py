"""Requests to the API server, counted by what was asked and how it ended.

Owns these metrics. Passes everything on as it is.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import cache

from elastipod.clock import Clock
from elastipod.kube.calls import Call, InterceptedConnection
from elastipod.kube.connection import Connection
from elastipod.kube.errors import KubeError, StatusError
from elastipod.telemetry import Metrics


class CountedConnection(InterceptedConnection):
    """A connection that tells in metrics what it is used for."""

    def __init__(self, inner: Connection, clock: Clock, metrics: Metrics) -> None:
        super().__init__(inner)
        self._clock = clock
        self._requests = metrics.counter(
            "api_requests",
            "Requests to the API server by verb, kind and HTTP status: 2xx, the code of a refusal, or none where no "
            "answer came",
            *("verb", "resource", "code"),
        )
        self._seconds = metrics.histogram(
            "api_request_seconds",
            "Seconds until the API server had answered whole; watches, which stay open, are not in it",
            "verb",
            buckets=(0.005, 0.02, 0.05, 0.1, 0.5, 1, 5, 30),
        )
        # To look one up by its labels costs more than to count.
        self._of_requests = cache(self._requests.labels)
        self._of_verbs = cache(self._seconds.labels)

    async def handle(self, call: Call) -> bytes:
        began_at = self._clock.monotonic()
        try:
            answer = await super().handle(call)
        except KubeError as error:
            self._count(call, _code(error))
            raise
        self._count(call, "2xx")
        self._of_verbs(call.verb.value).observe(self._clock.monotonic() - began_at)
        return answer

    async def handle_watch(self, call: Call) -> AsyncGenerator[bytes, None]:
        code = "2xx"
        try:
            async with aclosing(super().handle_watch(call)) as lines:
                async for line in lines:
                    yield line
        except KubeError as error:
            code = _code(error)
            raise
        finally:
            self._count(call, code)

    def _count(self, call: Call, code: str) -> None:
        kind = f"{call.resource.plural}/{call.subresource}" if call.subresource else call.resource.plural
        self._of_requests(call.verb.value, kind, code).inc()


def _code(error: KubeError) -> str:
    return str(error.code) if isinstance(error, StatusError) else "none"
