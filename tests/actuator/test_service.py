"""The actuator on a simulated node, under virtual time: a container's usage is a list of steps."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from actuator.asking import refusal
from actuator.journal import Journal
from actuator.memory import Target
from actuator.rescue import Failed, OnOutcome, Watched
from actuator.service import Actuator
from actuator.settings import ActuatorSettings
from actuator.simulated import simulated_actuator
from actuator.spikewords import Accepted, AskApi, Refused, Tell
from elastipod.kube.connection import Connection
from elastipod.kube.errors import Conflict, Forbidden, Invalid, ServerError, TooManyRequests, Unreachable
from elastipod.kube.resources import ELASTIC_NODES, ELASTIC_POLICIES
from elastipod.loop import clock_ticker, run_part
from elastipod.reasons import Reason
from tests.build import container_json
from tests.localcluster.onenode import MIB, OneNode, in_one_node

LIMITED = container_json(cpu="100m", memory="64Mi", memory_limit="100Mi")
LEAP = [[0, 100, 20 * MIB], [20, 100, 180 * MIB], [60, 100, 30 * MIB]]


class Silent:
    """A connection whose patches fail while `error` is set."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.error: Exception | None = None
        self.bodies: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def patch(self, *arguments: Any, **more: Any) -> bytes:
        if more.get("subresource") == "resize":
            self.bodies.append(arguments[3])
            if self.error is not None:
                raise self.error
        return await self._connection.patch(*arguments, **more)


Body = Callable[[OneNode, Any, Silent], Awaitable[None]]


def with_actuator(test: Body, *, memory: int = 2048 * MIB, **settings: Any) -> None:
    async def run(here: OneNode) -> None:
        silent = Silent(here.connection)
        chosen = ActuatorSettings(node_name="here", **settings)
        actuator = simulated_actuator(cast("Connection", silent), here.clock, chosen, here.runtime, memory)
        task = asyncio.create_task(run_part(actuator, here.clock, clock_ticker(here.clock)))
        try:
            await test(here, actuator, silent)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    in_one_node(run, memory=memory)


def seconds_held(here: OneNode) -> float:
    return sum(here.runtime.held_seconds(run.spec.container_id) for run in here.runtime.recover())


def test_a_container_that_leaps_is_raised_and_never_killed() -> None:
    async def body(here: OneNode, _: Any, __: Silent) -> None:
        await here.run_pod("job", [LIMITED], LEAP)
        await asyncio.sleep(50)
        pod = await here.pod("job")
        [container] = pod.containers
        assert container.restart_count == 0
        assert container.is_running
        assert container.limits.memory >= 180 * MIB
        in_force = here.runtime.limits(container.container_id.rpartition("/")[2])
        assert in_force is not None
        assert in_force.memory_limit_bytes == container.limits.memory
        assert container.actual_limits is not None
        assert container.actual_limits.memory == container.limits.memory
        assert seconds_held(here) < 1.0
        assert "Raised" in await here.events("job")

    with_actuator(body)


def test_without_protection_it_is_killed() -> None:
    async def body(here: OneNode, actuator: Any, _: Silent) -> None:
        await here.run_pod("job", [LIMITED], LEAP)
        await asyncio.sleep(25)
        [container] = (await here.pod("job")).containers
        assert container.restart_count >= 1 or container.termination is not None
        explained = actuator.explain("default/job")
        assert explained is None or explained["containers"]["app"]["reason"] == "ModeOff"

    with_actuator(body, memory_spike="Off")


def test_a_silent_api_does_not_kill_and_the_spec_follows() -> None:
    async def body(here: OneNode, _: Any, silent: Silent) -> None:
        await here.run_pod("job", [LIMITED], LEAP)
        await asyncio.sleep(15)
        silent.error = Unreachable("no answer")
        await asyncio.sleep(15)
        [container] = (await here.pod("job")).containers
        assert container.is_running
        assert container.limits.memory == 100 * MIB
        in_force = here.runtime.limits(container.container_id.rpartition("/")[2])
        assert in_force is not None
        assert (in_force.memory_limit_bytes or 0) > 180 * MIB
        silent.error = None
        await asyncio.sleep(15)
        [container] = (await here.pod("job")).containers
        assert container.limits.memory == in_force.memory_limit_bytes
        assert container.restart_count == 0

    with_actuator(body)


class Still:
    """A watcher on cgroup v1 to which nothing happens."""

    enforcement, holds = "cgroup v1", False

    def __init__(self) -> None:
        self.on_outcome: OnOutcome = lambda _key, _outcome: None
        self.keys: list[str] = []

    def add(self, target: Target) -> None:
        self.keys.append(target.key)

    def complete(self) -> None: ...

    def drop(self, key: str) -> None: ...

    def answer(self, key: str, answer: Accepted | Refused) -> None: ...

    async def run(self) -> None:
        await asyncio.Event().wait()


def test_what_could_not_be_watched_is_told_and_tried_again() -> None:
    async def run(here: OneNode) -> None:
        await here.run_pod("job", [LIMITED])
        watcher = Still()
        chosen = ActuatorSettings(node_name="here")
        actuator = Actuator(here.connection, here.clock, chosen, watcher, lambda *_: ("pods/1", "pods/1/c"))
        task = asyncio.create_task(run_part(actuator, here.clock, clock_ticker(here.clock)))
        await asyncio.sleep(5)
        [key] = watcher.keys
        watcher.on_outcome(key, Failed("its memory can not be read"))
        assert "can not be read" in str(actuator.explain("default/job"))
        await asyncio.sleep(35)
        assert watcher.keys == [key, key]
        watcher.on_outcome(key, Watched())
        assert "can not be read" not in str(actuator.explain("default/job"))
        await asyncio.sleep(35)
        assert watcher.keys == [key, key]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    in_one_node(run)


@pytest.mark.parametrize("dies", [False, True], ids=["it lives", "it dies"])
def test_on_v1_the_api_is_asked_when_the_leap_is_over_or_by_who_comes_after(tmp_path: Path, dies: bool) -> None:
    raised = 200 * MIB

    async def limit(here: OneNode) -> int:
        return (await here.pod("job")).containers[0].limits.memory

    async def run(here: OneNode) -> None:
        await here.run_pod("job", [LIMITED])

        async def living(watcher: Still, body: Callable[[str], Awaitable[None]]) -> None:
            journal = Journal(tmp_path, "boot")
            chosen = ActuatorSettings(node_name="here")
            actuator = Actuator(
                here.connection, here.clock, chosen, watcher, lambda *_: ("pods/1", "pods/1/c"), journal=journal
            )
            task = asyncio.create_task(run_part(actuator, here.clock, clock_ticker(here.clock)))
            await asyncio.sleep(5)
            await body(watcher.keys[0])
            await asyncio.sleep(5)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            journal.close()

        first = Still()

        async def leap(key: str) -> None:
            first.on_outcome(key, Tell(Reason.RAISED, limit_bytes=raised))
            await asyncio.sleep(5)
            assert await limit(here) == 100 * MIB
            assert "Raised" not in await here.events("job")
            if not dies:
                first.on_outcome(key, AskApi(raised))

        await living(first, leap)
        if dies:
            assert await limit(here) == 100 * MIB
            await living(Still(), lambda _: asyncio.sleep(0))
        else:
            assert "Raised" in await here.events("job")
        assert await limit(here) == raised

    in_one_node(run)


def test_a_refused_raise_ends_at_the_deadline() -> None:
    async def body(here: OneNode, actuator: Any, silent: Silent) -> None:
        silent.error = Forbidden(403, "Forbidden", "exceeded quota: q")
        await here.run_pod("job", [LIMITED], LEAP)
        await asyncio.sleep(40)
        [container] = (await here.pod("job")).containers
        assert container.restart_count >= 1
        assert actuator.explain("default/job")["containers"]["app"]["protected"]

    with_actuator(body)


def test_a_full_node_holds_no_longer_than_the_deadline() -> None:
    async def body(here: OneNode, _: Any, __: Silent) -> None:
        await here.run_pod("job", [LIMITED], LEAP)
        await asyncio.sleep(22)
        assert seconds_held(here) > 1
        await asyncio.sleep(10)
        assert seconds_held(here) <= 5.5
        assert "NodeBudgetEmpty" in await here.events("job")

    with_actuator(body, memory=190 * MIB)


def test_a_tenant_can_only_narrow() -> None:
    async def body(here: OneNode, actuator: Any, __: Silent) -> None:
        await here.create(
            ELASTIC_POLICIES,
            {
                "apiVersion": "elastipod.io/v1alpha1",
                "kind": "ElasticPolicy",
                "metadata": {"name": "p", "namespace": "default"},
                "spec": {"memorySpike": {"mode": "Pause", "maxAllowed": "1Ti"}},
            },
        )
        await here.run_pod("job", [LIMITED], LEAP)
        await asyncio.sleep(10)
        facts = actuator.explain("default/job")["containers"]["app"]
        assert facts["ceilingBytes"] == 200 * MIB

    with_actuator(body, memory_spike_max_factor=2.0)


def test_the_node_is_told_of_once_and_then_left_alone() -> None:
    async def body(here: OneNode, _: Any, __: Silent) -> None:
        await here.run_pod("job", [LIMITED])
        await asyncio.sleep(20)
        first = await here.connection.get(ELASTIC_NODES, None, "here")
        assert b'"spikeProtection":"Hold"' in first
        await asyncio.sleep(100)
        assert await here.connection.get(ELASTIC_NODES, None, "here") == first

    with_actuator(body)


def test_every_request_names_the_pod_and_never_asks_for_less() -> None:
    async def body(here: OneNode, _: Any, silent: Silent) -> None:
        await here.run_pod("job", [LIMITED], LEAP)
        silent.error = ServerError(500, "InternalError", "try again")
        await asyncio.sleep(40)
        uid = (await here.pod("job")).uid.encode()
        assert len(silent.bodies) > 3
        asked = [int(one.split(b'"memory":"')[1].split(b'"')[0]) for one in silent.bodies]
        assert asked == sorted(asked)
        assert all(uid in one for one in silent.bodies)

    with_actuator(body)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Forbidden(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: q'), Reason.QUOTA_EXCEEDED),
        (Forbidden(403, "Forbidden", "maximum memory usage per Container is 1Gi"), Reason.LIMIT_RANGE),
        (Forbidden(403, "Forbidden", "no right"), Reason.FORBIDDEN),
        (Invalid(422, "Invalid", "no"), Reason.REFUSED),
        (Conflict(409, "Conflict", "Precondition failed: UID in precondition: a, in object: b"), Reason.POD_GONE),
        (Conflict(409, "Conflict", "the object has been modified"), None),
        (TooManyRequests(429, "TooManyRequests", "wait"), None),
        (ServerError(500, "InternalError", "x"), None),
        (Unreachable("x"), None),
    ],
)  # fmt: skip
def test_each_no_has_one_reason_and_what_may_pass_is_asked_again(error: Any, reason: Reason | None) -> None:
    assert refusal(error) == reason


@pytest.mark.parametrize(
    ("name", "value"),
    [("memory_spike", "Maybe"), ("hold_seconds", 0.0), ("hold_seconds", float("nan")), ("hold_seconds", 1e9),
     ("step_least", "many"), ("step_least", "16m"), ("node_reserve", "-1"), ("memory_spike_max", "1e"),
     ("gap_fraction", 2.0), ("rescues", 0)],
)  # fmt: skip
def test_a_bad_setting_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        ActuatorSettings(**cast("Any", {name: value}))
