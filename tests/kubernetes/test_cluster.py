"""The ground that tests on a whole cluster stand on."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kubernetes.binaries import kubectl, why_missing
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.namespaces import CGROUPS, hierarchies
from tests.kubernetes.pods import actual, busybox_pod, cgroup_of, resize, running
from tests.kubernetes.processes import processes_that_name, wait_for
from tests.kubernetes.statefolder import PREFIX

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

MIB = 1024 * 1024


def test_its_node_is_ready_in_seconds(cluster: Cluster, record_property: Callable[[str, object], None]) -> None:
    record_property("figure", f"real Kubernetes cluster: its node was ready after {cluster.ready_seconds:.1f} s")
    assert cluster.calls.get("/api/v1/nodes/n1")["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.")


def test_a_resize_reaches_the_cgroup(cluster: Cluster) -> None:
    body = busybox_pod("resized", "sleep 600", memory="100Mi", memory_limit="100Mi")
    with running(cluster.calls, body) as read:
        limit = cluster.cgroup("memory", cgroup_of(read())) / "memory.limit_in_bytes"
        assert int(limit.read_text()) == 100 * MIB
        resize(cluster.calls, "resized", memory="150Mi")
        wait_for(lambda: int(limit.read_text()), 60, "the limit is raised", lambda found: found == 150 * MIB)
        wait_for(read, 60, "150Mi are actual", lambda pod: actual(pod)["limits"]["memory"] == "150Mi")
        assert read()["status"]["containerStatuses"][0]["restartCount"] == 0


def test_what_wants_more_than_its_limit_is_killed(cluster: Cluster) -> None:
    body = busybox_pod("hungry", "dd if=/dev/zero of=/dev/null bs=200M count=1", memory="100Mi", memory_limit="100Mi")
    with running(cluster.calls, body, "Failed") as read:
        ended = read()["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


def test_pods_reach_the_api_server_and_are_reached_by_kubectl(cluster: Cluster) -> None:
    with running(cluster.calls, busybox_pod("talking", "echo here I am; sleep 600")):
        assert cluster.kubectl("logs", "talking") == "here I am\n"
        reach = "nc -w 5 10.0.0.1 443 < /dev/null && echo reached"
        assert cluster.kubectl("exec", "talking", "--", "sh", "-c", reach) == "reached\n"


def test_usage_is_told_by_the_metrics_api(cluster: Cluster) -> None:
    if why := why_missing("metrics-server"):
        pytest.skip(f"cluster: {why}")
    cluster.start_metrics()
    with running(cluster.calls, busybox_pod("measured", "sleep 600")):
        path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/measured"
        _, found = wait_for(lambda: cluster.calls.call("GET", path), 120, "its usage", lambda found: found[0] == 200)
    assert [one["name"] for one in found["containers"]] == ["app"]


def test_two_at_once_do_not_collide_and_a_killed_one_leaves_nothing(cluster: Cluster, place: Path) -> None:
    before = _traces("")
    environment = os.environ | {"TMPDIR": str(place)}
    other = subprocess.Popen(
        [sys.executable, "-m", "tests.kubernetes", "up", "--level", "3", "--logs", str(place / "logs")],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert other.stdout is not None
    in_other = [str(kubectl()), "--kubeconfig", other.stdout.readline().strip().partition("=")[2]]
    [folder] = place.glob(f"{PREFIX}*")
    assert _traces(folder.name) != before
    body = busybox_pod("same", "sleep 600")
    with running(cluster.calls, body) as read:
        subprocess.run([*in_other, "apply", "-f", "-"], input=json.dumps(body), text=True, check=True)
        subprocess.run([*in_other, "wait", "--for=condition=Ready", "pod/same", "--timeout=120s"], check=True)
        other.send_signal(signal.SIGKILL)
        other.wait()
        other.stdout.close()
        wait_for(lambda: processes_that_name(place), 30, "all its processes end", lambda found: not found)
        assert read()["status"]["phase"] == "Running"
    # Of files and cgroups the next start takes care.
    sweep = [sys.executable, "-c", "from tests.kubernetes.cluster import sweep; sweep()"]
    subprocess.run(sweep, env=environment, check=True)
    assert _traces(folder.name) == before
    assert not folder.exists()


def test_one_that_ends_leaves_nothing(tmp_path: Path) -> None:
    before = _traces("")
    with Cluster(tmp_path) as ended:
        folder = ended.control_plane.folder
        assert _traces(folder.name) != before
    assert _traces(folder.name) == before
    assert not folder.exists()


def _traces(name: str) -> dict[str, object]:
    """What a node leaves on a machine: cgroups and mounts of its name, network devices, files, settings."""
    places = [Path(place) for place in ("/run/netns", "/run/containerd", "/var/lib/cni", "/var/lib/kubelet")]
    return {
        "cgroups": [one for one in hierarchies() if name and (CGROUPS / one / name).exists()],
        "mounts": [line for line in Path("/proc/self/mounts").read_text().splitlines() if name and name in line],
        "devices": [name for name in os.listdir("/sys/class/net") if name.startswith(("br", "cni", "veth", "tap"))],
        "files": sorted(str(path) for place in places for path in place.glob("*")),
        "settings": [Path(f"/proc/sys/{name}").read_text() for name in ("vm/overcommit_memory", "kernel/panic")],
    }
