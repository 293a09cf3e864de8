"""Real processes in this machine's cgroups, under a node."""

import asyncio
import json
import os
import random
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from actuator.nodehands import NodeHands
from elastipod.clock import SystemClock, from_rfc3339
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.logs import LogWish
from elastipod.localcluster.api.store import Store
from elastipod.localcluster.node.checkpoint import FileCheckpoint
from elastipod.localcluster.node.node import LocalNode
from elastipod.localcluster.node.processes import ProcessRuntime, container_group
from elastipod.localcluster.node.registration import NodeSettings
from elastipod.localcluster.node.runtime import Sandbox
from elastipod.pods import Pod, QosClass, ResizeProgress
from elastipod.quantities import Resources
from tests.build import container_json
from tests.localcluster.onenode import MIB, AtNode, Json

pytestmark = pytest.mark.cgroups

HOLD = "import time; held = bytearray(b'x' * {mib} * 1048576); print('held', flush=True); time.sleep(60)"


class RealNode(AtNode):
    """The same short ways, over real processes."""

    def __init__(self, folder: Path) -> None:
        self.clock = SystemClock()
        self.folder = folder
        self.hands = NodeHands(parent=f"elastipod-test-{os.getpid()}")
        self.api = ApiServer(self.clock, Store(), spread=random.Random(1), checks_node_capacity=False)
        self.settings = NodeSettings("here", Resources(2000, 1024 * MIB), usage_seconds=0.5)
        super().__init__(DirectConnection(self.api, self.clock))

    def new_node(self) -> LocalNode:
        self.runtime = ProcessRuntime(self.folder, self.hands, self.clock)
        return LocalNode(self.connection, self.clock, self.runtime, self.settings, FileCheckpoint(self.folder))

    def limit_of(self, pod: Pod) -> int | None:
        sandbox = Sandbox(pod.uid, pod.namespace, pod.name, pod.qos_class)
        identity = pod.containers[0].container_id.rpartition("/")[2]
        return self.hands.read(container_group(sandbox, identity)).memory_limit_bytes

    def pids_of(self, pod: Pod) -> list[int]:
        sandbox = Sandbox(pod.uid, pod.namespace, pod.name, pod.qos_class)
        return self.hands.processes(container_group(sandbox, pod.containers[0].container_id.rpartition("/")[2]))

    async def until(self, name: str, holds: Callable[[Pod], bool]) -> Pod:
        """The pod, once that holds."""
        async with asyncio.timeout(20):
            while True:
                pod = await self.pod(name)
                if holds(pod):
                    return pod
                await self.clock.sleep(0.02)


@asynccontextmanager
async def real_node(folder: Path) -> AsyncGenerator[RealNode, None]:
    here = RealNode(folder)
    try:
        yield here
    finally:
        await here.close()
        await here.runtime.remove_all()
        assert here.hands.processes("kubepods") == []
        assert not here.hands.exists("kubepods")
        here.hands.remove_parent()


def python(code: str, **more: Any) -> Json:
    return container_json(command=[sys.executable, "-S", "-c", code], **more)


async def test_a_resize_reaches_the_cgroup_and_the_process_stays(tmp_path: Path) -> None:
    async with real_node(tmp_path) as here:
        await here.run_pod("web", [python(HOLD.format(mib=10), memory="50Mi", memory_limit="64Mi")])
        pod = await here.until("web", lambda one: one.is_ready)
        pids = here.pids_of(pod)
        assert len(pids) == 1
        assert here.limit_of(pod) == 64 * MIB
        await here.resize("web", limits={"memory": "96Mi"}, requests={"cpu": "300m"})
        pod = await here.until("web", lambda one: one.observed_generation == 2 and one.resize_in_progress is None)
        assert here.limit_of(pod) == 96 * MIB
        assert here.pids_of(pod) == pids
        assert pod.containers[0].restart_count == 0
        assert pod.containers[0].actual_limits == Resources(None, 96 * MIB)
        assert pod.containers[0].actual_requests == Resources(300, 50 * MIB)


async def test_a_cpu_limit_that_goes_down_by_restart_is_in_force_at_the_first_try(tmp_path: Path) -> None:
    async with real_node(tmp_path) as here:
        policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
        app = python("import time; time.sleep(99)", cpu="500m", cpu_limit="1", resizePolicy=policy)
        await here.run_pod("web", [app])
        await here.until("web", lambda one: one.is_ready)
        await here.resize("web", requests={"cpu": "20m"}, limits={"cpu": "40m"})
        pod = await here.until("web", lambda one: one.containers[0].restart_count > 0 and one.is_ready)
        assert pod.containers[0].restart_count == 1
        assert pod.containers[0].actual_limits == Resources(40, None)


async def test_an_oom_kill_is_told_from_the_cgroup(tmp_path: Path) -> None:
    async with real_node(tmp_path) as here:
        app = python(HOLD.format(mib=100), memory="20Mi", memory_limit="40Mi")
        await here.run_pod("job", [app], restartPolicy="Never")
        pod = await here.until("job", lambda one: one.is_terminal)
        ended = pod.containers[0].termination
        assert pod.phase == "Failed"
        assert ended is not None
        assert (ended.reason, ended.exit_code) == ("OOMKilled", 137)


async def test_a_killed_process_that_had_memory_left_is_an_error_and_no_oom(tmp_path: Path) -> None:
    async with real_node(tmp_path) as here:
        await here.run_pod("job", [python(HOLD.format(mib=1))], restartPolicy="Never")
        pod = await here.until("job", lambda one: one.is_ready and bool(here.pids_of(one)))
        os.kill(here.pids_of(pod)[0], signal.SIGKILL)
        pod = await here.until("job", lambda one: one.is_terminal)
        ended = pod.containers[0].termination
        assert ended is not None
        assert (ended.reason, ended.exit_code) == ("Error", 137)


async def output(here: RealNode, wish: LogWish) -> str:
    return b"".join([piece async for piece in here.node.read_log("default", "job", "app", wish)]).decode()


async def test_each_line_has_the_time_it_was_said_at_and_none_is_lost(tmp_path: Path) -> None:
    code = (
        "import os, sys, time; print('first', flush=True); time.sleep(0.3); print('é' * 30000, file=sys.stderr); "
        "print('x\\n' * 20000, end='last', flush=True); os._exit(0)"
    )
    async with real_node(tmp_path) as here:
        begun = here.clock.now()
        await here.run_pod("job", [python(code)], restartPolicy="Never")
        await here.until("job", lambda one: one.is_terminal)
        assert await output(here, LogWish()) == f"first\n{'é' * 30000}\n" + "x\n" * 20000 + "last"
        first, second = (await output(here, LogWish(tail=20_100, has_timestamps=True))).splitlines()[:2]
        at = [from_rfc3339(line.partition(" ")[0]) for line in (first, second)]
        assert begun - 0.01 < at[0] <= at[1] - 0.2
        assert at[1] < here.clock.now() + 0.01
        assert "first" not in await output(here, LogWish(since=at[1] - 0.1))


async def test_output_does_not_hold_up_the_end(tmp_path: Path) -> None:
    # What the container leaves behind holds its output open, and goes on to speak.
    code = "import os; print('said', flush=True)\nif os.fork(): os._exit(4)\nwhile True: print('more', flush=True)"
    async with real_node(tmp_path) as here:
        await here.run_pod("job", [python(code)], restartPolicy="Never")
        pod = await here.until("job", lambda one: one.is_terminal)
        assert pod.containers[0].termination is not None
        assert pod.containers[0].termination.exit_code == 4
        assert (await output(here, LogWish())).startswith("said\n")


async def test_output_and_exit_code_are_kept(tmp_path: Path) -> None:
    async with real_node(tmp_path) as here:
        code = "import os, sys; print(os.environ['GREETING'], sorted(os.environ)); sys.exit(3)"
        app = python(code) | {"env": [{"name": "GREETING", "value": "hello"}]}
        await here.run_pod("job", [app], restartPolicy="Never")
        pod = await here.until("job", lambda one: one.is_terminal)
        assert pod.containers[0].termination is not None
        assert pod.containers[0].termination.exit_code == 3
        words = await output(here, LogWish())
        assert words.startswith("hello")
        assert set(json.loads(words.removeprefix("hello ").replace("'", '"'))) <= {
            "GREETING", "HOSTNAME", "PATH", "LC_CTYPE",
        }  # fmt: skip


async def test_a_command_that_is_not_there_is_told_and_tried_again_later(tmp_path: Path) -> None:
    async with real_node(tmp_path) as here:
        await here.run_pod("web", [container_json(command=["/no/such/program"])])
        pod = await here.until("web", lambda one: one.containers[0].waiting_reason == "CrashLoopBackOff")
        assert pod.containers[0].last_termination is not None
        assert pod.containers[0].last_termination.reason == "StartError"
        status = (await here.pod_json("web"))["status"]["containerStatuses"][0]
        assert "/no/such/program: No such file or directory" in status["lastState"]["terminated"]["message"]


async def test_a_deleted_pod_gets_its_grace_and_leaves_nothing(tmp_path: Path) -> None:
    async with real_node(tmp_path) as here:
        deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
        await here.run_pod("web", [python(deaf)])
        pod = await here.until("web", lambda one: one.is_ready and bool(here.pids_of(one)))
        pid = here.pids_of(pod)[0]
        await here.delete("web", grace=1)
        async with asyncio.timeout(10):
            while await here.names():
                await here.clock.sleep(0.02)
        assert not Path(f"/proc/{pid}").exists()
        assert list((tmp_path / "pods").iterdir()) == []


async def test_containers_outlive_the_node_process_and_are_taken_over(tmp_path: Path) -> None:
    async with real_node(tmp_path) as here:
        await here.run_pod("web", [python(HOLD.format(mib=5), memory="40Mi", memory_limit="64Mi")])
        short = python("import time; time.sleep(1.0)")
        await here.run_pod("job", [short], restartPolicy="Never")
        pod = await here.until("web", lambda one: one.is_ready)
        await here.until("job", lambda one: one.is_ready)
        pids = here.pids_of(pod)
        await here.close()
        await here.resize("web", limits={"memory": "80Mi"})
        await here.clock.sleep(1.2)
        here.node = here.new_node()
        here.tasks = [asyncio.create_task(here.node.run())]
        job = await here.until("job", lambda one: one.is_terminal)
        assert job.phase == "Succeeded"
        pod = await here.until("web", lambda one: one.observed_generation == 2)
        pod = await here.until("web", lambda one: one.resize_progress is ResizeProgress.NONE)
        assert here.pids_of(pod) == pids
        assert here.limit_of(pod) == 80 * MIB
        assert pod.containers[0].restart_count == 0


async def test_what_a_start_that_was_cut_short_says_later_is_not_taken_for_the_end_of_the_next(tmp_path: Path) -> None:
    async with real_node(tmp_path) as here:
        await here.run_pod("web", [python(HOLD.format(mib=1))])
        pod = await here.until("web", lambda one: one.is_ready and bool(here.pids_of(one)))
        pids = here.pids_of(pod)
        (folder,) = tmp_path.glob("pods/*/app-0")
        (folder / "exit.json").write_text('{"exitCode": 128, "signal": 0, "problem": "the cluster ended"}')
        await here.restart_node()
        await here.resize("web", requests={"cpu": "200m"})
        pod = await here.until("web", lambda one: one.observed_generation == 2 and one.is_ready)
        assert here.pids_of(pod) == pids
        assert pod.containers[0].restart_count == 0


async def test_usage_is_measured_in_the_cgroup(tmp_path: Path) -> None:
    async with real_node(tmp_path) as here:
        busy = "held = bytearray(b'x' * 30 * 1048576)\nwhile True: pass"
        await here.run_pod("web", [python(busy, cpu_limit="200m", memory_limit="128Mi")])
        await here.until("web", lambda one: one.is_ready)
        await here.clock.sleep(2.2)
        usage = next(iter(here.node.usage.pod_metrics()))["containers"][0]["usage"]
        assert 100e6 < int(usage["cpu"].removesuffix("n")) < 280e6
        assert 30 * 1024 < int(usage["memory"].removesuffix("Ki")) < 60 * 1024


def test_guaranteed_pods_lie_directly_below_kubepods() -> None:
    assert container_group(Sandbox("u", "d", "n", QosClass.GUARANTEED), "c") == "kubepods/podu/c"
    assert container_group(Sandbox("u", "d", "n", QosClass.BEST_EFFORT), "c") == "kubepods/besteffort/podu/c"


async def test_how_a_run_ended_is_kept_until_the_api_knows(tmp_path: Path) -> None:
    async with real_node(tmp_path) as here:
        await here.run_pod("job", [python("import time; time.sleep(0.5)")], restartPolicy="Never")
        await here.until("job", lambda one: one.is_ready)
        # The node's process dies after it has seen the end, and before it told.
        here.node.wake.clear()
        here.tasks[0].cancel()
        await asyncio.gather(*here.tasks, return_exceptions=True)
        await here.clock.sleep(0.8)
        assert here.runtime.ended() != []
        here.node = here.new_node()
        here.tasks = [asyncio.create_task(here.node.run())]
        job = await here.until("job", lambda one: one.is_terminal)
        assert job.phase == "Succeeded"
        await here.clock.sleep(0.3)
        assert list(tmp_path.glob("pods/*/*/run.json")) == []
        assert here.hands.processes("kubepods") == []


async def test_a_container_whose_group_was_left_is_ended_all_the_same(tmp_path: Path) -> None:
    async with real_node(tmp_path) as here:
        await here.run_pod("web", [python(HOLD.format(mib=1))])
        pod = await here.until("web", lambda one: one.is_ready and bool(here.pids_of(one)))
        pid = here.pids_of(pod)[0]
        here.hands.create("elsewhere")
        here.hands.add_process("elsewhere", pid)
        await here.delete("web", grace=0)
        async with asyncio.timeout(10):
            while Path(f"/proc/{pid}").exists():
                await here.clock.sleep(0.02)


async def test_a_refused_resize_does_not_become_real_when_the_container_restarts(tmp_path: Path) -> None:
    async with real_node(tmp_path) as here:
        await here.run_pod("web", [python(HOLD.format(mib=1), memory="16Mi", memory_limit="64Mi")])
        pod = await here.until("web", lambda one: one.is_ready and bool(here.pids_of(one)))
        await here.resize("web", requests={"memory": "4Gi"}, limits={"memory": "8Gi"})
        await here.until("web", lambda one: one.resize_progress is ResizeProgress.INFEASIBLE)
        os.kill(here.pids_of(pod)[0], signal.SIGKILL)
        pod = await here.until("web", lambda one: one.containers[0].restart_count == 1 and one.is_ready)
        assert here.limit_of(pod) == 64 * MIB
        assert pod.containers[0].allocated == Resources(100, 16 * MIB)
