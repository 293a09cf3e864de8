import ast
import inspect
import os
import signal
import subprocess
import sys
from pathlib import Path

from actuator import guard, priority, reach, standby
from actuator.guard import SILENT_LOOKS, Guard, leases
from actuator.heartbeat import Heartbeat
from actuator.journal import Journal, boot_id
from actuator.standby import NOTE, Lease, take_note
from tests.actuator.trees import GROUP, v2_tree

MIB = 1024 * 1024


def held(tmp_path: Path, boot: str = "b1", **record: object) -> Path:
    """A held container with its lease."""
    root = v2_tree(tmp_path / "cg")
    (root / GROUP / "memory.high").write_text("50000\n")
    (root / GROUP / "cgroup.freeze").write_text("1\n")
    Journal(tmp_path / "state", boot).put({"lease/a": {"version": 2, "parent": "", "group": GROUP, **record}})
    return root


def high(root: Path) -> str:
    return (root / GROUP / "memory.high").read_text().split()[0]


def test_a_silent_actuator_is_noticed_and_what_it_held_is_let_go(tmp_path: Path) -> None:
    root = held(tmp_path)
    heart = Heartbeat(tmp_path / "state")
    one = Guard(str(tmp_path / "state"), str(root), "b1")
    for beat in range(1, 20):
        heart.beat(float(beat))
        assert one.look() == 0
    assert high(root) == "50000"
    for _ in range(SILENT_LOOKS):
        one.look()
    assert high(root) == "max"
    assert (root / GROUP / "cgroup.freeze").read_text().strip() == "0"
    assert one.restores == 1
    assert (tmp_path / "state" / "guard_restores").read_text() == "1\n"


def test_no_limit_is_ever_lowered(tmp_path: Path) -> None:
    root = held(tmp_path)
    before = (root / GROUP / "memory.max").read_text()
    Guard(str(tmp_path / "state"), str(root), "b1").let_go()
    assert (root / GROUP / "memory.max").read_text() == before


def test_an_actuator_that_stopped_in_good_order_is_not_silent(tmp_path: Path) -> None:
    root = held(tmp_path)
    Heartbeat(tmp_path / "state").stop()
    one = Guard(str(tmp_path / "state"), str(root), "b1")
    for _ in range(50):
        assert one.look() == 0
    assert high(root) == "50000"


def test_a_lease_of_another_boot_moves_nothing(tmp_path: Path) -> None:
    root = held(tmp_path, boot="b0")
    assert Guard(str(tmp_path / "state"), str(root), "b1").let_go() == 0
    assert high(root) == "50000"


def test_a_hostile_lease_leads_nowhere(tmp_path: Path) -> None:
    root = held(tmp_path)
    (tmp_path / "memory.high").write_text("7\n")
    (root / "kubepods" / "link").symlink_to(tmp_path)
    journal = Journal(tmp_path / "state", "b1")
    for number, group in enumerate(["..", "../..", "kubepods/link", "kubepods/../..", "", "/"]):
        journal.put({f"lease/{number}": {"version": 2, "group": group}})
    Guard(str(tmp_path / "state"), str(root), "b1").let_go()
    assert (tmp_path / "memory.high").read_text() == "7\n"


def test_a_damaged_journal_costs_only_its_damaged_lines(tmp_path: Path) -> None:
    root = held(tmp_path)
    with (tmp_path / "state" / "journal").open("ab") as file:
        file.write(b'deadbeef ["lease/x","b1",{"group":"y"}]\n\xff\xfe 1 2\n[]')
    assert leases(str(tmp_path / "state"), "b1") == [Lease(2, "", GROUP)]
    assert Guard(str(tmp_path / "state"), str(root), "b1").let_go() == 1


def test_the_guard_and_what_it_imports_need_nothing_but_the_standard_library() -> None:
    names: set[str] = set()
    for module in (guard, standby, reach, priority):
        tree = ast.parse(inspect.getsource(module))
        names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in names if name.split(".")[0] not in sys.stdlib_module_names} == {
        "actuator.priority",
        "actuator.reach",
        "actuator.standby",
    }


def test_as_a_process_it_lets_go_within_its_time_and_ends_when_told(tmp_path: Path) -> None:
    root = held(tmp_path, boot=boot_id())
    Heartbeat(tmp_path / "state").beat(1.0)
    process = subprocess.Popen(
        [sys.executable, "-m", "actuator.guard", str(tmp_path / "state"), str(root)], stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    assert b"1 containers were let go" in process.stderr.readline()
    assert high(root) == "max"
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(5) == 0
    process.stderr.close()


def test_it_says_how_it_is_called() -> None:
    assert guard.main(["guard"]) == 2


def near_limit(tmp_path: Path, ceiling: int) -> Path:
    """A container of 100 MiB that has all but used it, leased up to a ceiling."""
    root = held(tmp_path, ceiling=ceiling)
    (root / GROUP / "memory.max").write_text(f"{100 * MIB}\n")
    (root / GROUP / "memory.current").write_text(f"{99 * MIB}\n")
    (root / Path(GROUP).parent / "memory.max").write_text(f"{120 * MIB}\n")
    return root


def test_while_the_actuator_is_away_who_is_near_its_limit_gets_more(tmp_path: Path) -> None:
    root = near_limit(tmp_path, ceiling=400 * MIB)
    Heartbeat(tmp_path / "state").beat(5.0)
    one = Guard(str(tmp_path / "state"), str(root), "b1")
    one.died()
    assert (root / GROUP / "memory.max").read_text().strip() == str(150 * MIB)
    assert (root / Path(GROUP).parent / "memory.max").read_text().strip() == str(170 * MIB)
    assert take_note(str(tmp_path / "state")) == {GROUP: 150 * MIB}
    assert take_note(str(tmp_path / "state")) == {}


def test_nobody_gets_more_than_its_ceiling_nor_below_the_mark(tmp_path: Path) -> None:
    root = near_limit(tmp_path, ceiling=110 * MIB)
    Heartbeat(tmp_path / "state").beat(5.0)
    one = Guard(str(tmp_path / "state"), str(root), "b1")
    one.died()
    assert (root / GROUP / "memory.max").read_text().strip() == str(110 * MIB)
    (root / GROUP / "memory.current").write_text(f"{20 * MIB}\n")
    one.look()
    assert (root / GROUP / "memory.max").read_text().strip() == str(110 * MIB)


def test_a_lease_of_an_actuator_that_died_before_its_first_beat_counts_too(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    one = Guard(str(tmp_path / "state"), str(tmp_path / "cg"), "b1")
    while not one.is_silent:
        one.look()
    root = near_limit(tmp_path, ceiling=400 * MIB)
    one.look()
    assert (root / GROUP / "memory.max").read_text().strip() == str(150 * MIB)
    for _ in range(round(1 / one.look_seconds)):
        one.look()
    assert high(root) == "max"


def test_the_guard_steps_aside_when_the_actuator_beats_again(tmp_path: Path) -> None:
    root = near_limit(tmp_path, ceiling=400 * MIB)
    heart = Heartbeat(tmp_path / "state")
    heart.beat(5.0)
    one = Guard(str(tmp_path / "state"), str(root), "b1")
    one.died()
    heart.beat(6.0)
    one.look()
    assert not one.is_silent
    (root / GROUP / "memory.current").write_text(f"{149 * MIB}\n")
    one.look()
    assert (root / GROUP / "memory.max").read_text().strip() == str(150 * MIB)


def test_a_note_that_was_cut_costs_only_its_last_line(tmp_path: Path) -> None:
    (tmp_path / NOTE).write_text("a/b 100\na/b 200\na/c 3\nx\na/d 4x\n")
    assert take_note(str(tmp_path)) == {"a/b": 200, "a/c": 3}
