"""elastipod in a real cluster: its images, its chart installed by helm, and what a person asks of it afterwards."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from elastipod import __version__
from images.build import build
from images.recipes import IMAGES, NODE, ROOT, Image
from tests.charts.pages import CHART
from tests.kubernetes.calls import Json
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.processes import wait_for

RELEASE: Final = "elastipod"
NAMESPACE: Final = "elastipod"
NODE_NAMESPACE: Final = "elastipod-node"
ARCHIVES: Final = ROOT / "build/images"
NODE_IMAGE: Final = NODE.reference(__version__)
VALUES: Final[Json] = {
    "images": {"pullPolicy": "Never"},
    "recommenderNames": ["elastipod"],
    "recommender": {
        "settings": {
            "intervalSeconds": 5,
            "metricsResolutionSeconds": 10,
            "halfLifeSeconds": 20,
            "memoryIntervalSeconds": 20,
            "confidenceIntervalSeconds": 20,
            "statusIntervalSeconds": 5,
        }
    },
    "updater": {
        "settings": {
            "coolDownSeconds": 5,
            "stepSeconds": 5,
            "settledSeconds": 5,
            "usageFreshSeconds": 60,
            "peakWindowSeconds": 20,
            "mostResizesPerMinute": 20,
        }
    },
    # Where the kernel has real-time groups, no pod may run before others; what is left is its share.
    "actuator": {"cgroup": {"version": "v1", "driver": "cgroupfs"}, "resources": {"requests": {"cpu": "200m"}}},
}
"""For nodes as these are, and in minutes what takes days."""
_SECONDS: Final = 120.0


def archives(images: Sequence[Image] = IMAGES) -> list[Path]:
    """The images' archives; built where the code is newer."""
    found = [ARCHIVES / f"{image.name}.tar" for image in images]
    sources = [path for part in ("actuator", "elastipod", "images", "recommender", "updater", "requirements")
               for path in (ROOT / part).rglob("*") if path.is_file() and "__pycache__" not in path.parts]  # fmt: skip
    newest = max(path.stat().st_mtime for path in sources)
    if any(not path.exists() or path.stat().st_mtime < newest for path in found):
        build(images, ARCHIVES)
    return found


class Elastipod:
    """One release in one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def install(self) -> None:
        """Until every part is ready."""
        for archive in archives():
            self.cluster.import_image(archive)
        self.cluster.helm(
            "install", RELEASE, str(CHART), "--namespace", NAMESPACE, "--create-namespace", "--values", "-",
            stdin=json.dumps(VALUES),
        )  # fmt: skip
        self.wait_ready()

    def wait_ready(self) -> None:
        """Until all its pods are ready, and its parts have made themselves known."""
        for namespace in (NAMESPACE, NODE_NAMESPACE):
            wait_for(
                partial(self._unready, namespace), _SECONDS, f"pods of {namespace} are ready", lambda found: found == []
            )
        wait_for(self.parts, _SECONDS, "all parts are well", lambda found: set(found.values()) == {"well"})

    def pods(self, component: str) -> list[Json]:
        """The pods of a component."""
        namespace = NODE_NAMESPACE if component == "actuator" else NAMESPACE
        found: list[Json] = self.cluster.calls.get(
            f"/api/v1/namespaces/{namespace}/pods", labelSelector=f"app.kubernetes.io/component={component}"
        )["items"]
        return found

    def status(self) -> Json:
        """`elastipod status`."""
        return self.run("status")

    def parts(self) -> dict[str, str]:
        """How each part is."""
        return {one["part"]: one["state"] for one in self.status()["parts"]}

    def explain(self, pod: str) -> Json:
        """`elastipod explain POD`."""
        return self.run("explain", pod)

    def run(self, *argv: str) -> Json:
        """The command, asked for JSON."""
        done = subprocess.run(
            [sys.executable, "-m", "elastipod.cli", *argv, "--output", "json"],
            check=True, capture_output=True, text=True, timeout=_SECONDS,
            env=os.environ | {"KUBECONFIG": str(self.cluster.kubeconfig)},
        )  # fmt: skip
        found: Json = json.loads(done.stdout)
        return found

    def wait_protected(self, pods: Iterable[str], namespace: str = "default") -> None:
        """Until the actuator watches every container of these pods."""
        for pod in pods:
            wait_for(partial(self._is_protected, namespace, pod), _SECONDS, f"{pod} is protected")

    def told(self) -> list[Json]:
        """What the actuator logged."""
        lines = self.cluster.kubectl("--namespace", NODE_NAMESPACE, "logs", f"daemonset/{RELEASE}-actuator",
                                     "--container", "actuator", "--tail=-1")  # fmt: skip
        return [json.loads(line) for line in lines.splitlines()]

    def usage(self, pod: Json) -> Json | None:
        """What the metrics API tells of a pod, once it does."""
        meta = pod["metadata"]
        path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        code, found = self.cluster.calls.call("GET", path)
        return found if code == 200 else None

    def _is_protected(self, namespace: str, pod: str) -> bool:
        [actuator] = self.pods("actuator")
        path = f"/api/v1/namespaces/{NODE_NAMESPACE}/pods/{actuator['metadata']['name']}:8080/proxy/explain"
        code, facts = self.cluster.calls.call("GET", f"{path}/{namespace}/{pod}")
        return code == 200 and all(one["protected"] for one in facts["containers"].values())

    def _unready(self, namespace: str) -> list[str] | None:
        pods = self.cluster.calls.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return [one["metadata"]["name"] for one in pods if not is_ready(one)] if pods else None


def is_ready(pod: Json) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))
