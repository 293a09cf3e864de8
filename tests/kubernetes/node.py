"""A whole node: containerd and the kubelet, what they are configured with, and starting them.

The same configuration serves a node in namespaces of this machine and one in a virtual machine.
"""

import json
import shutil
from pathlib import Path
from typing import Any, Final

from actuator.paths import Driver
from tests.kubernetes import binaries
from tests.kubernetes.images import PAUSE, why_no_images
from tests.kubernetes.processes import Processes

SOCKET: Final = "/run/containerd/containerd.sock"
PLUGINS: Final = Path("/usr/lib/cni")
_SYS_RESOURCE: Final = 24  # CAP_SYS_RESOURCE of capabilities(7)


def why_no_node() -> str:
    """Nothing where a node's programs are there, else what is missing."""
    for program in ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip"):
        if not shutil.which(program):
            return f"{program} is not installed (on Debian: containerd runc iproute2)"
    if not (PLUGINS / "bridge").exists():
        return f"{PLUGINS}/bridge is not there (on Debian: containernetworking-plugins)"
    return binaries.why_missing("kubelet") or why_no_images()


def containerd_config(networks: Path, driver: Driver, *, may_lower_oom_score: bool) -> str:
    """Its config.toml. Without CAP_SYS_RESOURCE no pod starts, unless OOM scores are left as they are."""
    return f"""version = 2
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = {json.dumps(not may_lower_oom_score)}
  sandbox_image = "{PAUSE}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{PLUGINS}"
    conf_dir = "{networks}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = {json.dumps(driver is Driver.SYSTEMD)}
"""


def network_config(subnet: str) -> dict[str, Any]:
    """Pods' network: a bridge, and addresses of that subnet."""
    addresses = {"type": "host-local", "ranges": [[{"subnet": subnet}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


def kubelet_config(authority: Path, driver: Driver, *, is_v1: bool) -> dict[str, Any]:
    """Its KubeletConfiguration."""
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": driver.value,
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi"},
        "makeIPTablesUtilChains": False,
    }
    return config | {"failCgroupV1": False} if is_v1 else config


class Node:
    """The node of a cluster in namespaces, started by its keeper."""

    def __init__(self, processes: Processes, folder: Path, name: str, address: str, subnet: str) -> None:
        self.name = name
        self._processes = processes
        self._folder = folder
        self._address = address
        self._networks = folder / "networks"
        self._networks.mkdir()
        (self._networks / "10-pods.conflist").write_text(json.dumps(network_config(subnet)))

    def start_runtime(self) -> None:
        """Start containerd, and do not wait."""
        config = self._folder / "containerd.toml"
        config.write_text(
            containerd_config(self._networks, driver=Driver.CGROUPFS, may_lower_oom_score=_may(_SYS_RESOURCE))
        )
        self._processes.start("containerd", ["containerd", "--config", str(config)])

    def wait_runtime(self) -> None:
        """Until containerd answers."""
        self._processes.run("ctr-version", ["sh", "-c", "until ctr version >/dev/null 2>&1; do sleep 0.05; done"])

    def import_image(self, archive: Path) -> None:
        """A docker or OCI archive, for pods that say `imagePullPolicy: Never`."""
        self._processes.run("ctr-import", ["ctr", "--namespace", "k8s.io", "images", "import", str(archive)])

    def start_kubelet(self, kubeconfig: Path, authority: Path) -> None:
        """Start it, or start it again, and do not wait."""
        config = self._folder / "kubelet.json"
        config.write_text(json.dumps(kubelet_config(authority, Driver.CGROUPFS, is_v1=True)))
        self._processes.start(
            "kubelet",
            [
                str(binaries.find("kubelet")),
                f"--config={config}",
                f"--kubeconfig={kubeconfig}",
                f"--hostname-override={self.name}",
                f"--node-ip={self._address}",
            ],
        )


def _may(capability: int) -> bool:
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:")]
    return bool(int(line.split()[1], 16) >> capability & 1)
