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
def alone(quiet: VmCluster) -> Outcome:
    """What becomes of such a pod without elastipod."""
    with leaps(quiet, "alone") as [one]:
        one.begin()
        return one.outcome()


@pytest.fixture(scope="session")
def release(quiet: VmCluster, alone: Outcome) -> NodeRelease:
    """Installed once that was seen."""
    installed = NodeRelease(quiet)
    installed.install()
    return installed


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Tell:
    """Tells how long spikes stood still."""

    def tell(what: str, groups: Iterable[Group]) -> None:
        stalls = [one.stalled_seconds for one in groups]
        record_property("figure", told(f"cgroup v2: a spike's whole stall, {what}", "s", stalls))

    return tell
