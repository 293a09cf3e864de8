"""A whole real cluster on this machine: control plane, controllers, and a node that runs pods, in its own namespaces.

Needs root. Adds to the API server: a node with its kubelet and containerd, images, metrics, and a look at cgroups.
"""

import contextlib
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from elastipod.clock import SystemClock
from tests.kubernetes import binaries
from tests.kubernetes.apiserver import ApiServer, why_no_apiserver
from tests.kubernetes.certificates import Authority
from tests.kubernetes.controlplane import ADMIN, LOOPBACK, SERVICE_ADDRESS, ControlPlane
from tests.kubernetes.images import make_images
from tests.kubernetes.metrics import start_metrics
from tests.kubernetes.namespaces import CGROUPS, hierarchies, remove_cgroups, why_no_namespaces
from tests.kubernetes.node import Node, why_no_node
from tests.kubernetes.processes import Processes, wait_for
from tests.kubernetes.statefolder import StateFolder, left_behind

NODE: Final = "n1"
NODE_USER: Final = f"system:node:{NODE}"
ADDRESS: Final = "192.0.2.1"
SUBNET: Final = "10.88.0.0/24"
PORT: Final = 443
_CLOCK: Final = SystemClock()
_HERE: Final = Path(__file__).parent


def why_no_cluster() -> str:
    """Nothing where a whole cluster can be started, else what is in the way."""
    if "memory" not in hierarchies():
        return "this machine has no cgroup v1 for a kubelet; see `make vm`"
    return why_no_controllers() or why_no_node()


def why_no_controllers() -> str:
    """Nothing where a cluster's control plane can be started, else what is in the way."""
    if os.geteuid() != 0:
        return "not root"
    missing = binaries.why_missing("kube-controller-manager", "kube-scheduler")
    return why_no_namespaces() or why_no_apiserver() or missing


def sweep() -> None:
    """Remove what dead clusters left: their folders and cgroups."""
    for path in left_behind():
        remove_cgroups(path.name)
        shutil.rmtree(path, ignore_errors=True)


class Cluster(ApiServer):
    """Ready when its node is. Two at once do not see each other."""

    node: Node
    ready_seconds: float
    """From nothing to a node that is ready."""
    node_process = "kubelet"
    """What the node is up to is in its log."""
    longest_seconds = 90.0
    """For a node that gets ready at all."""

    def start(self, ending: contextlib.ExitStack) -> None:
        began = _CLOCK.monotonic()
        sweep()
        listening = self._lay_ground(ending)
        self.boot_node()
        plane = self.control_plane
        forward = [sys.executable, "-I", "-S", str(_HERE / "forward.py"), str(listening), ADDRESS, str(PORT)]
        plane.processes.start("forward", forward)
        plane.start()
        plane.start_controllers()
        self.open_for_tests(ending)
        self.join_node()
        self.wait_node()
        accounts = "/api/v1/namespaces/default/serviceaccounts/default"
        wait_for(lambda: self.calls.call("GET", accounts)[0] == 200, self.longest_seconds, "pods can be made")
        self.ready_seconds = _CLOCK.monotonic() - began

    def boot_node(self) -> None:
        """What of the node takes time and needs no API server."""
        plane = self.control_plane
        self.node = Node(plane.processes, plane.folder, NODE, ADDRESS, SUBNET)
        self.node.start_runtime()

    def join_node(self) -> None:
        """The rest of it, until it can run pods."""
        self.start_kubelet()
        self.node.wait_runtime()
        for archive in make_images(self.control_plane.folder):
            self.import_image(archive)

    def wait_node(self) -> None:
        """Until pods can run on it. Raises StartFailed."""
        self.control_plane.processes.wait_ready(self.node_process, self._node_is_ready, self.longest_seconds)

    def start_kubelet(self) -> None:
        """At the start, or after a test has ended it."""
        plane = self.control_plane
        self.node.start_kubelet(plane.kubeconfig(NODE_USER), plane.authority.certificate)

    def kill_kubelet(self) -> None:
        self.control_plane.processes.kill("kubelet")

    @contextlib.contextmanager
    def without_kubelet(self) -> Iterator[None]:
        """Its node's kubelet is killed, and started again at the end."""
        self.kill_kubelet()
        try:
            yield
        finally:
            self.start_kubelet()

    def import_image(self, archive: Path) -> None:
        """A docker or OCI archive, for pods that say `imagePullPolicy: Never`."""
        self.node.import_image(archive)

    def in_node(self, command: str) -> str:
        """What a shell on the node says. Raises StartFailed."""
        return self.control_plane.processes.run("in-node", ["sh", "-c", command])

    def start_metrics(self) -> None:
        """metrics-server; `metrics.k8s.io` answers half a minute later."""
        plane = self.control_plane
        start_metrics(plane.processes, self.calls, plane.kubeconfig(ADMIN), plane.folder, ADDRESS)

    def cgroup(self, hierarchy: str, path: str = "") -> Path:
        """Where a cgroup of the node lies on this machine."""
        return CGROUPS / hierarchy / self.control_plane.folder.name / path

    def _lay_ground(self, ending: contextlib.ExitStack) -> int:
        """Namespaces with a keeper in them, and the socket outside that leads in."""
        folder = StateFolder()
        ending.callback(folder.remove)
        ending.callback(remove_cgroups, folder.name)
        listening = ending.enter_context(socket.create_server((LOOPBACK, 0)))
        launcher = [sys.executable, "-I", "-S", str(_HERE / "namespaces.py"), folder.name, str(folder.path)]
        launcher += [ADDRESS, SERVICE_ADDRESS, "--"]
        processes = Processes(folder, self.logs, launcher, [listening.fileno()])
        ending.callback(processes.close)
        self.control_plane = ControlPlane(
            folder.path,
            processes,
            Authority(folder.path / "pki"),
            bind_address="0.0.0.0",
            port=PORT,
            outside=f"https://{LOOPBACK}:{listening.getsockname()[1]}",
            node_address=ADDRESS,
            nodes=(NODE,),
        )
        return listening.fileno()

    def _node_is_ready(self) -> bool:
        code, json = self.calls.call("GET", f"/api/v1/nodes/{NODE}")
        conditions = json["status"].get("conditions", []) if code == 200 else []
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
