"""Which workload a pod belongs to, and what fits on a node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastipod.api import TargetRef
from elastipod.eligible import named_by
from elastipod.fit import allocated, node_room, pod_sum, reserved
from elastipod.owners import Owned, topmost_workload, workload_told_by
from elastipod.pods import Container, ContainerKind, Node, OwnerReference, Pod, ResizeCondition, Workload
from elastipod.quantities import Resources


def _owned(uid: str, kind: str, name: str, owner: OwnerReference | None = None) -> Owned:
    return Owned(kind=kind, namespace="default", name=name, uid=uid, owner=owner)


def test_the_chain_is_followed_to_its_top() -> None:
    replica_set = OwnerReference("ReplicaSet", "web-abc", "rs")
    owned = {"rs": _owned("rs", "ReplicaSet", "web-abc", OwnerReference("Deployment", "web", "dep"))}
    pod = Pod("default", "web-abc-1", "p", owner=replica_set)
    assert topmost_workload(pod, owned) == Workload("default", "Deployment", "web")


def test_owners_that_own_each_other_end_the_chain() -> None:
    a, b = OwnerReference("A", "a", "1"), OwnerReference("B", "b", "2")
    owned = {"1": _owned("1", "A", "a", b), "2": _owned("2", "B", "b", a)}
    assert topmost_workload(Pod("default", "p", "p", owner=a), owned) == Workload("default", "B", "b")


def test_a_bare_pod_is_its_own_workload() -> None:
    assert topmost_workload(Pod("default", "p", "p"), {}) == Workload("default", "Pod", "p")


@pytest.mark.parametrize(
    ("kind", "api_version", "known_as"),
    [
        ("StatefulSet", "apps/v1", "StatefulSet"),
        ("StatefulSet", "apps.kruise.io/v1beta1", "StatefulSet.apps.kruise.io"),
        ("Job", "batch.volcano.sh/v1alpha1", "Job.batch.volcano.sh"),
        ("Kafka", "kafka.strimzi.io/v1", "Kafka"),
        # As old manifests and careless ones have it.
        ("Deployment", "extensions/v1beta1", "Deployment"),
        ("Deployment", "v1", "Deployment"),
        ("Deployment", "", "Deployment"),
    ],
)
def test_a_custom_kind_that_is_named_as_one_of_kubernetes_own_is_another_workload(
    kind: str, api_version: str, known_as: str
) -> None:
    pod = Pod("default", "p", "p", owner=OwnerReference(kind, "db", "u", api_version))
    assert topmost_workload(pod, {}) == Workload("default", known_as, "db")
    reference = TargetRef(kind, "db", api_version)
    assert named_by(reference, "default") == Workload("default", known_as, "db")


MINUTE = 29_333_000
"""A scheduled time as Kubernetes writes it into a Job's name: minutes since 1970."""


@pytest.mark.parametrize(
    ("kind", "name", "label", "told"),
    [
        ("ReplicaSet", "web-5d4f8c", "5d4f8c", ("Deployment", "web")),
        ("ReplicaSet", "web-5d4f8c", "", ("ReplicaSet", "web-5d4f8c")),
        ("ReplicaSet", "web-5d4f8c", "other", ("ReplicaSet", "web-5d4f8c")),
        ("Job", f"nightly-load-{MINUTE}", "", ("CronJob", "nightly-load")),
        # A date, another number, and a time to come, are no time that a schedule wrote.
        ("Job", "load-20261129", "", ("Job", "load-20261129")),
        ("Job", "load-7", "", ("Job", "load-7")),
        ("Job", f"load-{MINUTE + 60}", "", ("Job", f"load-{MINUTE + 60}")),
        ("Job", f"load-{MINUTE - 20_000}", "", ("Job", f"load-{MINUTE - 20_000}")),
        ("Job", "load", "", ("Job", "load")),
        ("StatefulSet", f"db-{MINUTE}", "", ("StatefulSet", f"db-{MINUTE}")),
    ],
)
def test_a_pod_tells_its_workload_where_the_owners_name_shows_it(
    kind: str, name: str, label: str, told: tuple[str, str]
) -> None:
    labels = {"pod-template-hash": label} if label else {}
    owner = OwnerReference(kind, name, "u")
    pod = Pod("default", "p", "p", labels=labels, owner=owner, created_at=MINUTE * 60.0 + 90)
    assert workload_told_by(pod) == Workload("default", *told)


def test_a_pod_without_an_owner_tells_only_of_itself() -> None:
    assert workload_told_by(Pod("default", f"p-{MINUTE}", "p", created_at=MINUTE * 60.0)).kind == "Pod"


def _container(
    name: str, memory: int, kind: ContainerKind = ContainerKind.APP, allocated_: int | None = None
) -> Container:
    held = None if allocated_ is None else Resources(0, allocated_)
    return Container(name, kind, Resources(0, memory), allocated=held)


def test_an_init_step_counts_with_the_sidecars_started_before_it_r76() -> None:
    containers = (
        _container("proxy", 80, ContainerKind.SIDECAR),
        _container("migrate", 2000, ContainerKind.INIT),
        _container("app", 300),
    )
    assert pod_sum(Pod("d", "p", "p", containers=containers), allocated).memory == 2080


def test_what_a_pod_requests_as_a_whole_counts_in_place_of_its_containers() -> None:
    whole = Pod(
        "d", "p", "p", node_name="n", phase="Running", containers=(_container("app", 300), _container("log", 0)),
        pod_requests=Resources(None, 900), overhead=Resources(10, 20),
    )  # fmt: skip
    assert pod_sum(whole, allocated) == Resources(10, 920)
    assert reserved(whole) == Resources(10, 920)
    assert node_room(Node("n", allocatable=Resources(1000, 1000)), [whole]).free.memory == 80


def test_an_infeasible_wish_reserves_nothing() -> None:
    pod = Pod(
        "d", "p", "p", node_name="n", phase="Running",
        containers=(_container("app", 900, allocated_=100),),
        resize_pending=ResizeCondition("Infeasible", "", 2, 0.0),
    )  # fmt: skip
    assert reserved(pod).memory == 100


def test_a_deferred_wish_reserves_room_for_the_scheduler_and_not_for_the_kubelet() -> None:
    pod = Pod(
        "d", "p", "p", node_name="n", phase="Running",
        containers=(_container("app", 900, allocated_=100),),
        resize_pending=ResizeCondition("Deferred", "", 2, 0.0),
    )  # fmt: skip
    room = node_room(Node("n", allocatable=Resources(1000, 1000)), [pod])
    assert (room.free_for_scheduler.memory, room.free_for_kubelet.memory) == (100, 900)
    assert not room.fits(Resources(0, 101))


@given(st.lists(st.integers(0, 1000), max_size=20))
def test_room_and_pods_make_up_the_node(sizes: list[int]) -> None:
    pods = [
        Pod("d", f"p{i}", f"u{i}", node_name="n", containers=(_container("c", size),)) for i, size in enumerate(sizes)
    ]
    room = node_room(Node("n", allocatable=Resources(1000, 10_000)), pods)
    assert room.free.memory + sum(sizes) == 10_000
