"""A real API server on loopback: etcd and kube-apiserver, started in seconds, by anyone.

Owns its life, and the hands tests have on it: `calls`, `connection`, `kubectl`, `helm`, the audit log. It has no
controllers; fakenodes.py gives it nodes.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from elastipod.kube.access import load_access
from elastipod.kube.http import HttpConnection
from tests.kubernetes import binaries
from tests.kubernetes.calls import Calls
from tests.kubernetes.certificates import Authority, why_no_certificates
from tests.kubernetes.controlplane import ADMIN, ControlPlane
from tests.kubernetes.processes import Processes, StartFailed
from tests.kubernetes.statefolder import StateFolder, left_behind

_COMMAND_SECONDS: Final = 120.0


class CommandFailed(Exception):
    """A program ended with another code than zero; the message is what it said."""


@dataclass(frozen=True, slots=True)
class Audited:
    """One request that the API server answered."""

    user: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int


def why_no_apiserver() -> str:
    """Nothing where a real API server can be started, else what is in the way."""
    return binaries.why_missing("etcd", "kube-apiserver") or why_no_certificates()


class ApiServer:
    """As a context manager, running between enter and exit. Logs are kept where `logs` names a folder."""

    control_plane: ControlPlane
    calls: Calls
    """As the administrator."""
    kubeconfig: Path
    """The administrator's."""

    def __init__(self, logs: Path | None = None) -> None:
        self.logs = logs or Path(tempfile.mkdtemp(prefix="elastipod-logs-"))
        self.logs.mkdir(parents=True, exist_ok=True)
        self._keeps_logs = logs is not None
        self._ending = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Start. Raises StartFailed or binaries.Missing, and leaves nothing but its logs."""
        with contextlib.ExitStack() as ending:
            try:
                self.start(ending)
            except TimeoutError as error:
                raise StartFailed(f"{error}; logs in {self.logs}") from None
            self._ending = ending.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.close()
        if not self._keeps_logs and kind is None:
            shutil.rmtree(self.logs)

    def start(self, ending: contextlib.ExitStack) -> None:
        """Start everything, each with its end."""
        for path in left_behind():
            shutil.rmtree(path, ignore_errors=True)
        folder = StateFolder()
        ending.callback(folder.remove)
        # The port is ours from here on; the API server shares it.
        reserved = ending.enter_context(socket.socket())
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        processes = Processes(folder, self.logs)
        ending.callback(processes.close)
        authority = Authority(folder.path / "pki")
        outside = f"https://127.0.0.1:{port}"
        self.control_plane = ControlPlane(folder.path, processes, authority, "127.0.0.1", port, outside)
        self.control_plane.start()
        self.open_for_tests(ending)
        self.make_namespace("default")

    def open_for_tests(self, ending: contextlib.ExitStack) -> None:
        """What tests reach it with."""
        plane = self.control_plane
        self.kubeconfig = plane.kubeconfig(ADMIN, plane.outside)
        self.calls = Calls(plane.outside, plane.authority.certificate, plane.token(ADMIN))
        ending.callback(self.calls.close)

    def connection(self) -> HttpConnection:
        """The project's own, as the administrator; its caller closes it."""
        return HttpConnection(load_access(str(self.kubeconfig), None, {}))

    def kubectl(self, *argv: str, stdin: str = "") -> str:
        """What kubectl says, as the administrator. Raises CommandFailed."""
        return self._run(str(binaries.kubectl()), *argv, stdin=stdin)

    def helm(self, *argv: str, stdin: str = "") -> str:
        """What helm says, as the administrator. Raises CommandFailed or binaries.Missing."""
        return self._run(str(binaries.find("helm")), *argv, stdin=stdin)

    def make_namespace(self, name: str) -> None:
        """A namespace in which pods can be made at once; no controller makes its service account here."""
        accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
        for path, made in (("/api/v1/namespaces", name), (accounts, "default")):
            code, json = self.calls.call("POST", path, {"metadata": {"name": made}})
            assert code in (201, 409), json

    def audited(self, user: str = "") -> list[Audited]:
        """What was asked so far, of one user where given."""
        # What is being written ends without a line break.
        lines = self.control_plane.audit_log.read_bytes().rpartition(b"\n")[0].splitlines()
        found = [_audited(msgspec.json.decode(line)) for line in lines]
        return [one for one in found if not user or one.user == user]

    def _run(self, *argv: str, stdin: str) -> str:
        home = str(self.control_plane.folder)
        done = subprocess.run(
            argv,
            check=False,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            env=os.environ | {"KUBECONFIG": str(self.kubeconfig), "HOME": home},
        )
        if done.returncode:
            raise CommandFailed(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr}{done.stdout}")
        return done.stdout


def _audited(line: dict[str, Any]) -> Audited:
    what = line.get("objectRef", {})
    return Audited(
        # The impersonated user is the one whose rights counted.
        user=line.get("impersonatedUser", line["user"])["username"],
        verb=line["verb"],
        group=what.get("apiGroup", ""),
        resource=what.get("resource", ""),
        subresource=what.get("subresource", ""),
        namespace=what.get("namespace", ""),
        name=what.get("name", ""),
        code=line.get("responseStatus", {}).get("code", 0),
    )
