"""Programs that leap past their memory limit, in cgroups of this machine: who lives, and how quickly a limit is raised.

Owns the program and the groups it runs in; what stands for the actuator is its watcher.
"""

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from actuator.budget import NodeBudget
from actuator.kernelmemory import KernelMemory
from actuator.memory import Target
from actuator.nodehands import NodeHands
from actuator.outcomes import Outcome, Watched
from actuator.spikerules import SpikeRules, gap_v1
from actuator.watcher import Watcher
from bench.figures import Figures
from elastipod.clock import SystemClock
from elastipod.localcluster.node.hands import GroupLimits

MIB = 1024 * 1024
LIMIT = 64 * MIB
LEAP = 160 * MIB
SPIKES = 100

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


class Bench:
    """Groups below one parent, and a watcher."""

    def __init__(self, parent: str) -> None:
        self.hands = NodeHands(parent=parent)
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
        folder = Path("/sys/fs/cgroup/memory", self.hands.parent, group)
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


def spikes(figures: Figures, parent: str) -> None:
    bench = Bench(parent)
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
