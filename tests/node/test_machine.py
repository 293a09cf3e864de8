"""The spike path on a real cgroup v2 kernel, in a virtual machine."""

import re
import subprocess
import sys
from pathlib import Path

import prometheus_client
import pytest

from tests.node.cases import CASES
from tests.node.debian import NoMachine
from tests.node.machine import PURE, boot

BOOT_SECONDS = 900.0


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> str:
    try:
        return boot(tmp_path_factory.mktemp("machine"), BOOT_SECONDS)
    except NoMachine as error:
        pytest.skip(f"vm: {error}")


@pytest.mark.vm
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", CASES)
def test_in_the_machine(console: str, name: str) -> None:
    line = re.search(rf"^CASE {re.escape(name)} (.*)$", console.replace("\r", ""), re.MULTILINE)
    assert line is not None, console[-3000:]
    assert line.group(1).startswith("ok"), console[-6000:]


def test_every_case_has_a_name_of_its_own() -> None:
    assert len(set(CASES)) == len(CASES)
    assert Path(__file__).with_name("agent.py").exists()


def test_what_runs_there_needs_nothing_that_is_built(tmp_path: Path) -> None:
    """It has an interpreter of its own, and what we bring along."""
    for name in PURE:
        (tmp_path / name).symlink_to(Path(prometheus_client.__file__).parents[1] / name)
    paths = [str(tmp_path), str(Path(__file__).parents[2])]
    code = f"import sys; sys.path += {paths}; import tests.node.cases, tests.node.agent, actuator.guard"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
