"""A real browser without a screen, that opens a page and tells what came of it.

Owns its making and its end. It is spoken to by its DevTools protocol.
"""

import asyncio
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_START_SECONDS = 30
_ANSWER_SECONDS = 20
_TROUBLE = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")


def why_no_browser() -> str:
    """Nothing where a browser can be started, else what is in the way."""
    return "" if any(shutil.which(name) for name in _NAMES) else "no Chromium is installed"


@dataclass
class Page:
    """A page that is open."""

    socket: aiohttp.ClientWebSocketResponse
    requests: list[str] = field(default_factory=list)
    """Addresses that were asked for."""
    trouble: list[Any] = field(default_factory=list)
    """What the console shows."""
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    async def call(self, method: str, **params: Any) -> Any:
        """The answer to a command; what happens before it is noted."""
        number = next(self._numbers)
        await self.socket.send_json({"id": number, "method": method, "params": params})
        while True:
            message = await self.socket.receive_json(timeout=_ANSWER_SECONDS)
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    async def value(self, script: str) -> Any:
        """What a script is worth."""
        result = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def open(self, url: str) -> None:
        """Go there, until all of it is loaded."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=url)
        loaded = "document.readyState === 'complete' ? done(1) : addEventListener('load', () => done(1))"
        await self.value(f"new Promise(done => {loaded})")

    async def looks_like(self, **features: str) -> None:
        """Have media features, as `prefers_color_scheme='dark'`."""
        named = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        await self.call("Emulation.setEmulatedMedia", features=named)

    def _note(self, message: Any) -> None:
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        elif message.get("method") in _TROUBLE:
            self.trouble.append(message["params"])


@asynccontextmanager
async def browsing() -> AsyncIterator[Page]:
    """An empty page of a new browser, for as long as it is needed."""
    program = next(found for name in _NAMES if (found := shutil.which(name)))
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as folder:
        words = ["--headless=new", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={folder}"]
        words += ["--no-sandbox"] if os.geteuid() == 0 else []
        process = await asyncio.create_subprocess_exec(
            program, *words, "about:blank", stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        try:
            address = await asyncio.wait_for(_address(process), _START_SECONDS)
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://{address}/json/list") as answer:
                    [target] = [one for one in await answer.json() if one["type"] == "page"]
                async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    yield Page(socket)
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    async for line in process.stderr:
        _, is_it, url = line.decode().partition("DevTools listening on ws://")
        if is_it:
            return url.split("/")[0]
    raise RuntimeError("the browser ended before it listened")
