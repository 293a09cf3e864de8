"""The two servers of the contract, and how many cases each has stood."""

import os
import random
import uuid
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager

import aiohttp
import pytest

from elastipod.clock import SystemClock
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.http import serve_http
from elastipod.localcluster.api.store import Store
from tests.contract.real import Place, shared_server
from tests.contract.servers import REMEMBERED, Server

_stood: Counter[str] = Counter()
_ending = ExitStack()


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _new_namespace() -> str:
    return f"case-{uuid.uuid4().hex[:10]}"


@asynccontextmanager
async def embedded() -> AsyncGenerator[Server, None]:
    """The API server of the local cluster, a new one."""
    api = ApiServer(SystemClock(), Store(remembered_changes=REMEMBERED), spread=random.SystemRandom())
    listening = await serve_http(api)
    try:
        async with aiohttp.ClientSession(listening.url, headers=_bearer(listening.token)) as session:
            yield Server(session, is_real=False, namespace=_new_namespace())
    finally:
        await listening.close()


@pytest.fixture(scope="session")
def real_place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The real API server of this run; its end waits for all workers, so it is none of a test's time."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "contract"
    folder.mkdir(exist_ok=True)
    return _ending.enter_context(shared_server(folder))


def pytest_sessionfinish() -> None:
    _ending.close()


@asynccontextmanager
async def real(place: Place) -> AsyncGenerator[Server, None]:
    """The real one, with room for this test alone."""
    async with aiohttp.ClientSession(place.url, headers=_bearer(place.token)) as session:
        yield Server(session, is_real=True, namespace=_new_namespace())


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.apiserver)])
async def server(request: pytest.FixtureRequest) -> AsyncGenerator[Server, None]:
    """A server with a namespace of the test's own."""
    asked = embedded() if request.param == "embedded" else real(request.getfixturevalue("real_place"))
    async with asked as found:
        await found.make_namespace(found.namespace)
        request.node.user_properties.append(("api server", request.param))
        yield found


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        _stood.update(str(value) for name, value in report.user_properties if name == "api server")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _stood:
        shown = ", ".join(f"{count} {name}" for name, count in sorted(_stood.items()))
        terminalreporter.write_line(f"API server contract, cases that hold: {shown}")
