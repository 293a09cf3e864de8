"""Which pods belong to which workload, in whatever order the watches tell."""

import math

import numpy as np
import pytest

from elastipod.owners import Owned
from elastipod.pods import Container, ContainerKey, ContainerKind, OwnerReference, Pod, Workload
from elastipod.quantities import Resources
from recommender.claims import Claim
from recommender.history import History
from recommender.membership import Membership
from recommender.recommending import Recommendations
from recommender.samples import UsageSample
from recommender.settings import RecommenderSettings

WEB = Workload("ns", "Deployment", "web")
DAY = 86_400.0


def owned(kind: str, name: str, uid: str, owner: OwnerReference | None = None) -> Owned:
    return Owned(kind, "ns", name, uid, owner=owner)


DEPLOYMENT = owned("Deployment", "web", "d")
REPLICA_SET = owned("ReplicaSet", "web-1", "r", OwnerReference("Deployment", "web", "d"))


def pod(name: str = "web-a", uid: str = "p", *, owner: str = "r", phase: str = "Running", cpu: int = 100) -> Pod:
    return Pod(
        "ns",
        name,
        uid,
        phase=phase,
        owner=OwnerReference("ReplicaSet", "web-1", owner),
        created_at=1.0,
        containers=(
            Container("migrate", ContainerKind.INIT),
            Container("app", requests=Resources(cpu, 1000), is_running=True, started_at=5.0),
            Container("proxy", ContainerKind.SIDECAR, is_running=True),
        ),
    )


@pytest.fixture
def members() -> Membership:
    return Membership(History(RecommenderSettings()))


@pytest.mark.parametrize("order", ["owners first", "pod first", "pod between"])
def test_a_pod_belongs_to_its_topmost_owner_in_any_order(members: Membership, order: str) -> None:
    members.claim(WEB)
    steps = {
        "owners first": ("d", "r", "p"),
        "pod first": ("p", "r", "d"),
        "pod between": ("d", "p", "r"),
    }[order]
    for step in steps:
        if step == "p":
            members.set_pod("ns/web-a", pod())
        else:
            members.set_owned(None, DEPLOYMENT if step == "d" else REPLICA_SET)
    assert members.workload("ns/web-a") == WEB
    assert members.exists(WEB)
    assert members.instances.place("ns", "web-a", "app") >= 0


def test_sidecars_are_sized_and_init_containers_are_not_r76(members: Membership) -> None:
    members.claim(WEB)
    members.set_owned(None, REPLICA_SET)
    members.set_pod("ns/web-a", pod())
    assert sorted(members.containers(WEB)) == ["app", "proxy"]
    assert members.instances.place("ns", "web-a", "proxy") >= 0
    assert members.instances.place("ns", "web-a", "migrate") == -1


def test_a_pod_keeps_its_workload_when_its_replica_set_goes_first(members: Membership) -> None:
    members.set_owned(None, DEPLOYMENT)
    members.set_owned(None, REPLICA_SET)
    members.set_pod("ns/web-a", pod())
    members.set_owned(REPLICA_SET, None)
    members.set_pod("ns/web-a", pod(cpu=200))
    assert members.workload("ns/web-a") == WEB
    members.set_pod("ns/web-a", None)
    assert members.workload("ns/web-a") is None
    assert members.pods(WEB) == []


def test_labels_decide_nothing_r44(members: Membership) -> None:
    members.set_owned(None, REPLICA_SET)
    members.set_pod("ns/web-a", pod())
    stranger = Pod("ns", "db-0", "x", labels={"app": "web"}, owner=OwnerReference("StatefulSet", "db", "s"))
    members.set_pod("ns/db-0", stranger)
    assert [one.name for one in members.pods(WEB)] == ["web-a"]


def test_a_claim_that_moves_a_pod_does_not_make_it_forget_an_owner_that_is_gone(members: Membership) -> None:
    members.set_owned(None, OPERATED)
    members.set_owned(None, REPLICA_SET)
    members.set_pod("ns/web-a", pod())
    members.set_owned(REPLICA_SET, None)
    for claimed in (WEB, CUSTOM):
        members.claim(claimed)
        assert members.workload("ns/web-a") == claimed


CUSTOM = Workload("ns", "Kafka", "k")
OPERATED = owned("Deployment", "web", "d", OwnerReference("Kafka", "k", "c", "kafka.example/v1"))


@pytest.fixture
def operated(members: Membership) -> Membership:
    """A pod whose chain of owners ends in a kind that is not known."""
    members.set_owned(None, OPERATED)
    members.set_owned(None, REPLICA_SET)
    members.set_pod("ns/web-a", pod())
    return members


@pytest.mark.parametrize("claimed", [WEB, CUSTOM])
def test_a_pod_below_a_custom_owner_is_sized_as_whichever_is_claimed_r42(
    operated: Membership, claimed: Workload
) -> None:
    operated.claim(claimed)
    assert operated.workload("ns/web-a") == claimed
    assert operated.instances.place("ns", "web-a", "app") >= 0


def test_of_two_owners_that_are_claimed_the_highest_counts_r42(operated: Membership) -> None:
    operated.claim(WEB)
    operated.claim(CUSTOM)
    assert operated.workload("ns/web-a") == CUSTOM
    assert operated.pods(WEB) == []
    operated.unclaim(CUSTOM)
    assert operated.workload("ns/web-a") == WEB
    assert operated.instances.place("ns", "web-a", "app") >= 0
    operated.unclaim(WEB)
    assert operated.workload("ns/web-a") == CUSTOM
    assert operated.instances.place("ns", "web-a", "app") == -1


@pytest.mark.parametrize("order", ["dprc", "cprd", "pcrd", "crdp"])
def test_a_claim_is_followed_whenever_it_comes_r42(members: Membership, order: str) -> None:
    steps = {
        "c": lambda: members.claim(WEB),
        "d": lambda: members.set_owned(None, OPERATED),
        "r": lambda: members.set_owned(None, REPLICA_SET),
        "p": lambda: members.set_pod("ns/web-a", pod()),
    }
    for step in order:
        steps[step]()
    assert members.workload("ns/web-a") == WEB
    members.set_pod("ns/web-a", None)
    assert members.pods(WEB) == []
    assert members.workload("ns/web-a") is None


def test_a_part_of_what_kubernetes_itself_controls_is_not_sized_by_itself(members: Membership) -> None:
    members.set_owned(None, DEPLOYMENT)
    members.set_owned(None, REPLICA_SET)
    members.claim(Workload("ns", "ReplicaSet", "web-1"))
    members.set_pod("ns/web-a", pod())
    assert members.workload("ns/web-a") == WEB


def test_a_controller_of_a_foreign_group_is_a_custom_owner_r42(members: Membership) -> None:
    members.set_owned(
        None, owned("ReplicaSet", "web-1", "r", OwnerReference("StatefulSet", "db", "s", "apps.example.io/v1"))
    )
    members.claim(Workload("ns", "ReplicaSet", "web-1"))
    members.set_pod("ns/web-a", pod())
    assert members.workload("ns/web-a") == Workload("ns", "ReplicaSet", "web-1")


def test_a_pod_of_the_same_name_is_another_pod(members: Membership) -> None:
    members.claim(WEB)
    members.set_owned(None, REPLICA_SET)
    members.set_pod("ns/web-a", pod(uid="one"))
    before = members.instances.place("ns", "web-a", "app")
    members.set_pod("ns/web-b", pod("web-b", uid="other"))
    members.set_pod("ns/web-a", pod(uid="two"))
    assert members.instances.place("ns", "web-a", "app") >= 0
    assert before >= 0
    assert len(members.pods(WEB)) == 2


def test_the_least_and_most_that_living_pods_ask_are_known(members: Membership) -> None:
    members.claim(WEB)
    members.set_owned(None, REPLICA_SET)
    for name, cpu, phase in (("a", 100, "Running"), ("b", 300, "Running"), ("c", 900, "Succeeded")):
        members.set_pod(f"ns/{name}", pod(name, uid=name, cpu=cpu, phase=phase))
    row = 0
    assert members.instances.requests()[row].tolist() == [0.1, 0.3, 1000.0, 1000.0]
    assert members.instances.live_since()[row] == 5.0
    for name in ("a", "b"):
        members.set_pod(f"ns/{name}", None)
    assert np.isnan(members.instances.requests()[row]).all()
    assert math.isnan(members.instances.live_since()[row])


def recommendations() -> Recommendations:
    known = Recommendations(RecommenderSettings())
    claim = Claim("ns", "vpa", "u", 1, "elastipod", WEB)
    known.set_claim("ns/vpa", claim)
    known.loaded("ns/vpa", {}, {})
    known.members.set_owned(None, DEPLOYMENT)
    known.members.set_owned(None, REPLICA_SET)
    known.members.set_pod("ns/web-a", pod())
    known.learn([UsageSample("ns", "web-a", "app", 1.0, 0.5, 1e9)], 1e9)
    return known


def test_history_of_what_no_pod_has_goes_after_as_long_as_it_is_kept() -> None:
    known = recommendations()
    known.members.set_pod("ns/web-a", None)
    assert known.expire(1e9 + 7 * DAY) == [ContainerKey(WEB, "proxy")]
    assert known.expire(1e9 + 8.1 * DAY) == [ContainerKey(WEB, "app")]


def test_history_of_living_pods_stays_through_any_gap() -> None:
    known = recommendations()
    assert known.expire(1e9 + 400 * DAY) == []


def test_history_of_a_workload_that_nobody_claims_any_more_goes() -> None:
    known = recommendations()
    known.set_claim("ns/vpa", None)
    assert ContainerKey(WEB, "app") in known.expire(1e9 + 9 * DAY)


def test_endless_rollouts_leave_nothing_behind_r72() -> None:
    known = recommendations()
    for number in range(300):
        name = f"web-{number}"
        known.members.set_pod(f"ns/{name}", pod(name, uid=name))
        known.learn([UsageSample("ns", name, "app", number, 0.5, 1e9)], 1e9 + number * 60)
        known.members.set_pod(f"ns/{name}", None)
    assert known.history.size == 2
    assert known.history.open_instances == 2
    assert len(known.members.pods(WEB)) == 1


def owners_remembered(known: Recommendations) -> tuple[int, int]:
    """How many owners, and how many that name them."""
    members = known.members._members
    return len(members._owned), sum(len(those) for those in (*members._heirs.values(), *members._children.values()))


@pytest.mark.parametrize("pod_goes_first", [True, False])
def test_replica_sets_that_are_gone_are_forgotten_with_their_last_pod_r72(*, pod_goes_first: bool) -> None:
    known = recommendations()
    before = owners_remembered(known)
    for number in range(50):
        uid = f"rs-{number}"
        made = owned("ReplicaSet", uid, uid, OwnerReference("Deployment", "web", "d"))
        known.members.set_owned(None, made)
        known.members.set_pod(f"ns/{uid}", pod(uid, uid=uid, owner=uid))
        assert known.members.workload(f"ns/{uid}") == WEB
        if pod_goes_first:
            known.members.set_pod(f"ns/{uid}", None)
        known.members.set_owned(made, None)
        known.members.set_pod(f"ns/{uid}", None)
    assert owners_remembered(known) == before


def test_what_living_pods_ask_is_nothing_when_none_is_left() -> None:
    known = recommendations()
    row = known.history.row(ContainerKey(WEB, "app"))
    assert not np.isnan(known.members.instances.live_since()[row])
    known.members.set_pod("ns/web-a", None)
    figures = known.members.instances
    for found in (figures.live_since()[row], figures.requests()[row], figures.limits()[row]):
        assert np.isnan(found).all()


def test_a_workload_without_pods_lost_no_metrics() -> None:
    known = recommendations()
    known.members.set_pod("ns/web-a", None)
    known.decide(1e9 + 3600)
    assert "MetricsLost" not in {one.type for one in known.status("ns/vpa", 1e9 + 3600).conditions or ()}
