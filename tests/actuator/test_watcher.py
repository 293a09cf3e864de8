"""The watcher's thread on a copied v2 tree (the sweep sees it) and on this machine's own cgroups v1."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actuator.budget import NodeBudget
from actuator.cgroupfs import CgroupFs
from actuator.heartbeat import Heartbeat
from actuator.kernelmemory import KernelMemory
from actuator.memory import Target
from actuator.nodehands import NodeHands
from actuator.outcomes import Failed, Outcome, Watched
from actuator.spikerules import SpikeRules
from actuator.spikewords import Accepted, AskApi, Tell
from actuator.watcher import Watcher
from elastipod.clock import Clock, ManualClock, SystemClock
from elastipod.localcluster.node.hands import GroupLimits
from elastipod.reasons import Reason
from tests.actuator.trees import GROUP, MIB, POD, target, tell, use, v2_tree
from tests.kubernetes.processes import wait_for


class Seen:
    """What the watcher told, and waiting for it."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self._changed = threading.Condition()

    def take(self, _key: str, outcome: Outcome) -> None:
        with self._changed:
            self.outcomes.append(outcome)
            self._changed.notify_all()

    def wait(self, kind: type[Outcome], seconds: float = 10.0) -> Outcome:
        with self._changed:
            found = self._changed.wait_for(
                lambda: next((one for one in self.outcomes if isinstance(one, kind)), None), seconds
            )
        assert found is not None, self.outcomes
        return found

    def reasons(self) -> list[Reason]:
        return [one.reason for one in self.outcomes if isinstance(one, Tell)]


@contextmanager
def watching(fs: CgroupFs, state: Path | None = None, clock: Clock | None = None) -> Iterator[tuple[Watcher, Seen]]:
    heartbeat = Heartbeat(state) if state is not None else None
    memory = KernelMemory(fs)
    watcher = Watcher(memory, SpikeRules(), NodeBudget(0), clock or SystemClock(), heartbeat)
    seen = Seen()
    watcher.on_outcome = seen.take
    watcher.start()
    try:
        yield watcher, seen
    finally:
        watcher.stop()
        if heartbeat is not None:
            heartbeat.stop()


def number(root: Path, group: str, file: str) -> str:
    return (root / group / file).read_text().split()[0]


def test_a_v2_container_is_held_asked_for_and_raised_in_order(tmp_path: Path) -> None:
    root = v2_tree(tmp_path / "cg")
    with watching(CgroupFs(root), tmp_path) as (watcher, seen):
        watcher.add(target())
        watcher.complete()
        seen.wait(Watched)
        use(root / GROUP, 95 * MIB)
        asked = seen.wait(AskApi)
        assert isinstance(asked, AskApi)
        assert number(root, GROUP, "memory.max") == str(100 * MIB)
        use(root / GROUP, 20 * MIB)
        watcher.answer(GROUP, Accepted(asked.limit_bytes))
        seen.wait(Tell)
        assert seen.reasons() == [Reason.RAISED]
        limit = int(number(root, GROUP, "memory.max"))
        assert asked.limit_bytes - 4 * MIB <= limit <= asked.limit_bytes
        assert number(root, POD, "memory.max") == str(limit)
        assert 100 * MIB < int(number(root, GROUP, "memory.high")) < limit
        beat = wait_for(
            (tmp_path / "heartbeat").read_text, 10, "the guard is told of us", lambda text: bool(text.strip())
        )
        assert float(beat) > 0
    assert number(root, GROUP, "memory.high") == "max"
    assert number(tmp_path, ".", "heartbeat") == "0"


def test_a_hold_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    root = v2_tree(tmp_path / "cg")
    (root / GROUP / "memory.high").write_text(f"{50 * MIB}\n")
    with watching(CgroupFs(root)) as (watcher, seen):
        watcher.add(target())
        failed = seen.wait(Failed)
    assert isinstance(failed, Failed)
    assert "MemoryQoS" in failed.message
    assert number(root, GROUP, "memory.high") == str(50 * MIB)


def test_a_hold_that_another_takes_off_stands_again_before_any_sweep(tmp_path: Path) -> None:
    # As systemd does at each change of any other value; where the clock stands, nothing is swept.
    root = v2_tree(tmp_path / "cg")
    with watching(CgroupFs(root), clock=ManualClock(0.0)) as (watcher, seen):
        watcher.add(target())
        seen.wait(Watched)
        high = root / GROUP / "memory.high"
        held = wait_for(high.read_text, 10, "it is held", lambda text: not text.startswith("max"))
        for _ in range(3):
            tell(high, "max\n")
            wait_for(high.read_text, 10, "it is held again", lambda text: text.split() == held.split())


def test_a_container_that_can_not_be_watched_is_told(tmp_path: Path) -> None:
    root = v2_tree(tmp_path / "cg")
    (root / GROUP / "memory.max").unlink()
    (root / GROUP / "memory.max").mkdir()
    with watching(CgroupFs(root)) as (watcher, seen):
        watcher.add(target())
        told = seen.wait(Failed)
        assert isinstance(told, Failed)
        assert f"{GROUP} can not be watched" in told.message


def test_a_container_that_ended_before_it_was_watched_is_nothing_to_tell(tmp_path: Path) -> None:
    with watching(CgroupFs(v2_tree(tmp_path / "cg"))) as (watcher, seen):
        watcher.add(target(f"{POD}/none"))
        watcher.add(target())
        seen.wait(Watched)
        assert [type(one) for one in seen.outcomes] == [Watched]


PROGRAM = {
    "touch": "b = bytearray()\nfor _ in range(160): b += b'A' * 1048576",
    "read": "f = open('/dev/zero', 'rb')\nkept = [f.read(1048576) for _ in range(160)]",
    "fork": "import os\npids = []\nfor _ in range(8):\n"
    "    pid = os.fork()\n"
    "    if pid == 0:\n        b = b'A' * (20 * 1048576); os._exit(0)\n"
    "    pids.append(pid)\nassert all(os.waitpid(pid, 0)[1] == 0 for pid in pids)",
}


@pytest.fixture
def hands() -> Iterator[NodeHands]:
    import os

    made = NodeHands(parent=f"elastipod-test-{os.getpid()}")
    yield made
    made.kill("kubepods")
    made.remove_parent()


def spike(hands: NodeHands, watcher: Watcher | None, program: str) -> int:
    hands.create(GROUP)
    for group in (POD, GROUP):
        hands.apply(group, GroupLimits(100, None, 64 * MIB))
    if watcher is not None:
        armed = threading.Event()
        watcher.add(Target(GROUP, "1", "c", "c1", POD, GROUP, 64 * MIB, 512 * MIB, 64 * MIB, 5.0))
        for _ in range(500):
            if watcher.is_armed(GROUP):
                break
            armed.wait(0.01)
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", f"input()\n{program}"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    hands.add_process(GROUP, process.pid)
    process.communicate(b"\n", timeout=30)
    return process.returncode


@pytest.mark.cgroups
def test_a_container_is_watched_once_its_events_are_listened_to(hands: NodeHands) -> None:
    hands.create(GROUP)
    for group in (POD, GROUP):
        hands.apply(group, GroupLimits(100, None, 64 * MIB))
    with watching(hands) as (watcher, seen):
        watcher.add(Target(GROUP, "1", "c", "c1", POD, GROUP, 64 * MIB, 512 * MIB, 64 * MIB, 5.0))
        seen.wait(Watched)
        assert watcher.is_armed(GROUP)


@pytest.mark.cgroups
def test_an_unprotected_program_is_killed_at_its_limit(hands: NodeHands) -> None:
    assert spike(hands, None, PROGRAM["touch"]) == -9
    assert hands.oom_kills(GROUP) == 1


@pytest.mark.cgroups
@pytest.mark.parametrize("kind", ["touch", "read"])
def test_a_protected_program_ends_well(hands: NodeHands, kind: str) -> None:
    if hands.version != 1:
        pytest.skip("cgroups: v2 is tried in the machine of tests/node")
    with watching(hands) as (watcher, seen):
        assert spike(hands, watcher, PROGRAM[kind]) == 0
        assert hands.oom_kills(GROUP) == 0
        assert hands.memory_limit(GROUP) == hands.memory_limit(POD)
        assert Reason.RAISED in seen.reasons()
        assert any(isinstance(one, AskApi) for one in seen.outcomes)


@pytest.mark.cgroups
def test_a_group_is_made_read_and_removed(hands: NodeHands) -> None:
    hands.create(GROUP)
    hands.apply(GROUP, GroupLimits(250, 500, 64 * MIB))
    assert hands.read(GROUP) == GroupLimits(250, 500, 64 * MIB)
    hands.apply(GROUP, GroupLimits(250, 5, 128 * MIB))
    assert hands.read(GROUP) == GroupLimits(250, 10, 128 * MIB)
    hands.apply(GROUP, GroupLimits(None, None, None))
    assert hands.read(GROUP) == GroupLimits(2, None, None)
    process = subprocess.Popen(["sleep", "60"])
    hands.add_process(GROUP, process.pid)
    assert hands.processes("kubepods") == [process.pid]
    hands.kill("kubepods")
    assert process.wait(5) == -9
    hands.remove("kubepods")
    assert not hands.exists("kubepods")


def test_a_pod_whose_limit_is_lowered_below_its_containers_is_seen_and_raised_again(tmp_path: Path) -> None:
    root = v2_tree(tmp_path / "cg")
    memory = KernelMemory(CgroupFs(root))
    memory.open(target())
    memory.raise_limit(GROUP, 300 * MIB)
    (root / POD / "memory.max").write_text(f"{200 * MIB}\n")
    assert memory.bounds(GROUP)[0] == 200 * MIB
    memory.raise_limit(GROUP, 300 * MIB)
    assert number(root, POD, "memory.max") == str(300 * MIB)
    assert memory.bounds(GROUP)[0] == 300 * MIB
    memory.close_all()


def test_the_guard_is_not_told_of_us_before_all_that_was_there_is_watched(tmp_path: Path) -> None:
    root = v2_tree(tmp_path / "cg")
    with watching(CgroupFs(root), tmp_path) as (watcher, seen):
        watcher.add(target())
        seen.wait(Watched)
        # Its next turn comes after a beat's time.
        use(root / GROUP, 95 * MIB)
        seen.wait(AskApi)
        assert (tmp_path / "heartbeat").read_text() == ""


async def test_a_watcher_whose_thread_fails_ends_and_says_why(tmp_path: Path) -> None:
    class Broken(Heartbeat):
        def beat(self, now: float) -> None:
            raise OSError(5, "Input/output error")

    memory = KernelMemory(CgroupFs(v2_tree(tmp_path / "cg")))
    watcher = Watcher(memory, SpikeRules(), NodeBudget(0), SystemClock(), Broken(tmp_path))
    watcher.complete()
    with pytest.raises(RuntimeError, match="Input/output error"):
        await watcher.run()


def test_a_container_that_lacks_a_file_is_told_as_not_watched(tmp_path: Path) -> None:
    root = v2_tree(tmp_path / "cg")
    (root / GROUP / "memory.max").unlink()
    with watching(CgroupFs(root)) as (watcher, seen):
        watcher.add(target())
        failed = seen.wait(Failed)
    assert isinstance(failed, Failed)
    assert "memory.max" in failed.message


def test_what_can_not_be_read_when_it_is_taken_over_is_told_and_can_be_added_again(tmp_path: Path) -> None:
    root = v2_tree(tmp_path / "cg", GROUP, f"{POD}/c2")
    (root / GROUP / "memory.current").write_text("")
    with watching(CgroupFs(root)) as (watcher, seen):
        watcher.add(target())
        assert isinstance(seen.wait(Failed), Failed)
        use(root / GROUP, MIB)
        watcher.add(target())
        seen.wait(Watched)


def test_what_can_not_be_read_is_told_and_the_others_are_watched_on(tmp_path: Path) -> None:
    root = v2_tree(tmp_path / "cg", GROUP, f"{POD}/c2")
    with watching(CgroupFs(root)) as (watcher, seen):
        watcher.add(target(f"{POD}/c2"))
        seen.wait(Watched)
        (root / f"{POD}/c2/memory.max").write_text("nonsense\n")
        use(root / f"{POD}/c2", 99 * MIB)
        assert isinstance(seen.wait(Failed), Failed)
        watcher.add(target())
        use(root / GROUP, 95 * MIB)
        assert isinstance(seen.wait(AskApi), AskApi)
