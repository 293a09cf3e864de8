"""Ctrl-C, SIGTERM, SIGHUP, once or many times in a row, at any moment: nothing is left."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elastipod.cli.interrupts import heard
from elastipod.clock import SystemClock

INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
CGROUPS = Path("/sys/fs/cgroup")


def start(words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    for name in ("tmp", "state"):
        (folder / name).mkdir()
    environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "XDG_STATE_HOME": str(folder / "state")}
    with (folder / "told").open("wb") as told:
        return subprocess.Popen(
            [sys.executable, "-m", "elastipod.cli", *words],
            env=environment, stdout=told, stderr=told, start_new_session=True,
        )  # fmt: skip


async def interrupt(
    process: subprocess.Popen[bytes], after_seconds: float, signals: tuple[signal.Signals, ...]
) -> None:
    await SystemClock().sleep(after_seconds)
    for number in signals:
        process.send_signal(number)
        await SystemClock().sleep(0.05)
    process.wait(30)


def processes_of(word: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if word in line and int(path.parent.name) != os.getpid():
            found.append(line)
    return found


def assert_nothing_left(folder: Path, *groups: str) -> None:
    assert processes_of(str(folder)) == []
    assert list((folder / "tmp").iterdir()) == []
    assert [path for path in (folder / "state").rglob("*") if path.name != "elastipod"] == []
    for group in groups:
        assert [*CGROUPS.glob(group), *CGROUPS.glob(f"*/{group}")] == []
    assert "Traceback" not in (folder / "told").read_text("utf-8", "replace")


@pytest.mark.cgroups
@pytest.mark.parametrize(
    ("after_seconds", "signals"), [(1.5, (INT, INT)), (3.0, (TERM, INT, HUP)), (9.0, (HUP,)), (16.0, (INT, TERM, INT))]
)
async def test_an_interrupted_demo_leaves_nothing(
    tmp_path: Path, after_seconds: float, signals: tuple[signal.Signals, ...]
) -> None:
    process = start(["demo"], tmp_path)
    await interrupt(process, after_seconds, signals)
    assert process.returncode != 0
    assert_nothing_left(tmp_path, f"elastipod-demo-{process.pid}*", f"elastipod-probe-demo-{process.pid}*")


@pytest.mark.cgroups
@pytest.mark.parametrize("words", [[], ["--foreground"]])
@pytest.mark.parametrize(("after_seconds", "signals"), [(0.9, (INT, INT)), (1.4, (TERM, INT, HUP)), (1.9, (HUP, HUP))])
async def test_an_interrupted_start_leaves_nothing(
    tmp_path: Path, words: list[str], after_seconds: float, signals: tuple[signal.Signals, ...]
) -> None:
    name = f"i{os.getpid()}{signals[0].value}{len(words)}"
    process = start(["local", "up", "--name", name, *words], tmp_path)
    await interrupt(process, after_seconds, signals)
    if process.returncode == 0 and not words:
        # It was up before the first signal came.
        down = [sys.executable, "-m", "elastipod.cli", "local", "down", "--name", name]
        state = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
        assert subprocess.run(down, env=state, stdout=subprocess.DEVNULL, check=False).returncode == 0
    assert_nothing_left(tmp_path, f"elastipod-{name}*", f"elastipod-probe-{name}*")


def test_what_whoever_started_it_ignores_does_not_end_it() -> None:
    before = signal.signal(HUP, signal.SIG_IGN)
    try:
        assert heard() == [INT, TERM]
    finally:
        signal.signal(HUP, before)
