"""A virtual machine with cgroup v2: a Debian kernel, a small userland with Python, and our packages.

Owns building and booting it. What was built is kept in the user's cache folder.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DEBS: Final = (
    "busybox-static", "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6", "zlib1g",
    "libexpat1", "libffi8", "libssl3", "libbz2-1.0", "liblzma5", "libuuid1",
    "libgcc-s1",
)  # fmt: skip
MODULES: Final = (
    "virtio/virtio_ring.ko", "virtio/virtio.ko", "virtio/virtio_pci_legacy_dev.ko", "virtio/virtio_pci_modern_dev.ko",
    "virtio/virtio_pci.ko", "block/virtio_blk.ko",
)  # fmt: skip
"""What the kernel needs to see a disk, in this order."""
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


class NoMachine(Exception):
    """No machine can be built here; the message says why."""


def cache() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "elastipod" / "vm"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def boot(folder: Path, seconds: float) -> str:
    """What the machine said from start to power-off. Raises NoMachine."""
    kernel, base = _kernel(), _userland()
    image, console, disk = folder / "initrd", folder / "console", folder / "disk"
    with disk.open("wb") as file:
        file.truncate(DISK_BYTES)
    image.write_bytes(base.read_bytes() + _packed(_ours(folder / "t"), "t"))
    argv = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "1536M", "-smp", "2", "-nographic"]
    argv += ["-no-reboot", "-nodefaults", "-serial", "stdio", "-kernel", str(kernel), "-initrd", str(image)]
    argv += ["-drive", f"file={disk},format=raw,if=virtio"]
    argv += ["-append", "console=ttyS0 quiet panic=-1"]
    with console.open("wb") as out:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return console.read_text("utf-8", "replace")


def _kernel() -> Path:
    kernel = cache() / "vmlinuz"
    if not kernel.exists():
        names = _run(["apt-cache", "search", "--names-only", r"^linux-image-6\.1\.0-[0-9]+-cloud-amd64$"]).split("\n")
        found = sorted((line.split()[0] for line in names if line), key=lambda name: int(name.split("-")[3]))
        if not found:
            raise NoMachine("apt knows no linux-image-6.1.0-*-cloud-amd64")
        unpacked = _unpacked((found[-1],), "kernel")
        [image] = (unpacked / "boot").glob("vmlinuz-*")
        shutil.copy(image, kernel)
    return kernel


def _userland() -> Path:
    made_of = hashlib.sha256(repr((DEBS, INIT)).encode()).hexdigest()[:12]
    packed = cache() / f"userland-{made_of}.cpio.gz"
    if not packed.exists():
        root = _unpacked(DEBS, "userland")
        for gone in ("usr/share", "etc"):
            shutil.rmtree(root / gone, ignore_errors=True)
        for folder in ("proc", "sys", "dev", "tmp", "sbin", "etc", "root"):
            (root / folder).mkdir(exist_ok=True)
        (root / "usr/bin/python3").unlink(missing_ok=True)
        (root / "usr/bin/python3").symlink_to("python3.11")
        applets = _run([str(root / "bin/busybox"), "--list"]).split()
        for applet in applets:
            place = root / "bin" / applet
            if applet != "busybox" and not place.exists():
                place.symlink_to("busybox")
        (root / "init").write_text(INIT)
        (root / "init").chmod(0o755)
        packed.write_bytes(_packed(root, ""))
    return packed


def _unpacked(packages: tuple[str, ...], name: str) -> Path:
    folder, root = cache() / f"{name}-debs", cache() / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(root, ignore_errors=True)
    folder.mkdir()
    try:
        # apt downloads as a user of its own, who may not enter a home; as root it does so anyway and warns.
        _run(["apt-get", "download", "-o", "APT::Sandbox::User=root", *packages], folder)
        for deb in sorted(folder.glob("*.deb")):
            _run(["dpkg", "-x", str(deb), str(root)])
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoMachine(f"{name}: {error}") from None
    return root


def _ours(folder: Path) -> Path:
    import prometheus_client

    packages = Path(prometheus_client.__file__).parents[1]
    for name in OURS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tests" / "__init__.py").touch()
    (folder / "modules").mkdir()
    for number, name in enumerate(MODULES):
        [found] = (cache() / "kernel" / "lib" / "modules").glob(f"*/kernel/drivers/{name}")
        shutil.copy(found, folder / "modules" / f"{number}-{found.name}")
    for name in PURE:
        copy = shutil.copytree if (packages / name).is_dir() else shutil.copy
        copy(packages / name, folder / name)
    return folder


def _packed(root: Path, below: str) -> bytes:
    """A compressed cpio of a folder."""
    if below:
        base = root.parent
        names = [below, *(str(path.relative_to(base)) for path in sorted(root.rglob("*")))]
    else:
        base = root
        names = [".", *(str(path.relative_to(base)) for path in sorted(root.rglob("*")))]
    archive = subprocess.run(
        ["cpio", "-o", "-H", "newc", "--quiet"],
        input="\n".join(names).encode(),
        capture_output=True,
        cwd=base,
        check=True,
    ).stdout
    return subprocess.run(["gzip", "-1"], input=archive, capture_output=True, check=True).stdout


def _run(argv: list[str], folder: Path | None = None) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True, cwd=folder).stdout
