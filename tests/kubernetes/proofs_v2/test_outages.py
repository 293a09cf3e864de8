"""A spike on cgroup v2 is carried whatever is away meanwhile."""

import signal

import pytest

from tests.kubernetes.proofs.workloads import LIMIT_BYTES
from tests.kubernetes.proofs_v2.leaping import Tell, leaps
from tests.kubernetes.proofs_v2.release import NodeRelease

pytestmark = [pytest.mark.vmcluster, pytest.mark.timeout(1200)]


@pytest.mark.drivers
def test_while_the_api_server_is_away_the_cgroup_goes_first_and_the_spec_follows(
    release: NodeRelease, tell: Tell
) -> None:
    processes = release.cluster.control_plane.processes
    with leaps(release.cluster, "no-api") as [one]:
        release.wait_protected(["no-api"])
        processes.signal("kube-apiserver", signal.SIGSTOP)
        try:
            one.begin()
            assert one.wait_read()
            raised = one.group().max_bytes
        finally:
            processes.signal("kube-apiserver", signal.SIGCONT)
        assert raised >= 2 * LIMIT_BYTES - LIMIT_BYTES // 10
        group = one.carried()
    assert group.max_bytes >= raised
    tell("without an API server", [group])


def test_when_the_kubelet_is_dead_before_it(release: NodeRelease, tell: Tell) -> None:
    with leaps(release.cluster, "no-kubelet") as [one]:
        release.wait_protected(["no-kubelet"])
        with release.cluster.without_kubelet():
            one.begin()
            assert one.wait_read()
        tell("without a kubelet", [one.carried()])


@pytest.mark.parametrize("pages", ["always", "madvise"])
def test_when_the_kubelet_is_killed_in_the_middle(release: NodeRelease, pages: str, tell: Tell) -> None:
    """The next kubelet puts the first raise in force once more (decision 0003).

    This leap needs no other in huge pages; in small ones it is past it by then.
    """
    name = f"kubelet-dies-{pages}"
    with release.huge_pages(pages), leaps(release.cluster, name) as [one]:
        release.wait_protected([name])
        one.begin()
        one.wait_max(LIMIT_BYTES + 1)
        with release.cluster.without_kubelet():
            pass
        tell(f"with a kubelet killed in the middle, huge pages {pages}", [one.carried()])


@pytest.mark.parametrize("container", ["actuator", "guard"])
def test_when_one_of_the_actuator_and_its_guard_is_killed_the_other_carries_it(
    release: NodeRelease, container: str, tell: Tell
) -> None:
    name = f"no-{container}"
    with leaps(release.cluster, name) as [one]:
        release.wait_protected([name])
        release.cluster.in_node(f"{release.kill(container)} && {one.sign}")
        tell(f"when the {container} is killed", [one.carried()])
    release.wait_ready()
