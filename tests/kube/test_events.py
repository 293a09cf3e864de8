"""What is said of a pod is said once, and in a form that `kubectl describe` shows."""

import json
import random
from typing import Any

import pytest

from elastipod.clock import ManualClock
from elastipod.kube.calls import Call, InterceptedConnection, Verb
from elastipod.kube.errors import NotLeader
from elastipod.kube.events import EventWriter, Subject
from elastipod.kube.podrows import decode_pod
from elastipod.kube.resources import EVENTS, PODS
from elastipod.localcluster.api.apiserver import ApiServer
from elastipod.localcluster.api.direct import DirectConnection
from elastipod.localcluster.api.store import Store
from elastipod.reasons import Reason
from tests.build import pod_json


class Written(InterceptedConnection):
    """Keeps what is created."""

    def __init__(self) -> None:
        super().__init__(self)
        self.bodies: list[dict[str, Any]] = []

    async def handle(self, call: Call) -> bytes:
        assert (call.verb, call.resource) == (Verb.CREATE, EVENTS)
        self.bodies.append(json.loads(call.body))
        return call.body


POD = decode_pod(json.dumps(pod_json("web")).encode())
WEB = Subject.of_pod(POD)


async def test_the_same_is_said_once_in_a_while_of_each_container() -> None:
    to, clock = Written(), ManualClock()
    writer = EventWriter(to, clock, "elastipod-x", every_seconds=60)
    for container, seconds in (("a", 0), ("a", 59), ("b", 0), ("a", 1)):
        clock.advance(seconds)
        await writer.write(WEB, Reason.RAISED, "more", is_normal=True, about=container)
    assert len(to.bodies) == 3


async def test_two_that_say_the_same_in_the_same_moment_are_both_heard() -> None:
    clock = ManualClock()
    api = ApiServer(clock, Store(), spread=random.Random(1))
    to = DirectConnection(api, clock)
    await to.create(PODS, "default", json.dumps(pod_json("web")).encode())
    for component in ("elastipod-updater", "elastipod-actuator"):
        writer = EventWriter(to, clock, component, every_seconds=60)
        for container in ("a", "b"):
            await writer.write(WEB, Reason.RAISED, "more", is_normal=True, about=container)
    listed = json.loads(await to.list(EVENTS, namespace="default"))["items"]
    assert len({one["metadata"]["name"] for one in listed}) == 4
    assert all(one["metadata"]["name"].startswith("web.raised-") for one in listed)


async def test_a_pod_that_came_again_is_told_of_again() -> None:
    to = Written()
    writer = EventWriter(to, ManualClock(), "elastipod-x", every_seconds=60)
    for _ in range(2):
        await writer.write(WEB, Reason.RAISED, "more", is_normal=True)
        writer.forget(POD.uid)
    assert len(to.bodies) == 2


async def test_an_event_names_its_pod_its_source_and_its_reason() -> None:
    to = Written()
    writer = EventWriter(to, ManualClock(), "elastipod-x", every_seconds=60, host="n1")
    await writer.write(WEB, Reason.NODE_BUDGET_EMPTY, "x" * 5000, is_normal=False)
    (body,) = to.bodies
    assert body["involvedObject"]["uid"] == POD.uid
    assert body["source"] == {"component": "elastipod-x", "host": "n1"}
    assert (body["type"], body["reason"], len(body["message"])) == ("Warning", "NodeBudgetEmpty", 1000)


async def test_what_was_not_sent_for_want_of_the_lead_may_be_said_again() -> None:
    class Fenced(Written):
        is_leader = False

        async def handle(self, call: Call) -> bytes:
            if not self.is_leader:
                raise NotLeader("the lease is not ours")
            return await super().handle(call)

    to = Fenced()
    writer = EventWriter(to, ManualClock(), "elastipod-x", every_seconds=3600)
    with pytest.raises(NotLeader):
        await writer.write(WEB, Reason.RAISED, "more", is_normal=True)
    to.is_leader = True
    assert await writer.write(WEB, Reason.RAISED, "more", is_normal=True)


async def test_a_message_is_cut_to_what_the_api_takes_in_bytes() -> None:
    to = Written()
    await EventWriter(to, ManualClock(), "x", every_seconds=60).write(WEB, Reason.RAISED, "€" * 999, is_normal=True)
    assert to.bodies[0]["message"] == "€" * 333
