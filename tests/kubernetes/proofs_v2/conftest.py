"""The actuator on the node of the shared cluster, and what became of a spike before it was there."""

from collections.abc import Callable, Iterable
from typing import Final

import pytest

from tests.kubernetes.proofs.figures import told
from tests.kubernetes.proofs.spikes import Outcome
from tests.kubernetes.proofs_v2.leaping import Group, Tell, leaps
from tests.kubernetes.proofs_v2.release import NodeRelease
from tests.kubernetes.vm import VmCluster

_WEIGHT: Final = "8192"


@pytest.fixture(scope="session")
def quiet(vm_cluster: VmCluster) -> VmCluster:
    """The cluster, with as much of this machine as eight programs beside it: a node shares its processors with none."""
    shares = vm_cluster.cgroup("cpu") / "cpu.shares"
    if shares.exists():
        shares.write_text(_WEIGHT)
    return vm_cluster


@pytest.fixture(scope="session")
def alone(quiet: VmCluster) -> tuple[Outcome, bool]:
    """What becomes of such a pod without elastipod, and whether the kernel killed it for its memory."""
    with leaps(quiet, "alone") as [one]:
        one.begin()
        return one.outcome(), quiet.killed_for_memory(one.began["status"]["containerStatuses"][0]["containerID"])


@pytest.fixture(scope="session")
def installed(quiet: VmCluster, alone: tuple[Outcome, bool]) -> NodeRelease:
    """What is installed, or will be, once that was seen."""
    return NodeRelease(quiet)


@pytest.fixture
def release(installed: NodeRelease) -> NodeRelease:
    """With the defaults."""
    installed.have()
    return installed


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Tell:
    """Tells how long spikes stood still."""

    def tell(what: str, groups: Iterable[Group]) -> None:
        stalls = [one.stalled_seconds for one in groups]
        record_property("figure", told(f"cgroup v2: a spike's whole stall, {what}", "s", stalls))

    return tell
