"""The owner's side of the keeper: programs started, signalled and waited for by name, each with its log.

Owns the keeper's life. What the programs are is for others to say.
"""

import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from elastipod.clock import SystemClock
from tests.kubernetes.statefolder import StateFolder

T = TypeVar("T")

_CLOCK: Final = SystemClock()
_LOOKS: Final = (0.01, 1.2, 0.25)
"""Seconds to the first look, what each pause is longer than the one before, the longest."""
_LOG_BYTES: Final = 4_000


class StartFailed(Exception):
    """A program ended, or did not get ready; the message ends with the last lines of its log."""


def wait_for(look: Callable[[], T], seconds: float, what: str, is_right: Callable[[T], bool] = bool) -> T:
    """What `look` returns once that is right. Raises TimeoutError, which tells the last state seen."""
    deadline = _CLOCK.monotonic() + seconds
    pause, growth, longest = _LOOKS
    while not is_right(found := look()):
        if _CLOCK.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}; last seen: {found!r}")
        threading.Event().wait(pause)
        pause = min(pause * growth, longest)
    return found


def processes_that_name(folder: Path) -> list[str]:
    """Command lines of all processes of this machine that name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if str(folder) in line:
                found.append(line)
    return found


class Processes:
    """What a cluster runs. All of it ends with `close`, or with the process that made this.

    Each program inherits the folder's lock and the sockets.
    """

    def __init__(
        self, folder: StateFolder, logs: Path, launcher: Sequence[str] = (), sockets: Sequence[int] = ()
    ) -> None:
        self.logs = logs
        with (logs / "keeper.log").open("ab") as log:
            self._keeper = subprocess.Popen(
                [*launcher, sys.executable, "-I", "-S", str(Path(__file__).with_name("keeper.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                pass_fds=(folder.lock, *sockets),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Of the keeper, or of the launcher that it runs under."""
        return self._keeper.pid

    def start(self, name: str, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start a program, or start it again; its output is added to `logs/NAME.log`."""
        log = self.logs / f"{name}.log"
        log.touch(0o600)
        self._ask(
            do="start",
            name=name,
            argv=list(argv),
            log=str(log),
            environment=dict(environment or {}),
        )

    def run(self, name: str, argv: Sequence[str], seconds: float = 60.0) -> str:
        """Run a program to its good end, and return what it said. Raises StartFailed."""
        log = self.logs / f"{name}.log"
        log.touch(0o600)
        before = log.stat().st_size
        self.start(name, argv)
        code = wait_for(lambda: self.code(name), seconds, f"{name} ends", lambda code: code is not None)
        if code:
            raise StartFailed(f"{name} ended with {code}; {self.tail(name)}")
        return log.read_bytes()[before:].decode("utf-8", "replace")

    def signal(self, name: str, number: int) -> None:
        self._ask(do="signal", name=name, number=int(number))

    def code(self, name: str) -> int | None:
        """How it ended, None while it runs."""
        code: int | None = self._ask(do="look", name=name)["code"]
        return code

    def stop(self, name: str, seconds: float = 10.0) -> None:
        """Ask it to end, and kill it where it does not."""
        self.signal(name, signal.SIGTERM)
        try:
            wait_for(lambda: self.code(name) is not None, seconds, f"{name} ends")
        except TimeoutError:
            self.kill(name)

    def kill(self, name: str) -> None:
        self.signal(name, signal.SIGKILL)
        wait_for(lambda: self.code(name) is not None, 10, f"{name} ends")

    def wait_ready(self, name: str, is_ready: Callable[[], bool], seconds: float) -> None:
        """Wait until it is ready. Raises StartFailed."""

        def look() -> bool:
            if (code := self.code(name)) is not None:
                raise StartFailed(f"{name} ended with {code}; {self.tail(name)}")
            return is_ready()

        try:
            wait_for(look, seconds, f"{name} is ready")
        except TimeoutError as error:
            raise StartFailed(f"{error}; {self.tail(name)}") from None

    def tail(self, name: str) -> str:
        path = self.logs / f"{name}.log"
        return f"{path} ends with:\n{path.read_bytes()[-_LOG_BYTES:].decode('utf-8', 'replace')}"

    def close(self) -> None:
        """End everything, at once."""
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.wait(30)
        self._keeper.stdout.close()

    def _ask(self, **command: Any) -> dict[str, Any]:
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        try:
            self._keeper.stdin.write(f"{json.dumps(command)}\n")
            self._keeper.stdin.flush()
        except BrokenPipeError:
            raise StartFailed(f"the keeper is gone; {self.tail('keeper')}") from None
        answer = self._keeper.stdout.readline()
        if not answer:
            raise StartFailed(f"the keeper is gone; {self.tail('keeper')}")
        found: dict[str, Any] = json.loads(answer)
        return found
