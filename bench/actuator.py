"""The actuator on this machine's own cgroups: how quick it is, what it saves, what it costs when nothing happens."""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from actuator.budget import NodeBudget
from actuator.cgroupfs import NoCgroups
from actuator.cgrouptree import CgroupTree
from actuator.kernelmemory import KernelMemory
from actuator.memory import Target
from actuator.nodehands import NodeHands
from actuator.outcomes import Outcome, Watched
from actuator.spikerules import SpikeRules, gap_v1
from actuator.watcher import Watcher
from bench.figures import Figures
from elastipod.clock import SystemClock
from elastipod.localcluster.node.hands import GroupLimits
from elastipod.minutes import MINUTE_SECONDS

MIB = 1024 * 1024
LIMIT = 64 * MIB
LEAP = 160 * MIB
SPIKES = 100
CONTAINERS = 500
IDLE_SECONDS = 20.0
SAMPLE_SECONDS = 10.0
PARENT = f"elastipod-bench-{os.getpid()}"

# The program itself sees when it passes the mark and when its limit is another: no third process disturbs.
SPIKER = """
import json, mmap, os, sys, time
usage, limit = (os.open(path, os.O_RDONLY) for path in sys.argv[1:3])
mark, leap, measured = int(sys.argv[3]), int(sys.argv[4]), sys.argv[5] == "measured"
memory = mmap.mmap(-1, leap)
sys.stdin.readline()
first, before = os.pread(limit, 64, 0), time.perf_counter()
passed = raised = None
chunk = 65536
block = b"A" * chunk
for at in range(0, leap, chunk):
    memory[at : at + chunk] = block
    if measured and raised is None:
        now = time.perf_counter()
        if passed is None and int(os.pread(usage, 64, 0)) >= mark:
            passed = now
        if passed is not None and os.pread(limit, 64, 0) != first:
            raised = time.perf_counter()
            # What is measured is over; the rest runs at full speed.
print(json.dumps([None if raised is None else raised - passed, time.perf_counter() - before]))
"""


def why_not() -> str:
    """Why nothing can be measured here; empty where it can."""
    if os.geteuid() != 0:
        return "not root: a cgroup of one's own can not be made"
    try:
        fs = CgroupTree(parent=PARENT)
        fs.create("probe")
        fs.remove_parent()
    except (NoCgroups, OSError) as error:
        return str(error)
    return "" if fs.version == 1 else "cgroup v2 here; its figures come from `make vm` (tests/node)"


class Bench:
    """Groups below one parent, and a watcher."""

    def __init__(self) -> None:
        self.hands = NodeHands(parent=PARENT)
        self.watcher = Watcher(
            KernelMemory(self.hands), SpikeRules(most_rescues=1000), NodeBudget(100 * MIB), SystemClock(), None
        )
        self.watched = threading.Event()
        self.watcher.on_outcome = self._outcome
        self.watcher.start()

    def _outcome(self, _key: str, outcome: Outcome) -> None:
        if isinstance(outcome, Watched):
            self.watched.set()

    def spike(self, number: int, *, measured: bool, protected: bool = True) -> tuple[int, float | None, float]:
        """One program that leaps: its exit code, seconds from the mark to the raised limit, seconds in all."""
        pod, group = f"kubepods/burstable/pod{number}", f"kubepods/burstable/pod{number}/c"
        self.hands.create(group)
        for one in (pod, group):
            self.hands.apply(one, GroupLimits(100, None, LIMIT))
        key = f"{number}/c/c"
        if protected:
            self.watched.clear()
            self.watcher.add(Target(key, str(number), "c", "c", pod, group, LIMIT, 8 * LIMIT, LIMIT, 5.0))
            self.watched.wait(5.0)
            while not self.watcher.is_armed(key):
                time.sleep(0.005)
        folder = Path("/sys/fs/cgroup/memory", PARENT, group)
        argv = [sys.executable, "-S", "-c", SPIKER, str(folder / "memory.usage_in_bytes")]
        argv += [str(folder / "memory.limit_in_bytes"), str(LIMIT - gap_v1(LIMIT, SpikeRules())), str(LEAP)]
        argv.append("measured" if measured else "full")
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.hands.add_process(group, process.pid)
        out, _ = process.communicate("go\n")
        self.watcher.drop(key)
        self.hands.remove(pod)
        if process.returncode:
            return process.returncode, None, 0.0
        waited, took = json.loads(out)
        return 0, waited, took

    def close(self) -> None:
        self.watcher.stop()
        self.hands.kill("kubepods")
        self.hands.remove_parent()


def floor_of_a_raise(hands: NodeHands) -> float:
    """What any program needs: an eventfd's wake-up and the four writes, in seconds."""
    pod, group = "kubepods/floor", "kubepods/floor/c"
    hands.create(group)
    for one in (pod, group):
        hands.apply(one, GroupLimits(None, None, MIB))
    files = [hands.keep(one, name, os.O_RDWR) for one in (pod, group)
             for name in ("memory.memsw.limit_in_bytes", "memory.limit_in_bytes")]  # fmt: skip
    efd = os.eventfd(0)
    times: list[float] = []
    sent = [0.0]

    def wait() -> None:
        for number in range(200):
            os.eventfd_read(efd)
            for file in files:
                file.write(str((number + 10) * MIB))
            times.append(time.perf_counter() - sent[0])

    thread = threading.Thread(target=wait)
    thread.start()
    for _ in range(200):
        time.sleep(0.002)
        sent[0] = time.perf_counter()
        os.eventfd_write(efd, 1)
    thread.join()
    for file in files:
        file.close()
    hands.remove(pod)
    return statistics.median(times)


def spikes(figures: Figures) -> None:
    bench = Bench()
    try:
        floor = floor_of_a_raise(bench.hands)
        control = [bench.spike(1000 + number, measured=False, protected=False)[0] for number in range(3)]
        if any(code != -9 for code in control):
            figures.missed.append("control")
            print(f"control: unprotected programs should be killed, and ended with {control}")
        full = [bench.spike(number, measured=False) for number in range(SPIKES)]
        figures.show(f"kills in {SPIKES} spikes at full speed", sum(1 for code, _, _ in full if code), "kills", 0)
        measured = [bench.spike(number, measured=True) for number in range(SPIKES)]
        waits = sorted(waited for _, waited, _ in measured if waited is not None)
        p50, p99 = waits[len(waits) // 2] * 1000, waits[max(int(len(waits) * 0.99) - 1, 0)] * 1000
        print(f"scheduling: {bench.watcher.scheduling}; event to raised limit p50 {p50:.3f} ms, n = {len(waits)}")
        figures.show("event to raised limit, p99", p99, "ms", 5.0, floor=floor * 1000, of="a wake-up and four writes")
    finally:
        bench.close()


@contextmanager
def idle_node(folder: Path) -> Iterator[tuple[str, list[bytes]]]:
    """A real tree of 500 containers, and the pods that the API tells of them."""
    hands = NodeHands(parent=PARENT)
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
        yield str(folder), pods
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


def idle(figures: Figures, sample_seconds: float = 0.0) -> None:
    how = f"{CONTAINERS} containers" + (f", read every {sample_seconds:g} s" if sample_seconds else "")
    with tempfile.TemporaryDirectory() as name, idle_node(Path(name)) as (folder, pods):
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
        argv += ["--cgroup-parent", PARENT, "--state-folder", folder, "--log-level", "warning"]
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


def main() -> int:
    """Measure, or say why not."""
    reason = why_not()
    if reason:
        print(f"not measured here: {reason}")
        return 0
    figures = Figures()
    if "idle" not in sys.argv:
        spikes(figures)
    idle(figures)
    idle(figures, SAMPLE_SECONDS)
    return figures.exit_code


if __name__ == "__main__":
    sys.exit(main())
