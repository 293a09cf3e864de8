"""Where a container's cgroup lies.

Owns the layouts of kubelets and container runtimes, in both directions, and which text may become part of a path.
Opens nothing. Sources: kubelet's cm.podContainerManager, containerd's cri, CRI-O's cgmgr, cri-dockerd.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from elastipod.pods import QosClass

STATIC_POD_ANNOTATION: Final = "kubernetes.io/config.hash"
"""A static pod's directory carries this and not the UID that the API gave to its mirror."""

_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}", re.ASCII)
_CONTAINER_ID: Final = re.compile(r"[0-9a-zA-Z][0-9a-zA-Z_-]{7,127}", re.ASCII)
_RUNTIME_ID: Final = re.compile(r"([a-z][a-z0-9.-]{0,31})://(.+)", re.ASCII)
_POD: Final = re.compile(r"(?:.*-)?pod([0-9a-f_-]{32,36})(?:\.slice)?", re.ASCII)
_LEAF: Final = re.compile(
    r"(?:(?:cri-containerd|crio|docker)-)?([0-9a-zA-Z][0-9a-zA-Z_-]{7,127}?)(?:\.scope)?", re.ASCII
)
_QOS_PART: Final = {QosClass.GUARANTEED: "", QosClass.BURSTABLE: "burstable", QosClass.BEST_EFFORT: "besteffort"}


class PathError(ValueError):
    """A text that can not name a cgroup, or a path of no known layout; the message shows it."""


class Driver(StrEnum):
    """Who makes the pods' cgroups, and so how they are named."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


@dataclass(frozen=True, slots=True)
class ContainerPath:
    """Whose cgroup it is."""

    pod_uid: str
    container_id: str


def checked_uid(text: str) -> str:
    """A pod's UID or a static pod's hash. Raises PathError."""
    if not _UID.fullmatch(text):
        raise PathError(f"{text[:80]!r} is not a pod's UID")
    return text


def pod_path(driver: Driver, qos: QosClass, uid: str, cgroup_root: str = "") -> str:
    """A pod's directory below the mount; `cgroup_root` is the kubelet's --cgroup-root. Raises PathError."""
    uid, part = checked_uid(uid), _QOS_PART[qos]
    prefix = _checked_root(cgroup_root)
    if driver is Driver.CGROUPFS:
        return "/".join([*prefix, "kubepods", *([part] if part else []), f"pod{uid}"])
    names = [*prefix, "kubepods", *([part] if part else []), f"pod{uid.replace('-', '_')}"]
    return "/".join(f"{'-'.join(names[: depth + 1])}.slice" for depth in range(len(names)))


def container_path(driver: Driver, qos: QosClass, uid: str, container_id: str, cgroup_root: str = "") -> str:
    """A container's directory; `container_id` as the pod's status has it, `containerd://...`. Raises PathError."""
    return f"{pod_path(driver, qos, uid, cgroup_root)}/{_leaf(driver, container_id)}"


def parse_path(path: str) -> ContainerPath:
    """Whose cgroup lies at a path, in any known layout. Raises PathError, which shows the path."""
    parts = [part for part in path.split("/") if part]
    if parts and parts[-1].count(":") == 2:
        # containerd below systemd with the path in one name: slice:prefix:id.
        slice_name, _, container_id = parts[-1].split(":")
        parts = [slice_name, container_id]
    if len(parts) >= 2:
        pod, leaf = _POD.fullmatch(parts[-2]), _LEAF.fullmatch(parts[-1])
        uid = pod.group(1).replace("_", "-") if pod else ""
        if leaf and _UID.fullmatch(uid) and not parts[-1].startswith("crio-conmon-"):
            return ContainerPath(uid, leaf.group(1))
    raise PathError(f"{path[:300]!r} is no container's cgroup in a layout that is known")


def _leaf(driver: Driver, container_id: str) -> str:
    runtime, bare = _split(container_id)
    if driver is Driver.CGROUPFS:
        return f"crio-{bare}" if runtime == "cri-o" else bare
    prefix = {"cri-o": "crio", "docker": "docker"}.get(runtime, "cri-containerd")
    return f"{prefix}-{bare}.scope"


def _split(container_id: str) -> tuple[str, str]:
    match = _RUNTIME_ID.fullmatch(container_id)
    runtime, bare = (match.group(1), match.group(2)) if match else ("", container_id)
    if not _CONTAINER_ID.fullmatch(bare):
        raise PathError(f"{container_id[:80]!r} is not a container's id")
    return runtime, bare


def _checked_root(cgroup_root: str) -> list[str]:
    parts = [part for part in cgroup_root.split("/") if part]
    for part in parts:
        if not re.fullmatch(r"[0-9A-Za-z_.-]{1,200}", part, re.ASCII) or part in (".", ".."):
            raise PathError(f"{cgroup_root[:80]!r} is not a path of plain names")
    return parts
