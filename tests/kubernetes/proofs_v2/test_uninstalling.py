"""What a release leaves behind on cgroup v2: nothing."""

import pytest

from tests.kubernetes.processes import wait_for
from tests.kubernetes.proofs_v2.leaping import leaps
from tests.kubernetes.proofs_v2.release import NodeRelease

pytestmark = [pytest.mark.vmcluster, pytest.mark.timeout(1200)]


def test_a_release_that_goes_leaves_nothing_held_and_pods_as_they_run(release: NodeRelease) -> None:
    node = release.cluster.calls.get("/apis/elastipod.io/v1alpha1/elasticnodes/n1")["status"]
    assert (node["cgroupVersion"], node["spikeProtection"]) == ("cgroup v2", "Hold")
    with leaps(release.cluster, "staying") as [one]:
        release.wait_protected(["staying"])
        wait_for(lambda: one.group().high_bytes, 60, "it is held below its limit", lambda found: found is not None)
        release.uninstall()
        assert one.group().high_bytes is None
        found = release.cluster.calls.get(one.path)["status"]["containerStatuses"][0]
        assert found["containerID"] == one.began["status"]["containerStatuses"][0]["containerID"]
