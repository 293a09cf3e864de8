"""With `nodeRaises` the kubelet raises a spike on cgroup v2; the actuator writes memory.high, and asks.

Huge pages leave a kubelet little time, so that the cgroup goes first there where it is late.
"""

import pytest

from tests.kubernetes.processes import wait_for
from tests.kubernetes.proofs.workloads import LIMIT_BYTES
from tests.kubernetes.proofs_v2.leaping import SPIKES, Tell, leaps
from tests.kubernetes.proofs_v2.release import NodeRelease

pytestmark = [pytest.mark.vmcluster, pytest.mark.timeout(1200)]


@pytest.fixture
def patient(installed: NodeRelease) -> NodeRelease:
    """With a gap and a deadline that leave a kubelet all the time it may take, so that nobody else raises."""
    installed.have(nodeRaises=True, holdSeconds=60, gapFraction=0.2)
    return installed


@pytest.mark.parametrize("pages", ["always", "madvise"])
def test_every_spike_is_carried(patient: NodeRelease, pages: str, tell: Tell) -> None:
    names = [f"node-{pages}-{number}" for number in range(SPIKES)]
    with patient.huge_pages(pages), leaps(patient.cluster, *names) as found:
        patient.wait_protected(names)
        groups = []
        for two in zip(found[::2], found[1::2], strict=True):
            for one in two:
                one.begin()
            groups += [one.carried() for one in two]
    tell(f"raised by the kubelet, huge pages {pages}", groups)


def test_a_restarted_kubelet_raises_what_was_asked_meanwhile(patient: NodeRelease, tell: Tell) -> None:
    with patient.huge_pages("madvise"), leaps(patient.cluster, "node-restarted") as [one]:
        patient.wait_protected(["node-restarted"])
        with patient.cluster.without_kubelet():
            one.begin()
            wait_for(one.stated, 60, "the spec is raised", lambda limit: limit > LIMIT_BYTES)
            assert one.group().max_bytes == LIMIT_BYTES
        tell("raised by a kubelet that was restarted", [one.carried()])


def test_huge_pages_are_not_held_until_a_dead_kubelet_is_back(patient: NodeRelease, tell: Tell) -> None:
    with patient.huge_pages("always"), leaps(patient.cluster, "node-dead") as [one]:
        patient.wait_protected(["node-dead"])
        with patient.cluster.without_kubelet():
            one.begin()
            assert one.wait_read()
        tell("where a kubelet should raise and is dead", [one.carried()])
