"""Where the containers of this node's pods have their cgroups.

Owns the search: the layouts that are possible are tried, and the one that is found first is remembered for the node.
"""

from collections.abc import Iterator

from actuator.cgroupfs import CgroupFs, slices_of
from actuator.paths import STATIC_POD_ANNOTATION, Driver, PathError, container_path
from elastipod.pods import Container, Pod


class Places:
    """A node's containers on its disk of cgroups."""

    def __init__(self, fs: CgroupFs) -> None:
        self._fs = fs
        self._slices = slices_of(fs.parent)
        self._driver: Driver | None = None

    def locate(self, pod: Pod, container: Container) -> tuple[str, str] | None:
        """The groups of the pod and of the container; None where they are not there."""
        for driver, path in self._candidates(pod, container):
            if self._fs.exists(path):
                self._driver = driver
                return path.rpartition("/")[0], path
        return None

    def _candidates(self, pod: Pod, container: Container) -> Iterator[tuple[Driver, str]]:
        uid = pod.annotations.get(STATIC_POD_ANNOTATION, pod.uid)
        drivers = (self._driver,) if self._driver is not None else (Driver.SYSTEMD, Driver.CGROUPFS)
        for driver in drivers:
            root = self._slices if driver is Driver.SYSTEMD else ""
            try:
                path = container_path(driver, pod.qos_class, uid, container.container_id, root)
            except PathError:
                return
            # Of a slice, each name below holds all above it; the folders of those are the parent.
            yield driver, path.removeprefix(f"{self._fs.parent}/") if root else path
