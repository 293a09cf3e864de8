"""What a process shows on its port: /metrics, /healthz, /readyz and /explain/NAMESPACE/POD. Read only.

Owns the HTTP answers. The facts are each part's matter.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from elastipod.clock import Clock
from elastipod.loop import Health
from elastipod.telemetry import Metrics

Explain = Callable[[str], dict[str, Any] | None]
"""Facts about the pod of a key (`namespace/name`); None where nothing is known of it."""


class Serving:
    """The process' port. `port` is what was bound (useful when 0 was asked for)."""

    def __init__(self, metrics: Metrics, health: Health, clock: Clock, explain: Explain) -> None:
        self._metrics, self._health, self._clock, self._explain = metrics, health, clock, explain
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen."""
        app = web.Application(client_max_size=1024)
        app.add_routes(
            [
                web.get("/metrics", self._show_metrics),
                web.get("/healthz", self._show_alive),
                web.get("/readyz", self._show_ready),
                web.get("/explain/{namespace}/{pod}", self._show_pod),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _show_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _show_alive(self, _: web.Request) -> web.Response:
        return _verdict(self._health.is_alive(self._clock.monotonic()), self._health.last_error)

    async def _show_ready(self, _: web.Request) -> web.Response:
        return _verdict(self._health.is_ready, self._health.last_error or "no run has ended well yet")

    async def _show_pod(self, request: web.Request) -> web.Response:
        facts = self._explain(f"{request.match_info['namespace']}/{request.match_info['pod']}")
        if facts is None:
            return web.Response(status=404, text="nothing is known of this pod here\n")
        return web.Response(body=msgspec.json.encode(facts), content_type="application/json")


def _verdict(is_well: bool, why_not: str) -> web.Response:
    return web.Response(text="ok\n") if is_well else web.Response(status=503, text=f"{why_not}\n")
