"""The actuator alone, installed by the chart on the node in the virtual machine."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from images.recipes import NODE
from tests.charts.pages import CHART
from tests.kubernetes.calls import Json
from tests.kubernetes.processes import wait_for
from tests.kubernetes.proofs.installation import NAMESPACE, NODE_NAMESPACE, RELEASE, Elastipod, archives
from tests.kubernetes.vm import VmCluster

DAEMON_SET: Final = f"/apis/apps/v1/namespaces/{NODE_NAMESPACE}/daemonsets/{RELEASE}-actuator"
_OFF: Final[Json] = {"enabled": False}


class NodeRelease(Elastipod):
    """As the whole release. Pods are paused where they say so, so that tests of the bare node can go on beside it."""

    cluster: VmCluster
    _installed_with: dict[str, Any] | None = None

    def have(self, **settings: Any) -> None:
        """Installed with these settings beside the defaults of these tests, whatever was before."""
        if self._installed_with != settings:
            self.install(**settings)

    def uninstall(self) -> None:
        self._installed_with = None
        self.cluster.helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout", "110s")

    def install(self, **settings: Any) -> None:
        """With these settings, once its image is there; again with others, until the new one is at work."""
        if not self.cluster.in_node(f"ctr -n k8s.io images ls -q name~={NODE.name}").strip():
            for archive in archives([NODE]):
                self.cluster.import_image(archive)
        values = {
            "images": {"pullPolicy": "Never"},
            "recommender": _OFF,
            "updater": _OFF,
            "admission": _OFF,
            "actuator": {
                "cgroup": {"version": "v2", "driver": self.cluster.driver},
                "settings": {"memorySpike": "Off", **settings},
            },
        }
        self.cluster.helm(
            "upgrade", RELEASE, str(CHART), "--install", "--namespace", NAMESPACE, "--create-namespace",
            "--values", "-", stdin=json.dumps(values),
        )  # fmt: skip
        self.wait_ready()
        self._installed_with = settings

    def wait_ready(self) -> None:
        wait_for(partial(self.cluster.calls.get, DAEMON_SET), self.cluster.longest_seconds, "the actuator is ready",
                 _is_rolled_out)  # fmt: skip

    @contextmanager
    def huge_pages(self, mode: str) -> Iterator[None]:
        """With the node's huge pages `always` or `madvise`; as they were at the end."""
        setting = "/sys/kernel/mm/transparent_hugepage/enabled"
        before = re.findall(r"\[(\w+)\]", self.cluster.in_node(f"cat {setting}"))[0]
        self.cluster.in_node(f"echo {mode} > {setting}")
        try:
            yield
        finally:
            self.cluster.in_node(f"echo {before} > {setting}")

    def kill(self, container: str) -> str:
        """A command for the node that kills a container of the actuator's pod."""
        [pod] = self.pods("actuator")
        status = pod["status"]
        [found] = [
            one["containerID"].removeprefix("containerd://")
            for one in (*status["containerStatuses"], *status["initContainerStatuses"])
            if one["name"] == container
        ]
        return f"ctr -n k8s.io task kill --signal SIGKILL {found}"


def _is_rolled_out(daemon_set: Json) -> bool:
    status, generation = daemon_set["status"], daemon_set["metadata"]["generation"]
    found = [status.get(name) for name in ("observedGeneration", "updatedNumberScheduled", "numberAvailable")]
    return found == [generation, 1, 1] and not status.get("numberUnavailable")
