"""A virtual machine with cgroup v2: a Debian kernel, a small userland with Python, and our packages.

Owns its making, its booting, and what runs in it. The kernel and the packages are debian.py's matter.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.node.debian import DISK_MODULES, cache, emulator, modules, packed, userland

ROOT: Final = Path(__file__).parents[2]
DEBS: Final = (
    "busybox-static", "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6", "zlib1g",
    "libexpat1", "libffi8", "libssl3", "libbz2-1.0", "liblzma5", "libuuid1",
    "libgcc-s1",
)  # fmt: skip
DISK_BYTES: Final = 400 * 1024 * 1024
PURE: Final = ("prometheus_client", "typing_extensions.py")
OURS: Final = ("elastipod", "actuator", "tests/node")
INIT: Final = """#!/bin/busybox sh
export PATH=/bin:/sbin:/usr/bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev; mount -t tmpfs t /tmp
mount -t cgroup2 c /sys/fs/cgroup
echo "+memory +cpu +pids" > /sys/fs/cgroup/cgroup.subtree_control; dmesg -n 1
echo never > /sys/kernel/mm/transparent_hugepage/enabled
PYTHONPATH=/t PYTHONDONTWRITEBYTECODE=1 python3 -m tests.node.cases; echo "EXIT:$?"; poweroff -f
"""


def boot(folder: Path, seconds: float) -> str:
    """What the machine said from start to power-off. Raises NoMachine."""
    initrd, console, disk = folder / "initrd", folder / "console", folder / "disk"
    with disk.open("wb") as file:
        file.truncate(DISK_BYTES)
    initrd.write_bytes(_userland().read_bytes() + packed(_ours(folder / "t"), "t"))
    argv = [*emulator(initrd, "1536M", "stdio"), "-drive", f"file={disk},format=raw,if=virtio"]
    with console.open("wb") as out:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return console.read_text("utf-8", "replace")


def _userland() -> Path:
    made_of = hashlib.sha256(repr((DEBS, INIT)).encode()).hexdigest()[:12]
    made = cache() / f"userland-{made_of}.cpio.gz"
    if not made.exists():
        root = userland(DEBS, "userland")
        (root / "usr/bin/python3").unlink(missing_ok=True)
        (root / "usr/bin/python3").symlink_to("python3.11")
        (root / "init").write_text(INIT)
        (root / "init").chmod(0o755)
        made.write_bytes(packed(root))
    return made


def _ours(folder: Path) -> Path:
    import prometheus_client

    packages = Path(prometheus_client.__file__).parents[1]
    for name in OURS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tests" / "__init__.py").touch()
    (folder / "modules").mkdir()
    for number, found in enumerate(modules(DISK_MODULES)):
        shutil.copy(found, folder / "modules" / f"{number}-{found.name}")
    for name in PURE:
        copy = shutil.copytree if (packages / name).is_dir() else shutil.copy
        copy(packages / name, folder / name)
    return folder
