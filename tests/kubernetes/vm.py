"""A real cluster whose node is a virtual machine, since this machine has no cgroup v2 for a kubelet.

The control plane is a cluster's in namespaces; the machine hangs on its bridge. Owns the machine's disk, kept by what
it is made of, what is handed to it at each boot, and the way to run a command in it.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Final

from actuator.paths import Driver
from tests.kubernetes import binaries
from tests.kubernetes.cluster import ADDRESS, NODE, NODE_USER, SUBNET, Cluster, why_no_controllers
from tests.kubernetes.images import make_images, why_no_images
from tests.kubernetes.node import containerd_config, kubelet_config, network_config
from tests.kubernetes.processes import StartFailed
from tests.node.debian import DISK_MODULES, cache, emulator, modules, packed, run, userland

MACHINE: Final = "192.0.2.2"
_SHELL_PORT: Final = 2222
_FILES_PORT: Final = 8080
_DISK_BYTES: Final = 3 * 1024**3
_COMMAND_SECONDS: Final = 300.0
_LOCKED_UP_SECONDS: Final = 120.0
"""A machine that is well has its node ready in a third of that."""
_DEBS: Final = (
    "busybox-static", "containerd", "runc", "containernetworking-plugins", "libc6", "libseccomp2",
    # systemd and what it loads; dbus is not needed, as root asks it by a socket of its own.
    "systemd", "libsystemd-shared", "libacl1", "libapparmor1", "libaudit1", "libblkid1", "libcap-ng0", "libcap2",
    "libcrypt1", "libgcrypt20", "libgpg-error0", "libip4tc2", "libkmod2", "liblz4-1", "liblzma5", "libmount1",
    "libpam0g", "libpcre2-8-0", "libselinux1", "libssl3", "libzstd1",
)  # fmt: skip
_MODULES: Final = (
    *DISK_MODULES, "net/core/failover.ko", "drivers/net/net_failover.ko", "drivers/net/virtio_net.ko",
    "net/llc/llc.ko", "net/802/stp.ko", "net/bridge/bridge.ko", "drivers/net/veth.ko", "fs/overlayfs/overlay.ko",
    "drivers/char/virtio_console.ko",
)  # fmt: skip
_BOOT: Final = """#!/bin/busybox sh
B=/bin/busybox
$B mount -t proc p /proc; $B mount -t devtmpfs d /dev
for module in /modules/*; do $B insmod $module; done
while [ ! -b /dev/vda ]; do $B sleep 0.05; done
$B mount -t ext4 /dev/vda /disk; $B cp -r /node /disk/node
$B umount /proc; exec $B switch_root /disk """
_INITS: Final = {Driver.CGROUPFS: "/start", Driver.SYSTEMD: "/lib/systemd/systemd --unit=node.service"}
"""What is process 1: the first starts all itself, and systemd starts the first."""
_START: Final = f"""#!/bin/busybox sh
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/root
if [ ! -d /run/systemd/system ]; then
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
mkdir -p /dev/pts /dev/shm; mount -t devpts p /dev/pts
mount -t tmpfs s /dev/shm; mount -t tmpfs t /tmp; mount -t tmpfs r /run; ln -sf /proc/self/fd /dev/fd
mount -t cgroup2 c /sys/fs/cgroup; cd /sys/fs/cgroup
for one in $(cat cgroup.controllers); do echo +$one > cgroup.subtree_control; done; cd /
fi
mount --make-rshared /; hostname {NODE}; dmesg -n 1
ip link set lo up; ip addr add {MACHINE}/24 dev eth0; ip link set eth0 up; ip route add default via {ADDRESS}
echo 1 > /proc/sys/net/ipv4/ip_forward
nc -ll -p {_SHELL_PORT} -e sh &
containerd --config /node/containerd.toml > $(echo /dev/vport*p1) 2>&1 &
until ctr version > /dev/null 2>&1; do sleep 0.1; done
for image in /images/*; do ctr -n k8s.io images import $image; done
/start-kubelet
while :; do sleep 1000; done
"""
_UNIT: Final = """[Unit]
DefaultDependencies=no
[Service]
ExecStart=/start
Delegate=yes
"""
_START_KUBELET: Final = f"""#!/bin/busybox sh
kubelet --config=/node/kubelet.json --kubeconfig=/node/kubeconfig --hostname-override={NODE} --node-ip={MACHINE} \\
  > $(echo /dev/vport*p2) 2>&1 < /dev/null &
"""


def why_no_vm_cluster() -> str:
    """Nothing where such a cluster can be started, else what is in the way."""
    for program in ("qemu-system-x86_64", "cpio", "mke2fs", "apt-get", "ip"):
        if not shutil.which(program):
            return f"{program} is not installed"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    return why_no_controllers() or binaries.why_missing("kubelet") or why_no_images()


class VmCluster(Cluster):
    """As the cluster in namespaces, with another node: slower by its emulated processors."""

    driver = Driver(os.environ.get("ELASTIPOD_CGROUP_DRIVER", Driver.SYSTEMD))
    """Of kubelet and containerd. With systemd's, as most nodes have it, systemd is process 1."""
    node_process = "machine"
    longest_seconds = 300.0
    _argv: list[str]

    def boot_node(self) -> None:
        plane = self.control_plane
        disk, initrd = _disk(), plane.folder / "initrd"
        initrd.write_bytes(packed(self._handed(plane.folder / "boot")))
        network = f"ip tuntap add tap0 mode tap; ip link set tap0 master br0 up; ip route add {SUBNET} via {MACHINE}"
        plane.processes.run("network", ["sh", "-c", network])
        argv = emulator(initrd, "3G", f"file:{self._console}")
        # What a machine writes is not kept: each boot finds a clean node.
        argv += ["-drive", f"file={disk},format=raw,if=virtio,snapshot=on,cache=unsafe"]
        argv += ["-netdev", "tap,id=n0,ifname=tap0,script=no,downscript=no"]
        argv += ["-device", "virtio-net-pci,netdev=n0,romfile="]
        argv += ["-device", "virtio-serial-pci"]
        for port, name in enumerate(("containerd", "kubelet"), 1):
            argv += ["-chardev", f"file,id={name},path={self.logs}/{name}.log"]
            argv += ["-device", f"virtserialport,chardev={name},nr={port}"]
        self._argv = argv
        self._start_machine()

    def wait_node(self) -> None:
        """Emulated processors lock up now and then as they start, both for ever: then it is booted once more."""
        try:
            self.control_plane.processes.wait_ready(self.node_process, self._node_is_ready, _LOCKED_UP_SECONDS)
        except StartFailed:
            if b"soft lockup" in self._console.read_bytes():
                self.control_plane.processes.kill(self.node_process)
                self._start_machine()
            super().wait_node()

    def _start_machine(self) -> None:
        plane = self.control_plane
        plane.processes.start(self.node_process, self._argv, {"TMPDIR": str(plane.folder)})

    @property
    def _console(self) -> Path:
        return self.logs / "console.log"

    def join_node(self) -> None:
        """It joins by itself, when it has booted."""

    def start_kubelet(self) -> None:
        self.in_node("/start-kubelet")

    def kill_kubelet(self) -> None:
        self.in_node("killall -KILL kubelet; while pidof kubelet; do sleep 0.1; done")

    def import_image(self, archive: Path) -> None:
        processes = self.control_plane.processes
        served = self.control_plane.folder / "served"
        served.mkdir(exist_ok=True)
        shutil.copy(archive, served / "image.tar")
        argv = ["busybox", "httpd", "-f", "-p", f"{ADDRESS}:{_FILES_PORT}", "-h", str(served)]
        processes.start("files", argv)
        try:
            url = f"http://{ADDRESS}:{_FILES_PORT}/image.tar"
            self.in_node(f"until wget -q -O /tmp/image.tar {url}; do sleep 0.1; done")
            self.in_node("ctr -n k8s.io images import /tmp/image.tar && rm /tmp/image.tar")
        finally:
            processes.kill("files")

    def in_node(self, command: str) -> str:
        argv = ["sh", "-c", f'printf "%s" "$1" | busybox nc {MACHINE} {_SHELL_PORT}', "sh"]
        said = self.control_plane.processes.run("in-node", [*argv, f"({command})\necho code $?\n"], _COMMAND_SECONDS)
        before, _, code = said.rstrip("\n").rpartition("code ")
        if code != "0":
            raise StartFailed(f"{command} on the node ended with {code}; {before}")
        return before

    def killed_for_memory(self, container_id: str) -> bool:
        """Whether the kernel did that. The runtime may miss it, and the pod's status too: systemd removes the dead
        container's cgroup, and with it the count, at once."""
        return container_id.rpartition("/")[2] in self.in_node("dmesg | grep oom_memcg= || true")

    def _handed(self, folder: Path) -> Path:
        """What the machine boots from: its modules, and the files that are this cluster's alone."""
        for name in ("bin", "modules", "node", "proc", "dev", "disk"):
            (folder / name).mkdir(parents=True)
        shutil.copy(shutil.which("busybox") or "", folder / "bin" / "busybox")
        for number, module in enumerate(modules(_MODULES)):
            shutil.copy(module, folder / "modules" / f"{number:02}-{module.name}")
        (folder / "init").write_text(f"{_BOOT}{_INITS[self.driver]}\n")
        (folder / "init").chmod(0o755)
        node, plane = folder / "node", self.control_plane
        authority = Path("/node/authority.crt")
        shutil.copy(plane.authority.certificate, node / authority.name)
        kubeconfig = plane.kubeconfig(NODE_USER).read_text().replace(str(plane.authority.certificate), str(authority))
        (node / "kubeconfig").write_text(kubeconfig)
        (node / "kubelet.json").write_text(json.dumps(kubelet_config(authority, self.driver, is_v1=False)))
        (node / "containerd.toml").write_text(
            containerd_config(Path("/node/networks"), driver=self.driver, may_lower_oom_score=True)
        )
        (node / "networks").mkdir()
        (node / "networks" / "10-pods.conflist").write_text(json.dumps(network_config(SUBNET)))
        return folder


def _disk() -> Path:
    """The machine's disk, made where none is kept that is made of the same. Raises NoMachine."""
    kubelet = binaries.find("kubelet")
    made_of = hashlib.sha256(repr((_DEBS, _START, _START_KUBELET, _UNIT, str(kubelet))).encode()).hexdigest()[:12]
    disk = cache() / f"node-{made_of}.img"
    if not disk.exists():
        root = userland(_DEBS, "node")
        shutil.copy(kubelet, root / "usr" / "bin" / "kubelet")
        for name in ("images", "run", "var/lib", "var/log"):
            (root / name).mkdir(parents=True, exist_ok=True)
        make_images(root / "images")
        for name, text in (("start", _START), ("start-kubelet", _START_KUBELET)):
            (root / name).write_text(text)
            (root / name).chmod(0o755)
        (root / "etc" / "systemd" / "system").mkdir(parents=True)
        for name, text in (
            ("fstab", ""),
            ("systemd/system/node.service", _UNIT),
            ("passwd", "root:x:0:0:root:/root:/bin/sh\n"),
            ("group", "root:x:0:\n"),
            ("hosts", "127.0.0.1 localhost\n"),
            ("resolv.conf", ""),
            ("machine-id", f"{hashlib.md5(NODE.encode()).hexdigest()}\n"),
        ):
            (root / "etc" / name).write_text(text)
        unfinished = disk.with_suffix(f".{os.getpid()}")
        with unfinished.open("wb") as file:
            file.truncate(_DISK_BYTES)
        run(["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", str(root), str(unfinished)])
        for old in cache().glob("node-*.img"):
            old.unlink()
        unfinished.rename(disk)
        shutil.rmtree(root)
    return disk
