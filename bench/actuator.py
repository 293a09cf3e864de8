"""The actuator on this machine's own cgroups: how quick it is, what it saves, what it costs when nothing happens."""

import os
import sys

from actuator.cgroupfs import NoCgroups
from actuator.cgrouptree import CgroupTree
from bench.figures import Figures
from bench.idle import idle
from bench.spikes import spikes

SAMPLE_SECONDS = 10.0
PARENT = f"elastipod-bench-{os.getpid()}"


def why_not() -> str:
    """Why nothing can be measured here; empty where it can."""
    if os.geteuid() != 0:
        return "not root: a cgroup of one's own can not be made"
    try:
        fs = CgroupTree(parent=PARENT)
        fs.create("probe")
        fs.remove_parent()
    except (NoCgroups, OSError) as error:
        return str(error)
    return "" if fs.version == 1 else "cgroup v2 here; its figures come from `make vm` (tests/node)"


def main() -> int:
    """Measure, or say why not."""
    reason = why_not()
    if reason:
        print(f"not measured here: {reason}")
        return 0
    figures = Figures()
    if "idle" not in sys.argv:
        spikes(figures, PARENT)
    idle(figures, PARENT)
    idle(figures, PARENT, SAMPLE_SECONDS)
    return figures.exit_code


if __name__ == "__main__":
    sys.exit(main())
