"""Copies of cgroup trees as plain files: what a kernel would answer is written by the test."""

import tempfile
from pathlib import Path

from actuator.memory import Target

MIB = 1024 * 1024
POD = "kubepods/burstable/pod1"
GROUP = f"{POD}/c1"

V2_FILES = {
    "memory.current": "1048576\n",
    "memory.max": f"{100 * MIB}\n",
    "memory.high": "max\n",
    "memory.stat": "anon 1048576\ninactive_file 0\nactive_file 0\nslab_reclaimable 0\n",
    "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 2\noom_group_kill 0\n",
    "pids.current": "1\n",
    "cpu.weight": "100\n",
    "cpu.max": "max 100000\n",
    "cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
    "cgroup.procs": "",
    "cgroup.freeze": "0\n",
    "memory.pressure": "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 total=0\n",
}


def v2_tree(root: Path, *groups: str) -> Path:
    """A v2 tree with these groups, and all above them; what is there stays as it is."""
    if not root.exists():
        root.mkdir()
        (root / "cgroup.controllers").write_text("cpu memory pids\n")
        (root / "cgroup.subtree_control").write_text("")
    for group in groups or (GROUP,):
        folder = root
        for part in group.split("/"):
            folder /= part
            if not folder.exists():
                _appear(folder)
    return root


def use(group: Path, memory_bytes: int) -> None:
    """A container uses so much."""
    tell(group / "memory.current", f"{memory_bytes}\n")


def tell(file: Path, text: str) -> None:
    """What a file that is read meanwhile says from now on: in one write, as a kernel's is never seen empty."""
    with file.open("r+") as told:
        told.write(text.ljust(file.stat().st_size))


def _appear(folder: Path) -> None:
    """A group, in one moment with all its files, as a kernel makes it."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="made-") as made:
        whole = Path(made, folder.name)
        whole.mkdir()
        for name, text in V2_FILES.items():
            (whole / name).write_text(text)
        whole.rename(folder)


def target(group: str = GROUP, *, limit: int = 100 * MIB, ceiling: int = 400 * MIB) -> Target:
    """A container under protection; its key is its group."""
    return Target(group, "1", "c", "c1", group.rpartition("/")[0], group, limit, ceiling, limit, 5.0)
