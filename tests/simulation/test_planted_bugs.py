"""Bugs planted on purpose are found: the simulation can fail."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from elastipod.cli.simulating import (
    ACTUATOR_SETTINGS,
    make_actuator,
    make_recommender,
    make_updater,
    simulated_parts,
)
from elastipod.kube.calls import Call, InterceptedConnection, Verb
from elastipod.kube.connection import Connection
from elastipod.kube.errors import KubeError
from elastipod.kube.listing import list_rows
from elastipod.kube.podrows import decode_pod
from elastipod.kube.resources import AUTOSCALERS, EVENTS, LEASES, POD_METRICS, PODS
from elastipod.localcluster.node.kubelet import Kubelet
from elastipod.localcluster.node.node import LocalNode
from elastipod.localcluster.simulation.faults import FaultPlan
from elastipod.localcluster.simulation.invariants import CgroupWrite
from elastipod.localcluster.simulation.simulation import PartProgram, Simulation, SimulationSettings, Surroundings
from elastipod.loop import Part
from elastipod.pods import PendingReason

MOST_SEEDS = 40


class Spoilt(InterceptedConnection):
    """A connection with a bug in it."""

    def __init__(self, inner: Connection, spoil: Callable[["Spoilt", Call], Any]) -> None:
        super().__init__(inner)
        self.kept: dict[Call, bytes] = {}
        self._spoil = spoil

    async def handle(self, call: Call) -> bytes:
        return bytes(await self._spoil(self, call))


def found(
    invariant: str,
    parts: list[PartProgram] | None = None,
    spoil: Callable[[Spoilt, Call], Any] | None = None,
    of: str = "updater",
    *,
    settings: SimulationSettings | None = None,
    node_type: type[LocalNode] = LocalNode,
    seeds: int = MOST_SEEDS,
) -> bool:
    """Whether one of the seeds shows that the invariant is broken."""

    def wrap(actor: str, connection: Connection) -> Connection:
        return Spoilt(connection, spoil) if spoil is not None and actor.startswith(of) else connection

    return any(
        violation.invariant == invariant
        for seed in range(seeds)
        for violation in Simulation(
            seed, parts or simulated_parts(elects_leader=False), settings, wrap=wrap, node_type=node_type
        )
        .run()
        .violations
    )


def with_body(call: Call, change: Callable[[Any], None]) -> Call:
    body = json.loads(call.body)
    change(body)
    return msgspec.structs.replace(call, body=json.dumps(body).encode())


def is_resize(call: Call) -> bool:
    return call.resource is PODS and call.subresource == "resize"


async def without_uid(connection: Spoilt, call: Call) -> bytes:
    if is_resize(call):
        call = with_body(call, lambda body: body["metadata"].pop("uid", None))
    return await call.send(connection.inner)


async def evicting(connection: Spoilt, call: Call) -> bytes:
    if is_resize(call):
        options = {"deleteOptions": {"preconditions": {"uid": json.loads(call.body)["metadata"]["uid"]}}}
        body = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": call.name}, **options})
        await connection.inner.create(PODS, call.namespace, body.encode(), name=call.name, subresource="eviction")
    return await call.send(connection.inner)


async def with_a_reason_of_its_own(connection: Spoilt, call: Call) -> bytes:
    if call.resource is EVENTS and call.verb is Verb.CREATE:
        call = with_body(call, lambda body: body.update(reason="Whatever"))
    return await call.send(connection.inner)


async def insisting(connection: Spoilt, call: Call) -> bytes:
    """Tries again at once, for ever as good as."""
    answer = await call.send(connection.inner)
    for _ in range(20 if is_resize(call) else 0):
        try:
            answer = await with_body(call, lambda body: body["metadata"].pop("resourceVersion", None)).send(
                connection.inner
            )
        except KubeError:
            continue
    return answer


async def seeing_little_use(connection: Spoilt, call: Call) -> bytes:
    """Takes bytes for a third of what they are."""
    answer = await call.send(connection.inner)
    if call.resource is not POD_METRICS:
        return answer
    page = json.loads(answer)
    for container in (one for item in page.get("items", [page]) for one in item["containers"]):
        container["usage"]["memory"] = f"{int(container['usage']['memory'].removesuffix('Ki')) // 3}Ki"
    return json.dumps(page).encode()


async def taking_no_answer_for_zero(connection: Spoilt, call: Call) -> bytes:
    """Where usage can not be read, takes the last pods' for zero and advises accordingly."""
    if call.resource is POD_METRICS:
        try:
            connection.kept[Call(Verb.LIST, POD_METRICS)] = await call.send(connection.inner)
        except KubeError:
            connection.kept[Call(Verb.GET, POD_METRICS)] = b"lost"
            raise
    if call.resource is AUTOSCALERS and call.is_write and Call(Verb.GET, POD_METRICS) in connection.kept:
        call = with_body(call, advise_nothing)
    return await call.send(connection.inner)


def advise_nothing(body: Any) -> None:
    for operation in body:
        recommendation = operation["value"].get("recommendation") if isinstance(operation["value"], dict) else None
        for one in (recommendation or {}).get("containerRecommendations") or ():
            one["uncappedTarget"] = {"cpu": "1m", "memory": "1Mi"}


async def stealing_the_lease(connection: Spoilt, call: Call) -> bytes:
    """Takes every lease for its own."""
    answer = await call.send(connection.inner)
    if call.resource is LEASES and call.verb is Verb.GET:
        lease = json.loads(answer)
        lease["spec"]["holderIdentity"] = ""
        return json.dumps(lease).encode()
    return answer


@pytest.mark.parametrize(
    ("invariant", "spoil", "of"),
    [
        ("I5", without_uid, "updater"),
        ("I6", evicting, "updater"),
        ("I8", with_a_reason_of_its_own, "updater"),
        ("I10", insisting, "updater"),
        ("I3", seeing_little_use, ""),
    ],
    ids=["no uid", "eviction", "reason", "runaway", "memory in use"],
)
def test_a_connection_that_spoils_requests_is_found(
    invariant: str, spoil: Callable[[Spoilt, Call], Any], of: str
) -> None:
    assert found(invariant, spoil=spoil, of=of)


def test_missing_metrics_taken_for_zero_are_found() -> None:
    settings = SimulationSettings(metrics_lost_at=200.0)
    assert found("I7", spoil=taking_no_answer_for_zero, of="recommender", settings=settings)


def test_two_leaders_are_found() -> None:
    parts = [
        PartProgram("recommender", make_recommender),
        PartProgram("updater", make_updater, elects_leader=True, replicas=2),
    ]
    assert found("I12", parts, stealing_the_lease)


def test_a_hold_without_a_deadline_is_found() -> None:
    def forgetful(around: Surroundings) -> Part:
        settings = replace(ACTUATOR_SETTINGS, hold_seconds=60.0, node_reserve="100Gi")
        return make_actuator(around, settings)

    assert found("I4", [PartProgram("actuator", forgetful, on_every_node=True)])


class _Restless:
    """Changes its mind every minute."""

    name = "updater"
    interval_seconds = 60.0

    def __init__(self, around: Surroundings) -> None:
        self.wake = asyncio.Event()
        self._connection = around.connection
        self._more = 0

    async def watch(self) -> None:
        await asyncio.Event().wait()

    async def run_once(self) -> None:
        self._more = 10 - self._more
        for pod in await list_rows(self._connection, PODS, decode_pod):
            sizes = [
                {"name": one.name, "resources": {"requests": {"cpu": f"{50 + self._more}m"}}} for one in pod.containers
            ]
            body = json.dumps({"metadata": {"uid": pod.uid}, "spec": {"containers": sizes}}).encode()
            with suppress(KubeError):
                await self._connection.patch(PODS, pod.namespace, pod.name, body, subresource="resize")


def test_a_part_that_never_comes_to_rest_is_found() -> None:
    assert found("I9", [PartProgram("updater", _Restless)])


class _DeafKubelet(Kubelet):
    """Never looks at what a pod asks for."""

    def resize(self, uid: str, now: float) -> bool:
        return False


class _DeafNode(LocalNode):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kubelet.__class__ = _DeafKubelet


def test_a_wish_that_never_comes_true_is_found() -> None:
    assert found("I9", node_type=_DeafNode)


class _Overstating(InterceptedConnection):
    """Leaves each pod with a CPU wish that no node can meet."""

    async def handle(self, call: Call) -> bytes:
        if is_resize(call):
            call = with_body(call, _overstate)
        return await super().handle(call)


def _overstate(body: Any) -> None:
    for container in body["spec"]["containers"]:
        resources = container["resources"]
        if "cpu" not in (resources.get("limits") or {}):
            resources.setdefault("requests", {})["cpu"] = "3999m"


def _fields(around: Surroundings) -> dict[str, Any]:
    return {name: getattr(around, name) for name in Surroundings.__dataclass_fields__}


class _GenerousKubelet(Kubelet):
    """Admits whatever is asked."""

    def _lack(self, pod: Any, sizes: Any) -> None:
        return None


class _GenerousNode(LocalNode):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kubelet.__class__ = _GenerousKubelet


def test_a_node_that_gives_more_than_it_has_is_found() -> None:
    def greedy(around: Surroundings) -> Part:
        return make_updater(Surroundings(**{**_fields(around), "connection": _Overstating(around.connection)}))

    parts = [PartProgram("recommender", make_recommender), PartProgram("updater", greedy)]
    assert found("I2", parts, node_type=_GenerousNode)


def test_a_cgroup_write_outside_a_pod_is_found() -> None:
    def straying(around: Surroundings) -> Part:
        around.on_cgroup_write(CgroupWrite(around.actor, "kubepods/burstable", "memory.max", "1"))
        return make_actuator(around)

    assert found("I13", [PartProgram("actuator", straying, on_every_node=True)])


class _LateNode(LocalNode):
    """Puts sizes in force a second before it stores them."""

    def _store(self) -> None:
        asyncio.get_running_loop().call_later(1.0, super()._store)


def test_an_effect_before_it_is_stored_is_found() -> None:
    assert found("I2", node_type=_LateNode)


class _StubbornKubelet(Kubelet):
    """Calls every change of size infeasible."""

    def _refusal(self, pod: Any, wanted: Any) -> Any:
        return PendingReason.INFEASIBLE, "not on this node", ""


class _StubbornNode(LocalNode):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kubelet.__class__ = _StubbornKubelet


async def never_putting_back(connection: Spoilt, call: Call) -> bytes:
    """Asks each pod once, and leaves it with what it asked."""
    if not is_resize(call):
        return await call.send(connection.inner)
    asked = Call(Verb.GET, PODS, call.namespace, call.name)
    if asked in connection.kept:
        return await asked.send(connection.inner)
    connection.kept[asked] = await call.send(connection.inner)
    return connection.kept[asked]


@pytest.mark.parametrize("spoil", [never_putting_back, None], ids=["not put back", "put back"])
def test_an_infeasible_spec_that_is_not_put_back_is_found(spoil: Callable[[Spoilt, Call], Any] | None) -> None:
    parts = [PartProgram("recommender", make_recommender), PartProgram("updater", make_updater)]
    calm = SimulationSettings(faults=FaultPlan())
    is_found = found("I9", parts, spoil, settings=calm, node_type=_StubbornNode, seeds=4)
    assert is_found is (spoil is not None)
