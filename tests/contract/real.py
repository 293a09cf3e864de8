"""A real API server with our kinds, one for all workers of a test run.

Owns who starts it (the first that asks) and when it ends (when the last has no more questions).
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from elastipod.kube.resources import AUTOSCALERS
from tests.kubernetes.apiserver import ApiServer
from tests.kubernetes.controlplane import ADMIN

CRDS: Final = Path(__file__).parents[2] / "charts" / "elastipod" / "definitions"


@dataclass(frozen=True)
class Place:
    """Where a server is, and what it wants to hear."""

    url: str
    token: str


@contextmanager
def shared_server(folder: Path) -> Iterator[Place]:
    """The server of this folder, started where nobody has; the folder is the same for all workers of a run."""
    users = os.open(folder / "users", os.O_RDWR | os.O_CREAT)
    starting = os.open(folder / "starting", os.O_RDWR | os.O_CREAT)
    told = folder / "place.json"
    try:
        fcntl.flock(starting, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_SH)
        if told.exists():
            fcntl.flock(starting, fcntl.LOCK_UN)
            yield Place(**json.loads(told.read_text()))
            return
        with ApiServer(folder / "logs") as server:
            place = _with_our_kinds(server)
            told.write_text(json.dumps(asdict(place)))
            fcntl.flock(starting, fcntl.LOCK_UN)
            yield place
            # Nobody comes in any more, and everybody else has let go.
            fcntl.flock(starting, fcntl.LOCK_EX)
            fcntl.flock(users, fcntl.LOCK_EX)
            told.unlink()
    finally:
        os.close(users)
        os.close(starting)


def _with_our_kinds(server: ApiServer) -> Place:
    server.kubectl("apply", "--server-side", "-f", str(CRDS))
    server.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRDS))
    # The first watch of a kind is put off until the server has read what there is of it; kubectl asks again.
    server.kubectl("get", "--raw", f"{AUTOSCALERS.path()}?watch=true&timeoutSeconds=1")
    return Place(server.control_plane.outside, server.control_plane.token(ADMIN))
