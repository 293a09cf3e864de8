"""The two servers of the contract, and how many cases each has stood."""

import os
import random
import uuid
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from elastipod.clock import SystemClock
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.http import serve_http
from elastipod.localcluster.api.store import Store
from tests.contract.servers import Server

_stood: Counter[str] = Counter()


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def embedded() -> AsyncGenerator[Server, None]:
    """The API server of the local cluster, a new one."""
    api = ApiServer(SystemClock(), Store(), spread=random.SystemRandom())
    listening = await serve_http(api)
    try:
        async with aiohttp.ClientSession(listening.url, headers=_bearer(listening.token)) as session:
            yield Server(session, is_real=False, namespace=f"case-{uuid.uuid4().hex[:10]}")
    finally:
        await listening.close()


@asynccontextmanager
async def real() -> AsyncGenerator[Server, None]:
    url, token = os.environ["REAL_API"].split(",")
    async with aiohttp.ClientSession(url, headers=_bearer(token)) as session:
        yield Server(session, is_real=True, namespace=f"case-{uuid.uuid4().hex[:10]}")


@pytest.fixture(params=["embedded", pytest.param("real")])
async def server(request: pytest.FixtureRequest) -> AsyncGenerator[Server, None]:
    """A server with a namespace of the test's own."""
    if request.param == "real" and "REAL_API" not in os.environ:
        pytest.skip("no real API server")
    async with {"embedded": embedded, "real": real}[request.param]() as found:
        await found.make_namespace(found.namespace)
        yield found


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    for name in ("embedded", "real"):
        if report.when == "call" and report.passed and "tests/contract" in report.nodeid and f"[{name}" in report.nodeid:
            _stood[name] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _stood:
        shown = ", ".join(f"{count} on the {name} one" for name, count in sorted(_stood.items()))
        terminalreporter.write_line(f"API server contract: cases that hold: {shown}")
