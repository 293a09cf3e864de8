"""An actuator whose node has many containers, and nothing happens to them: what that costs.

Owns the node's groups and the API server that tells of their pods.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from actuator.nodehands import NodeHands
from bench.figures import Figures
from elastipod.localcluster.node.hands import GroupLimits
from elastipod.minutes import MINUTE_SECONDS

MIB = 1024 * 1024
LIMIT = 64 * MIB
CONTAINERS = 500
IDLE_SECONDS = 20.0


@contextmanager
def idle_node(parent: str) -> Iterator[list[bytes]]:
    """A real tree of 500 containers: the pods that the API tells of them."""
    hands = NodeHands(parent=parent)
    pods: list[bytes] = []
    try:
        for number in range(CONTAINERS):
            uid = f"{number:08x}-0000-4000-8000-000000000000"
            identity = f"{number:064x}"
            group = f"kubepods/burstable/pod{uid}/{identity}"
            hands.create(group)
            for one in (group.rpartition("/")[0], group):
                hands.apply(one, GroupLimits(100, None, LIMIT))
            pods.append(pod_body(number, uid, identity))
        yield pods
    finally:
        hands.remove_parent()


def pod_body(number: int, uid: str, identity: str) -> bytes:
    sizes = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}}
    return msgspec.json.encode(
        {
            "metadata": {"name": f"p{number}", "namespace": "default", "uid": uid, "resourceVersion": str(number + 1)},
            "spec": {"nodeName": "bench", "containers": [{"name": "c", "resources": sizes}]},
            "status": {
                "phase": "Running",
                "qosClass": "Burstable",
                "containerStatuses": [
                    {"name": "c", "ready": True, "containerID": f"containerd://{identity}",
                     "state": {"running": {"startedAt": "2026-11-29T12:00:00Z"}}, "resources": sizes}
                ],
            },
        }
    )  # fmt: skip


def serve(pods: list[bytes]) -> tuple[subprocess.Popen[bytes], int]:
    """An API server that knows these pods and nothing else, in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.podserver"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path.cwd()
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n".join(pods) + b"\n")
    process.stdin.close()
    return process, int(process.stdout.readline())


def cpu_seconds(pid: int) -> float:
    """From the scheduler: ticks would count a thread that wakes by the timer for the whole of a tick."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text("ascii").split()[0]) for task in tasks) / 1e9


def memory_bytes(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def idle(figures: Figures, parent: str, sample_seconds: float = 0.0) -> None:
    how = f"{CONTAINERS} containers" + (f", read every {sample_seconds:g} s" if sample_seconds else "")
    with tempfile.TemporaryDirectory() as folder, idle_node(parent) as pods:
        server, port = serve(pods)
        config = Path(folder, "kubeconfig")
        config.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "b", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                    "contexts": [{"name": "b", "context": {"cluster": "b", "user": ""}}],
                    "current-context": "b",
                }
            )
        )
        argv = [sys.executable, "-m", "actuator", "--kubeconfig", str(config), "--node-name", "bench"]
        argv += ["--cgroup-parent", parent, "--state-folder", folder, "--log-level", "warning"]
        argv += ["--sample-seconds", str(sample_seconds)]
        process = subprocess.Popen(argv)
        try:
            wait_until_all_watched(process.pid)
            before, at = cpu_seconds(process.pid), time.perf_counter()
            time.sleep(MINUTE_SECONDS if sample_seconds else IDLE_SECONDS)
            share = 100 * (cpu_seconds(process.pid) - before) / (time.perf_counter() - at)
            figures.show(f"idle with {how}", share, "% of a core", 0.5)
            rss = memory_bytes(process.pid, "Rss") / MIB
            private = memory_bytes(process.pid, "Anonymous") / MIB
            print(f"of its memory {private:.1f} MiB are its own, the rest are libraries' files")
            figures.show(f"memory with {how}", rss, "MiB", 40.0, floor=bare(), of="a bare interpreter")
        finally:
            process.terminate()
            process.wait(30)
            server.terminate()
            server.wait(10)


def wait_until_all_watched(pid: int) -> None:
    """Until the marks are armed: the number of open files stands still."""
    deadline, last, since = time.perf_counter() + 120, 0, time.perf_counter()
    while time.perf_counter() < deadline:
        count = len(os.listdir(f"/proc/{pid}/fd"))
        if count != last:
            last, since = count, time.perf_counter()
        elif count > CONTAINERS and time.perf_counter() - since > 5:
            return
        time.sleep(0.5)


def bare() -> float:
    out = subprocess.run(
        [sys.executable, "-c", "print(open('/proc/self/statm').read().split()[1])"], capture_output=True, check=True
    ).stdout
    return int(out) * resource.getpagesize() / MIB
