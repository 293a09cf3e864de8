"""What is kept on disk of the runs of real containers.

Owns the files: `pods/<uid>/sandbox.json`, per run a folder with the shim's `spec.json`, our `run.json` and the shim's
`exit.json`, and the log beside it. A later process of the cluster finds everything here.
"""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from elastipod.localcluster.node.runtime import ContainerSpec, Sandbox
from elastipod.pods import QosClass

_UID: Final = re.compile(r"[0-9a-fA-F-]{1,64}")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class ShimSpec(Struct, rename="camel"):
    """What a shim is told."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    working_folder: str
    log: str


class RunFile(Struct, rename="camel"):
    """What is remembered of a run."""

    container: str
    container_id: str
    attempt: int
    shim_id: int
    shim_started: int
    """Clock ticks after boot, so that a process id used again is not taken for the shim."""
    process_id: int
    started_at: float


class ExitFile(Struct, rename="camel"):
    """How a run ended, in the shim's words."""

    exit_code: int
    signal: int
    problem: str


class _SandboxFile(Struct, rename="camel"):
    uid: str
    namespace: str
    name: str
    qos_class: QosClass


class RunFolders:
    """The folder of all pods of one node."""

    def __init__(self, folder: Path) -> None:
        self._pods = folder / "pods"

    def prepare(self, spec: ContainerSpec) -> Path:
        """Make the folder of a run, and say in it what to run. Raises OSError, ValueError."""
        sandbox = spec.sandbox
        folder = self.of_run(sandbox, spec.name, spec.attempt)
        work = self.of_pod(sandbox) / "work"
        for needed in (folder, work):
            needed.mkdir(mode=0o700, parents=True, exist_ok=True)
        for stale in ("run.json", "exit.json"):
            (folder / stale).unlink(missing_ok=True)
        told = _SandboxFile(sandbox.uid, sandbox.namespace, sandbox.name, sandbox.qos_class)
        _write(self.of_pod(sandbox) / "sandbox.json", msgspec.json.encode(told))
        shim = ShimSpec(spec.argv, dict(spec.environment), spec.working_folder or str(work), str(self.log_path(spec)))
        _write(folder / "spec.json", msgspec.json.encode(shim))
        return folder

    def note(self, spec: ContainerSpec, run: RunFile) -> None:
        """Remember a run, before it begins."""
        _write(self.of_run(spec.sandbox, spec.name, spec.attempt) / "run.json", msgspec.json.encode(run))

    def runs(self) -> Iterator[tuple[Sandbox, RunFile, Path]]:
        """All runs that are remembered; files that can not be read are left out."""
        for path in sorted(self._pods.glob("*/*/run.json")):
            try:
                told = msgspec.json.decode((path.parent.parent / "sandbox.json").read_bytes(), type=_SandboxFile)
                run = msgspec.json.decode(path.read_bytes(), type=RunFile)
            except (OSError, msgspec.DecodeError):
                continue
            yield Sandbox(told.uid, told.namespace, told.name, told.qos_class), run, path.parent

    def keep_only(self, pod_uids: set[str]) -> None:
        """Remove the folders of all other pods."""
        for path in self._pods.glob("*"):
            if path.name not in pod_uids:
                shutil.rmtree(path, ignore_errors=True)

    def remove_run(self, sandbox: Sandbox, container: str, attempt: int) -> None:
        """Remove what is kept of one run, its log too."""
        if attempt >= 0:
            shutil.rmtree(self.of_run(sandbox, container, attempt), ignore_errors=True)
            self.log_of(sandbox, container, attempt).unlink(missing_ok=True)

    def of_pod(self, sandbox: Sandbox) -> Path:
        if not _UID.fullmatch(sandbox.uid):
            raise ValueError(f"{sandbox.uid!r} is no pod UID")
        return self._pods / sandbox.uid

    def of_run(self, sandbox: Sandbox, container: str, attempt: int) -> Path:
        if not _NAME.fullmatch(container):
            raise ValueError(f"{container!r} is no container name")
        return self.of_pod(sandbox) / f"{container}-{attempt}"

    def log_path(self, spec: ContainerSpec) -> Path:
        return self.log_of(spec.sandbox, spec.name, spec.attempt)

    def log_of(self, sandbox: Sandbox, container: str, attempt: int) -> Path:
        folder = self.of_run(sandbox, container, attempt)
        return folder.with_name(f"{folder.name}.log")

    def remove_pod(self, sandbox: Sandbox) -> None:
        shutil.rmtree(self.of_pod(sandbox), ignore_errors=True)


def exit_of(folder: Path) -> tuple[ExitFile, float] | None:
    """How and when a run ended; None while it has not."""
    path = folder / "exit.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=ExitFile), path.stat().st_mtime
    except (OSError, msgspec.DecodeError):
        return None


def started_ticks(pid: int) -> int | None:
    """When a process began, in clock ticks after boot (proc(5), stat field 22); None where it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = text.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}")
    with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600)) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
