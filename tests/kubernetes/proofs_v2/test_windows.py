"""Resizes of others that arrive in the middle of a spike on cgroup v2 kill nothing.

The kubelet writes all of a container's sizes for each, as they stood when it began.
"""

import pytest

from tests.kubernetes.proofs_v2.leaping import SPIKES, Leap, Tell, leaps
from tests.kubernetes.proofs_v2.release import NodeRelease

pytestmark = [pytest.mark.vmcluster, pytest.mark.drivers, pytest.mark.timeout(1200)]

TIMES = min(SPIKES, 5)


def resize(release: NodeRelease, one: Leap, **resources: dict[str, str]) -> None:
    body = {"spec": {"containers": [{"name": "app", "resources": resources}]}}
    release.cluster.calls.patch(f"{one.path}/resize", body)


def test_a_resize_of_the_cpu_alone(release: NodeRelease, tell: Tell) -> None:
    names = [f"cpu-{number}" for number in range(TIMES)]
    with leaps(release.cluster, *names) as found:
        release.wait_protected(names)
        groups = []
        for one in found:
            resize(release, one, requests={"cpu": "20m"})
            one.begin()
            for amount in ("30m", "40m", "50m"):
                resize(release, one, requests={"cpu": amount})
            groups.append(one.carried())
    tell("beside resizes of the CPU", groups)


def test_an_older_raise_of_the_memory(release: NodeRelease, tell: Tell) -> None:
    names = [f"older-{number}" for number in range(TIMES)]
    with leaps(release.cluster, *names) as found:
        release.wait_protected(names)
        groups = []
        for one in found:
            resize(release, one, limits={"memory": "110Mi"})
            one.begin()
            groups.append(one.carried())
    tell("beside an older raise", groups)
