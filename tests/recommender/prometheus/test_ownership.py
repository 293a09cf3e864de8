"""Pods to workloads, also when they are gone."""

import pytest

from elastipod.pods import Workload
from recommender.sources.prometheus.ownership import Matching, Owners, guessed_workload, is_named_by

LONG = "a-service-with-a-name-so-long-that-its-pods-names-are-cut-off-somewhere"


@pytest.mark.parametrize(
    ("pod", "kind", "name", "expected"),
    [
        ("web-5d4f8c7b9d-xbcdz", "Deployment", "web", True),
        ("web-api-5d4f8c7b9d-xbcdz", "Deployment", "web", False),
        ("web-api-5d4f8c7b9d-xbcdz", "Deployment", "web-api", True),
        ("web-0", "StatefulSet", "web", True),
        ("web-0", "Deployment", "web", False),
        ("web-db-0", "StatefulSet", "web", False),
        ("agent-x7k2p", "DaemonSet", "agent", True),
        ("agent-x7k2p", "DaemonSet", "gent", False),
        ("nightly-29400120-x7k2p", "CronJob", "nightly", True),
        ("nightly-x7k2p", "CronJob", "nightly", False),
        ("genome-x7k2p", "Job", "genome", True),
        ("genome-3-x7k2p", "Job", "genome", True),
        ("alone", "Pod", "alone", True),
        ("alone-2", "Pod", "alone", False),
        ("web-5d4f8c7b9d-x7k2p", "Rollout", "web", False),
        (f"{f'{LONG}-'[:58]}x7k2p", "Deployment", LONG, False),
    ],
)
def test_controllers_name_their_pods_by_rule(pod: str, kind: str, name: str, expected: bool) -> None:
    assert is_named_by(pod, Workload("shop", kind, name)) is expected


def test_a_long_deployments_pods_are_known_by_their_cut_names() -> None:
    name = "a-service-with-a-rather-long-name-of-some-fifty-chars"
    pod = f"{f'{name}-5d4f8c7b9d-'[:58]}x7k2p"
    assert is_named_by(pod, Workload("shop", "Deployment", name))


def test_a_custom_kind_is_known_by_its_plain_name_unless_kubernetes_own_is_asked_about_too() -> None:
    """kube-state-metrics tells no group."""
    owners, pod = Owners(), Workload("shop", "Pod", "odd")
    plain, custom = (Workload("shop", kind, "db") for kind in ("StatefulSet", "StatefulSet.apps.kruise.io"))
    owners.add(pod, plain)
    assert Matching([custom], owners).of("shop", "odd") == Matching([custom], owners).of("shop", "db-0") == custom
    assert Matching([custom, plain], owners).of("shop", "odd") == plain


def test_what_is_told_of_owners_comes_before_names() -> None:
    owners = Owners()
    web, canary = Workload("shop", "Deployment", "web"), Workload("shop", "Deployment", "canary")
    owners.add(Workload("shop", "Pod", "web-5d4f8c7b9d-x7k2p"), Workload("shop", "ReplicaSet", "odd"))
    owners.add(Workload("shop", "ReplicaSet", "odd"), canary)
    assert Matching([web], owners).of("shop", "web-5d4f8c7b9d-x7k2p") is None
    assert Matching([web, canary], owners).of("shop", "web-5d4f8c7b9d-x7k2p") == canary
    assert Matching([web, canary], owners).of("shop", "web-5d4f8c7b9d-zzzzz") == web
    assert Matching([web], owners).of("bank", "web-5d4f8c7b9d-x7k2p") is None


def test_owners_in_a_circle_end() -> None:
    owners = Owners()
    one, other = Workload("a", "ReplicaSet", "x"), Workload("a", "ReplicaSet", "y")
    owners.add(Workload("a", "Pod", "p"), one)
    owners.add(one, other)
    owners.add(other, one)
    assert owners.topmost("a", "p") in (one, other)


@pytest.mark.parametrize(
    ("pod", "kind", "name"),
    [
        ("web-5d4f8c7b9d-x7k2p", "Deployment", "web"),
        ("db-12", "StatefulSet", "db"),
        ("nightly-29400120-x7k2p", "CronJob", "nightly"),
        ("agent-x7k2p", "DaemonSet", "agent"),
        ("etcd-main", "Pod", "etcd-main"),
    ],
)
def test_a_name_alone_tells_the_likely_workload(pod: str, kind: str, name: str) -> None:
    assert guessed_workload("shop", pod) == Workload("shop", kind, name)
