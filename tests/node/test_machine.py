"""The spike path on a real cgroup v2 kernel, in a virtual machine."""

import re
from pathlib import Path

import pytest

from tests.node.cases import CASES
from tests.node.debian import NoMachine
from tests.node.machine import boot

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
