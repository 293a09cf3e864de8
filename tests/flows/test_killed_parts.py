"""A part is killed in the middle of a job's memory spike, and the job ends well."""

import os
import signal
import sys
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actuator.guard import leases
from actuator.journal import boot_id
from actuator.standby import NOTE
from elastipod.cli.demo.facts import Observer
from elastipod.cli.demo.machine import Kernel, pod_group
from elastipod.cli.demo.manifests import container, job
from elastipod.cli.enforcement import CGROUP_MOUNT, hands_of, parent_of
from elastipod.cli.running import RunningCluster, Wanted, running_cluster
from elastipod.clock import SystemClock
from elastipod.kube.resources import JOBS
from elastipod.pods import Pod
from elastipod.quantities import format_memory

MIB = 1024 * 1024
LIMIT = 96 * MIB
LEAP = 200 * MIB

# As the demo's genome job, but its leap and its end come when they are asked for.
LEAPER = """
import mmap, os, sys, time
folder, leap = sys.argv[1], int(sys.argv[2])
def wait(name):
    while not os.path.exists(f"{folder}/{name}"):
        time.sleep(0.01)
wait("leap")
memory = mmap.mmap(-1, leap)
block = b"A" * 65536
for at in range(0, leap, len(block)):
    memory[at : at + len(block)] = block
wait("end")
print("complete", memory[:1] == memory[leap - 1 :], flush=True)
"""


class Flow:
    """A cluster of one node with all parts, and what is to be seen of the job in it."""

    def __init__(self, running: RunningCluster, observer: Observer, folder: Path) -> None:
        self.running, self.observer, self.folder = running, observer, folder
        self.node = running.cluster.settings.name
        self.state = running.cluster.settings.folder / "nodes" / self.node / "actuator"
        self.kernel = Kernel(hands_of(self.node))

    def part(self, name: str) -> int | None:
        """The process of a part, if it runs."""
        named = name if name in ("recommender", "updater") else f"{name}-{self.node}"
        return self.running.supervisor.process_ids.get(named)

    @property
    def pod(self) -> Pod:
        pod = self.observer.pod("genome")
        assert pod is not None
        return pod

    @property
    def group(self) -> str:
        return f"{pod_group(self.pod)}/{self.pod.containers[0].container_id.rpartition('/')[2]}"

    @property
    def spec_limit(self) -> int | None:
        return self.pod.containers[0].limits.memory_bytes

    def is_watched(self) -> bool:
        """Whether a lease is written, and the actuator has the container's files open."""
        if not any(lease.group == self.group for lease in leases(str(self.state), boot_id())):
            return False
        return any(self.group in _link(path) for path in Path(f"/proc/{self.part('actuator')}/fd").iterdir())

    def tell_what_happened(self, error: Exception) -> None:
        """The pod's end and the parts' logs, for whoever reads of the failure."""
        error.add_note(f"the pod: {self.observer.pod('genome')}")
        for path in sorted((self.folder / "cluster").rglob("*.log")):
            error.add_note(f"{path.name}:\n{path.read_text()[-4000:]}")

    def is_held(self) -> bool:
        place = f"{parent_of(self.node)}/{self.group}"
        if self.running.enforcement.name == "cgroup v2":
            high = Path(CGROUP_MOUNT, place, "memory.high").read_text().strip()
            return high != "max" and self.kernel.memory(self.pod)[0] >= int(high)
        control = Path(CGROUP_MOUNT, "memory", place, "memory.oom_control").read_text()
        return "oom_kill_disable 0" not in control or "under_oom 0" not in control

    async def until(self, what: str, look: Any, seconds: float = 10.0) -> None:
        await self.observer.until(what, seconds, lambda: True if look() else None)


def _link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


@asynccontextmanager
async def flowing(folder: Path) -> AsyncGenerator[Flow, None]:
    wanted = Wanted(f"t{uuid.uuid4().hex[:8]}", str(folder / "cluster"), cpu_millicores=4000, memory_bytes=4096 * MIB)
    async with running_cluster(wanted) as running:
        connection = running.connection()
        observer = Observer(connection, SystemClock(), Kernel(hands_of(wanted.name)))
        await observer.start()
        try:
            argv = [sys.executable, "-S", "-E", "-c", LEAPER, str(folder), str(LEAP)]
            sizes = {"cpu": "2", "memory": format_memory(LIMIT)}
            spec = container("genome", argv, {"cpu": "200m", "memory": "64Mi"}, sizes)
            body = job("genome", spec, {"elastipod.io/memory-spike": "Pause"}, {})
            await connection.create(JOBS, "default", msgspec.json.encode(body))
            flow = Flow(running, observer, folder)
            try:
                yield flow
            except Exception as error:
                flow.tell_what_happened(error)
                raise
        finally:
            await observer.stop()
            await connection.close()


@pytest.mark.cgroups
@pytest.mark.parametrize("part", ["actuator", "guard", "recommender", "updater"])
async def test_a_job_lives_through_its_spike_though_a_part_is_killed_in_it(tmp_path: Path, part: str) -> None:
    async with flowing(tmp_path) as flow:
        await flow.observer.until_running("genome")
        await flow.until("the container is watched", flow.is_watched)
        await flow.until(f"the {part} runs", lambda: flow.part(part))
        victim, before = flow.part(part), flow.kernel.process_ids(flow.pod, str(tmp_path))
        assert victim is not None
        assert len(before) == 1
        (tmp_path / "leap").touch()
        while flow.kernel.memory(flow.pod)[0] < LIMIT * 2 // 3 and not flow.pod.is_terminal:
            await SystemClock().sleep(0.001)
        os.kill(victim, signal.SIGKILL)

        await flow.until("all of the leap is in memory", lambda: flow.kernel.memory(flow.pod)[0] >= LEAP)
        await flow.until(f"the {part} is back", lambda: flow.part(part) not in (victim, None))
        await flow.until(
            "the spec has what the cgroup has",
            lambda: flow.spec_limit == flow.kernel.memory(flow.pod)[1] >= LEAP and flow.is_watched(),
        )
        assert not flow.is_held()
        assert not (flow.state / NOTE).exists()
        assert flow.kernel.process_ids(flow.pod, str(tmp_path)) == before

        (tmp_path / "end").touch()
        ended = await flow.observer.until_ended("genome", 5.0)
        assert ended.containers[0].termination is not None
        assert ended.containers[0].termination.exit_code == 0
        assert ended.containers[0].restart_count == 0
        assert (await flow.observer.log(ended)).strip() == "complete True"
    assert not list(Path(CGROUP_MOUNT).glob(f"*/{parent_of(flow.node)}"))
    assert not (tmp_path / "cluster").exists()
