"""elastipod is installed by its chart, and says that it is well."""

import pytest

from tests.kubernetes.proofs.installation import NAMESPACE, RELEASE, Elastipod

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def test_all_its_pods_are_ready_and_its_parts_are_well(elastipod: Elastipod) -> None:
    assert {one: len(elastipod.pods(one)) for one in ("recommender", "updater", "admission", "actuator")} == {
        "recommender": 2, "updater": 2, "admission": 2, "actuator": 1,
    }  # fmt: skip
    assert elastipod.parts() == {"recommender": "well", "updater": "well", "actuator": "well"}
    [node] = elastipod.status()["nodes"]
    assert (node["node"], node["spike_protection"]) == ("n1", "Raise")


def test_helm_test_resizes_a_pod_of_its_own(elastipod: Elastipod) -> None:
    assert "Succeeded" in elastipod.cluster.helm("test", RELEASE, "--namespace", NAMESPACE)
