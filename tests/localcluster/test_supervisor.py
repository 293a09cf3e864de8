"""Child processes beside a cluster: kept running, ended, found again."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from elastipod.clock import SystemClock
from elastipod.localcluster.node.runfolder import started_ticks
from elastipod.localcluster.supervisor import PartCommand, Supervisor, end_left_parts

CLOCK = SystemClock()


def children() -> set[str]:
    """Our own child processes that are alive."""
    pids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {pid for pid in pids if started_ticks(int(pid)) is not None}


def part(name: str, code: str) -> PartCommand:
    return PartCommand(name, [sys.executable, "-S", "-c", code], {"GREETING": "hello"})


async def until_running(supervisor: Supervisor, name: str, other_than: int = 0) -> int:
    async with asyncio.timeout(10):
        while supervisor.process_ids.get(name, other_than) == other_than:
            await CLOCK.sleep(0.01)
    return supervisor.process_ids[name]


async def test_a_part_that_dies_is_started_again_and_told(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path, CLOCK)
    supervisor.start([part("one", "import os, time; print(os.environ['GREETING'], flush=True); time.sleep(60)")])
    first = await until_running(supervisor, "one")
    os.kill(first, signal.SIGKILL)
    second = await until_running(supervisor, "one", first)
    assert supervisor.restarts == {"one": 1}
    async with asyncio.timeout(10):
        while not (tmp_path / "logs" / "one.log").read_text().startswith("hello"):
            await CLOCK.sleep(0.02)
    await supervisor.stop()
    assert started_ticks(second) is None
    assert not (tmp_path / "parts.json").exists()


async def test_a_part_that_can_not_start_is_tried_again_and_its_log_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = Supervisor(tmp_path, CLOCK)
    refusing = part("refusing", "import sys; print('interval_seconds: many is no number'); sys.exit(2)")
    supervisor.start([PartCommand("missing", [str(tmp_path / "nothing")]), refusing])
    async with asyncio.timeout(10):
        while min(supervisor.restarts.get(name, 0) for name in ("missing", "refusing")) < 2:
            await CLOCK.sleep(0.02)
    await supervisor.stop()
    told = {record.facts["part"]: record.facts for record in caplog.records if record.message == "part ended"}  # type: ignore[attr-defined]
    assert "No such file" in told["missing"]["end"]
    assert told["refusing"]["end"] == "exit code 2"
    assert "interval_seconds" in Path(told["refusing"]["log"]).read_text()


async def test_stopping_at_once_leaves_no_process(tmp_path: Path) -> None:
    others = children()
    for _ in range(5):
        supervisor = Supervisor(tmp_path, CLOCK)
        supervisor.start([part("one", "import time; time.sleep(60)")])
        await asyncio.sleep(0)
        spawned = asyncio.create_task(until_running(supervisor, "one"))
        await supervisor.stop()
        spawned.cancel()
        assert supervisor.process_ids == {}
        assert children() <= others


async def test_what_an_earlier_supervisor_left_is_ended_and_nothing_else(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path, CLOCK)
    supervisor.start([part("one", "import time; time.sleep(60)")])
    pid = await until_running(supervisor, "one")
    for task in supervisor._tasks:
        task.cancel()
    other = await asyncio.create_subprocess_exec(sys.executable, "-S", "-c", "import time; time.sleep(60)")
    await end_left_parts(tmp_path, CLOCK)
    assert started_ticks(pid) is None
    assert started_ticks(other.pid) is not None
    other.kill()
    await other.wait()
    await supervisor.stop()
