"""A real cluster to play with: `python -m tests.kubernetes up [--level 2|3|4]`, until Ctrl-C or `down`."""

import argparse
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path

from tests.kubernetes.apiserver import ApiServer
from tests.kubernetes.binaries import Missing
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.processes import StartFailed
from tests.kubernetes.statefolder import PREFIX, TooLong, left_behind
from tests.kubernetes.vm import VmCluster
from tests.node.debian import NoMachine

LEVELS: dict[int, type[ApiServer]] = {2: ApiServer, 3: Cluster, 4: VmCluster}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="start one, and stay until interrupted")
    up.add_argument(
        "--level",
        type=int,
        choices=sorted(LEVELS),
        default=2,
        help="2 API server, 3 with a node, 4 with a node in a VM",
    )
    up.add_argument("--logs", type=Path, help="a folder for the logs, kept")
    up.add_argument(
        "--image", type=Path, action="append", default=[], help="an archive for its node; with levels 3 and 4"
    )
    up.add_argument("--metrics", action="store_true", help="metrics-server beside it; with levels 3 and 4")
    verbs.add_parser("down", help="end all that `up` started")
    asked = parser.parse_args()
    return _up(asked) if asked.verb == "up" else _down()


def _up(asked: argparse.Namespace) -> int:
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        with LEVELS[asked.level](asked.logs) as cluster:
            owner = cluster.control_plane.folder / "owner"
            owner.write_text(str(os.getpid()))
            if isinstance(cluster, Cluster):
                _furnish(cluster, asked.image, metrics=asked.metrics)
            print(f"export KUBECONFIG={cluster.kubeconfig}", flush=True)
            print(f"logs in {cluster.logs}; Ctrl-C ends it", file=sys.stderr)
            ended.wait()
    except (Missing, NoMachine, StartFailed, TooLong) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _furnish(cluster: Cluster, images: list[Path], *, metrics: bool) -> None:
    for archive in images:
        cluster.import_image(archive)
    if metrics:
        cluster.start_metrics()


def _down() -> int:
    dead = left_behind()
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/owner"):
        if path.parent not in dead and path.stat().st_uid == os.geteuid():
            os.kill(int(path.read_text()), signal.SIGTERM)
            print(f"ended {path.parent.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
