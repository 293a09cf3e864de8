"""One leader writes at a time, and the next one is not kept waiting."""

import asyncio
import json
import math
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from elastipod.clock import LoopClock
from elastipod.kube.calls import Call, InterceptedConnection, Verb
from elastipod.kube.errors import Conflict, KubeError, NotFound, NotLeader, Unreachable
from elastipod.kube.leadership import ADDRESS_ANNOTATION, LACKS_ANNOTATION, Leadership
from elastipod.kube.resources import LEASES, PODS
from elastipod.localcluster.simulation.virtualtime import run_virtually


class Leases:
    """One lease with optimistic locking, and a note of every other write."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.writes: list[tuple[float, str]] = []
        self.write_seconds = 0.0

    def put(self, **spec: Any) -> None:
        self.version += 1
        old = self.lease or {"metadata": {}, "spec": {}}
        meta = old["metadata"] | {"resourceVersion": str(self.version)}
        self.lease = {"metadata": meta, "spec": old["spec"] | spec}


class Wire(InterceptedConnection):
    """One process' way to the leases, which can be cut."""

    def __init__(self, leases: Leases) -> None:
        super().__init__(self)
        self.leases = leases
        self.is_cut = False
        self.calls = 0
        self.failure: KubeError | None = None

    @property
    def call_seconds(self) -> float:
        return math.inf

    async def handle(self, call: Call) -> bytes:
        await self._travel()
        if call.resource is not LEASES:
            await asyncio.sleep(self.leases.write_seconds)
            self.leases.writes.append((asyncio.get_running_loop().time(), call.name))
            return b"{}"
        lease = self.leases.lease
        if call.verb is Verb.CREATE:
            if lease is not None:
                raise Conflict(409, "AlreadyExists", "there is one")
            self.leases.lease = json.loads(call.body)
            self.leases.put()
        elif lease is None:
            raise NotFound(404, "NotFound", "no lease")
        elif call.verb is Verb.PATCH:
            change = json.loads(call.body)
            if change["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"]:
                raise Conflict(409, "Conflict", "it has moved on")
            self.leases.put(**change["spec"])
        else:
            assert call.verb is Verb.GET
        return json.dumps(self.leases.lease).encode()

    async def _travel(self) -> None:
        self.calls += 1
        if self.is_cut:
            await asyncio.sleep(5)
            raise Unreachable("cut")
        if self.failure is not None:
            raise self.failure
        await asyncio.sleep(0.01)


class Candidate:
    def __init__(self, leases: Leases, name: str, has_ended: Callable[[str], bool] = lambda _: False) -> None:
        self.wire = Wire(leases)
        self.lead = Leadership(
            self.wire,
            LoopClock(),
            namespace="elastipod",
            name="elastipod-updater",
            identity=name,
            address=f"http://{name}",
            has_ended=has_ended,
        )
        self.fenced = self.lead.guarded(self.wire)
        self.task = asyncio.create_task(self.lead.run())

    async def write(self) -> None:
        await self.fenced.patch(PODS, "d", self.lead.identity, b"{}")

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


def virtual(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        run_virtually(test())

    run.__name__ = test.__name__
    return run


@virtual
async def test_the_first_leads_and_says_who_and_where_it_is() -> None:
    leases = Leases()
    one = Candidate(leases, "one")
    await one.lead.wait_until_leader()
    two = Candidate(leases, "two")
    await asyncio.sleep(300)
    assert (one.lead.is_leader, two.lead.is_leader, two.lead.holder) == (True, False, "one")
    assert leases.lease is not None
    assert leases.lease["metadata"]["annotations"] == {ADDRESS_ANNOTATION: "http://one", LACKS_ANNOTATION: ""}
    assert leases.lease["spec"]["leaseTransitions"] == 0
    assert leases.lease["spec"]["renewTime"].endswith("Z")
    assert len(leases.lease["spec"]["renewTime"]) == len("2026-11-29T16:00:00.000000Z")


@virtual
async def test_who_does_not_lead_does_not_write() -> None:
    leases = Leases()
    one = Candidate(leases, "one")
    await one.lead.wait_until_leader()
    two = Candidate(leases, "two")
    await asyncio.sleep(10)
    await one.write()
    with pytest.raises(NotLeader):
        await two.write()
    assert [name for _, name in leases.writes] == ["one"]


@virtual
async def test_a_leader_that_stops_is_followed_at_once() -> None:
    leases = Leases()
    one = Candidate(leases, "one")
    await one.lead.wait_until_leader()
    two = Candidate(leases, "two")
    await asyncio.sleep(10)
    await one.stop()
    stopped_at = asyncio.get_running_loop().time()
    await two.lead.wait_until_leader()
    assert asyncio.get_running_loop().time() - stopped_at < 3


@virtual
async def test_a_leader_that_is_surely_dead_is_followed_at_once() -> None:
    leases = Leases()
    first = Candidate(leases, "first")
    await asyncio.sleep(1)
    first.wire.is_cut = True
    first.task.cancel()
    await asyncio.sleep(6)
    unsure, sure = Candidate(leases, "unsure"), Candidate(leases, "sure", lambda name: name == "first")
    await asyncio.sleep(1)
    assert (unsure.lead.is_leader, sure.lead.is_leader) == (False, True)
    assert leases.lease is not None
    assert leases.lease["spec"]["leaseTransitions"] == 1
    await unsure.stop()
    await sure.stop()


@virtual
async def test_a_leader_cut_off_stops_writing_before_another_starts() -> None:
    leases = Leases()
    one = Candidate(leases, "one")
    await one.lead.wait_until_leader()
    two = Candidate(leases, "two")
    await asyncio.sleep(60)
    one.wire.is_cut = True
    cut_at = asyncio.get_running_loop().time()
    await one.lead.wait_until_lost()
    assert asyncio.get_running_loop().time() - cut_at <= 10
    with pytest.raises(NotLeader):
        await one.write()
    await two.lead.wait_until_leader()
    assert asyncio.get_running_loop().time() - cut_at <= 17


@virtual
async def test_a_write_that_hangs_is_cut_off_before_another_may_lead() -> None:
    leases = Leases()
    one = Candidate(leases, "one")
    await one.lead.wait_until_leader()
    await asyncio.sleep(60)
    leases.write_seconds = 1_000.0
    one.wire.is_cut = False
    started_at = asyncio.get_running_loop().time()
    with pytest.raises(Unreachable):
        await one.write()
    assert asyncio.get_running_loop().time() - started_at <= 15
    assert leases.writes == []


@virtual
async def test_a_lease_taken_by_force_is_let_go_at_the_next_renewal() -> None:
    leases = Leases()
    one = Candidate(leases, "one")
    await one.lead.wait_until_leader()
    leases.put(holderIdentity="thief", leaseDurationSeconds=15)
    await asyncio.sleep(2.5)
    assert not one.lead.is_leader
    await asyncio.sleep(20)
    assert one.lead.is_leader


@virtual
async def test_a_lease_that_was_only_labelled_stays_ours() -> None:
    leases = Leases()
    one = Candidate(leases, "one")
    await one.lead.wait_until_leader()
    for _ in range(20):
        leases.put()
        await asyncio.sleep(1)
        assert one.lead.is_leader


@virtual
async def test_a_lease_that_is_deleted_is_made_anew() -> None:
    leases = Leases()
    one = Candidate(leases, "one")
    await one.lead.wait_until_leader()
    leases.lease = None
    await asyncio.sleep(5)
    assert one.lead.is_leader
    assert leases.lease is not None


@virtual
async def test_a_server_that_fails_is_asked_again_without_haste() -> None:
    leases = Leases()
    one = Candidate(leases, "one")
    one.wire.failure = Unreachable("down")
    await asyncio.sleep(60)
    assert 20 <= one.wire.calls <= 30
    one.wire.failure = None
    await asyncio.sleep(3)
    assert one.lead.is_leader


@virtual
async def test_a_resumed_process_finds_that_it_no_longer_leads() -> None:
    leases = Leases()
    one = Candidate(leases, "one")
    await one.lead.wait_until_leader()
    await one.stop()
    await asyncio.sleep(1)
    assert one.lead.seconds_left == 0
    with pytest.raises(NotLeader):
        await one.write()
