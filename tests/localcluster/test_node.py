"""Flows of one node: admission, sizes, ends, restarts, recovery."""

import asyncio
import errno
import json

from elastipod.clock import from_rfc3339
from elastipod.kube.resources import LEASES, PRIORITY_CLASSES
from elastipod.localcluster.node.checkpoint import Allocations, MemoryCheckpoint
from elastipod.pods import ResizeProgress
from elastipod.quantities import Resources
from tests.build import container_json
from tests.localcluster.onenode import MIB, OneNode, in_one_node


def test_a_pod_runs_with_what_it_asked_for() -> None:
    async def flow(here: OneNode) -> None:
        await here.run_pod("web", [container_json(cpu="250m", memory="64Mi", memory_limit="128Mi")])
        await asyncio.sleep(1)
        pod = await here.pod("web")
        assert pod.phase == "Running"
        assert pod.is_ready
        app = pod.containers[0]
        assert app.allocated == Resources(250, 64 * MIB)
        assert app.actual_limits == Resources(None, 128 * MIB)
        assert app.container_id.startswith("containerd://")
        assert pod.observed_generation == pod.generation

    in_one_node(flow)


def test_a_pod_that_does_not_fit_fails_with_the_lacking_resource() -> None:
    async def flow(here: OneNode) -> None:
        await here.run_pod("one", [container_json(cpu="700m")])
        await here.run_pod("two", [container_json(cpu="400m")])
        await asyncio.sleep(1)
        status = (await here.pod_json("two"))["status"]
        assert status["phase"] == "Failed"
        assert status["reason"] == "OutOfcpu"
        assert "requested: 400, used: 700, capacity: 1000" in status["message"]

    in_one_node(flow)


def test_a_resize_reaches_the_same_run() -> None:
    async def flow(here: OneNode) -> None:
        await here.run_pod("web", [container_json(memory="64Mi", memory_limit="128Mi")])
        await asyncio.sleep(1)
        before = (await here.pod("web")).containers[0]
        await here.resize("web", requests={"cpu": "300m", "memory": "100Mi"}, limits={"memory": "200Mi"})
        await asyncio.sleep(1)
        pod = await here.pod("web")
        after = pod.containers[0]
        assert after.container_id == before.container_id
        assert after.restart_count == 0
        assert after.allocated == Resources(300, 100 * MIB)
        assert after.actual_limits == Resources(None, 200 * MIB)
        assert pod.resize_progress is ResizeProgress.NONE
        assert pod.observed_generation == pod.generation == 2
        assert [one for one in await here.events("web") if one.startswith("Resize")] == [
            "ResizeStarted",
            "ResizeCompleted",
        ]

    in_one_node(flow)


def test_a_resize_without_room_waits_and_happens_when_a_neighbour_ends() -> None:
    async def flow(here: OneNode) -> None:
        await here.run_pod("web", [container_json(cpu="400m")])
        job = {"cpu": 100, "seconds": 20}
        await here.run_pod("job", [container_json(cpu="500m")], job, restartPolicy="Never")
        await asyncio.sleep(1)
        await here.resize("web", requests={"cpu": "800m"})
        await asyncio.sleep(1)
        pod = await here.pod("web")
        assert pod.resize_progress is ResizeProgress.DEFERRED
        assert pod.resize_pending is not None
        assert pod.resize_pending.observed_generation == 2
        assert "cpu, requested: 800, used: 500, capacity: 1000" in pod.resize_pending.message
        assert "ResizeDeferred" in await here.events("web")
        await asyncio.sleep(20)
        pod = await here.pod("web")
        assert pod.resize_progress is ResizeProgress.NONE
        assert pod.containers[0].allocated == Resources(800, 128 * MIB)

    in_one_node(flow)


def test_a_resize_larger_than_the_node_is_infeasible_until_the_spec_changes() -> None:
    async def flow(here: OneNode) -> None:
        await here.run_pod("web", [container_json()])
        await asyncio.sleep(1)
        await here.resize("web", requests={"memory": "2Gi"})
        await asyncio.sleep(1)
        pod = await here.pod("web")
        assert pod.resize_progress is ResizeProgress.INFEASIBLE
        assert pod.containers[0].allocated == Resources(100, 128 * MIB)
        await here.resize("web", requests={"memory": "128Mi"})
        await asyncio.sleep(1)
        assert (await here.pod("web")).resize_progress is ResizeProgress.NONE

    in_one_node(flow)


def test_memory_is_not_lowered_under_what_is_used() -> None:
    async def flow(here: OneNode) -> None:
        app = container_json(memory="50Mi", memory_limit="200Mi")
        await here.run_pod("web", [app], [[0, 10, 150 * MIB], [60, 10, 20 * MIB]])
        await asyncio.sleep(1)
        await here.resize("web", limits={"memory": "100Mi"})
        await asyncio.sleep(1)
        pod = await here.pod("web")
        assert pod.resize_progress is ResizeProgress.ERROR
        assert pod.resize_in_progress is not None
        assert "below current usage (157286400)" in pod.resize_in_progress.message
        assert pod.containers[0].actual_limits == Resources(None, 200 * MIB)
        await asyncio.sleep(80)
        pod = await here.pod("web")
        assert pod.resize_progress is ResizeProgress.NONE
        assert pod.containers[0].actual_limits == Resources(None, 100 * MIB)
        assert pod.containers[0].restart_count == 0

    in_one_node(flow)


def test_a_container_over_its_limit_is_oom_killed_and_backs_off() -> None:
    async def flow(here: OneNode) -> None:
        app = container_json(memory="50Mi", memory_limit="100Mi")
        await here.run_pod("web", [app], [[0, 10, 20 * MIB], [5, 10, 150 * MIB]])
        await asyncio.sleep(8)
        app_row = (await here.pod("web")).containers[0]
        assert app_row.restart_count == 1
        assert app_row.last_termination is not None
        assert app_row.last_termination.is_oom_kill
        assert app_row.last_termination.exit_code == 137
        await asyncio.sleep(5)
        assert (await here.pod("web")).containers[0].waiting_reason == "CrashLoopBackOff"
        await asyncio.sleep(10)
        assert (await here.pod("web")).containers[0].restart_count == 2

    in_one_node(flow)


def test_a_resize_policy_of_restart_restarts_the_container_with_the_new_size() -> None:
    async def flow(here: OneNode) -> None:
        policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
        app = container_json(memory="50Mi", memory_limit="100Mi", resizePolicy=policy)
        await here.run_pod("web", [app])
        await asyncio.sleep(1)
        before = (await here.pod("web")).containers[0]
        await here.resize("web", requests={"cpu": "200m"})
        await asyncio.sleep(1)
        assert (await here.pod("web")).containers[0].container_id == before.container_id
        await here.resize("web", limits={"memory": "80Mi"})
        await asyncio.sleep(1)
        after = (await here.pod("web")).containers[0]
        assert after.container_id != before.container_id
        assert after.restart_count == 1
        assert after.is_running
        assert after.actual_limits == Resources(None, 80 * MIB)
        told = await here.events("web")
        assert "Killing" in told
        assert told.count("ResizeCompleted") == 2

    in_one_node(flow)


def test_a_deleted_pod_is_gone_and_its_room_free() -> None:
    async def flow(here: OneNode) -> None:
        await here.run_pod("web", [container_json(cpu="900m")])
        await asyncio.sleep(1)
        await here.delete("web")
        await asyncio.sleep(1)
        assert await here.names() == []
        await here.run_pod("next", [container_json(cpu="900m")])
        await asyncio.sleep(1)
        assert (await here.pod("next")).phase == "Running"

    in_one_node(flow)


def test_init_containers_run_in_order_and_sidecars_end_last() -> None:
    async def flow(here: OneNode) -> None:
        inits = [container_json("setup"), container_json("proxy", restartPolicy="Always")]
        usage = {"setup": {"seconds": 2}, "app": {"seconds": 10}}
        await here.run_pod("job", [container_json()], usage, initContainers=inits, restartPolicy="Never")
        await asyncio.sleep(1)
        pod = await here.pod("job")
        assert [one.is_running for one in pod.containers] == [True, False, False]
        assert pod.phase == "Pending"
        await asyncio.sleep(3)
        pod = await here.pod("job")
        assert [one.is_running for one in pod.containers] == [False, True, True]
        await asyncio.sleep(10)
        pod = await here.pod("job")
        assert pod.phase == "Succeeded"
        assert [one.is_running for one in pod.containers] == [False, False, False]

    in_one_node(flow)


def test_a_node_that_was_killed_takes_its_pods_back_with_what_was_allocated() -> None:
    async def flow(here: OneNode) -> None:
        await here.run_pod("web", [container_json(cpu="400m")])
        await here.run_pod("other", [container_json(cpu="500m")])
        await asyncio.sleep(1)
        before = await here.pod("web")
        await here.resize("web", requests={"cpu": "800m"})
        await asyncio.sleep(1)
        waiting_since = (await here.pod("web")).resize_pending
        await here.restart_node()
        await asyncio.sleep(5)
        pod = await here.pod("web")
        assert pod.containers[0].container_id == before.containers[0].container_id
        assert pod.containers[0].restart_count == 0
        assert pod.containers[0].allocated == Resources(400, 128 * MIB)
        assert pod.resize_pending == waiting_since
        await here.delete("other")
        await asyncio.sleep(2)
        assert (await here.pod("web")).containers[0].allocated == Resources(800, 128 * MIB)

    in_one_node(flow)


def test_usage_is_told_as_pod_metrics() -> None:
    async def flow(here: OneNode) -> None:
        here.api.usage = here.node.usage
        await here.run_pod("web", [container_json()], {"cpu": 150, "memory": 64 * MIB})
        await asyncio.sleep(20)
        found = list(here.node.usage.pod_metrics())
        assert found[0]["containers"] == [{"name": "app", "usage": {"cpu": "150000000n", "memory": "65536Ki"}}]
        assert next(iter(here.node.usage.node_metrics()))["usage"]["cpu"] == "150000000n"

    in_one_node(flow)


def test_usage_of_a_container_that_ended_is_told_no_longer() -> None:
    async def flow(here: OneNode) -> None:
        usage = {"one": {"cpu": 150, "seconds": 12}, "two": {"cpu": 50}}
        await here.run_pod("web", [container_json("one"), container_json("two")], usage, restartPolicy="Never")
        await asyncio.sleep(11.5)
        told = []
        for _ in range(2):
            told.append([one["name"] for pod in here.node.usage.pod_metrics() for one in pod["containers"]])
            await asyncio.sleep(1)
        assert told == [["one", "two"], ["two"]]

    in_one_node(flow)


class FullDisk(MemoryCheckpoint):
    """A checkpoint that can not be written while `is_full`."""

    is_full = False

    def save(self, allocations: Allocations) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().save(allocations)


def test_nothing_is_admitted_that_can_not_be_stored() -> None:
    async def flow(here: OneNode) -> None:
        await here.run_pod("web", [container_json(cpu="100m")])
        await asyncio.sleep(1)
        disk.is_full = True
        await here.resize("web", requests={"cpu": "300m"})
        await here.run_pod("new", [container_json(cpu="100m")])
        await asyncio.sleep(1)
        pod = await here.pod("web")
        assert pod.containers[0].allocated == Resources(100, 128 * MIB)
        assert pod.resize_progress is ResizeProgress.DEFERRED
        assert pod.resize_pending is not None
        assert "No space left on device" in pod.resize_pending.message
        assert (await here.pod("new")).phase == "Pending"
        disk.is_full = False
        await asyncio.sleep(12)
        assert (await here.pod("web")).containers[0].allocated == Resources(300, 128 * MIB)
        assert (await here.pod("new")).phase == "Running"

    disk = FullDisk()
    in_one_node(flow, checkpoint=disk)


def test_a_node_whose_file_is_lost_takes_what_the_status_says() -> None:
    async def flow(here: OneNode) -> None:
        await here.run_pod("web", [container_json(cpu="400m")])
        await here.run_pod("other", [container_json(cpu="500m")])
        await asyncio.sleep(1)
        await here.resize("web", requests={"cpu": "800m"})
        await asyncio.sleep(1)
        here.checkpoint = MemoryCheckpoint()
        await here.restart_node()
        await asyncio.sleep(2)
        pod = await here.pod("web")
        assert pod.containers[0].allocated == Resources(400, 128 * MIB)
        assert pod.resize_progress is ResizeProgress.DEFERRED
        assert here.node.kubelet.allocated_sum().cpu == 900

    in_one_node(flow)


def test_what_waits_is_tried_in_order_when_room_comes() -> None:
    async def flow(here: OneNode) -> None:
        important = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "important"}}
        await here.create(PRIORITY_CLASSES, important | {"value": 100})
        await here.run_pod("low", [container_json(cpu="100m")])
        await here.run_pod("high", [container_json(cpu="100m")], priorityClassName="important")
        await here.run_pod("full", [container_json(cpu="800m")])
        await asyncio.sleep(1)
        await here.resize("low", requests={"cpu": "600m"})
        await asyncio.sleep(2)
        await here.resize("high", requests={"cpu": "600m"})
        await asyncio.sleep(2)
        await here.delete("full")
        await asyncio.sleep(2)
        assert (await here.pod("high")).containers[0].allocated == Resources(600, 128 * MIB)
        assert (await here.pod("low")).resize_progress is ResizeProgress.DEFERRED

    in_one_node(flow)


def test_a_shrink_of_one_makes_room_for_another_at_once() -> None:
    async def flow(here: OneNode) -> None:
        await here.run_pod("donor", [container_json(cpu="700m")])
        await here.run_pod("web", [container_json(cpu="200m")])
        await asyncio.sleep(1)
        await here.resize("web", requests={"cpu": "600m"})
        await asyncio.sleep(1)
        assert (await here.pod("web")).resize_progress is ResizeProgress.DEFERRED
        await here.resize("donor", requests={"cpu": "300m"})
        await asyncio.sleep(0.5)
        assert (await here.pod("web")).resize_progress is ResizeProgress.NONE

    in_one_node(flow)


def test_a_node_renews_its_lease_while_it_lives() -> None:
    async def flow(here: OneNode) -> None:
        async def renewed_at() -> float:
            lease = json.loads(await here.connection.get(LEASES, "kube-node-lease", "here"))["spec"]
            assert lease["holderIdentity"] == "here"
            return from_rfc3339(lease["renewTime"])

        first = await renewed_at()
        await asyncio.sleep(300)
        assert here.clock.now() - await renewed_at() < 40
        assert await renewed_at() - first > 250
        # Taken away by hand, it is made anew.
        await here.connection.delete(LEASES, "kube-node-lease", "here")
        await asyncio.sleep(60)
        assert here.clock.now() - await renewed_at() < 40

    in_one_node(flow)
