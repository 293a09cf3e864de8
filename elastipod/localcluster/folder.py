"""A local cluster's folder: by whom it is held, what it tells, and the kubeconfig that leads to it.

Owns its files but those of the objects, the nodes and the parts. Only who started the cluster can read them.
"""

import base64
import contextlib
import fcntl
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import yaml

if TYPE_CHECKING:
    from elastipod.localcluster.api.http import HttpServer

_FACTS: Final = "cluster.json"
_LOCK: Final = "lock"
KUBECONFIG: Final = "kubeconfig"


class ClusterError(Exception):
    """A local cluster that can not be; the message says why and what to do."""


class ClusterFacts(msgspec.Struct, rename="camel"):
    """What a running cluster tells those who look into its folder."""

    name: str
    pid: int
    url: str
    kubeconfig: str
    enforcement: str
    why: str = ""
    """Why it is not enforced by cgroups, where it is not."""
    nodes: list[str] = []
    simulated: bool = False


def kubeconfig(name: str, server: "HttpServer") -> str:
    """A kubeconfig with one context, `elastipod-<name>`; who can read it may do all that the cluster can."""
    context = f"elastipod-{name}"
    authority = base64.b64encode(server.certificate.encode()).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": context, "cluster": {"server": server.url, "certificate-authority-data": authority}}],
            "users": [{"name": context, "user": {"token": server.token}}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": context, "namespace": "default"}}],
            "current-context": context,
        },
        sort_keys=False,
    )


def write_kubeconfig(folder: Path, name: str, server: "HttpServer") -> None:
    """Lead those who can read the folder to the server."""
    _write_private(folder / KUBECONFIG, kubeconfig(name, server))


def take_lock(folder: Path) -> int:
    """The lock that says that a cluster runs in this folder; held while the descriptor is open. Raises ClusterError."""
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ClusterError(f"a cluster runs in {folder} already") from None
    os.truncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor


def running_pid(folder: Path) -> int | None:
    """The process of the cluster that runs in this folder; None where none does."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        text = os.pread(descriptor, 20, 0)
        return int(text) if text.isdigit() else 0
    finally:
        os.close(descriptor)
    return None


def write_facts(folder: Path, facts: ClusterFacts) -> None:
    """Say that the cluster is ready."""
    _write_private(folder / _FACTS, msgspec.json.encode(facts).decode())


def read_facts(folder: Path) -> ClusterFacts | None:
    """What the cluster in this folder told last."""
    try:
        return msgspec.json.decode((folder / _FACTS).read_bytes(), type=ClusterFacts)
    except (OSError, msgspec.DecodeError):
        return None


def remove_folder(folder: Path) -> None:
    """All that a cluster kept; the lock goes last."""
    for path in sorted(folder.iterdir(), key=lambda one: one.name == _LOCK):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def last_port(folder: Path) -> int:
    """Where the last cluster of this folder listened; 0 where there was none."""
    facts = read_facts(folder)
    port = facts.url.rpartition(":")[2] if facts is not None else ""
    return int(port) if port.isdigit() else 0


def _write_private(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with open(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
