"""One real API server for all workers of a run."""

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_CONFTEST = """
import contextlib
from pathlib import Path

from tests.contract import real
from tests.contract.conftest import pytest_sessionfinish, real_place

HERE = Path(__file__).parent


@contextlib.contextmanager
def server(logs):
    with (HERE / "started").open("a") as started:
        started.write("once")
    yield


def pytest_runtest_logreport(report):
    if report.when == "teardown" and report.nodeid.endswith("test_last_of_the_first"):
        (HERE / "over").touch()


real.ApiServer = server
real._with_our_kinds = lambda server: real.Place("https://nowhere", "none")
"""
_TESTS = """
import time
from pathlib import Path

HERE = Path(__file__).parent


def wait(name):
    while not (HERE / name).exists():
        time.sleep(0.01)


def test_first_of_the_first(real_place):
    (HERE / "asked").touch()


def test_last_of_the_first():
    wait("shared")


def test_first_of_the_second(request):
    wait("asked")
    request.getfixturevalue("real_place")
    (HERE / "shared").touch()


def test_last_of_the_second():
    wait("over")
"""


def test_no_test_lasts_until_other_workers_need_its_server_no_more(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_shared.py").write_text(_TESTS)
    argv = [sys.executable, "-m", "pytest", "-n", "2", "-o", "timeout=30", "--basetemp", str(tmp_path / "base")]
    argv += ["-p", "no:randomly", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=_ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "started").read_text() == "once"
