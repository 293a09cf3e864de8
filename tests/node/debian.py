"""What virtual machines are made of: a Debian kernel, folders of unpacked Debian packages, an emulator.

Owns fetching and packing. What was made is kept in the user's cache folder.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

DISK_MODULES: Final = (
    "drivers/virtio/virtio_ring.ko", "drivers/virtio/virtio.ko", "drivers/virtio/virtio_pci_legacy_dev.ko",
    "drivers/virtio/virtio_pci_modern_dev.ko", "drivers/virtio/virtio_pci.ko", "drivers/block/virtio_blk.ko",
)  # fmt: skip
"""What the kernel needs to see a disk, in this order."""


class NoMachine(Exception):
    """No machine can be built here; the message says why."""


def cache() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "elastipod" / "vm"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kernel() -> Path:
    """The kernel's image. Raises NoMachine."""
    image = cache() / "vmlinuz"
    if not image.exists():
        names = run(["apt-cache", "search", "--names-only", r"^linux-image-6\.1\.0-[0-9]+-cloud-amd64$"]).split("\n")
        found = sorted((line.split()[0] for line in names if line), key=lambda name: int(name.split("-")[3]))
        if not found:
            raise NoMachine("apt knows no linux-image-6.1.0-*-cloud-amd64")
        root = unpacked((found[-1],), "kernel")
        [made] = (root / "boot").glob("vmlinuz-*")
        shutil.copy(made, image)
    return image


def emulator(initrd: Path, memory: str, console: str) -> list[str]:
    """A command that boots that kernel; devices are to be added. `console` as qemu's -serial has it."""
    argv = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", memory, "-smp", "2", "-nographic"]
    argv += ["-no-reboot", "-nodefaults", "-serial", console, "-kernel", str(kernel()), "-initrd", str(initrd)]
    return [*argv, "-append", "console=ttyS0 quiet panic=-1"]


def modules(names: Iterable[str]) -> list[Path]:
    """The kernel's modules of these names, as they lie below its `kernel` folder; in that order."""
    kernel()
    found: list[Path] = []
    for name in names:
        [module] = (cache() / "kernel" / "lib" / "modules").glob(f"*/kernel/{name}")
        found.append(module)
    return found


def unpacked(packages: Iterable[str], name: str) -> Path:
    """A folder with what these packages hold. Raises NoMachine."""
    folder, root = cache() / f"{name}-debs", cache() / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(root, ignore_errors=True)
    folder.mkdir()
    try:
        # apt downloads as a user of its own, who may not enter a home; as root it does so anyway and warns.
        run(["apt-get", "download", "-o", "APT::Sandbox::User=root", *packages], folder)
        for deb in sorted(folder.glob("*.deb")):
            run(["dpkg", "-x", str(deb), str(root)])
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoMachine(f"{name}: {error}") from None
    return root


def userland(packages: Iterable[str], name: str) -> Path:
    """Those packages as a root folder in which busybox has all its names. Raises NoMachine."""
    root = unpacked(packages, name)
    for gone in ("usr/share", "etc"):
        shutil.rmtree(root / gone, ignore_errors=True)
    for folder in ("proc", "sys", "dev", "tmp", "sbin", "etc", "root"):
        (root / folder).mkdir(exist_ok=True)
    for applet in run([str(root / "bin/busybox"), "--list"]).split():
        place = root / "bin" / applet
        if applet != "busybox" and not place.exists():
            place.symlink_to("busybox")
    return root


def packed(root: Path, below: str = "") -> bytes:
    """A compressed cpio of a folder, or of a folder in its parent."""
    base = root.parent if below else root
    names = [below or ".", *(str(path.relative_to(base)) for path in sorted(root.rglob("*")))]
    archive = subprocess.run(
        ["cpio", "-o", "-H", "newc", "--quiet"],
        input="\n".join(names).encode(),
        capture_output=True,
        cwd=base,
        check=True,
    ).stdout
    return subprocess.run(["gzip", "-1"], input=archive, capture_output=True, check=True).stdout


def run(argv: list[str], folder: Path | None = None) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True, cwd=folder).stdout
