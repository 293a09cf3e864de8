"""What puts sizes in force in a local cluster on this machine: its own cgroups, or a simulation.

Owns the choice and its reason. It is the place that hands the actuator's cgroup hands to a node.
"""

import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from actuator.cgroupfs import NoCgroups
from actuator.nodehands import NodeHands
from elastipod.clock import Clock
from elastipod.localcluster.node.processes import ProcessRuntime
from elastipod.localcluster.node.runtime import Runtime
from elastipod.localcluster.node.simulated import SimulatedRuntime

CGROUP_MOUNT: Final = "/sys/fs/cgroup"
_SCOPED: Final = "ELASTIPOD_SCOPED"


@dataclass(frozen=True, slots=True)
class Enforcement:
    """`cgroup v1`, `cgroup v2` or `simulated`; why, where it is simulated; the mount below which groups are made."""

    name: str
    why: str = ""
    root: str = CGROUP_MOUNT

    @property
    def is_simulated(self) -> bool:
        return self.name == "simulated"

    def runtime_maker(self, clock: Clock) -> Callable[[str, Path], Runtime]:
        """Makes a node's runtime from its name and folder."""

        def make(node: str, folder: Path) -> Runtime:
            if self.is_simulated:
                return SimulatedRuntime(clock)
            return ProcessRuntime(folder, hands_of(node, self.root), clock)

        return make


def hands_of(node: str, root: str = CGROUP_MOUNT) -> NodeHands:
    """The hands of one node. Raises NoCgroups."""
    return NodeHands(root, parent=parent_of(node))


def parent_of(node: str) -> str:
    """The folder in each hierarchy that is one node's alone."""
    return f"elastipod-{node}"


def choose(name: str, *, simulated: bool) -> Enforcement:
    """The best that this machine allows us."""
    if simulated:
        return Enforcement("simulated", "asked for with --simulated")
    root = _delegated_root() if os.geteuid() != 0 else CGROUP_MOUNT
    if root is None:
        return Enforcement("simulated", "not root, and no part of the cgroup tree is delegated to this user")
    try:
        hands = NodeHands(root, parent=f"elastipod-probe-{name}-{os.getpid()}")
        if root != CGROUP_MOUNT:
            hands.step_aside("elastipod")
        hands.create("probe")
        hands.remove_parent()
    except NoCgroups as error:
        return Enforcement("simulated", error.strerror or str(error))
    except OSError as error:
        return Enforcement("simulated", f"cgroups can not be made below {root}: {_told(error)}")
    return Enforcement(hands.enforcement, root=root)


def scoped(argv: Sequence[str]) -> list[str] | None:
    """The command that runs `argv` in a delegated part of the tree; None where there is no need or no way.

    Only cgroup v2 can be delegated to a user.
    """
    if os.geteuid() == 0 or os.environ.get(_SCOPED) or not Path(CGROUP_MOUNT, "cgroup.controllers").is_file():
        return None
    systemd = shutil.which("systemd-run")
    if systemd is None or not os.environ.get("XDG_RUNTIME_DIR"):
        return None
    return [systemd, "--user", "--scope", "--quiet", "-p", "Delegate=yes", f"--setenv={_SCOPED}=1", *argv]


def run_in_scope(command: list[str]) -> int:
    """Ourselves again in a delegated part of the tree; Ctrl-C reaches both, and we wait for the other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pid = os.posix_spawn(command[0], command, os.environ, setsigdef=[signal.SIGINT])
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def python_of_module(module: str) -> list[str]:
    """How a module of ours is run."""
    return [sys.executable, "-m", module]


def _delegated_root() -> str | None:
    """The scope we were started in, where it is ours to divide (cgroup v2)."""
    if not os.environ.get(_SCOPED):
        return None
    for line in Path("/proc/self/cgroup").read_text("ascii").splitlines():
        if line.startswith("0::/"):
            # Once we have stepped aside, the scope is one folder up.
            scope = Path(CGROUP_MOUNT + line.removeprefix("0::").removesuffix("/elastipod"))
            return str(scope) if os.access(scope / "cgroup.subtree_control", os.W_OK) else None
    return None


def _told(error: OSError) -> str:
    return "read-only file system" if error.errno == errno.EROFS else error.strerror or str(error)
