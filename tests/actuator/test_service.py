"""The actuator on a simulated node: a container's usage is a list of steps."""

import asyncio

import pytest

from actuator.service import Actuator
from elastipod.kube.errors import Forbidden, KubeError, ServerError, Unreachable
from elastipod.kube.resources import ELASTIC_NODES, ELASTIC_POLICIES
from tests.actuator.onnode import LEAP, LIMITED, Silent, containers, seconds_held, with_actuator
from tests.localcluster.onenode import MIB, OneNode


def test_a_container_that_leaps_is_raised_and_never_killed() -> None:
    async def body(here: OneNode, _: Actuator, __: Silent) -> None:
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
    async def body(here: OneNode, actuator: Actuator, _: Silent) -> None:
        await here.run_pod("job", [LIMITED], LEAP)
        await asyncio.sleep(25)
        [container] = (await here.pod("job")).containers
        assert container.restart_count >= 1 or container.termination is not None
        explained = actuator.explain("default/job")
        assert explained is None or explained["containers"]["app"]["reason"] == "ModeOff"

    with_actuator(body, memory_spike="Off")


@pytest.mark.parametrize("error", [None, Unreachable("no answer")])
def test_in_a_namespace_that_is_off_nothing_is_held_or_raised_and_the_reason_is_told(error: KubeError | None) -> None:
    async def body(here: OneNode, actuator: Actuator, silent: Silent) -> None:
        await here.run_pod("job", [LIMITED], LEAP)
        await asyncio.sleep(15)
        silent.error = error
        told = containers(actuator)["app"]
        assert (told["protected"], told["reason"]) == (False, "NamespaceOff")
        await asyncio.sleep(10)
        [container] = (await here.pod("job")).containers
        assert container.restart_count >= 1 or container.termination is not None
        assert container.limits.memory == 100 * MIB
        assert seconds_held(here) == 0
        assert "Raised" not in await here.events("job")

    with_actuator(body, namespaces_off=("default",))


def test_a_silent_api_does_not_kill_and_the_spec_follows() -> None:
    async def body(here: OneNode, _: Actuator, silent: Silent) -> None:
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


def test_a_refused_raise_ends_at_the_deadline() -> None:
    async def body(here: OneNode, actuator: Actuator, silent: Silent) -> None:
        silent.error = Forbidden(403, "Forbidden", "exceeded quota: q")
        await here.run_pod("job", [LIMITED], LEAP)
        await asyncio.sleep(40)
        [container] = (await here.pod("job")).containers
        assert container.restart_count >= 1
        assert containers(actuator)["app"]["protected"]

    with_actuator(body)


def test_a_full_node_holds_no_longer_than_the_deadline() -> None:
    async def body(here: OneNode, _: Actuator, __: Silent) -> None:
        await here.run_pod("job", [LIMITED], LEAP)
        await asyncio.sleep(22)
        assert seconds_held(here) > 1
        await asyncio.sleep(10)
        assert seconds_held(here) <= 5.5
        assert "NodeBudgetEmpty" in await here.events("job")

    with_actuator(body, memory=190 * MIB)


def test_a_tenant_can_only_narrow() -> None:
    async def body(here: OneNode, actuator: Actuator, __: Silent) -> None:
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
        facts = containers(actuator)["app"]
        assert facts["ceilingBytes"] == 200 * MIB

    with_actuator(body, memory_spike_max_factor=2.0)


def test_the_node_is_told_of_once_and_then_left_alone() -> None:
    async def body(here: OneNode, _: Actuator, __: Silent) -> None:
        await here.run_pod("job", [LIMITED])
        await asyncio.sleep(20)
        first = await here.connection.get(ELASTIC_NODES, None, "here")
        assert b'"spikeProtection":"Hold"' in first
        await asyncio.sleep(100)
        assert await here.connection.get(ELASTIC_NODES, None, "here") == first

    with_actuator(body)


def test_every_request_names_the_pod_and_never_asks_for_less() -> None:
    async def body(here: OneNode, _: Actuator, silent: Silent) -> None:
        await here.run_pod("job", [LIMITED], LEAP)
        silent.error = ServerError(500, "InternalError", "try again")
        await asyncio.sleep(40)
        uid = (await here.pod("job")).uid.encode()
        assert len(silent.bodies) > 3
        asked = [int(one.split(b'"memory":"')[1].split(b'"')[0]) for one in silent.bodies]
        assert asked == sorted(asked)
        assert all(uid in one for one in silent.bodies)

    with_actuator(body)
