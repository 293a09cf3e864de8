"""A spike on cgroup v2: the kernel makes it wait, the spec is raised, then the cgroup."""

import pytest

from tests.kubernetes.proofs.spikes import Outcome
from tests.kubernetes.proofs_v2.leaping import SPIKES, Tell, leaps
from tests.kubernetes.proofs_v2.release import NodeRelease

pytestmark = [pytest.mark.vmcluster, pytest.mark.drivers, pytest.mark.timeout(1200)]


def test_without_elastipod_a_spike_is_killed(alone: tuple[Outcome, bool]) -> None:
    outcome, is_killed_for_memory = alone
    assert outcome.exit_code == 137
    assert is_killed_for_memory


@pytest.mark.parametrize("pages", ["always", "madvise"])
def test_every_spike_is_carried(release: NodeRelease, pages: str, tell: Tell) -> None:
    names = [f"{pages}-{number}" for number in range(SPIKES)]
    with release.huge_pages(pages), leaps(release.cluster, *names) as found:
        release.wait_protected(names)
        groups = []
        for two in zip(found[::2], found[1::2], strict=True):
            for one in two:
                one.begin()
            groups += [one.carried() for one in two]
    tell(f"huge pages {pages}", groups)
