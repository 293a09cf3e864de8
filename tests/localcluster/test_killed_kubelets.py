"""A kubelet that is killed at each step of what it does, and started again: nothing is done twice or forgotten."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from elastipod.clock import LoopClock
from elastipod.kube.calls import Call, InterceptedConnection
from elastipod.kube.connection import Connection
from elastipod.localcluster.node.checkpoint import Allocations, MemoryCheckpoint
from elastipod.localcluster.node.hands import GroupLimits
from elastipod.localcluster.node.node import LocalNode
from elastipod.localcluster.node.runtime import ContainerSpec, Run, Sandbox
from elastipod.localcluster.node.simulated import SimulatedRuntime
from elastipod.localcluster.simulation.faults import ProcessKilled
from elastipod.localcluster.simulation.virtualtime import run_virtually
from elastipod.pods import ResizeProgress
from elastipod.quantities import Resources
from tests.build import container_json
from tests.localcluster.onenode import MIB, Json, OneNode

_AWAY_SECONDS = 0.5


class Death:
    """Comes once, right after one of the steps that leave something behind."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.is_awaited = False
        self.steps: list[str] = []

    def may_come(self, after: str) -> None:
        if self.is_awaited:
            self.steps.append(after)
            if len(self.steps) == self.at:
                raise ProcessKilled


class MortalConnection(InterceptedConnection):
    """With every write a step."""

    def __init__(self, inner: Connection, death: Death) -> None:
        super().__init__(inner)
        self._death = death

    async def handle(self, call: Call) -> bytes:
        answer = await super().handle(call)
        if call.is_write:
            self._death.may_come(f"{call.verb} {call.resource.plural} {call.subresource}")
        return answer


class MortalCheckpoint(MemoryCheckpoint):
    """With every store a step."""

    def __init__(self, death: Death) -> None:
        super().__init__()
        self._death = death

    def save(self, allocations: Allocations) -> None:
        super().save(allocations)
        self._death.may_come("store")


class MortalRuntime(SimulatedRuntime):
    """With every effect a step."""

    def __init__(self, death: Death) -> None:
        super().__init__(LoopClock())
        self._death = death
        self.starts: Counter[str] = Counter()

    async def start(self, spec: ContainerSpec, pod: GroupLimits, limits: GroupLimits) -> Run:
        run = await super().start(spec, pod, limits)
        self.starts[spec.name] += 1
        self._death.may_come(f"start {spec.name}")
        return run

    def stop(self, container_id: str, *, kill: bool) -> None:
        super().stop(container_id, kill=kill)
        self._death.may_come("kill" if kill else "stop")

    def set_limits(self, container_id: str, limits: GroupLimits) -> None:
        super().set_limits(container_id, limits)
        self._death.may_come("limit a container")

    def set_pod_limits(self, sandbox: Sandbox, limits: GroupLimits) -> None:
        super().set_pod_limits(sandbox, limits)
        self._death.may_come("limit a pod")

    def forget(self, container_id: str) -> None:
        super().forget(container_id)
        self._death.may_come("forget")

    async def remove_pod(self, sandbox: Sandbox) -> None:
        await super().remove_pod(sandbox)
        self._death.may_come("remove")


class MortalNode(OneNode):
    """A node that is there again soon after its death."""

    def __init__(self, death: Death) -> None:
        self.death = death
        self.starts = (runtime := MortalRuntime(death)).starts
        super().__init__(checkpoint=MortalCheckpoint(death), runtime=runtime)

    def new_node(self) -> LocalNode:
        mortal = MortalConnection(self.connection, self.death)
        return LocalNode(mortal, self.clock, self.runtime, self.settings, self.checkpoint)

    async def live(self) -> None:
        while True:
            try:
                await super().live()
            except ProcessKilled:
                await asyncio.sleep(_AWAY_SECONDS)
                self.node = self.new_node()

    async def restarts(self, pod: str) -> dict[str, int]:
        """What is told of restarts, once it is sure that there were so many."""
        told = {one.name: one.restart_count for one in (await self.pod(pod)).containers}
        assert told == {name: self.starts[name] - 1 for name in told}
        return told

    def kept_runs(self) -> list[tuple[str, int]]:
        """The runs that are not forgotten."""
        return sorted((one.spec.name, one.spec.attempt) for one in self.runtime.recover())


def at_each_step(flow: Callable[[MortalNode], Awaitable[None]]) -> None:
    """Run the flow once for each step of its kubelet, with a death right after it, and once without."""

    async def run(death: Death) -> None:
        here = MortalNode(death)
        await asyncio.sleep(1)
        try:
            await flow(here)
        finally:
            await here.close()

    at, death = 0, Death(0)
    while len(death.steps) >= at:
        at += 1
        death = Death(at)
        try:
            run_virtually(run(death))
        except AssertionError as error:
            steps = ", ".join(death.steps[:at])
            raise AssertionError(f"killed after {steps}: {error}") from error
    assert death.steps


def restarting(name: str = "app", **more: str) -> Json:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    return container_json(name, memory="32Mi", memory_limit="64Mi", resizePolicy=policy, **more)


def test_a_restart_for_a_resize_happens_once() -> None:
    async def flow(here: MortalNode) -> None:
        await here.run_pod("web", [restarting(), container_json("other")])
        await asyncio.sleep(1)
        here.death.is_awaited = True
        await here.resize("web", limits={"memory": "96Mi"})
        await asyncio.sleep(5)
        pod = await here.pod("web")
        assert await here.restarts("web") == {"app": 1, "other": 0}
        assert pod.containers[0].actual_limits == Resources(None, 96 * MIB)
        assert pod.resize_progress is ResizeProgress.NONE
        assert pod.is_ready
        assert here.kept_runs() == [("app", 1), ("other", 0)]

    at_each_step(flow)


def test_a_pod_is_started_once() -> None:
    async def flow(here: MortalNode) -> None:
        here.death.is_awaited = True
        await here.run_pod("web", [restarting(), restarting("other")])
        await asyncio.sleep(5)
        assert await here.restarts("web") == {"app": 0, "other": 0}
        assert (await here.pod("web")).is_ready

    at_each_step(flow)


def test_a_crash_is_followed_by_one_start() -> None:
    async def flow(here: MortalNode) -> None:
        await here.run_pod("web", [container_json()], {"app": {"seconds": 5, "exitCode": 3}})
        await asyncio.sleep(4)
        here.death.is_awaited = True
        await asyncio.sleep(4)
        assert await here.restarts("web") == {"app": 1}
        ended = (await here.pod_json("web"))["status"]["containerStatuses"][0]["lastState"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("Error", 3)
        assert here.kept_runs() == [("app", 1)]

    at_each_step(flow)


def test_an_oom_kill_is_followed_by_one_start() -> None:
    async def flow(here: MortalNode) -> None:
        usage = {"app": {"steps": [[0, 10, MIB], [5, 10, 80 * MIB]]}}
        await here.run_pod("web", [restarting()], usage)
        await asyncio.sleep(4)
        here.death.is_awaited = True
        await asyncio.sleep(4)
        assert await here.restarts("web") == {"app": 1}
        ended = (await here.pod_json("web"))["status"]["containerStatuses"][0]["lastState"]["terminated"]
        assert ended["reason"] == "OOMKilled"
        assert here.kept_runs() == [("app", 1)]

    at_each_step(flow)


def test_a_resize_after_an_oom_kill_needs_no_restart_of_its_own() -> None:
    async def flow(here: MortalNode) -> None:
        usage = {"app": {"steps": [[0, 10, MIB], [5, 10, 80 * MIB]]}}
        await here.run_pod("web", [restarting()], usage)
        # Killed at 5, at 10, and then not before 20: the resize comes while it waits.
        await asyncio.sleep(12)
        here.death.is_awaited = True
        await here.resize("web", limits={"memory": "96Mi"})
        await asyncio.sleep(15)
        assert await here.restarts("web") == {"app": 2}
        pod = await here.pod("web")
        assert pod.containers[0].actual_limits == Resources(None, 96 * MIB)
        assert pod.resize_progress is ResizeProgress.NONE

    at_each_step(flow)


def test_an_end_is_told_and_not_followed_by_a_start() -> None:
    async def flow(here: MortalNode) -> None:
        await here.run_pod("job", [container_json()], {"app": {"seconds": 5}}, restartPolicy="OnFailure")
        await here.run_pod("task", [container_json()], {"app": {"seconds": 5, "exitCode": 3}}, restartPolicy="Never")
        await asyncio.sleep(4)
        here.death.is_awaited = True
        await asyncio.sleep(4)
        assert (await here.pod("job")).phase == "Succeeded"
        assert (await here.pod("task")).phase == "Failed"
        assert here.starts == {"app": 2}

    at_each_step(flow)


def test_a_pod_that_is_deleted_in_a_restart_for_a_resize_goes() -> None:
    async def flow(here: MortalNode) -> None:
        await here.run_pod("web", [restarting()], terminationGracePeriodSeconds=1)
        await asyncio.sleep(1)
        here.death.is_awaited = True
        await here.resize("web", limits={"memory": "96Mi"})
        await here.delete("web")
        await asyncio.sleep(5)
        assert await here.names() == []
        assert here.kept_runs() == []
        assert here.node.kubelet.admitted == {}
        assert here.checkpoint.saved == Allocations()

    at_each_step(flow)
