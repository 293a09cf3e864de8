import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actuator.paths import ContainerPath, Driver, PathError, checked_uid, container_path, parse_path, pod_path
from elastipod.pods import QosClass

UID = "0f7e2a10-1111-4222-8333-444455556666"
UNDER = UID.replace("-", "_")
ID = "ab" * 32


@pytest.mark.parametrize(
    "path",
    [
        f"/kubepods/burstable/pod{UID}/{ID}",
        f"/kubepods.slice/kubepods-pod{UNDER}.slice/cri-containerd-{ID}.scope",
        f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
        f"kubelet-kubepods-burstable-pod{UNDER}.slice/cri-containerd-{ID}.scope",
        f"/system.slice/containerd.service/kubepods-burstable-pod{UNDER}.slice:cri-containerd:{ID}",
        f"/sys/fs/cgroup/cpu,cpuacct/kubepods/besteffort/pod{UID}/{ID}",
        f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UNDER}.slice/crio-{ID}.scope",
        f"/kubepods/pod{UID}/crio-{ID}",
        f"/kubepods.slice/kubepods-pod{UNDER}.slice/docker-{ID}.scope",
    ],
)
def test_a_containers_cgroup_is_known_in_each_layout_r39(path: str) -> None:
    assert parse_path(path) == ContainerPath(UID, ID)


@pytest.mark.parametrize(
    "path",
    ["", "/", "/kubepods", f"/kubepods/pod{UID}", "/user.slice/session-1.scope", f"/kubepods/podnope/{ID}",
     f"/kubepods.slice/kubepods-pod{UNDER}.slice/crio-conmon-{ID}.scope"],
)  # fmt: skip
def test_an_unknown_layout_is_an_error_that_shows_the_path_r39(path: str) -> None:
    with pytest.raises(PathError, match="no container's cgroup") as failure:
        parse_path(path)
    assert path[:300] in str(failure.value)


@pytest.mark.parametrize("driver", list(Driver))
@pytest.mark.parametrize("qos", list(QosClass))
@pytest.mark.parametrize("runtime", ["containerd", "cri-o", "docker", ""])
@pytest.mark.parametrize("root", ["", "kubelet"])
def test_every_path_made_is_parsed_back(driver: Driver, qos: QosClass, runtime: str, root: str) -> None:
    identity = f"{runtime}://{ID}" if runtime else ID
    assert parse_path(container_path(driver, qos, UID, identity, root)) == ContainerPath(UID, ID)


def test_drivers_name_a_burstable_pod_as_a_kubelet_does() -> None:
    assert pod_path(Driver.CGROUPFS, QosClass.BURSTABLE, UID) == f"kubepods/burstable/pod{UID}"
    assert (
        pod_path(Driver.SYSTEMD, QosClass.BURSTABLE, UID)
        == f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDER}.slice"
    )
    assert pod_path(Driver.SYSTEMD, QosClass.GUARANTEED, UID) == f"kubepods.slice/kubepods-pod{UNDER}.slice"


def test_a_static_pods_hash_is_a_uid() -> None:
    assert checked_uid("0123456789abcdef0123456789abcdef") == "0123456789abcdef0123456789abcdef"


@given(st.text(max_size=80) | st.text(alphabet=string.punctuation + "abc0", max_size=80))
def test_no_hostile_id_becomes_a_path(text: str) -> None:
    """Whatever is let through is one plain name below a pod's directory."""
    try:
        path = container_path(Driver.CGROUPFS, QosClass.BURSTABLE, UID, text)
    except PathError:
        return
    *above, leaf = path.split("/")
    assert above == ["kubepods", "burstable", f"pod{UID}"]
    assert leaf
    assert leaf.isascii()
    assert leaf not in (".", "..")
    assert set(leaf) <= set(string.ascii_letters + string.digits + "_-")


@pytest.mark.parametrize("text", ["", "/", "..", "../../etc", "a" * 4096, "x\0y", "%2f%2e", "containerd://", "a/b"])
def test_hostile_ids_are_refused(text: str) -> None:
    with pytest.raises(PathError):
        container_path(Driver.SYSTEMD, QosClass.BURSTABLE, UID, text)
    with pytest.raises(PathError):
        pod_path(Driver.SYSTEMD, QosClass.BURSTABLE, text)


def test_a_cgroup_root_of_dots_is_refused() -> None:
    with pytest.raises(PathError):
        pod_path(Driver.CGROUPFS, QosClass.BURSTABLE, UID, "../x")
