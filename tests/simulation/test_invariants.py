"""Each invariant sees what breaks it, and nothing else."""

import json
from collections.abc import Collection, Iterable
from typing import Any

import pytest

from elastipod.clock import to_rfc3339_micro
from elastipod.kube.calls import Call, Verb
from elastipod.kube.resources import AUTOSCALERS, EVENTS, LEASES, PODS, ResourceType
from elastipod.localcluster.api.kinds import kind_of
from elastipod.localcluster.api.store import Entry, Store
from elastipod.localcluster.simulation.invariants import CgroupWrite, Hold, Invariant, NodeTruth, Violation
from elastipod.localcluster.simulation.invariants.pace import HoldsEnd, NothingRunsAway, NothingShrinksUnseen
from elastipod.localcluster.simulation.invariants.sizes import (
    CgroupsOfPodsOnly,
    NodesHold,
    SizesAreAllowed,
    UsedMemoryStays,
)
from elastipod.localcluster.simulation.invariants.writes import (
    EvictionsAreAllowed,
    OneLeaderWrites,
    PodsAreMeantByUid,
    ReasonsAreNamed,
)
from elastipod.localcluster.simulation.trace import Write
from elastipod.quantities import Resources

MEBI = 1024**2
UID = "11111111-2222-4333-8444-555555555555"


class StatedWorld:
    """The truth as a test states it."""

    def __init__(self) -> None:
        self.store = Store()
        self.at = 1_000.0
        self.truths: list[NodeTruth] = []
        self.used: int | None = None
        self.held: list[Hold] = []
        self.lost_since: float | None = None

    def now(self) -> float:
        return self.at

    def unix_now(self) -> float:
        return 1_700_000_000.0 + self.at

    def nodes(self, names: Collection[str]) -> Iterable[NodeTruth]:
        return [one for one in self.truths if one.name in names]

    def lowest_memory(self, pod_uid: str, container: str, seconds: float) -> int | None:
        return self.used

    def holds(self) -> Iterable[Hold]:
        return self.held

    def metrics_lost_since(self, namespace: str) -> float | None:
        return self.lost_since


def _entry(resource: ResourceType, json_: dict[str, Any]) -> Entry:
    meta = json_["metadata"]
    return Entry(kind_of(resource), meta.get("namespace", ""), meta["name"], json_, json.dumps(json_).encode(), 1)


def pod(request: str = "64Mi", limit: str = "128Mi", uid: str = UID, qos: str = "Burstable") -> Entry:
    resources = {"requests": {"memory": request, "cpu": "100m"}, "limits": {"memory": limit}}
    return _entry(
        PODS,
        {
            "metadata": {"name": "web", "namespace": "d", "uid": uid},
            "spec": {"nodeName": "n", "containers": [{"name": "main", "resources": resources}]},
            "status": {"phase": "Running", "qosClass": qos},
        },
    )


def resize(before: Entry, after: Entry, actor: str = "updater/1", body: Any = None, at: float = 1_000.0) -> Write:
    body = {"metadata": {"uid": UID}} if body is None else body
    call = Call(Verb.PATCH, PODS, "d", "web", "resize", json.dumps(body).encode())
    return Write(at, actor, call, 0, before, after)


def found(invariant: Invariant, world: StatedWorld, *writes: Write) -> list[Violation]:
    seen = [violation for write in writes for violation in invariant.after_write(world, write)]
    return seen + list(invariant.at_pause(world))


@pytest.mark.parametrize(
    ("after", "is_broken"),
    [(pod(), False), (pod("256Mi", "128Mi"), True), (pod(qos="Guaranteed"), True)],
)
def test_i1_request_and_class(after: Entry, is_broken: bool) -> None:
    assert bool(found(SizesAreAllowed(), StatedWorld(), resize(pod(), after))) is is_broken


def test_i2_no_node_gives_more_than_it_has() -> None:
    world = StatedWorld()
    for allocated, is_broken in (
        (Resources(1_000, 5), False),
        (Resources(1_001, 5), True),
        (Resources(1_000, 6), True),
    ):
        world.truths = [NodeTruth("n", Resources(1_000, 5), allocated)]
        assert bool(found(NodesHold(), world, resize(pod(), pod()))) is is_broken


def test_a_node_has_stored_every_size_that_is_in_force() -> None:
    world = StatedWorld()
    world.truths = [NodeTruth("n", Resources(1_000, 5), Resources(0, 0), ("d/web/main",))]
    [violation] = found(NodesHold(), world, resize(pod(), pod()))
    assert violation.object == "d/web/main"


@pytest.mark.parametrize(
    ("limit", "used", "actor", "is_broken"),
    [
        ("111Mi", 100, "updater/1", False),
        ("109Mi", 100, "updater/1", True),
        ("109Mi", None, "updater/1", False),
        ("109Mi", 100, "cluster/people", False),
        ("200Mi", 190, "updater/1", False),
    ],
)
def test_i3_memory_in_use_is_not_taken(limit: str, used: int | None, actor: str, is_broken: bool) -> None:
    world = StatedWorld()
    world.used = None if used is None else used * MEBI
    assert bool(found(UsedMemoryStays(), world, resize(pod(), pod(limit=limit), actor))) is is_broken


@pytest.mark.parametrize(
    ("hold", "is_broken"),
    [
        (Hold("c", 995.0), False),
        (Hold("c", 994.4), True),
        (Hold("c", 100.0, 105.4), False),
        (Hold("c", 100.0, 106.0), True),
    ],
)
def test_i4_holds_end(hold: Hold, is_broken: bool) -> None:
    world = StatedWorld()
    world.held = [hold]
    assert bool(found(HoldsEnd(), world)) is is_broken


@pytest.mark.parametrize(
    ("body", "is_broken"),
    [
        ({"metadata": {"uid": UID}}, False),
        ({"metadata": {}}, True),
        ({"metadata": {"uid": "another"}}, True),
        ([{"op": "test", "path": "/metadata/uid", "value": UID}], False),
        ([{"op": "replace", "path": "/spec", "value": 1}], True),
    ],
)
def test_i5_a_pod_is_meant_by_its_uid(body: Any, is_broken: bool) -> None:
    assert bool(found(PodsAreMeantByUid(), StatedWorld(), resize(pod(), pod(), body=body))) is is_broken


@pytest.mark.parametrize(("mode", "is_broken"), [("InPlace", True), ("Off", True), ("Recreate", False), (None, True)])
def test_i6_only_a_policy_evicts(mode: str | None, is_broken: bool) -> None:
    world = StatedWorld()
    if mode:
        spec = {"targetRef": {"kind": "Pod", "name": "web"}, "updatePolicy": {"updateMode": mode}}
        world.store.put(kind_of(AUTOSCALERS), {"metadata": {"name": "v", "namespace": "d"}, "spec": spec})
    write = Write(0.0, "updater/1", Call(Verb.CREATE, PODS, "d", "web", "eviction"), 0, pod(), None)
    assert bool(found(EvictionsAreAllowed(), world, write)) is is_broken


def autoscaler(memory: str) -> Entry:
    one = {"containerName": "main", "uncappedTarget": {"memory": memory, "cpu": "1"}}
    status = {"recommendation": {"containerRecommendations": [one]}}
    return _entry(AUTOSCALERS, {"metadata": {"name": "v", "namespace": "d"}, "spec": {}, "status": status})


def status_write(before: Entry, after: Entry, at: float = 1_000.0) -> Write:
    return Write(at, "recommender/1", Call(Verb.PATCH, AUTOSCALERS, "d", "v", "status"), 0, before, after)


@pytest.mark.parametrize(
    ("lost_since", "memory", "is_broken"),
    [
        (None, "50Mi", False),
        (990.0, "50Mi", False),
        (500.0, "50Mi", True),
        (500.0, "100Mi", False),
        (500.0, "1Gi", False),
    ],
)
def test_i7_nothing_is_lowered_unseen(lost_since: float | None, memory: str, is_broken: bool) -> None:
    world = StatedWorld()
    world.lost_since = lost_since
    write = status_write(autoscaler("100Mi"), autoscaler(memory))
    assert bool(found(NothingShrinksUnseen(), world, write)) is is_broken


@pytest.mark.parametrize(("reason", "is_broken"), [("NoRoom", False), ("Because", True), ("", True)])
def test_i8_reasons_are_named(reason: str, is_broken: bool) -> None:
    event = _entry(EVENTS, {"metadata": {"name": "e", "namespace": "d"}, "reason": reason})
    write = Write(0.0, "updater/1", Call(Verb.CREATE, EVENTS, "d"), 0, None, event)
    assert bool(found(ReasonsAreNamed(), StatedWorld(), write)) is is_broken


@pytest.mark.parametrize(
    ("gap", "times", "is_broken"), [(30.0, 5, False), (20.0, 3, True), (60.0, 9, False), (1.0, 2, False)]
)
def test_i10_a_pod_is_resized_twice_a_minute_at_most(gap: float, times: int, is_broken: bool) -> None:
    writes = [resize(pod(), pod(), at=number * gap) for number in range(times)]
    assert bool(found(NothingRunsAway(), StatedWorld(), *writes)) is is_broken


@pytest.mark.parametrize(
    ("holder", "age", "is_broken"),
    [("updater/1", 5, False), ("updater/1", 16, True), ("updater/2", 5, True), (None, 0, True)],
)
def test_i12_only_the_leader_writes(holder: str | None, age: float, is_broken: bool) -> None:
    world = StatedWorld()
    if holder:
        spec = {"holderIdentity": holder, "renewTime": to_rfc3339_micro(world.unix_now() - age)}
        lease = {"metadata": {"name": "elastipod-updater", "namespace": "kube-system"}, "spec": spec}
        world.store.put(kind_of(LEASES), lease)
    assert bool(found(OneLeaderWrites(["updater"]), world, resize(pod(), pod()))) is is_broken


@pytest.mark.parametrize(
    ("group", "is_broken"),
    [
        (f"kubepods/burstable/pod{UID}/abc", False),
        (f"kubepods/pod{UID}", False),
        (
            f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri-a.scope",
            False,
        ),
        ("kubepods/burstable", True),
        ("kubepods", True),
        ("", True),
        ("system.slice/kubelet.service", True),
        (f"kubepods/../pod{UID}", True),
    ],
)
def test_i13_cgroups_of_pods_only(group: str, is_broken: bool) -> None:
    write = CgroupWrite("actuator/1", group, "memory.max", "1")
    assert bool(list(CgroupsOfPodsOnly().after_cgroup_write(StatedWorld(), write))) is is_broken
