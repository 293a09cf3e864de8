"""The ground that tests on a whole cluster stand on."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.build import container_json, pod_json
from tests.kubernetes.cluster import Cluster, container_cgroup
from tests.kubernetes.images import BUSYBOX
from tests.kubernetes.namespaces import CGROUPS, hierarchies
from tests.kubernetes.processes import PREFIX, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
MIB = 1024 * 1024


def busybox_pod(name: str, command: str, **resources: str) -> Json:
    container = container_json(image=BUSYBOX, command=["sh", "-c", command], imagePullPolicy="Never", **resources)
    return pod_json(name, containers=[container], restartPolicy="Never", terminationGracePeriodSeconds=0)


@contextmanager
def pod(cluster: Cluster, body: Json) -> Iterator[Callable[[], Json]]:
    """The pod while it is there; calling it reads it anew."""
    path = f"{PODS}/{cluster.calls.post(PODS, body)['metadata']['name']}"
    try:
        yield lambda: cluster.calls.get(path)
    finally:
        cluster.calls.delete(path)


def phase(read: Callable[[], Json], wanted: str) -> Json:
    return wait_for(read, 60, f"the pod is {wanted}", lambda found: found["status"]["phase"] == wanted)


def test_its_node_is_ready_in_seconds(cluster: Cluster, record_property: Callable[[str, object], None]) -> None:
    record_property("figure", f"the node of a real cluster was ready after {cluster.ready_seconds:.1f} s")
    assert cluster.calls.get("/api/v1/nodes/n1")["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.")


def test_a_resize_reaches_the_cgroup(cluster: Cluster) -> None:
    with pod(cluster, busybox_pod("resized", "sleep 600", memory="100Mi", memory_limit="100Mi")) as read:
        running = phase(read, "Running")
        limit = cluster.cgroup("memory", container_cgroup(running, "app")) / "memory.limit_in_bytes"
        assert int(limit.read_text()) == 100 * MIB
        resources = {"requests": {"memory": "150Mi"}, "limits": {"memory": "150Mi"}}
        patch = {"spec": {"containers": [{"name": "app", "resources": resources}]}}
        cluster.calls.patch(f"{PODS}/resized/resize", patch)
        wait_for(lambda: int(limit.read_text()), 30, "the limit is raised", lambda found: found == 150 * MIB)
        wait_for(
            lambda: read()["status"]["containerStatuses"][0]["resources"]["limits"]["memory"],
            30,
            "the new size is actual",
            lambda found: found == "150Mi",
        )
        assert read()["status"]["containerStatuses"][0]["restartCount"] == 0


def test_what_wants_more_than_its_limit_is_killed(cluster: Cluster) -> None:
    body = busybox_pod("hungry", "dd if=/dev/zero of=/dev/null bs=200M count=1", memory="100Mi", memory_limit="100Mi")
    with pod(cluster, body) as read:
        ended = phase(read, "Failed")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


def test_pods_reach_the_api_server_and_are_reached_by_kubectl(cluster: Cluster) -> None:
    with pod(cluster, busybox_pod("talking", "echo here I am; sleep 600")) as read:
        phase(read, "Running")
        assert cluster.kubectl("logs", "talking") == "here I am\n"
        reach = "nc -w 5 10.0.0.1 443 < /dev/null && echo reached"
        assert cluster.kubectl("exec", "talking", "--", "sh", "-c", reach) == "reached\n"


def test_usage_is_told_by_the_metrics_api(cluster: Cluster) -> None:
    cluster.start_metrics()
    with pod(cluster, busybox_pod("measured", "sleep 600")) as read:
        phase(read, "Running")
        path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/measured"
        _, found = wait_for(lambda: cluster.calls.call("GET", path), 90, "its usage", lambda found: found[0] == 200)
        assert [one["name"] for one in found["containers"]] == ["app"]


def test_two_at_once_do_not_collide_and_a_killed_one_leaves_nothing(cluster: Cluster, place: Path) -> None:
    before = _traces()
    other = subprocess.Popen(
        [sys.executable, "-m", "tests.kubernetes", "up", "--level", "3", "--logs", str(place / "logs")],
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(place)},
        text=True,
    )
    assert other.stdout is not None
    kubeconfig = other.stdout.readline().strip().partition("=")[2]
    kubectl = ["kubectl", "--kubeconfig", kubeconfig]
    body = busybox_pod("same", "sleep 600")
    with pod(cluster, body) as read:
        subprocess.run([*kubectl, "apply", "-f", "-"], input=json.dumps(body), text=True, check=True)
        subprocess.run([*kubectl, "wait", "--for=condition=Ready", "pod/same", "--timeout=60s"], check=True)
        phase(read, "Running")
        other.send_signal(signal.SIGKILL)
        other.wait()
        other.stdout.close()
        wait_for(lambda: _mention(place), 20, "all its processes end", lambda found: not found)
        assert read()["status"]["containerStatuses"][0]["restartCount"] == 0
    # Of files and cgroups the next start takes care.
    subprocess.run(
        [sys.executable, "-c", "from tests.kubernetes.cluster import sweep; sweep()"],
        env=os.environ | {"TMPDIR": str(place)},
        check=True,
    )
    assert _traces() == before
    assert not list(place.glob(f"{PREFIX}*"))


def test_one_that_ends_leaves_nothing(tmp_path: Path) -> None:
    before = _traces()
    with Cluster(tmp_path) as ended:
        assert _traces() != before
        folder = ended.control_plane.folder
    assert _traces() == before
    assert not folder.exists()


def _traces() -> dict[str, object]:
    """What a node leaves on a machine: cgroups, mounts, network devices and namespaces."""
    cgroups = {f"{one}/{path.name}" for one in hierarchies() for path in (CGROUPS / one).glob(f"{PREFIX}*")}
    return {
        "cgroups": cgroups,
        "mounts": [line for line in Path("/proc/self/mounts").read_text().splitlines() if PREFIX in line],
        "devices": [name for name in os.listdir("/sys/class/net") if name.startswith(("br", "cni", "veth", "tap"))],
        "places": [
            sorted(os.listdir(place)) if os.path.isdir(place) else None
            for place in ("/run/netns", "/run/containerd", "/var/lib/cni", "/var/lib/kubelet", "/var/log/pods")
        ],
        "settings": [Path(f"/proc/sys/{name}").read_text() for name in ("vm/overcommit_memory", "kernel/panic")],
    }


def _mention(folder: Path) -> list[str]:
    """Command lines of processes that name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found
