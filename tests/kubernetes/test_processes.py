"""What a cluster's programs run under, with programs that any machine has."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.processes import Processes, StartFailed, processes_that_name, wait_for
from tests.kubernetes.statefolder import StateFolder, left_behind


@pytest.fixture
def folder() -> Iterator[StateFolder]:
    made = StateFolder()
    yield made
    made.remove()


@pytest.fixture
def processes(folder: StateFolder, tmp_path: Path) -> Iterator[Processes]:
    made = Processes(folder, tmp_path)
    yield made
    made.close()


def test_a_program_that_ends_well_tells_what_it_said(processes: Processes) -> None:
    assert processes.run("echo", ["echo", "one"]) == "one\n"
    assert processes.run("echo", ["echo", "two"]) == "two\n"


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["sh", "-c", "echo no luck; exit 3"], "trying ended with 3(?s:.*)no luck"),
        (["/nowhere/program"], "trying ended with 127(?s:.*)No such file"),
        (["sh", "-c", "kill -KILL $$"], "trying ended with -9"),
    ],
)
def test_a_program_that_ends_before_it_is_ready_tells_how_and_its_last_words(
    processes: Processes, argv: list[str], told: str
) -> None:
    processes.start("trying", argv)
    with pytest.raises(StartFailed, match=told):
        processes.wait_ready("trying", lambda: False, 30)


def test_what_never_gets_ready_is_told_with_its_last_words(processes: Processes) -> None:
    processes.start("idle", ["sh", "-c", "echo still thinking; sleep 600"])
    wait_for(lambda: "thinking" in processes.tail("idle"), 30, "it has spoken")
    with pytest.raises(StartFailed, match=r"not within 0 s: idle is ready(?s:.*)still thinking"):
        processes.wait_ready("idle", lambda: False, 0)


def test_a_program_that_does_not_listen_is_killed(processes: Processes) -> None:
    processes.start("deaf", ["sh", "-c", "trap '' TERM; echo deaf; sleep 600 & wait; sleep 600"])
    wait_for(lambda: "deaf\n" in processes.tail("deaf"), 30, "it is deaf")
    processes.stop("deaf", 0)
    assert processes.code("deaf") == -signal.SIGKILL


def test_all_programs_end_with_their_keeper(folder: StateFolder, tmp_path: Path) -> None:
    processes = Processes(folder, tmp_path)
    for number in range(3):
        processes.start(f"sleeper-{number}", ["sh", "-c", f": {tmp_path}/; sleep 600 & wait"])
    wait_for(lambda: len(processes_that_name(tmp_path / "")), 30, "they run", lambda count: count >= 3)
    processes.close()
    assert not processes_that_name(tmp_path / "")


def test_a_folder_is_left_behind_only_once_its_last_process_ended(tmp_path: Path) -> None:
    folder = StateFolder()
    processes = Processes(folder, tmp_path)
    try:
        assert folder.path not in left_behind()
    finally:
        processes.close()
        folder.remove()
    assert not folder.path.exists()


def test_programs_inherit_the_sockets_they_are_to_serve(folder: StateFolder, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        processes = Processes(folder, tmp_path, sockets=[listening.fileno()])
        told = processes.run("look", ["readlink", f"/proc/self/fd/{listening.fileno()}"])
        processes.close()
    assert told.startswith("socket:")
