"""`elastipod explain` tells what a container used in the last minute, as its node's actuator read it from cgroups."""

import asyncio
from pathlib import Path
from typing import Any

from actuator.cgroupfs import CgroupFs
from actuator.places import Places
from actuator.sampling import Sampler
from actuator.service import Actuator
from actuator.settings import ActuatorSettings
from elastipod.clock import ManualClock, SystemClock
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.loop import Health, clock_ticker, run_part
from elastipod.serving import Serving
from elastipod.telemetry import Metrics
from tests.actuator.onnode import Still
from tests.actuator.trees import MIB, tell, use, v2_tree
from tests.build import pod_json, running_status
from tests.cli.cluster import Cluster
from tests.cli.test_reading import facts

IDENTITY = "ab" * 32
EVERY = 10.0


class ByHand(Sampler):
    """Turns when the test says."""

    async def run(self) -> None:
        await asyncio.Event().wait()


class Node:
    """An actuator on the cluster's node, over a copy of a cgroup tree, served where the cluster is."""

    def __init__(self, cluster: Cluster, root: Path, uid: str) -> None:
        self.group = f"kubepods/burstable/pod{uid}/{IDENTITY}"
        self.root = v2_tree(root, self.group)
        fs, clock = CgroupFs(self.root), SystemClock()
        self.clock = ManualClock(clock.now())
        locate = Places(fs).locate
        self.sampler = ByHand(fs, locate, self.clock, "n1", EVERY)
        self.served = Serving(Metrics(), Health(60, 0), clock, self.explain)
        cluster.on_loop(self.served.start("127.0.0.1", 0))
        self.actuator = Actuator(
            DirectConnection(cluster.api, clock),
            clock,
            ActuatorSettings(node_name="n1"),
            Still(),
            locate,
            sampler=self.sampler,
            address=f"http://127.0.0.1:{self.served.port}",
        )

    async def run(self) -> None:
        """Until the pod is protected, and read for a minute in which it used 0.3 cores and up to 32 MiB."""
        task = asyncio.create_task(run_part(self.actuator, SystemClock(), clock_ticker(SystemClock())))
        async with asyncio.timeout(8):
            while self.actuator.explain("default/web-1") is None:
                await asyncio.sleep(0.01)
            self.use(0)
            self.sampler.turn()
            for number in range(1, 7):
                self.use(number)
                self.clock.advance(EVERY)
                self.sampler.turn()
        self.task = task

    def explain(self, key: str) -> dict[str, Any] | None:
        return self.actuator.explain(key)

    def use(self, number: int) -> None:
        group = self.root / self.group
        tell(group / "cpu.stat", f"usage_usec {number * 3_000_000}\nuser_usec 1\n")
        use(group, (26 + number) * MIB)
        tell(group / "memory.stat", "anon 5\ninactive_file 0\n")

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.served.stop()


def test_explain_tells_the_last_minute_that_the_nodes_actuator_read(cluster: Cluster, tmp_path: Path) -> None:
    body = pod_json("web-1", node="n1", cpu="100m", memory="64Mi", memory_limit="128Mi")
    status = running_status(body)
    status["containerStatuses"][0]["containerID"] = f"containerd://{IDENTITY}"
    cluster.put_pod(body, status)
    uid = cluster.get("/api/v1/namespaces/default/pods/web-1")["metadata"]["uid"]
    node = Node(cluster, tmp_path / "cg", uid)
    cluster.on_loop(node.run())
    told = facts(cluster, "explain", "web-1")["parts"]["actuator"]["containers"]["app"]
    table = cluster.run("explain", "web-1").stdout
    cluster.on_loop(node.stop())
    assert told["lastMinute"] == {"seconds": 60.0, "cpuCores": 0.3, "cpuPeakCores": 0.3, "memoryPeakBytes": 32 * MIB}
    assert "lastMinute: seconds 60.0, cpuCores 0.3, cpuPeakCores 0.3" in table
