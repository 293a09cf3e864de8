"""Namespaces of a cluster's own: network, mounts, processes and cgroups, so that nothing of it is left or collides.

A program of its own, of the standard library alone: `namespaces.py NAME FOLDER ADDRESS -- COMMAND` runs the command in
a machine that looks empty. Its first pass joins cgroups of that name and unshares; its second, `--inside`, lays out
mounts and the network. Removing the cgroups afterwards is `remove_cgroups`, for whoever is outside.
"""

import os
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Final

CGROUPS: Final = Path("/sys/fs/cgroup")
_PREFIX_BITS: Final = 24
_KERNEL_VALUES: Final = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""What a kubelet writes into the whole machine's settings; here it finds files that say so already."""


@cache
def why_no_namespaces() -> str:
    """Nothing where this process may make its own, else what is in the way."""
    argv = ["unshare", "--cgroup", "--net", "--mount", "--pid", "--fork", "true"]
    try:
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
    except OSError:
        return "unshare is not installed"
    return done.stderr.strip()


def hierarchies() -> list[str]:
    """The cgroup v1 hierarchies of this machine, named as their mounts are."""
    return sorted(path.parent.name for path in CGROUPS.glob("*/cgroup.clone_children") if not path.parent.is_symlink())


def remove_cgroups(name: str) -> None:
    """Remove a dead cluster's cgroups; its last processes may be a moment away from their end."""
    for _ in range(100):
        left = [path for hierarchy in hierarchies() if (path := CGROUPS / hierarchy / name).exists()]
        for top in left:
            for folder, _, _ in os.walk(top, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    break
        if not left:
            return
        threading.Event().wait(0.05)


def main() -> None:
    """Either pass."""
    if sys.argv[1] == "--inside":
        folder, address = Path(sys.argv[2]), sys.argv[3]
        _lay_mounts(folder)
        _lay_network(address, sys.argv[4])
        os.execvp(sys.argv[6], sys.argv[6:])
    name = sys.argv[1]
    for hierarchy in hierarchies():
        _join(CGROUPS / hierarchy, name)
    unshare = ["unshare", "--cgroup", "--net", "--mount", "--pid", "--fork", "--kill-child"]
    unshare += ["--propagation", "private", "--mount-proc", "--"]
    os.execvp("unshare", [*unshare, sys.executable, "-I", "-S", __file__, "--inside", *sys.argv[2:]])


def _join(hierarchy: Path, name: str) -> None:
    group = hierarchy / name
    group.mkdir(exist_ok=True)
    for needed in ("cpuset.cpus", "cpuset.mems"):
        if (hierarchy / needed).exists():
            (group / needed).write_text((hierarchy / needed).read_text())
    if (group / "memory.use_hierarchy").exists() and (group / "memory.use_hierarchy").read_text().strip() == "0":
        (group / "memory.use_hierarchy").write_text("1")
    (group / "cgroup.procs").write_text(str(os.getpid()))


def _lay_mounts(folder: Path) -> None:
    found = hierarchies()
    _run("umount", "--recursive", str(CGROUPS))
    _run("mount", "-t", "sysfs", "sysfs", "/sys")
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "cgroups", str(CGROUPS))
    for hierarchy in found:
        place = CGROUPS / hierarchy
        place.mkdir()
        named = hierarchy == "systemd"
        _run("mount", "-t", "cgroup", "-o", "none,name=systemd" if named else hierarchy, "cgroup", str(place))
    # Fixed places that a node writes to; what was in them is out of sight.
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run")
    for name in ("lib", "log"):
        (folder / name).mkdir()
        _run("mount", "--bind", str(folder / name), f"/var/{name}")
    for setting, value in _KERNEL_VALUES.items():
        ours = folder / f"kernel-{setting.replace('/', '-')}"
        ours.write_text(f"{value}\n")
        _run("mount", "--bind", str(ours), f"/proc/sys/{setting}")
    # Mounts of pods are shared with their containers, as the kubelet and the runtime expect of a node.
    _run("mount", "--make-rshared", "/")


def _lay_network(address: str, service_address: str) -> None:
    _run("ip", "link", "set", "lo", "up")
    # A bridge with no one on it serves as the node's network card.
    _run("ip", "link", "add", "br0", "type", "bridge")
    _run("ip", "addr", "add", f"{address}/{_PREFIX_BITS}", "dev", "br0")
    _run("ip", "link", "set", "br0", "up")
    _run("ip", "addr", "add", f"{service_address}/32", "dev", "br0")
    _run("ip", "route", "add", "default", "via", address, "dev", "br0")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _run(*argv: str) -> None:
    subprocess.run(argv, check=True)


if __name__ == "__main__":
    main()
