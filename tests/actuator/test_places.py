"""Containers are found where a kubelet and a runtime put their cgroups, in each layout."""

from pathlib import Path

import pytest

from actuator.cgroupfs import CgroupFs
from actuator.paths import parse_path
from actuator.places import Places
from elastipod.pods import Container, Pod
from tests.actuator.trees import v2_tree

UID = "0f7e2a10-1111-4222-8333-444455556666"
UNDER = UID.replace("-", "_")
ID = "ab" * 32
POD = Pod("shop", "web", UID)
SLICES = (
    f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{UNDER}.slice"
)


@pytest.mark.parametrize(
    ("parent", "group", "runtime"),
    [
        ("", f"kubepods/burstable/pod{UID}/{ID}", "containerd"),
        ("", f"kubepods/burstable/pod{UID}/crio-{ID}", "cri-o"),
        (
            "",
            f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDER}.slice/cri-containerd-{ID}.scope",
            "containerd",
        ),
        ("kubelet", f"kubelet/kubepods/burstable/pod{UID}/{ID}", "containerd"),
        ("kubelet.slice", f"{SLICES}/cri-containerd-{ID}.scope", "containerd"),
        ("a.slice/a-b.slice", f"a.slice/a-b.slice/{SLICES[14:].replace('kubelet-', 'a-b-')}/crio-{ID}.scope", "cri-o"),
    ],
)
def test_a_container_is_found_in_each_layout_r39(tmp_path: Path, parent: str, group: str, runtime: str) -> None:
    root = v2_tree(tmp_path / "cgroup", group)
    container = Container("app", container_id=f"{runtime}://{ID}")
    found = Places(CgroupFs(root, parent)).locate(POD, container)
    assert found is not None
    pod, place = (f"{parent}/{one}" if parent else one for one in found)
    assert (pod, place) == (group.rpartition("/")[0], group)
    assert parse_path(place).pod_uid == UID


def test_of_slices_below_the_kubelets_own_it_is_enough_to_have_those_of_pods(tmp_path: Path) -> None:
    root = v2_tree(tmp_path / "cgroup", SLICES)
    (root / "cgroup.controllers").unlink()
    pods = root / "kubelet.slice" / "kubelet-kubepods.slice"
    (pods / "cgroup.controllers").write_text("memory\n")
    assert CgroupFs(root, "kubelet.slice").version == 2


def test_a_container_that_lies_elsewhere_is_not_found(tmp_path: Path) -> None:
    root = v2_tree(tmp_path / "cgroup", f"system.slice/kubepods-burstable-pod{UNDER}.slice:cri-containerd:{ID}")
    assert Places(CgroupFs(root)).locate(POD, Container("app", container_id=f"containerd://{ID}")) is None
