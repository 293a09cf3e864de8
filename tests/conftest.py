"""Which levels this machine allows, told in the run's last lines."""

import os
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.browser import why_no_browser
from tests.kubernetes.apiserver import why_no_apiserver
from tests.kubernetes.cluster import why_no_cluster
from tests.kubernetes.vm import VmCluster, why_no_vm_cluster
from tests.recommender.prometheus.server import why_no_prometheus

# A machine that is busy with something else fails no test; and a run for CI repeats.
settings.register_profile(
    "elastipod",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
)
settings.load_profile("elastipod")
# A run in the background of a script, as of CI, hears no interrupts, and one by nohup no end of its terminal; the
# programs that tests interrupt shall, from before they say what becomes of it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

_ran: set[str] = set()
_figures: list[str] = []


@dataclass(frozen=True, slots=True)
class Level:
    """Tests that need more than Python; its name is their marker."""

    name: str
    what: str
    why_not: Callable[[], str]
    """Nothing where this machine allows it, else what is in the way."""
    target: str = ""
    """The make target it is for, where it takes too long or can not run beside others."""
    folder: str = ""
    """The one below tests/ that they all lie in, where the target looks there only."""

    def reason(self, asked: set[str]) -> str:
        """Why its tests do not run, or nothing."""
        return f"runs by `make {self.target}`" if self.target and self.name not in asked else self.why_not()


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


LEVELS = (
    Level("cgroups", "real processes in this machine's cgroups", why_no_cgroups),
    Level("promserver", "real Prometheus", why_no_prometheus),
    Level("browser", "real browser", why_no_browser),
    Level("apiserver", "real Kubernetes API server", why_no_apiserver),
    Level("cluster", "real Kubernetes cluster with a node on this machine", why_no_cluster, target="cluster"),
    Level("vm", "cgroup v2 in a VM", why_no_vm, target="vm", folder="node"),
    Level(
        "vmcluster",
        f"real Kubernetes cluster with a node on cgroup v2 in a VM, cgroups made by {VmCluster.driver}",
        why_no_vm_cluster,
        target="vm",
        folder="kubernetes",
    ),
)


def _controllers(place: str) -> str:
    try:
        return Path(place, "cgroup.subtree_control").read_text("ascii")
    except OSError:
        return ""


def _asked(config: pytest.Config) -> set[str]:
    """The markers that `-m` names."""
    return set(re.findall(r"\w+", config.option.markexpr or ""))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for level in LEVELS:
        reason = level.reason(_asked(config))
        for item in items:
            if not item.get_closest_marker(level.name):
                continue
            if level.folder and level.folder not in item.path.parts:
                raise pytest.UsageError(
                    f"{item.nodeid} is never run: `make {level.target}` looks in tests/{level.folder}"
                )
            if reason:
                item.add_marker(pytest.mark.skip(reason=f"{level.name}: {reason}"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        _ran.update({level.name for level in LEVELS} & set(report.keywords))
        _figures.extend(str(value) for name, value in report.user_properties if name == "figure")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    asked = _asked(config)
    terminalreporter.write_sep("-", "levels")
    if not asked:
        terminalreporter.write_line("embedded API server and simulation: ran")
    for level in LEVELS:
        why = level.reason(asked) or "none of its tests was asked for"
        told = "ran" if level.name in _ran else f"did not run ({why})"
        terminalreporter.write_line(f"{level.what}: {told}")
    for figure in _figures:
        terminalreporter.write_line(figure)
