"""The ground that tests on a real node with cgroup v2 stand on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from actuator.paths import Driver
from tests.kubernetes.images import BUSYBOX, make_images
from tests.kubernetes.pods import actual, busybox_pod, cgroup_of, resize, running
from tests.kubernetes.processes import wait_for
from tests.kubernetes.vm import VmCluster

pytestmark = [pytest.mark.vmcluster, pytest.mark.timeout(900)]

MIB = 1024 * 1024


def test_its_node_is_ready(vm_cluster: VmCluster, record_property: Callable[[str, object], None]) -> None:
    record_property(
        "figure", f"real Kubernetes cluster in a VM: its node was ready after {vm_cluster.ready_seconds:.0f} s"
    )
    assert "memory" in vm_cluster.in_node("cat /sys/fs/cgroup/cgroup.controllers").split()


@pytest.mark.drivers
def test_a_resize_reaches_the_cgroup_and_only_systemd_takes_memory_high_away(vm_cluster: VmCluster) -> None:
    body = busybox_pod("resized", "sleep 600", memory="100Mi", memory_limit="100Mi")
    with running(vm_cluster.calls, body) as read:
        group = f"/sys/fs/cgroup/{cgroup_of(read(), driver=vm_cluster.driver)}"
        assert vm_cluster.in_node(f"echo {90 * MIB} > {group}/memory.high; cat {group}/memory.max") == f"{100 * MIB}\n"
        resize(vm_cluster.calls, "resized", memory="150Mi")
        wait_for(read, 120, "150Mi are actual", lambda pod: actual(pod)["limits"]["memory"] == "150Mi")
        told = vm_cluster.in_node(f"cat {group}/memory.max {group}/memory.high")
        high = "max" if vm_cluster.driver is Driver.SYSTEMD else str(90 * MIB)
        assert told.split() == [str(150 * MIB), high]


def test_an_image_made_here_is_there_for_its_pods(vm_cluster: VmCluster, tmp_path: Path) -> None:
    vm_cluster.in_node(f"ctr -n k8s.io images rm {BUSYBOX}")
    for archive in make_images(tmp_path):
        vm_cluster.import_image(archive)
    assert BUSYBOX in vm_cluster.in_node("ctr -n k8s.io images ls -q").split()


def test_what_wants_more_than_its_limit_is_killed(vm_cluster: VmCluster) -> None:
    body = busybox_pod("hungry", "dd if=/dev/zero of=/dev/null bs=200M count=1", memory="100Mi", memory_limit="100Mi")
    with running(vm_cluster.calls, body, "Failed") as read:
        [status] = read()["status"]["containerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 137
    assert vm_cluster.killed_for_memory(status["containerID"])


def test_a_pod_outlives_its_kubelet(vm_cluster: VmCluster) -> None:
    body = busybox_pod("outliving", "sleep 600", memory="100Mi", memory_limit="100Mi")
    with running(vm_cluster.calls, body) as read:
        with vm_cluster.without_kubelet():
            resize(vm_cluster.calls, "outliving", memory="120Mi")
        wait_for(read, 240, "120Mi are actual", lambda pod: actual(pod)["limits"]["memory"] == "120Mi")
        assert read()["status"]["containerStatuses"][0]["restartCount"] == 0
