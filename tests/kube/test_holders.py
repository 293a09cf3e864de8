"""Who holds a Lease, and whether it is surely dead."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from elastipod.kube.holders import has_ended, own_name

PRINT = "from elastipod.kube.holders import own_name; print(own_name(), flush=True); input()"


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", PRINT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def test_a_process_has_ended_once_it_is_killed_and_not_before(other: subprocess.Popen[str]) -> None:
    assert other.stdout is not None
    name = other.stdout.readline().strip()
    assert name != own_name()
    assert not has_ended(name)
    other.kill()
    # A zombie is not known to have ended.
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
    assert not has_ended(name)
    other.wait()
    assert has_ended(name)


def test_a_dead_processes_name_elsewhere_tells_nothing(other: subprocess.Popen[str]) -> None:
    assert other.stdout is not None
    host, pid, place = other.stdout.readline().strip().split("_")
    other.kill()
    other.wait()
    boot, _, namespace = place.partition(".")
    for foreign in (f"{boot[:-1]}x.{namespace}", f"{boot}.1", boot, ""):
        assert not has_ended(f"{host}_{pid}_{foreign}")
    assert has_ended(f"{host}_{pid}_{place}")


@pytest.mark.parametrize(
    "name", ["", "me", "me_1", "a_b_c_d", "h_{huge}_{place}", "h_-1_{place}", "h_0_{place}", "h__{place}"]
)
def test_what_is_no_name_of_ours_tells_nothing(name: str) -> None:
    place = own_name().split("_")[2]
    assert not has_ended(name.format(huge=9**99, place=place))
