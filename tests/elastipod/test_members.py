"""Whose pod a pod is does not depend on the order in which all of it became known."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.api import ElasticPolicy, ElasticPolicySpec, ObjectMeta, WorkloadSelector
from elastipod.eligible import chosen, eligible, group_of
from elastipod.members import Members
from elastipod.owners import Owned
from elastipod.pods import OwnerReference, Pod, Workload

OWNERS = [
    Owned("Kafka", "ns", "k", "k"),
    Owned("Deployment", "ns", "web", "d", owner=OwnerReference("Kafka", "k", "k", "kafka.example/v1")),
    Owned("ReplicaSet", "ns", "web-1", "r", owner=OwnerReference("Deployment", "web", "d", "apps/v1")),
    Owned("Job", "ns", "night-1", "j", owner=OwnerReference("CronJob", "night", "c", "batch/v1")),
    Owned("CronJob", "ns", "night", "c"),
]
BY_UID = {one.uid: one for one in OWNERS}
REPLICA_SET = OwnerReference("ReplicaSet", "web-1", "r", "apps/v1")
PODS = [
    Pod("ns", "web-a", "1", owner=REPLICA_SET),
    Pod("ns", "web-b", "2", labels={"pool": "ci"}, owner=REPLICA_SET),
    Pod("ns", "night-x", "3", owner=OwnerReference("Job", "night-1", "j", "batch/v1")),
    Pod("ns", "bare", "4", labels={"pool": "ci"}),
]
POLICY = ElasticPolicy(
    metadata=ObjectMeta(name="runners", namespace="ns"),
    spec=ElasticPolicySpec(WorkloadSelector(match_labels={"pool": "ci"})),
)
TARGETS = [
    Workload("ns", "Kafka", "k"),
    Workload("ns", "Deployment", "web"),
    Workload("ns", "ReplicaSet", "web-1"),
    Workload("ns", "CronJob", "night"),
    Workload("ns", "Pod", "bare"),
    group_of(POLICY),
]


@pytest.mark.parametrize("has_policy", [True, False])
@given(data=st.data())
def test_order_decides_nothing(data: st.DataObject, *, has_policy: bool) -> None:
    claimed = data.draw(st.sets(st.sampled_from(TARGETS)))
    # Said twice is said once.
    told = data.draw(st.permutations([*OWNERS, *OWNERS, *PODS, *PODS, *claimed, *([POLICY] if has_policy else [])]))
    left: list[tuple[str, Workload]] = []
    members = Members(lambda key, workload: left.append((key, workload)))
    for one in told:
        match one:
            case Owned():
                members.put_owned(None, one)
            case Pod():
                members.put_pod(one.key, one)
            case Workload():
                members.claim(one, is_claimed=True)
            case ElasticPolicy() as policy:
                members.group({"ns": (policy,)})
    owned = {one.uid: one for one in OWNERS}
    for pod in PODS:
        found = chosen(eligible(pod, owned, (POLICY,) if has_policy else ()), claimed)
        assert members.workload(pod.key) == found
        assert pod.key in members.keys(found)
        assert all(pod.key not in members.keys(workload) for key, workload in left if workload != found)


def test_what_is_said_no_more_counts_no_more() -> None:
    members = Members()
    for one in OWNERS:
        members.put_owned(None, one)
    for pod in PODS:
        members.put_pod(pod.key, pod)
    bare, group = Workload("ns", "Pod", "bare"), group_of(POLICY)
    members.group({"ns": (POLICY,)})
    assert members.claim(group, is_claimed=True) == {"ns/bare", "ns/web-b"}
    assert members.workload("ns/bare") == group
    assert members.claim(group, is_claimed=False) == {"ns/bare", "ns/web-b"}
    assert members.workload("ns/bare") == bare
    members.claim(group, is_claimed=True)
    assert members.group({"ns": (), "elsewhere": ()}) == {pod.key for pod in PODS}
    assert members.workload("ns/bare") == bare
    assert members.group({"ns": ()}) == set()


def test_of_two_owners_of_one_name_the_newer_is_there() -> None:
    members = Members()
    old = OWNERS[2]
    members.put_owned(None, old)
    members.put_pod("ns/web-a", PODS[0])
    new = Owned("ReplicaSet", "ns", "web-1", "r2")
    members.put_owned(None, new)
    members.put_owned(old, None)
    assert members.controller(Workload("ns", "ReplicaSet", "web-1")) == new
    assert members.owner(PODS[0]) == old
    members.put_pod("ns/web-a", None)
    assert members.owner(PODS[0]) is None


def test_owners_that_are_gone_are_forgotten_with_the_last_that_names_them_r72() -> None:
    members = Members()
    for uid in ("d", "r"):
        members.put_owned(None, BY_UID[uid])
    members.put_pod("ns/web-a", PODS[0])
    members.put_pod("ns/web-b", PODS[1])
    for uid in ("d", "r"):
        members.put_owned(BY_UID[uid], None)
    members.put_pod("ns/web-a", None)
    assert [one.uid for one in members.owners(PODS[1])] == ["r", "d"]
    members.put_pod("ns/web-b", None)
    assert list(members.owners(PODS[1])) == []


def test_a_pods_owner_that_is_named_otherwise_is_still_its_owner() -> None:
    members = Members()
    for one in OWNERS:
        members.put_owned(None, one)
    members.put_pod("ns/web-a", PODS[0])
    renamed = msgspec.structs.replace(REPLICA_SET, api_version="apps/v2")
    members.put_pod("ns/web-a", msgspec.structs.replace(PODS[0], owner=renamed))
    members.put_owned(BY_UID["r"], None)
    told = msgspec.structs.replace(BY_UID["d"], annotations={"elastipod.io/sizing": "Off"})
    assert members.put_owned(BY_UID["d"], told) == {"ns/web-a"}


def test_an_owner_that_is_gone_and_let_go_of_is_forgotten_r72() -> None:
    members = Members()
    for one in OWNERS:
        members.put_owned(None, one)
    members.put_owned(BY_UID["d"], None)
    members.put_owned(BY_UID["r"], msgspec.structs.replace(BY_UID["r"], owner=None))
    members.put_pod("ns/web-a", PODS[0])
    assert "d" not in members._owned
