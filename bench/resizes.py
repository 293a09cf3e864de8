"""2,000 in-place resizes on a real API server: elastipod's updater, VPA's updater and a bare client, in turn.

The floor is the bare client: one plain patch a resize over 32 connections. Requests and instants are the API server's
own, from its audit log; CPU is each process's, from /proc. All recommendations change at once, beside the bare
client's patches too; then one after the other. A fake kubelet says of each resize that it is in force. Exit 1 where a
promise is missed. VPA's updater is left out where it is not built, and the bench says so.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.auditlog import Asked, AuditLog
from bench.figures import Figures
from bench.process import Process
from bench.resizefleet import FIRST_MILLICORES, ResizeFleet, patient_connection
from elastipod.kube.connection import Connection
from tests.kubernetes import binaries
from tests.kubernetes.apiserver import ApiServer, why_no_apiserver

GOAL_RATE = 0.85
GOAL_REQUESTS = 1.2
GOAL_CPU_SECONDS = 0.001
"""Where VPA's updater with QPS raised takes 2.4 ms (median of six runs): a machine half as fast needs twice of both."""
GOAL_OF_VPAS_CPU = 1.0 / 2.4
GOAL_STARTED_SECONDS = 0.100
VPA_SECONDS = 75.0
"""How long VPA's updater is watched, from its first resize on: as a loop of its default interval, and the next one's
beginning."""
RESIZE = "patch pods/resize"
STATUS = "patch verticalpodautoscalers/status"
VPA_FLAGS = ["--in-place-skip-disruption-budget=true", "--use-admission-controller-status=false"]
PYTHON = (sys.executable, "-m")
_LOOK_SECONDS = 0.05


@dataclass(slots=True)
class Round:
    """What one of them did with all pods."""

    resizes: int
    seconds: float
    requests: int
    cpu_seconds: float
    by_kind: dict[str, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return self.resizes / self.seconds


class Bench:
    """The rounds; each leaves all autoscalers and, if it was done in time, all pods at the next size."""

    def __init__(self, server: ApiServer, connection: Connection, fleet: ResizeFleet, folder: Path) -> None:
        self._connection, self._fleet, self._folder = connection, fleet, folder
        self._audit = AuditLog(server.control_plane.audit_log)
        self._millicores = FIRST_MILLICORES
        floor, ours, vpas = (fleet.account(name, folder) for name in ("floor", "elastipod", "vpa"))
        self.ours = [sys.executable, "-m", "updater", "--kubeconfig", str(ours), "--recommender-names", "default"]
        self._vpas = vpas
        self._kubelet = self._start("kubelet", [*PYTHON, "bench.resizefleet", str(server.kubeconfig)])
        self._bare = self._start("floor", [*PYTHON, "bench.bareclient", str(floor)])
        self._said()

    @contextmanager
    def running(self, user: str, argv: list[str]) -> Iterator[Process]:
        """Such a process, while nothing else is at work."""
        self._kubelet.wait_quiet()
        process = self._start(user, argv)
        try:
            process.wait_quiet()
            yield process
        finally:
            process.end()

    @property
    def vpas(self) -> list[str]:
        """VPA's updater, with nothing that would keep it from resizing."""
        return [str(binaries.find("updater")), f"--kubeconfig={self._vpas}", "--address=127.0.0.1:0", *VPA_FLAGS]

    async def floor(self) -> Round:
        """All pods get the next size by the bare client, while the autoscalers begin to recommend it."""
        self._kubelet.wait_quiet()
        process, self._millicores = self._bare, self._millicores + FIRST_MILLICORES
        self._audit.read()
        before = process.cpu_seconds()
        assert process.popen.stdin is not None
        process.popen.stdin.write(f"{self._millicores}\n".encode())
        process.popen.stdin.flush()
        recommending = self._fleet.recommend(self._connection, self._millicores, self._fleet.names)
        await asyncio.gather(asyncio.to_thread(self._said), recommending)
        cpu_seconds = process.cpu_seconds() - before
        found = await self._resized(process, self._fleet.pods, 1.0)
        return _round(found, found[0].at, cpu_seconds)

    def _start(self, user: str, argv: list[str]) -> Process:
        return Process(user, argv, self._folder / f"{user}.log", answers=user == "floor")

    def _said(self) -> None:
        assert self._bare.popen.stdout is not None
        assert self._bare.popen.stdout.readline(), f"the bare client ended, see {self._folder}"

    async def all_at_once(self, process: Process, patience_seconds: float) -> Round:
        """All recommendations change in one moment."""
        self._millicores += FIRST_MILLICORES
        self._audit.read()
        before, began = process.cpu_seconds(), time.time()
        recommending = self._fleet.recommend(self._connection, self._millicores, self._fleet.names)
        found, _ = await asyncio.gather(self._resized(process, self._fleet.pods, patience_seconds), recommending)
        is_whole = len({one.key for one in found if one.what == RESIZE}) >= self._fleet.pods
        if is_whole:
            process.wait_quiet(5.0)
        cpu_seconds = process.cpu_seconds() - before
        found += [one for one in self._audit.read() if one.user == process.user]
        # VPA's updater may be a minute away from its next look; ours has no excuse.
        first = min(one.at for one in found if one.what == RESIZE) if process.user == "vpa" else began
        return _round(found, first, cpu_seconds)

    async def one_by_one(self, process: Process, changes: int, pause_seconds: float, patience: float) -> list[float]:
        """From the API server's receipt of a status to that of the first resize it leads to, for each change."""
        self._kubelet.wait_quiet()
        process.wait_quiet()
        self._millicores += FIRST_MILLICORES
        self._audit.read()
        found: list[Asked] = []
        for name in self._fleet.names[:changes]:
            await self._fleet.recommend(self._connection, self._millicores, [name])
            await asyncio.sleep(pause_seconds)
            found += self._audit.read()
        until = time.monotonic() + patience
        while len(spans := _spans(found, process.user)) < changes and time.monotonic() < until:
            await asyncio.sleep(_LOOK_SECONDS)
            found += self._audit.read()
        await self._fleet.recommend(self._connection, self._millicores, self._fleet.names[changes:])
        return sorted(spans + [float("inf")] * (changes - len(spans)))

    async def _resized(self, process: Process, pods: int, patience_seconds: float) -> list[Asked]:
        """What was asked until all pods were resized, or for so long after the first."""
        found: list[Asked] = []
        done: set[str] = set()
        until = time.monotonic() + 90.0
        while True:
            new = [one for one in self._audit.read() if one.user == process.user]
            resized = {one.key for one in new if one.what == RESIZE and one.code == 200}
            if resized and not done:
                until = time.monotonic() + patience_seconds
            done |= resized
            found += new
            if len(done) >= pods or time.monotonic() > until:
                assert done, f"{process.user} resized nothing, see {self._folder}"
                return found
            await asyncio.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        self._bare.end()
        self._kubelet.end()
        self._audit.close()


def _round(found: list[Asked], began: float, cpu_seconds: float) -> Round:
    resized = [one for one in found if one.what == RESIZE and one.code == 200]
    kinds: dict[str, int] = {}
    for one in found:
        kinds[one.what] = kinds.get(one.what, 0) + 1
    last = max(one.answered_at for one in resized)
    return Round(len({one.key for one in resized}), last - began, len(found), cpu_seconds, kinds)


def _spans(found: list[Asked], user: str) -> list[float]:
    changed = {one.key: one.at for one in found if one.what == STATUS}
    first: dict[str, float] = {}
    for one in found:
        if one.user == user and one.what == RESIZE:
            first.setdefault(one.key.rpartition("-1-")[0], one.at)
    return [at - changed[key] for key, at in first.items() if key in changed]


def show_rounds(name: str, rounds: list[Round], floors: list[Round]) -> None:
    """What one of them did, beside the floor."""
    rate, floor = statistics.median(one.rate for one in rounds), statistics.median(one.rate for one in floors)
    last = rounds[-1]
    print(
        f"{name}: {', '.join(f'{one.rate:.0f}' for one in rounds)} resizes/s, median {rate / floor:.2f} of the floor's "
        f"{floor:.0f}; {last.requests / last.resizes:.2f} requests and "
        f"{1000 * last.cpu_seconds / last.resizes:.2f} ms CPU a resize; {last.resizes} pods; {last.by_kind}",
        flush=True,
    )


async def measure(server: ApiServer, folder: Path, given: argparse.Namespace) -> int:
    """All rounds in turn, and what comes of them."""
    connection = patient_connection(server.kubeconfig)
    fleet = ResizeFleet(server, given.workloads, given.pods)
    await fleet.make(connection)
    figures, floors, ours, raised = Figures(), list[Round](), list[Round](), list[Round]()
    with ExitStack() as ending:
        bench = Bench(server, connection, fleet, folder)
        ending.callback(bench.close)
        for number in range(given.repeats):
            floors.append(await bench.floor())
            with bench.running("elastipod", bench.ours) as updater:
                ours.append(await bench.all_at_once(updater, 120.0))
                if number == given.repeats - 1:
                    spans = await bench.one_by_one(updater, given.changes, 0.2, 5.0)
            if given.vpa and number < given.vpa_repeats:
                floors.append(await bench.floor())
                with bench.running("vpa", [*bench.vpas, "--kube-api-qps=1000", "--kube-api-burst=1000"]) as vpa:
                    raised.append(await bench.all_at_once(vpa, VPA_SECONDS))
        show(figures, floors, ours, spans)
        if given.vpa:
            show_beside_vpa(figures, ours, raised)
            await measure_vpa(bench, floors, raised)
    await connection.close()
    return figures.exit_code


async def measure_vpa(bench: "Bench", floors: list[Round], raised: list[Round]) -> None:
    """VPA's updater as it is by default."""
    await bench.floor()
    with bench.running("vpa", bench.vpas) as vpa:
        by_default = await bench.all_at_once(vpa, VPA_SECONDS)
    await bench.floor()
    with bench.running("vpa", bench.vpas) as vpa:
        spans = await bench.one_by_one(vpa, 30, 2.0, 70.0)
    show_rounds("VPA's updater, QPS and burst 1000", raised, floors)
    show_rounds("VPA's updater by default", [by_default], floors)
    print(f"VPA's updater, from a recommendation to the request: {spans[15]:.1f} s median, {spans[-1]:.1f} s at most")


def show(figures: Figures, floors: list[Round], ours: list[Round], spans: list[float]) -> None:
    """Ours against what is promised."""
    show_rounds("bare client", floors, floors)
    show_rounds("elastipod's updater", ours, floors)
    floor = statistics.median(one.rate for one in floors)
    rate = statistics.median(one.rate for one in ours)
    figures.show("resizes a second", rate, "/s", GOAL_RATE * floor, floor=floor, of="the bare client", at_least=True)
    requests = max(one.requests / one.resizes for one in ours)
    figures.show("requests to the API server a resize", requests, "", GOAL_REQUESTS, floor=1.0, of="one patch")
    figures.show("CPU a resize", _cpu(ours), "s", GOAL_CPU_SECONDS, floor=_cpu(floors), of="the bare client")
    what = f"from a recommendation to its first request, p99 of {len(spans)}"
    figures.show(what, spans[int(0.99 * (len(spans) - 1))], "s", GOAL_STARTED_SECONDS)


def show_beside_vpa(figures: Figures, ours: list[Round], vpas: list[Round]) -> None:
    """What does not depend on how fast the machine is today."""
    what = "CPU a resize beside VPA's updater, QPS and burst 1000"
    figures.show(what, _cpu(ours) / _cpu(vpas), "", GOAL_OF_VPAS_CPU)


def _cpu(rounds: list[Round]) -> float:
    return statistics.median(one.cpu_seconds / one.resizes for one in rounds)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, default=200)
    parser.add_argument("--pods", type=int, default=10, help="of each workload")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--vpa-repeats", type=int, default=2)
    parser.add_argument("--changes", type=int, default=100, help="that come one by one")
    parser.add_argument("--no-vpa", dest="vpa", action="store_false", help="leave VPA's updater out: five minutes less")
    parser.add_argument("--logs", type=Path, help="keep the logs of all programs here")
    given = parser.parse_args()
    if why := why_no_apiserver():
        print(f"left out: {why}")
        return 0
    if given.vpa and (why := binaries.why_missing("updater")):
        print(f"VPA's updater is left out: {why} ARGS=vpa (needs Go)")
        given.vpa = False
    with ExitStack() as ending:
        folder = given.logs or Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="elastipod-bench-")))
        folder.mkdir(parents=True, exist_ok=True)
        return asyncio.run(measure(ending.enter_context(ApiServer(folder)), folder, given))


if __name__ == "__main__":
    sys.exit(main())
