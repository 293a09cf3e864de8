import json
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from elastipod.api import RESOURCES_ANNOTATION
from elastipod.cli.resize import Asked, Resizing, _amount, _target, exit_code
from elastipod.cli.verbs import command
from elastipod.kube.errors import NotFound
from elastipod.kube.resources import DEPLOYMENTS, PODS, STATEFUL_SETS
from elastipod.quantities import parse_cpu
from elastipod.reasons import Reason
from tests import build
from tests.updater.build import amounts, pod
from tests.updater.world import World
from updater.asking import Answer, Outlook
from updater.sizes import ASKED_ANNOTATION, BadSize


def asked(name: str = "web-a", cpu: str | None = "1", memory: str | None = None, **more: Any) -> Asked:
    values: dict[str, Any] = {
        "resource": PODS,
        "namespace": "default",
        "name": name,
        "amounts": amounts(cpu, memory),
        **more,
    }
    return Asked(**values)


async def run(world: World, what: Asked) -> tuple[list[str], int]:
    answers = await Resizing(world.connection, world.clock).run(what)
    return [f"{one.outlook.value} {one.reason.value}" for one in answers], exit_code(answers, dry_run=what.dry_run)


async def test_a_pod_is_resized_while_no_updater_runs() -> None:
    world = World()
    await world.node()
    await world.pod("web-a", cpu="100m", memory="128Mi", cpu_limit="100m", memory_limit="128Mi")
    assert await run(world, asked()) == (["waiting InProgress"], 3)
    assert (await world.requests("web-a"), await world.limits("web-a")) == (
        {"cpu": "1", "memory": "128Mi"},
        {"cpu": "1", "memory": "128Mi"},
    )
    await world.kubelet()
    assert await run(world, asked()) == (["done Done"], 0)


async def test_what_a_person_asked_for_is_stated_on_what_they_named_and_the_updater_keeps_to_it() -> None:
    async with World() as world:
        await world.node()
        owner = await world.deployment()
        for name in ("web-a", "web-b"):
            await world.pod(name, owner, cpu="100m")
        await world.autoscaler(cpu="200m")
        await run(world, asked("web", resource=DEPLOYMENTS))
        await world.run(3, seconds=60)
        assert [(await world.requests(name))["cpu"] for name in ("web-a", "web-b")] == ["1", "1"]
        raw = json.loads(await world.connection.get(DEPLOYMENTS, "default", "web"))
        stated = raw["metadata"]["annotations"]
        assert json.loads(stated[RESOURCES_ANNOTATION]) == {"app": {"requests": {"cpu": "1"}}}
        assert ASKED_ANNOTATION in stated


async def test_without_room_it_waits_and_the_updater_does_it_when_room_frees() -> None:
    async with World() as world:
        await world.node(cpu="2")
        await world.pod("web-a", cpu="100m")
        await world.pod("other", cpu="1500m")
        assert await run(world, asked()) == (["waiting NoRoom"], 3)
        await world.run()
        await world.delete("other")
        await world.run()
        assert (await world.requests("web-a"))["cpu"] == "1"
        attempt = world.explained()["attempt"]
        assert attempt["because"] == "AskedByPerson"


async def test_a_size_that_would_meet_its_limits_is_done_with_a_gap() -> None:
    world = World()
    await world.node()
    await world.pod("web-a", cpu="100m", memory="64Mi", cpu_limit="200m", memory_limit="128Mi")
    what = asked(cpu="500m", memory="256Mi")
    await run(world, what)
    await world.kubelet()
    assert (await world.requests("web-a"), await world.limits("web-a")) == (
        {"cpu": "500m", "memory": "256Mi"},
        {"cpu": "501m", "memory": "256Mi"},
    )
    assert await run(world, what) == (["done Done"], 0)


async def test_two_pods_are_not_given_the_same_room() -> None:
    world = World()
    await world.node(cpu="4")
    owner = await world.deployment()
    for name in ("web-a", "web-b"):
        await world.pod(name, owner, cpu="100m")
    found, code = await run(world, asked("web", resource=DEPLOYMENTS, cpu="3"))
    assert (sorted(found), code) == (["waiting InProgress", "waiting NoRoom"], 3)


async def test_a_dry_run_writes_nothing() -> None:
    world = World()
    await world.node()
    await world.pod("web-a", cpu="100m")
    before = await world.get("web-a")
    assert await run(world, asked(dry_run=True)) == (["ready AskedByPerson"], 0)
    assert await world.get("web-a") == before


async def test_what_can_never_be_is_refused_and_not_stated() -> None:
    world = World()
    await world.node(cpu="2")
    await world.pod("web-a", cpu="100m")
    before = await world.get("web-a")
    assert await run(world, asked(cpu="64")) == (["refused Infeasible"], 1)
    assert await world.get("web-a") == before


async def test_memory_is_not_lowered_on_an_old_sample() -> None:
    world = World()
    await world.node()
    await world.pod("web-a", memory="1Gi", memory_limit="1Gi", cpu_limit="1")
    assert await run(world, asked(cpu=None, memory="256Mi", wait_seconds=1.0)) == (["waiting StaleData"], 3)
    assert (await world.limits("web-a"))["memory"] == "1Gi"


async def test_waiting_takes_the_steps_itself_while_no_updater_runs() -> None:
    world = World()
    await world.node()
    await world.pod("web-a", memory="1Gi", memory_limit="1Gi", cpu_limit="1")
    world.used.by_pod["web-a"] = ("10m", "100Mi")

    async def kubelet() -> None:
        await world.kubelet()

    steps = []
    resizing = Resizing(world.connection, world.clock)
    for _ in range(8):
        await resizing.run(asked(cpu=None, memory="256Mi", wait_seconds=40.0))
        await kubelet()
        steps.append((await world.limits("web-a"))["memory"])
    assert steps[-1] == "256Mi"
    assert len(set(steps)) >= 5


async def test_several_containers_have_to_be_told_apart() -> None:
    world = World()
    await world.node()
    await world.pod("web-a", containers=[build.container_json("app"), build.container_json("helper")])
    with pytest.raises(BadSize, match="say --container app or helper"):
        await run(world, asked())
    with pytest.raises(BadSize, match="pod web-a has app, helper"):
        await run(world, asked(container="nope"))
    assert await run(world, asked(container="helper", dry_run=True)) == (["ready AskedByPerson"], 0)


async def test_a_pod_that_is_not_there_is_said_to_be_so() -> None:
    with pytest.raises(NotFound, match="kubectl get pods"):
        await run(World(), asked())


def test_targets_are_written_as_for_kubectl() -> None:
    assert _target("web-0") == (PODS, "web-0")
    assert _target("deploy/web") == (DEPLOYMENTS, "web")
    assert _target("StatefulSet/db") == (STATEFUL_SETS, "db")
    for bad in ("service/web", "deploy/", "deploy/../x", "Web", ""):
        with pytest.raises(typer.BadParameter):
            _target(bad)


def test_an_amount_is_refused_by_its_options_name() -> None:
    for bad in ("lots", "0", "-1", "1e999x"):
        with pytest.raises(typer.BadParameter, match="--cpu"):
            _amount("--cpu", bad, parse_cpu)


def test_memory_in_thousandths_of_a_byte_is_refused() -> None:
    answer = CliRunner().invoke(command(), ["resize", "web-0", "--memory", "100m"])
    assert answer.exit_code == 2
    assert "did you mean 100Mi?" in answer.output


def test_the_exit_code_is_the_worst() -> None:
    def answer(outlook: Outlook) -> Answer:
        return Answer(pod(), outlook, Reason.DONE, "", {}, {})

    done, waiting, refused = (answer(one) for one in (Outlook.DONE, Outlook.WAITING, Outlook.REFUSED))
    assert [exit_code(one) for one in ([done], [done, waiting], [waiting, refused, done])] == [0, 3, 1]
