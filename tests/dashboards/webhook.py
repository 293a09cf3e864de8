"""A webhook that is asked, and serves what it counts, beside a cluster that has none.

Owns its making and what it is asked. Its certificate is of the tests' own authority.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from elastipod.kube.connection import Connection
from elastipod.loop import Health
from elastipod.serving import Serving
from tests.updater.admission.world import World, new_pod, review_json
from updater.admission.webhook import PATH


@dataclass
class Asked:
    """The webhook, and where it serves its metrics."""

    session: aiohttp.ClientSession
    webhook: str
    metrics: str

    async def ask(self) -> None:
        """About a new pod, and once for what there is not."""
        for path in (PATH, "/nothing"):
            async with self.session.post(f"{self.webhook}{path}", json=review_json(new_pod()), ssl=False) as answer:
                await answer.read()


@asynccontextmanager
async def asked_webhook(folder: Path, connection: Connection) -> AsyncIterator[Asked]:
    """A webhook that looks at the cluster behind a connection, for as long as it is needed."""
    folder.mkdir()
    world = World(folder, through=lambda _: connection, canary_namespace="default", canary_seconds=1.0)
    async with world, aiohttp.ClientSession() as session:
        serving = Serving(world.metrics, Health(60.0, 0.0), world.clock, lambda _: None)
        await serving.start("127.0.0.1", 0)
        try:
            port = world.admission.webhook.port
            yield Asked(session, f"https://127.0.0.1:{port}", f"127.0.0.1:{serving.port}")
        finally:
            await serving.stop()
