"""Which levels this machine allows, told in the run's last lines."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

# A machine that is busy with something else fails no test; and a run for CI repeats.
settings.register_profile("elastipod", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("elastipod")

_ran: set[str] = set()


def why_no_cgroups() -> str:
    """Nothing where this machine lets us make memory cgroups, else what is in the way."""
    if os.geteuid() != 0:
        return "not root"
    for place in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup"):
        if Path(place, "memory.limit_in_bytes").exists() or "memory" in _controllers(place):
            return "" if os.access(place, os.W_OK) else f"{place} is read-only"
    return "no memory cgroup hierarchy is mounted"


def why_no_vm() -> str:
    """Nothing where a virtual machine can be started, else what is in the way."""
    return "" if shutil.which("qemu-system-x86_64") else "qemu-system-x86_64 is not installed"


def _controllers(place: str) -> str:
    try:
        return Path(place, "cgroup.subtree_control").read_text("ascii")
    except OSError:
        return ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked_for_vm = "vm" in (config.option.markexpr or "")
    reasons = {"cgroups": why_no_cgroups(), "vm": why_no_vm() if asked_for_vm else "runs by `make vm`"}
    for item in items:
        for level, reason in reasons.items():
            if reason and item.get_closest_marker(level):
                item.add_marker(pytest.mark.skip(reason=f"{level}: {reason}"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        _ran.update({"cgroups", "vm"} & set(report.keywords))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    asked_for_vm = "vm" in (config.option.markexpr or "")
    missing = {"cgroups": why_no_cgroups(), "vm": why_no_vm() if asked_for_vm else "runs by `make vm`"}
    terminalreporter.write_sep("-", "levels")
    if not asked_for_vm:
        terminalreporter.write_line("embedded API server and simulation: ran")
    for level, what in (("cgroups", "real processes in this machine's cgroups"), ("vm", "cgroup v2 in a VM")):
        why = missing[level] or "none of its tests was asked for"
        terminalreporter.write_line(f"{what}: {'ran' if level in _ran else f'did not run ({why})'}")
