"""What runs in the cluster under proof: programs that need memory at once or bit by bit, and when they shall.

A pod sees a folder of the node at /go; a file that appears in it is the sign to go on.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from elastipod.cli.demo.manifests import autoscaler as in_place
from tests.build import container_json, pod_json
from tests.kubernetes.calls import Json
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.images import BUSYBOX
from tests.kubernetes.proofs.installation import NODE_IMAGE

MIB: Final = 1024 * 1024
LIMIT: Final = "100Mi"
LIMIT_BYTES: Final = 100 * MIB
SIGNS: Final = "/run/proofs"
VOLUMES: Final = [{"name": "go", "hostPath": {"path": SIGNS, "type": "DirectoryOrCreate"}}]

GROWING: Final = """
import mmap, os, sys, time
name, *steps = sys.argv[1:]
held = []
for number, step in enumerate(steps):
    size, _, rate = step.partition("@")
    while not os.path.exists(f"/go/{name}-{number}"):
        time.sleep(0.05)
    while len(held) < int(size):
        held.append(mmap.mmap(-1, 1048576))
        held[-1].write(b"A" * 1048576)
        time.sleep(1 / int(rate))
print("complete", flush=True)
"""
"""NAME SIZE@RATE...: grows to each size, at so many MiB a second, once the file NAME-NUMBER is there."""

LOADED: Final = """
import mmap, time
held = []
while True:
    with open("/go/load") as file:
        wanted = int(file.read() or len(held))
    while len(held) < wanted:
        held.append(mmap.mmap(-1, 1048576))
        held[-1].write(b"A" * 1048576)
    for one in held[wanted:]:
        one.close()
    del held[wanted:]
    until = time.monotonic() + wanted / 10_000
    while time.monotonic() < until:
        pass
    time.sleep(0.1)
"""
"""As many MiB as /go/load says, and CPU in proportion."""


def leaping(name: str, size: str = "200M") -> list[str]:
    """Reads so much into fresh memory at once, when told to."""
    return ["sh", "-c", f"until [ -e /go/{name} ]; do sleep 0.1; done; dd if=/dev/zero of=/dev/null bs={size} count=1"]


def growing(name: str, *steps: str) -> list[str]:
    return ["python", "-c", GROWING, name, *steps]


def container(command: list[str], name: str = "app", **more: Any) -> Json:
    """One with a limit of 100Mi, if nothing else is said."""
    image = NODE_IMAGE if command[0] == "python" else BUSYBOX
    given: Json = {"cpu": "10m", "memory": "50Mi", "memory_limit": LIMIT, "imagePullPolicy": "Never"}
    mounts = [{"name": "go", "mountPath": "/go", "readOnly": True}]
    return container_json(name, image=image, command=command, volumeMounts=mounts, **given | more)


def pod(name: str, *containers: Json, labels: dict[str, str] | None = None, **spec: Any) -> Json:
    once: Json = {"volumes": VOLUMES, "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    return pod_json(name, containers=list(containers), labels=labels, **once | spec)


def autoscaler(name: str, kind: str = "Deployment", mode: str = "InPlace", recommender: str = "elastipod") -> Json:
    """A VerticalPodAutoscaler in the namespace `default`."""
    made = in_place(name, kind)
    made["spec"] |= {"updatePolicy": {"updateMode": mode}, "recommenders": [{"name": recommender}]}
    return made


def controlled(kind: str, name: str, one: Json, replicas: int = 1, donate: str = "false") -> Json:
    """A Deployment, StatefulSet or Job of these pods, which carry the label `app: NAME`."""
    labels = {"app": name}
    template: Json = {
        "metadata": {"labels": labels, "annotations": {"elastipod.io/donate": donate}},
        "spec": {"containers": [one], "volumes": VOLUMES, "terminationGracePeriodSeconds": 0},
    }
    if kind == "Job":
        template["spec"] |= {"restartPolicy": "Never"}
        return {
            "apiVersion": "batch/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": {"template": template, "backoffLimit": 0},
        }
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


@contextmanager
def created(cluster: Cluster, *bodies: Json) -> Iterator[None]:
    """These objects, as by `kubectl create`, until the end of the block."""
    objects = json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies})
    cluster.kubectl("create", "-f", "-", stdin=objects)
    try:
        yield
    finally:
        cluster.kubectl("delete", "-f", "-", "--ignore-not-found", "--wait", "--cascade=foreground", stdin=objects)


def tell(cluster: Cluster, **signs: object) -> None:
    """Make these files in the pods' folder."""
    steps = [f"mkdir -p {SIGNS}"]
    steps += [
        f"echo {text} > {SIGNS}/new && mv {SIGNS}/new {SIGNS}/{name.replace('_', '-')}" for name, text in signs.items()
    ]
    cluster.in_node(" && ".join(steps))
