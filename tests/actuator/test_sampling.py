"""What the containers of a node use, on copies of cgroup trees: what a kernel would count is written by the test."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actuator.cgroupfs import CgroupFs
from actuator.places import Places
from actuator.sampling import Sampler
from elastipod.clock import ManualClock
from elastipod.minutes import MOST_MINUTES, ContainerMinute, NodeMinutes
from elastipod.pods import Container, Pod
from tests.actuator.trees import MIB, v2_tree

UID = "6a9b3c1e-0000-4000-8000-00000000000"
NOW = 1_800_000_000.0
EVERY = 5.0
LONG_AGO = NOW - 86_400.0


class SetClock(ManualClock):
    """Whose wall time somebody sets."""

    set_by = 0.0

    def now(self) -> float:
        return super().now() + self.set_by


class Node:
    """A v2 tree, a clock and a sampler that turns when the test says."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = SetClock(NOW)
        v2_tree(root, "kubepods")
        fs = CgroupFs(root)
        self.sampler = Sampler(fs, Places(fs).locate, self.clock, "n1", EVERY)

    def group(self, number: int, run: int = 1) -> Path:
        return self.root / f"kubepods/burstable/pod{UID}{number}" / (f"{number}{run}" * 32)

    def start(self, number: int = 1, *, run: int = 1, started_at: float = LONG_AGO, cpu: float = 0.0) -> Pod:
        """A container begins, or begins anew; its pod as the API shows it."""
        v2_tree(self.root, str(self.group(number, run).relative_to(self.root)))
        self.count(number, run=run, cpu=cpu)
        return self.tell(number, run, is_running=True, started_at=started_at)

    def tell(self, number: int = 1, run: int = 1, *, is_running: bool, started_at: float = LONG_AGO) -> Pod:
        container = Container(
            "app",
            container_id=f"containerd://{f'{number}{run}' * 32}",
            is_running=is_running,
            started_at=started_at,
        )
        phase = "Running" if is_running else "Succeeded"
        pod = Pod("default", f"web-{number}", f"{UID}{number}", phase=phase, containers=(container,))
        self.sampler.note(pod, pod)
        self.sampler.turn()
        return pod

    def end(self, number: int = 1, run: int = 1) -> None:
        """Its group is gone; what was open of it says no more."""
        for file in self.group(number, run).iterdir():
            file.write_text("")
        shutil.rmtree(self.group(number, run))

    def count(
        self, number: int = 1, *, run: int = 1, cpu: float = 0.0, throttled: int = 0, periods: int = 0, **files: str
    ) -> None:
        group = self.group(number, run)
        stat = f"usage_usec {round(cpu * 1e6)}\nuser_usec 1\nnr_periods {periods}\nnr_throttled {throttled}\n"
        (group / "cpu.stat").write_text(stat)
        for name, text in files.items():
            (group / name.replace("_", ".")).write_text(text)

    def use(self, memory: int, inactive: int = 0, number: int = 1) -> None:
        (self.group(number) / "memory.current").write_text(f"{memory}\n")
        (self.group(number) / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\n")

    def wait(self, seconds: float = EVERY) -> None:
        self.clock.advance(seconds)
        self.sampler.turn()

    def answer(self, since: int = 0) -> NodeMinutes:
        return msgspec.json.decode(self.sampler.answer(since), type=NodeMinutes)

    def only(self) -> ContainerMinute:
        """The one container of the last minute."""
        [found] = self.answer().minutes[-1].containers
        return found


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "cg")


def whole_minute(node: Node, *, cores: tuple[float, ...] = (0.2,), memory: tuple[int, ...] = (64 * MIB,)) -> None:
    """Twelve readings; the last of cores and memory goes on."""
    used = 0.0
    for number in range(12):
        used += EVERY * cores[min(number, len(cores) - 1)]
        node.count(cpu=used)
        node.use(memory[min(number, len(memory) - 1)])
        node.wait()


def test_a_minute_tells_the_average_and_the_peaks(node: Node) -> None:
    node.start()
    whole_minute(node, cores=(0.1, 1.5, 0.1), memory=(50 * MIB, 90 * MIB, 50 * MIB))
    found = node.only()
    assert (found.namespace, found.pod, found.pod_uid, found.container) == ("default", "web-1", f"{UID}1", "app")
    assert found.seconds == 60
    assert found.cpu_cores == pytest.approx((11 * 0.1 + 1.5) / 12, abs=1e-5)
    assert found.cpu_peak_cores == pytest.approx(1.5)
    assert found.memory_peak_bytes == 90 * MIB


def test_cache_that_nobody_would_miss_is_no_need_r13(node: Node) -> None:
    def caching(stalled_seconds: float | None) -> float | None:
        stat = f"anon {200 * MIB}\ninactive_file {100 * MIB}\nactive_file {3 * 1024 * MIB}\n"
        (node.group(1) / "memory.current").write_text(f"{(3 * 1024 + 300) * MIB}\n")
        (node.group(1) / "memory.stat").write_text(stat)
        told = (
            ""
            if stalled_seconds is None
            else f"some avg10=0.00 avg60=0.00 avg300=0.00 total={stalled_seconds * 1e6:.0f}\n"
        )
        (node.group(1) / "memory.pressure").write_text(told)
        for _ in range(12):
            node.wait()
        return node.only().memory_peak_bytes

    node.start()
    caching(4.0)
    assert caching(4.0) == 200 * MIB
    assert caching(5.0) == (3 * 1024 + 200) * MIB, "a task waited for memory: its cache would be missed"
    assert caching(5.0) == 200 * MIB
    assert caching(None) == (3 * 1024 + 200) * MIB, "a kernel that does not tell"


def test_people_are_told_the_last_whole_minute(node: Node) -> None:
    node.start()
    assert node.sampler.last_minute(f"{UID}1", "app") is None
    whole_minute(node, cores=(0.1,), memory=(50 * MIB,))
    assert node.sampler.last_minute(f"{UID}1", "app") == {
        "seconds": 60.0,
        "cpuCores": 0.1,
        "cpuPeakCores": 0.1,
        "memoryPeakBytes": 50 * MIB,
    }


def test_the_next_minute_begins_anew(node: Node) -> None:
    node.start()
    whole_minute(node, cores=(2.0,), memory=(90 * MIB,))
    node.use(30 * MIB)
    for _ in range(12):
        node.wait()
    found = node.only()
    assert (found.cpu_cores, found.cpu_peak_cores, found.memory_peak_bytes) == (0.0, 0.0, 30 * MIB)


def test_what_a_container_had_used_before_it_was_seen_is_not_of_this_minute(node: Node) -> None:
    node.start(cpu=5000.0)
    node.count(cpu=5006.0)
    for _ in range(12):
        node.wait()
    assert node.only().cpu_cores == pytest.approx(0.1)


def test_a_run_of_forty_seconds_is_told_whole_though_it_is_over_by_the_end(node: Node) -> None:
    node.wait(7)
    node.start(started_at=node.clock.now() - 2, cpu=1.0)
    for number in range(1, 8):
        node.count(cpu=1.0 + number * 2.5)
        node.use(number * 10 * MIB)
        node.wait()
    node.end()
    node.wait()
    node.tell(is_running=False)
    node.wait(20)
    found = node.only()
    assert 35 <= found.seconds <= 42
    assert found.cpu_cores == pytest.approx(0.5, rel=0.05)
    assert found.memory_peak_bytes == 70 * MIB
    for _ in range(12):
        node.wait()
    assert node.answer().minutes[-1].containers == []


def test_a_run_that_began_between_two_readings_is_opened_when_its_pod_tells(node: Node) -> None:
    node.wait(1)
    node.start(started_at=node.clock.now() - 1, cpu=1.0)
    node.end()
    for _ in range(13):
        node.wait()
    assert node.only().cpu_cores == pytest.approx(1.0)


def test_two_runs_of_a_container_in_one_minute_are_one_container(node: Node) -> None:
    node.start(started_at=NOW, cpu=0.0)
    node.count(cpu=10.0)
    node.use(80 * MIB)
    node.wait(20)
    node.end()
    node.start(run=2, started_at=node.clock.now())
    for number in range(1, 9):
        node.count(run=2, cpu=number * 2.5)
        node.wait()
    found = node.only()
    assert found.seconds == 60
    assert found.cpu_cores == pytest.approx(0.5)
    assert found.memory_peak_bytes == 80 * MIB


def test_another_pods_cgroup_of_the_same_name_is_not_read(node: Node) -> None:
    node.start()
    node.wait()
    node.end()
    v2_tree(node.root, str(node.group(1).relative_to(node.root)))
    node.use(900 * MIB)
    for _ in range(12):
        node.wait()
    assert node.only().memory_peak_bytes == MIB


def test_cache_that_nobody_looks_at_is_no_use(node: Node) -> None:
    node.start()
    node.use(500 * MIB, inactive=450 * MIB)
    for _ in range(12):
        node.wait()
    assert node.only().memory_peak_bytes == 50 * MIB


def test_memory_that_grows_while_cache_goes_is_seen(node: Node) -> None:
    node.start()
    node.use(500 * MIB, inactive=450 * MIB)
    node.wait()
    node.use(200 * MIB, inactive=10 * MIB)
    for _ in range(12):
        node.wait()
    assert node.only().memory_peak_bytes == 190 * MIB


def test_throttling_pressure_and_kills_are_those_of_the_minute(node: Node) -> None:
    before: dict[str, Any] = {
        "cpu_pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=5000000\nfull avg10=0.00 total=0\n",
        "memory_pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull avg10=0.00 total=0\n",
        "memory_events": "low 0\noom 3\noom_kill 2\noom_group_kill 0\n",
    }
    node.start()
    node.count(periods=1000, throttled=400, **before)
    # Of the first minute the beginning is not known before this reading.
    for _ in range(12):
        node.wait()
    after: dict[str, Any] = {
        "cpu_pressure": "some avg10=0.00 total=11000000\n",
        "memory_pressure": "some avg10=0.00 total=4000000\n",
        "memory_events": "oom_kill 3\n",
    }
    node.count(periods=1600, throttled=550, **after)
    for _ in range(12):
        node.wait()
    found = node.only()
    assert found.throttled_fraction == pytest.approx(0.25)
    assert found.cpu_pressure_fraction == pytest.approx(0.1)
    assert found.memory_pressure_fraction == pytest.approx(0.05)
    assert found.oom_kills == 1


def test_a_kernel_without_pressure_files_tells_none(node: Node) -> None:
    node.start()
    (node.group(1) / "memory.pressure").unlink()
    for _ in range(12):
        node.wait()
    assert node.only().memory_pressure_fraction is None


@pytest.mark.parametrize("rubbish", ["", "nonsense", "usage_usec x\n", "usage_usec 1"])
def test_a_file_that_holds_rubbish_costs_its_container_only(node: Node, rubbish: str) -> None:
    node.start(1)
    node.start(2)
    node.start(3, cpu=1.0)
    for number in (1, 3):
        (node.group(number) / "cpu.stat").write_text(rubbish)
        (node.group(number) / "memory.current").write_text(rubbish)
    node.start(3, run=2)
    (node.group(3, 2) / "memory.events").write_text("oom_kill many\n")
    for _ in range(12):
        node.wait()
    found = {one.pod: one for one in node.answer().minutes[-1].containers}
    assert found["web-2"].cpu_cores == 0.0
    assert found["web-1"].memory_peak_bytes == MIB


def test_minutes_are_asked_for_by_the_last_one_that_is_known(node: Node) -> None:
    node.start()
    for _ in range(36):
        node.wait()
    first, second, third = (one.at for one in node.answer().minutes)
    assert [one.at for one in node.answer(first).minutes] == [second, third]
    assert [one.at for one in node.answer(third).minutes] == []
    assert [one.at for one in node.answer(12345).minutes] == [first, second, third]
    assert [round(one.age_seconds) for one in node.answer().minutes] == [120, 60, 0]


def test_only_the_last_minutes_are_kept(node: Node) -> None:
    node.start()
    for _ in range(12 * (MOST_MINUTES + 3)):
        node.wait()
    assert len(node.answer().minutes) == MOST_MINUTES


def test_a_clock_that_is_set_changes_no_minute(node: Node) -> None:
    node.start()
    whole_minute(node)
    node.clock.set_by = -3600.0
    for number in range(1, 13):
        node.count(cpu=12 + number)
        node.wait()
    first, second = node.answer().minutes
    assert second.at < first.at
    assert (second.containers[0].seconds, second.containers[0].cpu_cores) == (60, pytest.approx(0.2))
    assert [one.at for one in node.answer(first.at).minutes] == [second.at]


def test_a_group_that_can_not_be_found_is_looked_for_a_while(node: Node) -> None:
    node.tell(is_running=True)
    node.wait()
    node.start()
    for _ in range(12):
        node.wait()
    assert node.only().memory_peak_bytes == MIB


async def test_the_thread_ends_with_its_task(node: Node) -> None:
    node.start()
    task = asyncio.create_task(node.sampler.run())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not node.sampler._thread.is_alive()


@pytest.mark.parametrize("has_cpu", [True, False])
def test_on_v1_each_file_is_read_in_its_hierarchy_and_cpu_is_not_told_where_that_is_not_mounted(
    tmp_path: Path, has_cpu: bool
) -> None:
    group = f"kubepods/burstable/pod{UID}1/{'11' * 32}"
    files = {
        "memory": {
            "memory.usage_in_bytes": f"{90 * MIB}\n",
            "memory.stat": f"cache 1\ninactive_file 1\ntotal_inactive_file {30 * MIB}\n",
            "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
        },
        "cpuacct": {"cpuacct.usage": "0\n"},
        "cpu": {"cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"},
    }
    for hierarchy in files if has_cpu else ("memory",):
        (tmp_path / hierarchy / group).mkdir(parents=True)
        for name, text in files[hierarchy].items():
            (tmp_path / hierarchy / group / name).write_text(text)
    clock = SetClock(NOW)
    fs = CgroupFs(tmp_path)
    sampler = Sampler(fs, Places(fs).locate, clock, "n1", EVERY)
    container = Container("app", container_id=f"containerd://{'11' * 32}", is_running=True, started_at=NOW)
    sampler.note(None, Pod("default", "web-1", f"{UID}1", phase="Running", containers=(container,)))
    sampler.turn()
    if has_cpu:
        (tmp_path / "cpuacct" / group / "cpuacct.usage").write_text("15000000000\n")
        (tmp_path / "cpu" / group / "cpu.stat").write_text("nr_periods 200\nnr_throttled 50\nthrottled_time 9\n")
    (tmp_path / "memory" / group / "memory.oom_control").write_text("oom_kill 4\n")
    for _ in range(12):
        clock.advance(EVERY)
        sampler.turn()
    [minute] = msgspec.json.decode(sampler.answer(0), type=NodeMinutes).minutes
    [found] = minute.containers
    assert (found.memory_peak_bytes, found.oom_kills) == (60 * MIB, 4)
    assert (found.cpu_cores, found.throttled_fraction) == ((0.25, 0.25) if has_cpu else (None, None))
